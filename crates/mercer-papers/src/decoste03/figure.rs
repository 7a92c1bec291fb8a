//! Bounds against steps for a few queries.

use mercer::compile::{FittingData, Watch, compile_with};
use mercer::data::Matrix;
use mercer::machine::Machine;
use mercer::query::{Plan, QueryOptions};

use mercer_report::svg::{Band, bands};

/// Queries shown: those at these quantiles of the number of steps.
const QUANTILES: [f64; 4] = [0.1, 0.5, 0.8, 0.97];

/// Draws the bounds of a few rows of a machine under the order `hybrid`.
pub(super) fn bounds(machine: &Machine, rows: &Matrix) -> anyhow::Result<String> {
    let plan = "cascade(anytime(order=hybrid, stop=never, chunk=1), exact)".parse()?;
    let fitting_data = FittingData { sample: Some(rows), ..FittingData::default() };
    let sections = compile_with(machine, &plan, fitting_data, Watch::NOBODY)?;
    let plan = Plan::fitted(machine, &sections)?;
    let mut paths: Vec<Vec<Band>> = Vec::new();
    for row in 0..rows.rows() {
        let path = plan.explain(rows, row, &QueryOptions::default())?;
        let steps = path.steps.iter().filter(|step| step.stage == 0);
        let band = |step: &mercer::query::ExplanationStep| Band {
            x: step.progress as f64,
            low: step.range.low,
            high: step.range.high,
        };
        paths.push(steps.map(band).collect());
    }
    paths.sort_by_key(Vec::len);
    let shown: Vec<Vec<Band>> = QUANTILES
        .iter()
        .filter_map(|share| paths.get((share * paths.len() as f64) as usize).cloned())
        .collect();
    Ok(bands("Bounds until the sign is certified", "steps", "range of the score", &shown))
}
