use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use mercer::data::scale::{self, Recipe};
use mercer::data::{Dataset, Scaling, read};
use mercer::kernel::{KERNELS, KernelRef, fit_words};
use mercer::machine::{ClassName, Input, Model, Provenance, Scheme, file};
use mercer::spec::Spec;
use mercer::train::{
    Cancel, Checkpoint, Progress, Report, Stop, Training, formulation, solver, train,
};
use serde_json::json;

use super::{StopSignal, describe, input_options, load};
use crate::args::{SchemeName, Train};
use crate::console::Console;
use crate::failure::{DONE, INTERRUPTED, STOPPED};

pub(super) fn run(arguments: &Train, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let formulation = formulation(&arguments.formulation)?;
    let recipe = arguments.scale.as_deref().map(scale::parse).transpose()?;
    let mut data = read_examples(arguments)?;
    // LIBSVM text does not say how wide rows are: wider ones fit too.
    let features = (!data.examples.is_sparse()).then_some(data.examples.columns());
    stop.check()?;
    let scaling = recipe.map(|recipe| scaled(&recipe, &mut data, arguments)).transpose()?;
    stop.check()?;
    let kernel = kernel(&arguments.kernel, &data)?;
    console.info(&format!("{}, {}", formulation.spec(), kernel.spec()));
    let training = settings(arguments, &stop, console)?;
    let status = console.status();
    let mut show = |progress: &Progress| status.set_message(message(progress));
    let trained = train(&data, &kernel, &formulation, &training, &mut show)
        .with_context(|| arguments.input.data.display().to_string())?;
    status.finish_and_clear();
    let model = Model {
        input: Input { features, names: data.names.clone(), scaling },
        provenance: Provenance {
            origin: "mercer".to_owned(),
            formulation: Some(formulation.spec().to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            source_supports: None,
        },
        ..Model::from(trained.machine)
    };
    let own = file::format("mercer").context("the mercer format is always registered")?;
    file::save(&model, own, &arguments.output)
        .with_context(|| arguments.output.display().to_string())?;
    report(arguments, &model, &trained.report, console);
    Ok(match trained.report.stop {
        Some(Stop::Cancelled) => INTERRUPTED,
        None if trained.report.converged => DONE,
        _ => STOPPED,
    })
}

fn read_examples(arguments: &Train) -> anyhow::Result<Dataset> {
    let mut options = input_options(&arguments.input);
    options.precomputed = arguments.kernel.trim() == "precomputed";
    options.targets_needed = true;
    let source = || arguments.input.data.display().to_string();
    read::dataset(&arguments.input.data, &options).with_context(source)
}

/// Fits the scaling and puts the scaled examples in place of the examples.
fn scaled(recipe: &Recipe, data: &mut Dataset, arguments: &Train) -> anyhow::Result<Scaling> {
    anyhow::ensure!(
        arguments.kernel.trim() != "precomputed",
        "--scale: the rows of a precomputed kernel are kernel values and take no scaling"
    );
    let source = || arguments.input.data.display().to_string();
    let scaling = recipe.fit(&data.examples).with_context(source)?;
    data.examples = scaling.apply(&data.examples).with_context(source)?;
    Ok(scaling)
}

fn kernel(text: &str, data: &Dataset) -> anyhow::Result<KernelRef> {
    let spec: Spec = text.parse()?;
    Ok(KERNELS.build(&fit_words(&spec, &data.examples))?)
}

fn settings(arguments: &Train, stop: &StopSignal, console: &Console) -> anyhow::Result<Training> {
    let scheme = match arguments.scheme {
        SchemeName::OneVsOne => Scheme::OneVsOne,
        SchemeName::OneVsRest => Scheme::OneVsRest,
    };
    let class = |(label, weight): &(String, f64)| {
        let name = label.parse().map_or(ClassName::Text(label.clone()), ClassName::Number);
        (name, *weight)
    };
    let checkpoint = arguments.checkpoint.as_ref().map(|path| Checkpoint {
        path: path.clone(),
        every: arguments.checkpoint_every,
        resume: arguments.resume,
    });
    let warm = match &arguments.warm_start {
        Some(path) => Some(load(path, console)?.machine),
        None => None,
    };
    let weights = match &arguments.weights {
        Some(path) => Some(read_weights(path)?),
        None => None,
    };
    Ok(Training::default()
        .solver(solver(&arguments.solver)?)
        .scheme(scheme)
        .tolerance(arguments.tolerance)
        .memory(arguments.memory)
        .time_limit(arguments.time_limit)
        .max_iterations(arguments.max_iterations)
        .class_weights(arguments.class_weight.iter().map(class).collect())
        .weights(weights)
        .checkpoint(checkpoint)
        .warm_start(warm)
        .cancel(Cancel::from_flag(stop.flag())))
}

/// One number per line.
fn read_weights(path: &Path) -> anyhow::Result<Vec<f64>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parse = |(number, line): (usize, &str)| {
        let place = || format!("{}: line {number}: '{line}' is not a number", path.display());
        line.trim().parse::<f64>().with_context(place)
    };
    (1..).zip(text.lines()).map(parse).collect()
}

fn message(progress: &Progress) -> String {
    let part = if progress.parts > 1 {
        format!("question {} of {}, ", progress.part + 1, progress.parts)
    } else {
        String::new()
    };
    let left =
        progress.time_left.map_or(String::new(), |left| format!(", about {} left", time(left)));
    format!(
        "{part}{} steps, gap {:.2e}, violation {:.2e}, {} supports, {}{left}",
        progress.iterations,
        progress.gap,
        progress.violation,
        progress.supports,
        time(progress.elapsed),
    )
}

fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 120.0 {
        format!("{seconds:.1} s")
    } else if seconds < 7200.0 {
        format!("{:.1} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

fn report(arguments: &Train, model: &Model, report: &Report, console: &Console) {
    if console.json {
        let object = json!({
            "seconds": report.seconds, "iterations": report.iterations,
            "converged": report.converged, "objective": report.objective, "gap": report.gap,
            "supports": report.supports, "bounded": report.bounded,
            "peak_memory_bytes": report.peak_memory_bytes,
        });
        println!("{object}");
    }
    let machine = &model.machine;
    console.summary(&format!(
        "{}: {}, {}, {} supports ({} at their limit)",
        arguments.output.display(),
        machine.kernel().spec(),
        describe(machine),
        report.supports,
        report.bounded,
    ));
    console.summary(&format!(
        "objective {:.8}, gap {:.2e}, {} steps, {}, {:.0} MiB",
        report.objective,
        report.gap,
        report.iterations,
        time(Duration::from_secs_f64(report.seconds)),
        report.peak_memory_bytes as f64 / f64::from(1 << 20),
    ));
    if !report.converged {
        let why = match report.stop {
            Some(Stop::Cancelled) => "it was interrupted",
            Some(Stop::TimeLimit) => "the time limit was reached",
            Some(Stop::IterationLimit) => "the limit of iterations was reached",
            Some(Stop::Stalled) => "doubles cannot tell better points apart",
            _ => "the tolerance was not reached",
        };
        console.warn(&format!("not converged: {why}; the machine is the best so far"));
    }
}
