//! Checks a model: conditioning, precision of 32-bit floats, and what exports change.

use std::borrow::Cow;

use mercer::data::{Matrix, draw};
use mercer::kernel::eigen;
use mercer::machine::{Answer, Input, Machine, Model, Score, file};
use mercer::query::Plan;
use serde_json::json;

use super::super::trust::PlanState;
use super::super::{describe, input_options, load};
use super::{Findings, size};
use crate::args::{Check, PlanFlags};
use crate::console::Console;
use crate::queries::Queries;

/// Supports that are compared pair by pair and whose kernel matrix is examined.
const COMPARED: usize = 200;

pub(super) fn examine(check: &Check, console: &Console) -> anyhow::Result<Findings> {
    let model = load(&check.input.data, console)?;
    let machine = &model.machine;
    let mut findings = Findings::default();
    let plan = Plan::exact(machine);
    let supports = machine.supports().rows();
    findings.add(
        "kernel",
        machine.kernel().spec().to_string(),
        machine.kernel().spec().to_string(),
    );
    findings.add("task", describe(machine), describe(machine));
    findings.add("supports", supports.to_string(), supports);
    if let Some(scaling) = &model.input.scaling {
        findings.add("scaling", scaling.spec().to_string(), scaling.spec().to_string());
    }
    if let Some(state) = PlanState::of(&model, PlanFlags::default()) {
        findings.add("verification", state.to_string(), state.object());
        if matches!(state, PlanState::Wrong(_)) {
            findings.remark("its plan cannot be used: compile it again from the machine");
        }
    }
    let packed = plan.exact_stage().packed().bytes();
    findings.add("packed bytes", size(packed as f64), packed);
    bounded(machine, &mut findings);
    conditioning(machine, &mut findings);
    let sample = match &check.sample {
        Some(path) => {
            let raw =
                Model { input: Input { scaling: None, ..model.input.clone() }, ..model.clone() };
            let options = check.memory.limit(input_options(&check.input));
            Some(Queries::read_all(path, options, &raw, console)?.examples)
        }
        None => None,
    };
    float_safety(&model, sample.as_ref(), &mut findings)?;
    exports(&model, sample.as_ref(), &mut findings)?;
    Ok(findings)
}

/// Coefficients that equal the largest of their score: bounded support vectors.
fn bounded(machine: &Machine, findings: &mut Findings) {
    let (mut at_bound, mut all) = (0usize, 0usize);
    for score in machine.scores() {
        let Score::Expansion { coefficients, .. } = score else { continue };
        let largest = coefficients.iter().fold(0.0f64, |most, beta| most.max(beta.abs()));
        all += coefficients.len();
        at_bound += coefficients.iter().filter(|b| b.abs() >= largest * (1.0 - 1e-9)).count();
    }
    if all == 0 {
        return;
    }
    let share = at_bound as f64 / all as f64;
    let text = format!("{:.1} % of the coefficients equal the largest one", 100.0 * share);
    findings.add("bounded share", text, share);
    if share > 0.9 {
        findings.remark("almost all support vectors are bounded (alpha = C): C is small, or the classes overlap");
    }
}

/// The closest pair among some supports, and the condition number of their kernel matrix.
fn conditioning(machine: &Machine, findings: &mut Findings) {
    let supports = machine.supports();
    let chosen = draw(supports.rows(), COMPARED, 1);
    let (count, kernel) = (chosen.len(), machine.kernel());
    let mut matrix = vec![0.0; count * count];
    for (first, one) in chosen.iter().enumerate() {
        for (second, other) in chosen[..=first].iter().enumerate() {
            let value = kernel.value(supports.row(*one), supports.row(*other));
            matrix[first * count + second] = value;
            matrix[second * count + first] = value;
        }
    }
    let mut alike = 0.0f64;
    for first in 0..count {
        for second in 0..first {
            let norms = matrix[first * (count + 1)] * matrix[second * (count + 1)];
            alike = alike.max(matrix[first * count + second] / norms.sqrt());
        }
    }
    if count < 2 || !alike.is_finite() {
        return;
    }
    findings.add("closest pair", format!("cosine {alike:.9} among {count} supports"), alike);
    if alike > 1.0 - 1e-9 {
        findings.remark("two supports are nearly equal: their coefficients are poorly determined");
    }
    let Some((values, _)) = eigen::symmetric(matrix, count) else { return };
    let (least, most) = values.iter().fold((f64::INFINITY, 0.0f64), |(least, most), value| {
        (least.min(value.abs()), most.max(value.abs()))
    });
    // Beyond 2^53 the smallest eigenvalue is rounding error.
    let (limit, ratio) = (2f64.powi(53), most / least);
    let (text, value) = if ratio < limit {
        (format!("{ratio:.1e} of the kernel matrix of {count} supports"), json!(ratio))
    } else {
        (format!("the kernel matrix of {count} supports is singular to rounding"), json!(null))
    };
    findings.add("condition number", text, value);
    if ratio > 1e12 {
        findings.remark(
            "the kernel matrix of the supports is close to singular: other coefficients give nearly the same scores; \
             a larger gamma or a smaller C makes them unique",
        );
    }
}

/// How many labels and how much the scores change if supports, coefficients and rows are 32-bit floats.
fn float_safety(
    model: &Model,
    sample: Option<&Matrix>,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let machine = &model.machine;
    let (what, rows) = match sample {
        Some(rows) => ("sample", model.input.prepare(rows)?),
        None => ("supports", Cow::Borrowed(machine.supports().as_ref())),
    };
    let Some(narrow) = narrowed(machine) else {
        let text = "some numbers are outside the range of 32-bit floats";
        findings.add("in f32", text, json!(null));
        findings.remark(text);
        return Ok(());
    };
    let Some(near) = rounded(&rows).filter(|rows| rows.rows() > 0) else { return Ok(()) };
    let (before, after) = (Plan::exact(machine), Plan::exact(&narrow));
    let (old, new) = (before.scores(&rows)?, after.scores(&near)?);
    let largest = old.iter().fold(0.0f64, |most, score| most.max(score.abs()));
    let moved = old.iter().zip(&new).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let decided = |plan: &Plan, rows: &Matrix| -> anyhow::Result<Vec<Answer>> {
        Ok(plan.decide(rows)?.iter().map(|decision| decision.answer).collect())
    };
    let (old, new) = (decided(&before, &rows)?, decided(&after, &near)?);
    let changed = old.iter().zip(&new).filter(|(a, b)| differs(**a, **b)).count();
    let text = format!(
        "{changed} of {} labels of the {what} change, scores change by at most {moved:.1e} (largest score {largest:.1e})",
        old.len()
    );
    if changed > 0 {
        findings.remark(format!("in 32-bit floats, {text}"));
    }
    findings.add(
        "in f32",
        text,
        json!({ "changed_labels": changed, "largest_score_change": moved }),
    );
    Ok(())
}

/// The machine in 32-bit floats; `None` if one of its numbers is outside their range.
fn narrowed(machine: &Machine) -> Option<Machine> {
    if machine.bins().is_some() {
        return Some(machine.clone());
    }
    let narrow = |values: &[f64]| values.iter().map(|value| f64::from(*value as f32)).collect();
    let score = |score: &Score| match score {
        Score::Expansion { supports, coefficients, offset } => Score::Expansion {
            supports: supports.clone(),
            coefficients: narrow(coefficients),
            offset: f64::from(*offset as f32),
        },
        Score::Linear { weights, offset } => {
            Score::Linear { weights: narrow(weights), offset: f64::from(*offset as f32) }
        }
        Score::Additive { .. } => score.clone(),
    };
    let scores = machine.scores().iter().map(score).collect();
    let supports = rounded(machine.supports())?;
    Machine::new(machine.kernel().clone(), supports, scores, machine.output().clone()).ok()
}

/// Rows in 32-bit floats.
fn rounded(rows: &Matrix) -> Option<Matrix> {
    let narrow = |values: &[f64]| values.iter().map(|value| f64::from(*value as f32)).collect();
    match (rows.as_dense(), rows.as_sparse()) {
        (Some(values), _) => Matrix::dense(rows.columns(), narrow(values)).ok(),
        (None, Some((starts, columns, values))) => {
            let values: Vec<f64> = narrow(values);
            Matrix::sparse(rows.columns(), starts, columns, &values).ok()
        }
        (None, None) => None,
    }
}

/// How many labels each format changes: the model is written, read back and compared on a sample, or on the
/// supports, which are already scaled.
fn exports(model: &Model, sample: Option<&Matrix>, findings: &mut Findings) -> anyhow::Result<()> {
    let what = if sample.is_some() { "sample" } else { "supports" };
    let rows = sample.unwrap_or(model.machine.supports());
    let answers = |model: &Model| -> anyhow::Result<Vec<Answer>> {
        let prepared = match sample {
            Some(_) => model.input.prepare(rows)?,
            None => Cow::Borrowed(rows),
        };
        let decisions = Plan::exact(&model.machine).decide(&prepared)?;
        Ok(decisions.iter().map(|decision| decision.answer).collect())
    };
    let before = if rows.rows() == 0 { Vec::new() } else { answers(model)? };
    for format in file::FORMATS {
        let (text, value) = match file::to_bytes(model, format) {
            Err(error) => (error.to_string(), json!(null)),
            Ok(bytes) => match file::from_bytes(&bytes) {
                Ok(again)
                    if !before.is_empty() && (sample.is_some() || same_space(model, &again)) =>
                {
                    let after = answers(&again)?;
                    let changed = before.iter().zip(&after).filter(|(a, b)| differs(**a, **b));
                    let changed = changed.count();
                    let text = format!("{changed} of {} labels of the {what} change", before.len());
                    if changed > 0 {
                        let name = format.name;
                        findings.remark(format!("as {name}, {text}"));
                    }
                    (format!("{}, {text}", size(bytes.len() as f64)), json!(changed))
                }
                _ => (size(bytes.len() as f64), json!(0)),
            },
        };
        findings.add(key(format.name), text, value);
    }
    Ok(())
}

/// Whether the supports of one model are valid rows for the other: not if a scaling was folded into the scores.
fn same_space(model: &Model, again: &Model) -> bool {
    model.input.scaling.is_some() == again.input.scaling.is_some()
}

/// Regression values may change by the precision of 32-bit floats.
fn differs(a: Answer, b: Answer) -> bool {
    match (a, b) {
        (Answer::Value(a), Answer::Value(b)) => (a - b).abs() > 1e-5 * (1.0 + a.abs()),
        (a, b) => a != b,
    }
}

fn key(format: &str) -> &'static str {
    match format {
        "mercer" => "as mercer",
        "libsvm" => "as libsvm",
        "liblinear" => "as liblinear",
        "onnx" => "as onnx",
        "c" => "as c",
        _ => "as c-float",
    }
}
