use anyhow::Context;
use mercer::compile::compile;
use mercer::data::read::Options;
use mercer::machine::{Model, file};
use mercer::spec::Spec;
use serde_json::json;

use super::load;
use crate::args::Compile;
use crate::console::Console;
use crate::failure::DONE;
use crate::queries::Queries;

pub(super) fn run(arguments: &Compile, console: &Console) -> anyhow::Result<u8> {
    let plan: Spec = arguments.plan.parse()?;
    let model = load(&arguments.model, console)?;
    let sample = match &arguments.sample {
        Some(path) => Some(Queries::whole(path, Options::default(), &model, console)?),
        None => None,
    };
    let start = std::time::Instant::now();
    let sections = compile(&model.machine, &plan, sample.as_ref().map(|data| &data.examples))?;
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
