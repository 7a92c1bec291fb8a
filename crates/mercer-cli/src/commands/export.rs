//! `mercer export`: model files of other programs, and plans as C.

use std::path::Path;

use anyhow::Context;
use mercer::data::read::Options;
use mercer::data::write::AtomicFile;
use mercer::machine::{Answer, Input, Model, file};
use mercer::query::{Plan, QueryOptions, write_c};
use serde_json::{Value, json};

use super::{load, save_as, trust};
use crate::args::{Export, MemoryFlag, PlanPart};
use crate::console::Console;
use crate::failure::DONE;
use crate::files::is_standard;
use crate::output;
use crate::queries::Queries;

pub(super) fn run(export: &Export, console: &Console) -> anyhow::Result<u8> {
    let name = export.format.as_deref().unwrap_or_else(|| by_ending(&export.output));
    let format = file::format(name).with_context(|| {
        let known: Vec<_> = file::FORMATS.iter().map(|format| format.name).collect();
        let nearest = mercer::spec::suggestion(name, known.iter().copied());
        format!("unknown model format '{name}'{nearest}; known are {}", known.join(", "))
    })?;
    let model = load(&export.model, console)?;
    let changed = match &export.sample {
        Some(sample) => changed_labels(&model, format, sample, export.memory, console)?,
        None => None,
    };
    let planned = planned(export, &model, format, console)?;
    match &planned {
        Some(planned) => save_plan(planned, &model, &export.output)?,
        None => save_as(&model, format, &export.output)?,
    }
    if model.input.means.is_some() && format.name != "mercer" {
        console.warn(&format!(
            "{}: {} files cannot hold the means that replace missing values; rows must be complete",
            export.output.display(),
            format.name
        ));
    }
    if format.name != "mercer"
        && planned.is_none()
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
        if let Some(planned) = &planned {
            planned.describe(&mut object);
        }
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
    let summary = planned.as_ref().map_or(format.summary.to_owned(), Planned::summary);
    console.summary(&format!("{}: {summary}{lost}", export.output.display()));
    Ok(DONE)
}

/// A plan that goes into a C file, and the stages that do not.
struct Planned {
    plan: Plan,
    left_out: Vec<String>,
}

impl Planned {
    fn summary(&self) -> String {
        format!(
            "one self-contained C99 file that gives the answers of the plan {}",
            self.plan.spec()
        )
    }

    /// Adds what is in the file, and what is not, to the object of the verb.
    fn describe(&self, object: &mut Value) {
        object["plan"] = self.plan.spec().to_string().into();
        let one = |stage: &String| json!({ "stage": stage, "reason": "it has no C" });
        object["left_out"] = self.left_out.iter().map(one).collect();
    }
}

/// The plan of a model that is exported as C, as far as it is wanted and believed.
fn planned(
    export: &Export,
    model: &Model,
    format: &file::Format,
    console: &Console,
) -> anyhow::Result<Option<Planned>> {
    let has_plan = model.plan.as_ref().is_some_and(|plan| !plan.sections.is_empty());
    if format.name != "c" || export.plan == PlanPart::None || !has_plan {
        return Ok(None);
    }
    let plan = trust::load(&export.model, model, export.trust, console)?;
    let is_whole = plan.tuning(model).is_some();
    let (plan, left_out) = plan.in_c();
    if left_out.is_empty() {
        return Ok(Some(Planned { plan, left_out }));
    }
    let names = left_out.join(", ");
    if export.plan == PlanPart::Whole {
        anyhow::bail!(
            "{}: C cannot express the stage {names} of its plan; --plan possible leaves it out, --plan none writes the machine alone",
            export.model.display()
        );
    }
    console.warn(&format!(
        "{}: {names} is left out because it has no C; {} answers, certified or exact",
        export.output.display(),
        plan.spec()
    ));
    if is_whole {
        trust::warn_of_budget(&export.output, &plan, model, console);
    }
    Ok(Some(Planned { plan, left_out }))
}

/// Writes a plan; the file appears when it is complete.
fn save_plan(planned: &Planned, model: &Model, path: &Path) -> anyhow::Result<()> {
    let place = || path.display().to_string();
    let options = QueryOptions::of(model, &planned.plan);
    if is_standard(path) {
        let mut bytes = Vec::new();
        write_c(model, &planned.plan, &options, &mut bytes).with_context(place)?;
        return output::bytes(&bytes).with_context(place);
    }
    let mut file = AtomicFile::create_private(path).with_context(place)?;
    write_c(model, &planned.plan, &options, &mut file).with_context(place)?;
    file.commit().with_context(place)
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
