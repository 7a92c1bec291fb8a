//! `mercer compile`: fits a given plan to a model. `mercer tune` looks for a plan itself.

use mercer::compile::risk::Risk;
use mercer::compile::{Compiled, Compiler, Target};
use mercer::machine::{Calibration, Counts, Model};
use mercer::query::{Plan, PlanTrust};
use mercer::spec::Spec;
use serde_json::{Value, json};

use super::fitting::{FittingRows, watched};
use super::{StopSignal, load, save, trust};
use crate::args::{Compile, RiskName};
use crate::console::Console;
use crate::failure::DONE;

pub(super) fn run(arguments: &Compile, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let plan: Spec = arguments.plan.parse()?;
    let model = load(&arguments.model, console)?;
    let (compiled, seconds) = fit(arguments, &plan, &model, seed, console)?;
    let Compiled { sections, repeated, parts } = compiled;
    let stages = Plan::fitted(&model.machine, &sections)?;
    let compiled = Model { plan: Some(sections.clone()), ..model };
    save(&compiled, &arguments.output)?;
    trust::remember(&sections, PlanTrust::Everything, console);
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
        summarise_calibration(calibration, parts, console);
    } else if stages.stops_untested() {
        console.warn(
            "no --sample was given to test its stopping rules: the answers at which they stop are marked unsettled",
        );
    }
    Ok(DONE)
}

/// Reads the sample and the training rows, and fits the stages of the plan; with the seconds of the fitting.
fn fit(
    arguments: &Compile,
    plan: &Spec,
    model: &Model,
    seed: u64,
    console: &Console,
) -> anyhow::Result<(Compiled, f64)> {
    let stop = StopSignal::install()?;
    let Compile { sample, training, memory, .. } = arguments;
    let rows = FittingRows::read(sample.as_deref(), training.as_deref(), *memory, model, console)?;
    let of = match arguments.risk {
        RiskName::Disagreements => Risk::Disagreements,
        RiskName::ExcessError => Risk::ExcessErrors,
    };
    watched(console, &stop, |watch| {
        Compiler::new(&model.machine)
            .fitting_data(rows.data())
            .target(Target { risk: arguments.eps, delta: arguments.delta, of })
            .seed(seed)
            .trust_sample(arguments.trust_sample)
            .boundary(arguments.boundary)
            .watch(watch)
            .run(plan)
    })
}

/// The guarantee, and the rows that it rests on.
fn summarise_calibration(calibration: &Calibration, parts: [usize; 3], console: &Console) {
    console.summary(&format!("  {}", sentence(calibration)));
    let [fitted, scales, _] = parts;
    if calibration.scales.is_empty() {
        console.summary(&format!(
            "  its stages have stopping rules of their own, fitted to {fitted} rows, and no acceptance threshold; eps \
             ({:.2e}) is what the test shows",
            calibration.risk,
        ));
    } else {
        console.summary(&format!(
            "  acceptance threshold {:.2} residual RMS; stages fitted to {fitted} rows, residual RMS measured on {scales}",
            calibration.threshold,
        ));
    }
}

/// The guarantee of a calibrated plan in one sentence.
pub(super) fn sentence(calibration: &Calibration) -> String {
    let Calibration { risk, delta, queries, disagreements, counts, bound, .. } = calibration;
    let risk = if *risk == *bound { format!("{risk:.2e}") } else { risk.to_string() };
    let confidence = 1.0 - delta;
    match counts {
        Counts::Disagreements => format!(
            "calibrated: labels of at most {risk} of the queries like the sample disagree with exact ones, with \
             confidence {confidence}; test: {disagreements} disagreements in {queries} held-out queries, upper \
             bound {bound:.2e}",
        ),
        Counts::ExcessErrors { worse, better } => format!(
            "calibrated: at most {risk} more errors per query like the sample than exact labels, with confidence \
             {confidence}; test: {disagreements} disagreements in {queries} held-out queries ({worse} worse, \
             {better} better), upper bound {bound:.2e}",
        ),
    }
}

/// The calibration as JSON.
pub(super) fn value(calibration: &Calibration) -> Value {
    let Calibration { threshold, risk, delta, queries, disagreements, counts, bound, .. } =
        calibration;
    let mut object = json!({
        "eps": risk, "delta": delta, "queries": queries, "disagreements": disagreements,
        "bound": bound, "threshold": threshold, "risk": "disagreements",
    });
    if let Counts::ExcessErrors { worse, better } = counts {
        object["risk"] = json!("excess-error");
        object["worse"] = json!(worse);
        object["better"] = json!(better);
    }
    object
}
