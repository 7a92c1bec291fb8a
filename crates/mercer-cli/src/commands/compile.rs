use std::path::PathBuf;

use anyhow::Context;
use mercer::compile::{CompileError, Material, Progress, Watch, compile_with};
use mercer::data::read::Options;
use mercer::machine::{Model, file};
use mercer::spec::Spec;
use serde_json::json;

use super::{StopSignal, load};
use crate::args::Compile;
use crate::console::Console;
use crate::failure::{DONE, Interrupted};
use crate::queries::Queries;

pub(super) fn run(arguments: &Compile, console: &Console) -> anyhow::Result<u8> {
    let plan: Spec = arguments.plan.parse()?;
    let model = load(&arguments.model, console)?;
    let stop = StopSignal::install()?;
    let read = |path: &Option<PathBuf>| {
        let data =
            path.as_ref().map(|path| Queries::whole(path, Options::default(), &model, console));
        data.transpose()
    };
    let (sample, training) = (read(&arguments.sample)?, read(&arguments.training)?);
    let material = Material {
        sample: sample.as_ref().map(|data| &data.examples),
        training: training.as_ref().map(|data| &data.examples),
    };
    let start = std::time::Instant::now();
    let status = console.status();
    let watch = |progress: Progress| {
        let Progress { what, done, most } = progress;
        status.set_message(format!("{what}: {done} of at most {most}"));
        stop.check().is_ok()
    };
    let sections = compile_with(&model.machine, &plan, material, Watch::new(&watch));
    status.finish_and_clear();
    let sections = match sections {
        Err(CompileError::Ended) => return Err(Interrupted.into()),
        other => other?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let compiled = Model { plan: Some(sections), ..model };
    let own = file::format("mercer").context("the mercer format is always registered")?;
    file::save(&compiled, own, &arguments.output)
        .with_context(|| arguments.output.display().to_string())?;
    if console.json {
        println!("{}", json!({ "plan": plan.to_string(), "seconds": seconds }));
    }
    let place = arguments.output.display();
    console.summary(&format!("{place}: {plan}, fitted in {seconds:.1} s"));
    Ok(DONE)
}
