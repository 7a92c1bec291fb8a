//! The table as text, and totals over all pairs of digits.

use serde_json::{Value, json};

use super::measure::MethodRow;

/// Names of the columns.
pub(super) fn header() -> String {
    format!(
        "{:12} {:10} {:23} {:>6} {:>8} {:>7} {:>7} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>13}",
        "dataset",
        "queries",
        "method",
        "m",
        "k mean",
        "median",
        "m/k",
        "pruned",
        "madds",
        "batch",
        "single",
        "all",
        "disagr",
        "errors, exact",
    )
}

fn number(x: Option<f64>, digits: usize) -> String {
    x.map_or("-".to_owned(), |x| format!("{x:.digits$}"))
}

/// One line.
pub(super) fn row(row: &MethodRow) -> String {
    let errors = match (row.errors, row.exact_errors) {
        (Some(plan), Some(exact)) => format!("{plan}, {exact}"),
        _ => "-".to_owned(),
    };
    let line = format!(
        "{:12} {:10} {:23} {:>6} {:>8} {:>7} {:>7} {:>6} {:>7.1} {:>7} {:>7} {:>7} {:>7} {:>13}",
        row.dataset,
        row.queries,
        row.method,
        row.supports,
        number(row.steps.map(|steps| steps[0]), 1),
        number(row.steps.map(|steps| steps[1]), 0),
        number(row.steps.map(|steps| row.supports as f64 / steps[0]), 1),
        number(row.pruned, 2),
        row.ratio(),
        number(row.time_ratios.map(|times| times[0]), 2),
        number(row.time_ratios.map(|times| times[1]), 2),
        number(row.time_ratios.map(|times| times[2]), 2),
        row.disagreements,
        errors,
    );
    if row.method == "tuned" { format!("{line}\n{:12} {}", "", row.plan) } else { line }
}

/// One method over all pairs.
pub(super) struct Total {
    queries: &'static str,
    method: String,
    pairs: usize,
    count: usize,
    /// `m/k`: mean of ratios, ratio of totals.
    per_step: Option<[f64; 2]>,
    pruned: Option<[f64; 2]>,
    /// Multiply-adds: mean of ratios, ratio of totals.
    costs: [f64; 2],
    /// Mean over pairs of the ratios of time: batch and single.
    times: Option<[f64; 2]>,
    disagreements: usize,
    /// The largest share of disagreements of a pair.
    worst: f64,
    errors: Option<[usize; 2]>,
}

/// What every method does over all pairs, for each kind of queries.
pub(super) fn totals(rows: &[MethodRow]) -> Vec<Total> {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let kind = (row.queries, row.method.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let of = |(queries, method): &(&str, &str)| {
        let selected: Vec<&MethodRow> =
            rows.iter().filter(|row| row.queries == *queries && row.method == *method).collect();
        total(&selected)
    };
    kinds.iter().filter_map(of).collect()
}

fn total(rows: &[&MethodRow]) -> Option<Total> {
    let first = rows.first()?;
    let pairs = rows.len() as f64;
    let mean = |value: &dyn Fn(&MethodRow) -> Option<f64>| -> Option<f64> {
        let values: Option<Vec<f64>> = rows.iter().map(|row| value(row)).collect();
        values.map(|values| values.iter().sum::<f64>() / pairs)
    };
    let per_step = mean(&|row| row.steps.map(|steps| row.supports as f64 / steps[0]));
    let steps = mean(&|row| row.steps.map(|steps| steps[0]));
    let supports = mean(&|row| Some(row.supports as f64));
    let pruned: Vec<f64> = rows.iter().filter_map(|row| row.pruned).collect();
    let times = mean(&|row| row.time_ratios.map(|times| times[0]))
        .zip(mean(&|row| row.time_ratios.map(|times| times[1])));
    let exact: f64 = rows.iter().map(|row| row.costs[0]).sum();
    let plan: f64 = rows.iter().map(|row| row.costs[1]).sum();
    let errors: Option<Vec<[usize; 2]>> =
        rows.iter().map(|row| Some([row.errors?, row.exact_errors?])).collect();
    Some(Total {
        queries: first.queries,
        method: first.method.clone(),
        pairs: rows.len(),
        count: rows.iter().map(|row| row.count).sum(),
        per_step: per_step.zip(steps.zip(supports)).map(|(mean, (steps, m))| [mean, m / steps]),
        pruned: (!pruned.is_empty()).then(|| {
            let low = pruned.iter().copied().fold(1.0, f64::min);
            [low, pruned.iter().copied().fold(0.0, f64::max)]
        }),
        costs: [mean(&|row| Some(row.ratio())).unwrap_or(0.0), exact / plan],
        times: times.map(|(batch, single)| [batch, single]),
        disagreements: rows.iter().map(|row| row.disagreements).sum(),
        worst: rows
            .iter()
            .map(|row| row.disagreements as f64 / row.count.max(1) as f64)
            .fold(0.0, f64::max),
        errors: errors.map(|all| {
            [all.iter().map(|errors| errors[0]).sum(), all.iter().map(|errors| errors[1]).sum()]
        }),
    })
}

impl Total {
    pub(super) fn object(&self) -> Value {
        json!({
            "dataset": "all pairs", "queries": self.queries, "method": self.method,
            "pairs": self.pairs, "count": self.count,
            "m/k_mean_of_ratios": self.per_step.map(|both| both[0]),
            "m/k_ratio_of_totals": self.per_step.map(|both| both[1]),
            "pruned": self.pruned,
            "multiply_adds_mean_of_ratios": self.costs[0],
            "multiply_adds_ratio_of_totals": self.costs[1],
            "batch_ratio_mean": self.times.map(|times| times[0]),
            "single_ratio_mean": self.times.map(|times| times[1]),
            "disagreements": self.disagreements, "worst_pair": self.worst,
            "errors": self.errors.map(|errors| errors[0]),
            "exact_errors": self.errors.map(|errors| errors[1]),
        })
    }

    /// The totals as text.
    pub(super) fn text(&self) -> String {
        let both = |both: Option<[f64; 2]>| {
            both.map_or("-".to_owned(), |[mean, total]| format!("{mean:.1}, {total:.1}"))
        };
        let errors = self
            .errors
            .map_or(String::new(), |[plan, exact]| format!("; errors {plan}, exact {exact}"));
        format!(
            "all pairs ({}), {} queries of {}: {}\n  m/k {}; multiply-adds {:.1}, {:.1}; time batch, single {}; \
             {} disagreements, worst pair {:.1e}{errors}",
            self.pairs,
            self.count,
            self.queries,
            self.method,
            both(self.per_step),
            self.costs[0],
            self.costs[1],
            both(self.times),
            self.disagreements,
            self.worst,
        )
    }
}

/// What the columns mean.
pub(super) const FOOTER: &str = "\nm: supports. k: supports used until a query stops; a filter counts as one. m/k is the paper's speedup. \
         madds: multiply-adds of an\nexact answer over those of the method, projections and ordering included. \
         batch, single: time of exact answers over that of the method,\none thread; all: batch on all threads, the measure that plans are tuned for. \
         disagr: disagreements with the exact label.\nOver all pairs two numbers are the mean of the ratios and the ratio of the totals.\nThe \
         paper prints for its own kernel: m/k 111 on average, 6 disagreements in 90,000, filter 50 to 90 %.";
