//! Maps of the plane: label, score or margin, cost and stage of each point of a grid.

use std::time::Instant;

use mercer::data::Matrix;
use mercer::machine::{Answer, Model};
use mercer::query::{Plan, QueryOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::reduced::ReducedMachine;
use crate::training::TrainedMachine;

/// Points along a side, at most.
const MOST_SIDE: usize = 200;

/// What a map is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapRequest {
    /// The part of the plane: least and largest value to the right.
    x: [f64; 2],
    /// The same upwards.
    y: [f64; 2],
    /// Points along a side.
    size: usize,
    /// `machine` or `compressed`.
    of: String,
}

/// The map of a machine. The first row of the grid is at the bottom; points are the middles of cells.
///
/// # Errors
/// If the request is wrong, or a point cannot be answered.
pub fn answer(
    request: &MapRequest,
    trained: &TrainedMachine,
    reduced: Option<&ReducedMachine>,
) -> anyhow::Result<Value> {
    let MapRequest { x, y, size, of } = request;
    let size = *size;
    anyhow::ensure!((2..=MOST_SIDE).contains(&size), "a map has 2 to {MOST_SIDE} points a side");
    let is_range = |[low, high]: &[f64; 2]| low < high && (high - low).is_finite();
    anyhow::ensure!(is_range(x) && is_range(y), "the ranges of a map must not be empty");
    let start = Instant::now();
    let place =
        |[low, high]: &[f64; 2], at: usize| low + (high - low) * (at as f64 + 0.5) / size as f64;
    let cells = (0..size * size).flat_map(|cell| [place(x, cell % size), place(y, cell / size)]);
    let rows = Matrix::dense(2, cells.collect())?;
    let mut object = match of.as_str() {
        "machine" => map(&trained.model, &trained.plan, &rows)?,
        "compressed" => {
            let reduced = reduced.ok_or_else(|| anyhow::anyhow!("nothing is compressed"))?;
            map(&reduced.model, &reduced.plan, &rows)?
        }
        other => anyhow::bail!("'{other}' has no map: machine and compressed have"),
    };
    object["milliseconds"] = json!(start.elapsed().as_secs_f64() * 1e3);
    Ok(object)
}

/// Answers and scores of rows as the user has them.
fn map(model: &Model, plan: &Plan, rows: &Matrix) -> anyhow::Result<Value> {
    let rows = model.input.prepare(rows)?;
    let answers = plan.decide_with(&rows, &QueryOptions::default())?;
    let scores = plan.scores(&rows)?;
    let machine = &model.machine;
    let each = machine.scores().len();
    let label = |answer: Answer| match answer {
        Answer::Class(class) => class,
        Answer::Value(_) | Answer::Inlier(_) => 0,
    };
    let labels: Vec<usize> = answers.decisions.iter().map(|one| label(one.answer)).collect();
    // Two classes: the score, whose sign is the label. More: by how much the label wins its closest pair.
    let field = scores.chunks_exact(each).zip(&labels);
    let field = field.map(|(scores, class)| rounded(machine.output().margin(scores, *class)));
    let costs = answers.decisions.iter().map(|one| one.cost.multiply_adds);
    let certainties = answers.decisions.iter().map(|one| one.certainty as u8);
    Ok(json!({
        "field": field.collect::<Vec<_>>(), "costs": costs.collect::<Vec<_>>(),
        "certainties": certainties.collect::<Vec<_>>(), "stages": answers.answered_by,
        "settled": answers.settled_by_stage, "mean_cost": answers.mean_cost(), "labels": labels,
    }))
}

/// Five digits are enough for a drawing.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}
