//! `mercer export`: model files of other programs.

use std::path::Path;

use anyhow::Context;
use mercer::data::read::Options;
use mercer::machine::{Answer, Input, Model, file};
use mercer::query::Plan;
use serde_json::json;

use super::{load, save_as};
use crate::args::{Export, MemoryFlag};
use crate::console::Console;
use crate::failure::DONE;
use crate::queries::Queries;

pub(super) fn run(export: &Export, console: &Console) -> anyhow::Result<u8> {
    let name = export.format.as_deref().unwrap_or_else(|| by_ending(&export.output));
    let format = file::format(name).with_context(|| {
        let known: Vec<_> = file::FORMATS.iter().map(|format| format.name).collect();
        format!("unknown model format '{name}'; known are {}", known.join(", "))
    })?;
    let model = load(&export.model, console)?;
    let changed = match &export.sample {
        Some(sample) => changed_labels(&model, format, sample, export.memory, console)?,
        None => None,
    };
    save_as(&model, format, &export.output)?;
    if model.input.means.is_some() && format.name != "mercer" {
        console.warn(&format!(
            "{}: {} files cannot hold the means that replace missing values; rows must be complete",
            export.output.display(),
            format.name
        ));
    }
    if format.name != "mercer"
        && let Some(plan) = model.plan.as_ref().filter(|plan| !plan.sections.is_empty())
    {
        console.warn(&format!(
            "{}: the plan {} is not in the file, only the machine: every answer costs what an exact one costs",
            export.output.display(),
            plan.spec
        ));
    }
    if console.json {
        let mut object = json!({ "format": format.name });
        if let Some((changed, queries)) = changed {
            object["changed"] = changed.into();
            object["queries"] = queries.into();
        }
        println!("{object}");
    }
    let lost = match changed {
        Some((changed, queries)) => {
            format!(
                "; {changed} of {queries} labels of the sample change because the format rounds numbers"
            )
        }
        None => String::new(),
    };
    console.summary(&format!("{}: {}{lost}", export.output.display(), format.summary));
    Ok(DONE)
}

/// The name of the format that a file's ending stands for.
fn by_ending(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("onnx") => "onnx",
        Some("c") => "c",
        Some("mercer") => "mercer",
        _ => "libsvm",
    }
}

/// How many labels of a sample change when the written numbers are read back; `None` where the format
/// cannot be read. A program that computes in 32-bit floats may change more.
fn changed_labels(
    model: &Model,
    format: &file::Format,
    sample: &Path,
    memory: MemoryFlag,
    console: &Console,
) -> anyhow::Result<Option<(usize, usize)>> {
    let Ok(again) = file::from_bytes(&file::to_bytes(model, format)?) else { return Ok(None) };
    let named = || sample.display().to_string();
    let raw = Model { input: Input { scaling: None, ..model.input.clone() }, ..model.clone() };
    let rows = Queries::read_all(sample, memory.limit(Options::default()), &raw, console)?.examples;
    let answers = |model: &Model| -> anyhow::Result<Vec<Answer>> {
        let rows = model.input.prepare(&rows).with_context(named)?;
        let decisions = Plan::exact(&model.machine).decide(&rows).with_context(named)?;
        Ok(decisions.iter().map(|decision| decision.answer).collect())
    };
    let (before, after) = (answers(model)?, answers(&again)?);
    let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    Ok(Some((changed, before.len())))
}
