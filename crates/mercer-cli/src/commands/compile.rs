use std::path::PathBuf;

use anyhow::Context;
use mercer::compile::{CompileError, Compiled, Compiler, Material, Progress, Target, Watch};
use mercer::data::Dataset;
use mercer::data::read::Options;
use mercer::machine::{Calibration, Model, file};
use mercer::query::Plan;
use mercer::spec::Spec;
use serde_json::{Value, json};

use super::{StopSignal, load};
use crate::args::Compile;
use crate::console::Console;
use crate::failure::{DONE, Interrupted};
use crate::queries::Queries;

pub(super) fn run(arguments: &Compile, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let plan: Spec = arguments.plan.parse()?;
    let model = load(&arguments.model, console)?;
    let stop = StopSignal::install()?;
    let read = |path: &Option<PathBuf>| -> anyhow::Result<Option<Dataset>> {
        let whole = |path| Queries::whole(path, Options::default(), &model, console);
        path.as_deref().map(whole).transpose()
    };
    let (sample, training) = (read(&arguments.sample)?, read(&arguments.training)?);
    let start = std::time::Instant::now();
    let status = console.status();
    let watch = |progress: Progress| {
        let Progress { what, done, most } = progress;
        status.set_message(format!("{what}: {done} of at most {most}"));
        stop.check().is_ok()
    };
    let material = Material {
        sample: sample.as_ref().map(|data| &data.examples),
        training: training.as_ref().map(|data| &data.examples),
    };
    let compiled = Compiler::new(&model.machine)
        .material(material)
        .target(Target { risk: arguments.eps, delta: arguments.delta })
        .seed(seed)
        .trust_sample(arguments.trust_sample)
        .watch(Watch::new(&watch))
        .run(&plan);
    status.finish_and_clear();
    let Compiled { sections, repeated, parts } = match compiled {
        Err(CompileError::Ended) => return Err(Interrupted.into()),
        other => other?,
    };
    let seconds = start.elapsed().as_secs_f64();
    if repeated > 0 {
        console.warn(&format!(
            "{repeated} rows of the sample equal supports of the machine: is it training data?"
        ));
    }
    let compiled = Model { plan: Some(sections), ..model };
    let stages = Plan::of(&compiled)?;
    let own = file::format("mercer").context("the mercer format is always registered")?;
    file::save(&compiled, own, &arguments.output)
        .with_context(|| arguments.output.display().to_string())?;
    if console.json {
        let mut object = json!({ "plan": plan.to_string(), "seconds": seconds });
        if let Some(calibration) = stages.calibration() {
            object["calibration"] = value(calibration);
            object["parts"] = json!(parts);
            object["repeated"] = json!(repeated);
        }
        println!("{object}");
    }
    let place = arguments.output.display();
    console.summary(&format!("{place}: {plan}, fitted in {seconds:.1} s"));
    if let Some(calibration) = stages.calibration() {
        console.summary(&format!("  {}", sentence(calibration)));
        let [lesson, scales, _] = parts;
        console.summary(&format!(
            "  width {:.2} spreads; students learned from {lesson} rows, scales come from {scales}",
            calibration.width,
        ));
    }
    Ok(DONE)
}

/// What a calibrated plan promises, in one sentence.
pub(super) fn sentence(calibration: &Calibration) -> String {
    let Calibration { risk, delta, queries, disagreements, bound, .. } = calibration;
    format!(
        "calibrated: at most {risk} of queries like the sample get another label than exact, with \
         confidence {}; {disagreements} of {queries} held-out queries did, so at most {bound:.2e}",
        1.0 - delta,
    )
}

/// The same as JSON.
pub(super) fn value(calibration: &Calibration) -> Value {
    let Calibration { width, risk, delta, queries, disagreements, bound, .. } = calibration;
    json!({
        "eps": risk, "delta": delta, "queries": queries, "disagreements": disagreements,
        "bound": bound, "width": width,
    })
}
