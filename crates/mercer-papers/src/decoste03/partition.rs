//! Section 6 of the paper, beyond its tables: one order for all queries beside flat clusters and a tree over query space,
//! and points moved under `W_z` and under eq. 26. Fitted to every other row, measured on the rest.

use mercer::compile::{FittingData, Watch, compile_with};
use mercer::data::Matrix;
use mercer::machine::Machine;
use mercer::query::Plan;

use super::measure::Subject;
use crate::Session;
use crate::comparison::Comparison;

/// Names and stages without their closing brackets; those of moved points are slow in many columns.
const METHODS: [(&str, &str); 9] = [
    ("one order", "anytime(order=log_gap"),
    ("2 clusters", "anytime(order=log_gap, clusters=2"),
    ("4 clusters", "anytime(order=log_gap, clusters=4"),
    ("8 clusters", "anytime(order=log_gap, clusters=8"),
    ("tree of depth 1", "anytime(order=log_gap, depth=1"),
    ("tree of depth 2", "anytime(order=log_gap, depth=2"),
    ("tree of depth 3", "anytime(order=log_gap, depth=3"),
    ("moved, W_z", "anytime(order=moved"),
    ("moved, eq. 26", "anytime(order=moved_mean_lh"),
];

/// Steps and costs of all methods on the half that nothing is fitted to.
pub(super) fn measure(
    session: &Session<'_>,
    name: &str,
    machine: &Machine,
    rows: &Matrix,
    most: [usize; 2],
) -> anyhow::Result<()> {
    let half = |first: usize| rows.select((first..rows.rows()).step_by(2));
    let (fitted, asked) = (half(0), half(1));
    let subject = Subject { name: "SVM", machine, rows: &asked, repeats: 1 };
    let dataset = format!("{name}, held-out half");
    let exact = Plan::exact(machine).exact_stage().cost().multiply_adds as f64;
    for (method, stage) in METHODS {
        session.check()?;
        let [chosen, moved] = most;
        let steps = if method.starts_with("moved") { moved } else { chosen };
        if steps == 0 {
            continue;
        }
        let fit = |rest: &str| -> anyhow::Result<Plan> {
            let text = format!("cascade({stage}, steps={steps}{rest}), exact)").parse()?;
            let fitting_data = FittingData {
                sample: Some(&fitted),
                training: Some(&fitted),
                ..FittingData::default()
            };
            let sections = compile_with(machine, &text, fitting_data, Watch::NOBODY)?;
            Ok(Plan::fitted(machine, &sections)?)
        };
        let status = session.status();
        status.show(&format!("{dataset}: {method}"));
        let (steps, uncertified) = subject.steps(&fit(", stop=never")?, true, session)?;
        let plan = fit("")?;
        let cost = plan.decide_with(&asked, &mercer::query::QueryOptions::default())?.mean_cost();
        drop(status);
        let mean = steps.iter().sum::<usize>() as f64 / steps.len().max(1) as f64;
        let row = |measure: &str| Comparison::new(dataset.as_str(), method, measure);
        session.compare(row("k mean").ours(mean));
        session.compare(row("rows never certified").ours(uncertified as f64));
        session.compare(row("multiply-adds, exact / plan").ours(exact / cost));
    }
    Ok(())
}
