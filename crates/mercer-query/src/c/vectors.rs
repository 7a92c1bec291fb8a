//! Rows with the plan's own answers, by which a C file checks itself to the bit.

use mercer_data::scale::Map;
use mercer_data::{Matrix, Scaling};
use mercer_machine::{Answer, MachineError, Model};

use super::file::{CFile, number};
use crate::{Certainty, Decision, Plan, QueryOptions};

/// Rows at most.
const COUNT: usize = 16;

/// Writes the test program of the file.
pub(super) fn write(
    model: &Model,
    plan: &Plan,
    options: &QueryOptions,
    file: &mut CFile<'_>,
) -> Result<(), MachineError> {
    let mut rows = Vec::new();
    let mut expected = Vec::new();
    for row in candidates(model) {
        let given = Matrix::dense(row.len(), row.clone())?;
        let Ok(seen) = model.input.prepare(&given) else { continue };
        let Ok(answers) = plan.decide_with(&seen, options) else { continue };
        expected.push((answers.decisions[0], answers.answered_by[0]));
        rows.extend(row);
    }
    file.text("#ifdef MERCER_TEST\n#include <stdio.h>\n\n")?;
    file.define("TESTS", expected.len())?;
    file.f64s("test_rows", rows)?;
    file.text("static const struct mercer_decision test_answers[] = {\n")?;
    for (decision, stage) in &expected {
        file.text(&format!("    {{{}}},\n", fields(decision, *stage)))?;
    }
    if expected.is_empty() {
        file.text("    {0, 0, 0, 0, 0, 0, 0},\n")?;
    }
    file.text("};\n\n")?;
    file.text(include_str!("text/test.c"))
}

fn fields(decision: &Decision, stage: usize) -> String {
    let (label, value) = match decision.answer {
        Answer::Class(class) => (class as i64, 0.0),
        Answer::Inlier(is_inlier) => (if is_inlier { 1 } else { -1 }, 0.0),
        Answer::Value(value) => (0, value),
    };
    let certainty = match decision.certainty {
        Certainty::Unsettled => "MERCER_UNSETTLED",
        Certainty::Calibrated => "MERCER_CALIBRATED",
        Certainty::Certified => "MERCER_CERTIFIED",
        Certainty::Exact => "MERCER_EXACT",
    };
    let [value, low, high] = [value, decision.range.low, decision.range.high].map(number);
    let cost = decision.cost.multiply_adds;
    format!("{label}, {value}, {low}, {high}, {certainty}, UINT64_C({cost}), {stage}")
}

/// The origin, ones, some supports and what lies between neighbours, before the scaling where it is undone column by column.
fn candidates(model: &Model) -> Vec<Vec<f64>> {
    let machine = &model.machine;
    let (columns, supports) = (machine.columns(), machine.supports());
    let unscaled = |column: usize, value: f64| match model.input.scaling.as_ref().map(Scaling::map)
    {
        Some(Map::Affine { centres, factors }) => {
            match (centres.get(column), factors.get(column)) {
                (Some(centre), Some(factor)) if *factor != 0.0 => value / factor + centre,
                _ => 0.0,
            }
        }
        _ => value,
    };
    let dense = |support: usize| -> Vec<f64> {
        let mut row = vec![0.0; columns];
        supports.row(support).write_dense(&mut row);
        row.iter().enumerate().map(|(column, value)| unscaled(column, *value)).collect()
    };
    let step = supports.rows().div_ceil(COUNT / 2).max(1);
    let chosen: Vec<Vec<f64>> = (0..supports.rows()).step_by(step).map(dense).collect();
    let mut rows = vec![vec![0.0; columns], vec![1.0; columns]];
    for pair in chosen.windows(2) {
        rows.push(pair[0].iter().zip(&pair[1]).map(|(a, b)| 0.5 * (a + b)).collect());
    }
    rows.extend(chosen);
    rows.truncate(COUNT);
    rows
}
