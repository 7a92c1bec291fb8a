use std::borrow::Cow;

use mercer::data::Matrix;
use mercer::machine::{Answer, Input, Machine, Model, Score, file};
use mercer::query::Plan;
use serde_json::json;

use super::super::{describe, input_options, load};
use super::{Findings, size};
use crate::args::Check;
use crate::console::Console;
use crate::queries::Queries;

/// Supports compared pair by pair.
const COMPARED: usize = 400;

pub(super) fn examine(check: &Check, console: &Console) -> anyhow::Result<Findings> {
    let model = load(&check.input.data, console)?;
    let machine = &model.machine;
    let mut findings = Findings::default();
    let plan = Plan::exact(machine);
    let supports = machine.supports().rows();
    findings.figure(
        "kernel",
        machine.kernel().spec().to_string(),
        machine.kernel().spec().to_string(),
    );
    findings.figure("answers", describe(machine), describe(machine));
    findings.figure("supports", supports.to_string(), supports);
    if let Some(scaling) = &model.input.scaling {
        findings.figure("scaling", scaling.spec().to_string(), scaling.spec().to_string());
    }
    let packed = plan.closing().packed().bytes();
    findings.figure("packed", size(packed as f64), packed);
    bounded(machine, &mut findings);
    conditioning(machine, &mut findings);
    let sample = match &check.sample {
        Some(path) => {
            let raw =
                Model { input: Input { scaling: None, ..model.input.clone() }, ..model.clone() };
            Some(Queries::whole(path, input_options(&check.input), &raw, console)?.examples)
        }
        None => None,
    };
    exports(&model, sample.as_ref(), &mut findings)?;
    Ok(findings)
}

/// Coefficients as large as the largest of their score: vectors at the bound C.
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
    let text = format!("{:.1} % of the coefficients are as large as the largest", 100.0 * share);
    findings.figure("bounded", text, share);
    if share > 0.9 {
        findings.remark("almost all vectors are at the bound: C is small, or the classes overlap");
    }
}

fn conditioning(machine: &Machine, findings: &mut Findings) {
    let supports = machine.supports();
    let count = supports.rows().min(COMPARED);
    let kernel = machine.kernel();
    let own: Vec<f64> =
        (0..count).map(|row| kernel.value(supports.row(row), supports.row(row))).collect();
    let mut alike = 0.0f64;
    for first in 0..count {
        for second in 0..first {
            let value = kernel.value(supports.row(first), supports.row(second));
            alike = alike.max(value / (own[first] * own[second]).sqrt());
        }
    }
    if count < 2 || !alike.is_finite() {
        return;
    }
    findings.figure("closest pair", format!("cosine {alike:.9} among {count} supports"), alike);
    if alike > 1.0 - 1e-9 {
        findings.remark("two supports are all but equal: their coefficients are poorly determined");
    }
}

/// What each format would lose, told by writing, reading back and asking again: the rows of a sample, or the
/// supports, which are rows as they are after scaling.
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
        findings.figure(key(format.name), text, value);
    }
    Ok(())
}

/// Whether the supports of one are rows for the other: not where a scaling was folded into the scores.
fn same_space(model: &Model, again: &Model) -> bool {
    model.input.scaling.is_some() == again.input.scaling.is_some()
}

/// Values of a regression may move by what 32-bit floats lose.
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
