//! Rows of the paper's tables from what was measured, and totals over all pairs of digits.

use super::measure::MethodRow;
use crate::Session;
use crate::comparison::Comparison;

/// What the paper prints: mean speedup over all pairs, disagreements, change of test errors.
const MEAN_SPEEDUP: f64 = 111.0;
const DISAGREEMENTS: f64 = 6.0;
const CHANGE_OF_ERRORS: f64 = -4.0;
/// Disagreements that the text names for single pairs: two on 4 against 9, none on the three pairs of Table 1.
const OF_PAIRS: [(&str, f64); 3] = [("4v9", 2.0), ("3v8", 0.0), ("0v1", 0.0)];

/// How much of a row is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// What Tables 2 and 3 hold.
    Pair,
    /// What Table 1 holds.
    Table1,
}

/// The numbers of one method on one machine.
pub(super) fn report(session: &Session<'_>, row: &MethodRow, detail: Detail, is_printed: bool) {
    let is_own = row.queries == "own";
    let dataset =
        if is_own { row.dataset.clone() } else { format!("{}, {}", row.dataset, row.queries) };
    let add = |measure: &str, ours: Option<f64>, paper: Option<f64>, unit: &'static str| {
        if ours.is_some() {
            let comparison = Comparison::new(dataset.as_str(), row.method.as_str(), measure);
            session.compare(comparison.ours(ours).paper(paper).unit(unit));
        }
    };
    let printed = OF_PAIRS.iter().find(|(name, _)| *name == row.dataset).map(|(_, count)| *count);
    let printed = printed.filter(|_| is_printed && is_own);
    add("m/k", row.steps.map(|steps| row.supports as f64 / steps[0]), None, "");
    if detail == Detail::Table1 {
        add("mean k", row.steps.map(|steps| steps[0]), None, "");
        add("median k", row.steps.map(|steps| steps[1]), None, "");
        add("answered by the filter", row.pruned.map(|share| 100.0 * share), None, "%");
        add("multiply-adds, exact / method", Some(row.ratio()), None, "");
        add("time, batch, exact / method", row.time_ratios.map(|times| times[0]), None, "");
        add("time, single, exact / method", row.time_ratios.map(|times| times[1]), None, "");
        add("calibrated answers", row.calibrated.map(|share| 100.0 * share), None, "%");
    }
    add("disagreements", Some(row.disagreements as f64), printed, "");
    add("test errors", row.errors.map(|errors| errors as f64), None, "");
}

/// One method over all pairs.
pub(super) fn totals(session: &Session<'_>, rows: &[MethodRow], printed: &[&str]) {
    let mut methods: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.queries == "own") {
        if !methods.contains(&row.method.as_str()) {
            methods.push(&row.method);
        }
    }
    for method in methods {
        let selected: Vec<&MethodRow> =
            rows.iter().filter(|row| row.queries == "own" && row.method == method).collect();
        if selected.len() > 1 {
            total(session, method, &selected, printed.contains(&method));
        }
    }
}

fn total(session: &Session<'_>, method: &str, rows: &[&MethodRow], is_printed: bool) {
    let (pairs, is_all) = (rows.len(), rows.len() == 45);
    let dataset = format!("{pairs} pairs");
    let note = if is_all { "" } else { "the paper's number is about all 45 pairs" };
    let add = |measure: &str, ours: Option<f64>, paper: f64| {
        if ours.is_some() {
            let paper = Some(paper).filter(|paper| is_printed && !paper.is_nan());
            let note = if paper.is_some() { note } else { "" };
            let comparison = Comparison::new(dataset.as_str(), method, measure);
            session.compare(comparison.ours(ours).paper(paper).note(note));
        }
    };
    let mean = |value: &dyn Fn(&MethodRow) -> Option<f64>| -> Option<f64> {
        let values: Option<Vec<f64>> = rows.iter().map(|row| value(row)).collect();
        values.map(|values| values.iter().sum::<f64>() / pairs as f64)
    };
    let steps = mean(&|row| row.steps.map(|steps| steps[0]));
    let supports = mean(&|row| Some(row.supports as f64));
    let per_step = mean(&|row| row.steps.map(|steps| row.supports as f64 / steps[0]));
    add("m/k, mean of the pairs", per_step, MEAN_SPEEDUP);
    add("m/k, total m / total k", supports.zip(steps).map(|(m, k)| m / k), f64::NAN);
    add("multiply-adds, mean of ratios", mean(&|row| Some(row.ratio())), f64::NAN);
    let exact: f64 = rows.iter().map(|row| row.costs[0]).sum();
    let plan: f64 = rows.iter().map(|row| row.costs[1]).sum();
    add("multiply-adds, ratio of totals", Some(exact / plan), f64::NAN);
    let sum = |value: &dyn Fn(&MethodRow) -> Option<usize>| -> Option<f64> {
        let values: Option<Vec<usize>> = rows.iter().map(|row| value(row)).collect();
        values.map(|values| values.iter().sum::<usize>() as f64)
    };
    add("queries", sum(&|row| Some(row.count)), f64::NAN);
    add("disagreements", sum(&|row| Some(row.disagreements)), DISAGREEMENTS);
    let errors = [sum(&|row| row.errors), sum(&|row| row.exact_errors)];
    let change = errors[0].zip(errors[1]).map(|(plan, exact)| plan - exact);
    add("errors beyond exact", change, CHANGE_OF_ERRORS);
    let pruned: Option<Vec<f64>> = rows.iter().map(|row| row.pruned).collect();
    if let Some(pruned) = pruned {
        let low = pruned.iter().copied().fold(1.0, f64::min);
        let high = pruned.iter().copied().fold(0.0, f64::max);
        add("answered by the filter, least (%)", Some(100.0 * low), 50.0);
        add("answered by the filter, most (%)", Some(100.0 * high), 90.0);
    }
}

/// What the measures mean, and what is judged.
pub(super) const FOOTER: &str = "\nm: supports. k: supports visited until a query stops; a filter counts as one. m/k is the paper's speedup; \
         multiply-adds count projection and\nordering too. times: exact answers over the method's, one thread. disagreements: labels that \
         differ from exact ones.\nas printed: thresholds from the rows that the machine was trained on; their margins are not those of \
         new queries, so that they stop too early:\nmany times the 6 disagreements that the paper reports. Do not use them for answers that \
         matter: `rows=sample`, or a calibrated plan.\nTables 1 to 3 of the paper are lost in the text that we have; what is known of them is \
         from its sentences.";
