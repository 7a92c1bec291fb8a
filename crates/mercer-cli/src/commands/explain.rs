//! `mercer explain`: the steps by which one query is answered. The ranges and costs come from `Plan::explain`; contributions of
//! columns (`--attribute`) are in `explain/attribute.rs`.

mod attribute;
mod page;

use std::path::Path;

use anyhow::Context;
use mercer::data::Matrix;
use mercer::data::read::Chunks;
use mercer::machine::Tuning;
use mercer::query::{Certainty, Explanation};
use mercer_report::svg::{Band, bands};
use serde_json::{Value, json};

use super::query_options::resolve;
use super::{input_options, load, trust};
use crate::args::Explain;
use crate::console::Console;
use crate::failure::DONE;
use crate::labels;
use crate::output::{certainty, save_text};
use crate::queries::Queries;

pub(super) fn run(arguments: &Explain, console: &Console) -> anyhow::Result<u8> {
    let model = load(&arguments.model, console)?;
    if arguments.attribution.attribute {
        return attribute::run(arguments, &model, console);
    }
    let plan = trust::load(&arguments.model, &model, arguments.plan, console)?;
    let source = || arguments.input.data.display().to_string();
    let options = input_options(&arguments.input);
    let queries = Queries::open(&arguments.input.data, options, &model, console)?;
    let row = arguments.row.get();
    let (chunk, position) = chunk_of(queries, row, &source)?;
    let resolved = resolve(&arguments.query, &model, &plan, &chunk)?;
    let path = plan.explain(&chunk, position, &resolved.query_options).with_context(source)?;
    let label = labels::text(model.machine.classes(), path.decision.answer);
    if let Some(file) = &arguments.svg {
        draw(&path, &label, file)?;
    }
    let exact = plan.exact_stage().cost().multiply_adds;
    if let Some(file) = &arguments.report {
        let queried = page::Queried {
            model: &model,
            name: arguments.model.display().to_string(),
            row,
            values: &chunk.select([position]),
            path: &path,
            label: &label,
            exact_cost: exact,
            border: resolved.query_options.threshold.unwrap_or(0.0),
            tuning: plan.tuning(&model),
        };
        save_text(file, &queried.page())?;
    }
    if console.json {
        println!("{}", object(&path, &label, row, exact));
    } else {
        print(&path, &label, row, exact, model.machine.scores().len());
        if let Some(tuning) = plan.tuning(&model) {
            println!("{}", compared(&path, tuning));
        }
    }
    Ok(DONE)
}

/// The chunk of rows that holds a row, counted from 1, and its position there.
fn chunk_of(
    mut queries: Queries<'_>,
    row: usize,
    source: &dyn Fn() -> String,
) -> anyhow::Result<(Matrix, usize)> {
    let mut before = 0;
    loop {
        let chunk = queries.next_chunk(1024).with_context(source)?;
        let chunk = chunk.with_context(|| format!("{}: there is no row {row}", source()))?;
        if before + chunk.examples.rows() >= row {
            return Ok((chunk.examples, row - before - 1));
        }
        before += chunk.examples.rows();
    }
}

fn object(path: &Explanation, label: &str, row: usize, exact: u64) -> Value {
    let steps: Vec<Value> = path
        .steps
        .iter()
        .map(|step| {
            json!({
                "stage": path.stages[step.stage], "score": step.score, "progress": step.progress,
                "low": step.range.low, "high": step.range.high, "cost": step.cost.multiply_adds,
                "is_estimate": step.is_estimate,
            })
        })
        .collect();
    let decision = &path.decision;
    json!({
        "row": row, "label": label, "low": decision.range.low, "high": decision.range.high,
        "certainty": certainty(decision.certainty), "cost": decision.cost.multiply_adds,
        "exact_cost": exact, "answered_by": path.stages[path.answered_by], "steps": steps,
    })
}

fn print(path: &Explanation, label: &str, row: usize, exact: u64, scores: usize) {
    let decision = &path.decision;
    println!(
        "row {row}: label {label}, {} by {}",
        certainty(decision.certainty),
        path.stages[path.answered_by],
    );
    let share = 100.0 * decision.cost.multiply_adds as f64 / exact.max(1) as f64;
    let is = if decision.certainty == Certainty::Calibrated { "estimated" } else { "in" };
    println!(
        "score {is} [{:.9}, {:.9}]; {} multiply-adds, {share:.1} % of the exact evaluation",
        decision.range.low, decision.range.high, decision.cost.multiply_adds,
    );
    if path.steps.is_empty() {
        return;
    }
    println!(
        "{:>14} {:>6} {:>8} {:>14} {:>14} {:>12}",
        "stage", "score", "step", "low", "high", "cost"
    );
    // One-vs-one machines have many scores; --json prints all steps.
    let limit = if scores > 1 { 60 } else { 400 };
    for step in path.steps.iter().take(limit) {
        println!(
            "{:>14} {:>6} {:>8} {:>14.6} {:>14.6} {:>12}{}",
            path.stages[step.stage],
            step.score,
            step.progress,
            step.range.low,
            step.range.high,
            step.cost.multiply_adds,
            if step.is_estimate { "  estimate" } else { "" },
        );
    }
    if path.steps.len() > limit {
        println!("... {} more steps; --json prints them all", path.steps.len() - limit);
    }
}

/// How the query compares with those that the tuned plan was tested on.
fn compared(path: &Explanation, tuning: &Tuning) -> String {
    let seen = &tuning.verification;
    let cost = path.decision.cost.multiply_adds;
    let below = seen.costs.partition_point(|other| *other < cost);
    let share = 100 * below / seen.costs.len().max(1);
    let stage = &path.stages[path.answered_by];
    let settled = seen.stages.get(path.answered_by).map_or(0, |stage| stage.queries);
    format!(
        "its cost is higher than that of {share} % of the test queries; {stage} settled {:.1} % of them \
         (contract {}, {})",
        100.0 * settled as f64 / seen.queries.max(1) as f64,
        tuning.contract,
        tuning.reason,
    )
}

/// Draws the range of the first score after each step, against the cost so far.
fn draw(path: &Explanation, label: &str, file: &Path) -> anyhow::Result<()> {
    let first = path.steps.iter().filter(|step| step.score == 0);
    let mut points: Vec<Band> = first
        .map(|step| Band {
            x: step.cost.multiply_adds as f64,
            low: step.range.low,
            high: step.range.high,
        })
        .collect();
    let decision = &path.decision;
    points.push(Band {
        x: decision.cost.multiply_adds as f64,
        low: decision.range.low,
        high: decision.range.high,
    });
    let title = format!("label {label}, {}", certainty(decision.certainty));
    save_text(file, &bands(&title, "multiply-adds", "range of the score", &[points]))
}
