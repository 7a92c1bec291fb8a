//! `mercer train`: trains a machine and writes the model. The reports are in `train/report.rs`.

mod report;
mod update;

use std::time::Duration;

use anyhow::Context;
use mercer::kernel::KernelRef;
use mercer::train::{
    Calibrator, Checkpoint, Folds, FormulationRef, Progress, Stop, Training, Validation, by_class,
    calibrate_probabilities, cross_validate, formulation, is_system, train, train_rows,
};
use serde_json::Value;

use super::{StopSignal, load, save};
use crate::args::{CalibratorName, Train};
use crate::console::Console;
use crate::failure::{DONE, INTERRUPTED, STOPPED};
use crate::training_input::{self, TrainingInput, kernel, target_object};

pub(super) fn run(arguments: &Train, seed: u64, console: &Console) -> anyhow::Result<u8> {
    if let Some(from) = &arguments.update.from {
        return update::run(arguments, from, console);
    }
    let stop = StopSignal::install()?;
    let formulation = formulation(arguments.formulation.as_deref().unwrap_or("c_svc(C=1)"))?;
    let training = settings(arguments, &stop, console)?;
    let input = if stays_in_file(arguments, &training) {
        console.info("the examples stay in their file and are read in chunks");
        TrainingInput::in_file(&arguments.input, &stop, console)?
    } else {
        let Train { input, kernel, training, .. } = arguments;
        TrainingInput::read(input, kernel, training, &stop, console)?
    };
    let input = input
        .for_goal(formulation.goal(), &arguments.training)
        .with_context(|| arguments.input.data.display().to_string())?;
    let kernel = kernel(&arguments.kernel, &input.data)?;
    console.info(&format!("{}, {}", formulation.spec(), kernel.spec()));
    let problem = Problem { input: &input, kernel: &kernel, formulation: &formulation };
    let validation = cross_validation(arguments, &problem, &training, seed, console)?;
    let status = console.status();
    let mut show = |progress: &Progress| status.set_message(message(progress));
    let trained = match &input.file_rows {
        Some(rows) => {
            train_rows(rows, &input.data.targets, &kernel, &formulation, &training, &mut show)
        }
        None => train(&input.data, &kernel, &formulation, &training, &mut show),
    };
    let trained = trained.with_context(|| arguments.input.data.display().to_string())?;
    status.finish_and_clear();
    let mut model = input.model(trained.machine, &formulation);
    if let Some(name) = arguments.probabilities {
        // Linear systems give leave-one-out scores at no cost; they are used unless folds are given.
        let held_out = validation.as_ref().or(trained.leave_one_out.as_ref());
        let held_out = held_out.context("probabilities need cross-validation or leave-one-out")?;
        let weights = training.example_weights();
        model.probabilities =
            Some(calibrate_probabilities(&input.data, held_out, weights, calibrator(name))?);
    }
    if arguments.keep_rows {
        let weights = training.example_weights().map(<[f64]>::to_vec);
        model.training = Some(update::kept_rows(&input.data, weights, &training)?);
    }
    save(&model, &arguments.output)?;
    let validations = report::Validations {
        cross_validation: validation.as_ref(),
        leave_one_out: trained.leave_one_out.as_ref(),
    };
    if console.json {
        let mut object = report::object(&trained.report, &validations);
        object["target"] = input.target().map_or(Value::Null, target_object);
        println!("{object}");
    }
    report::print(&arguments.output, &model, &trained.report, &validations, console);
    Ok(match trained.report.stop {
        Some(Stop::Cancelled) => INTERRUPTED,
        None if trained.report.converged => DONE,
        _ => STOPPED,
    })
}

/// Whether the rows stay in their file: it is too large for the memory, the solver can read rows in chunks, and
/// nothing else needs the rows. In memory, rows take about twice the bytes of the text.
fn stays_in_file(arguments: &Train, training: &Training) -> bool {
    let needs_rows = arguments.cv.is_some()
        || arguments.probabilities.is_some()
        || arguments.training.folds.is_some()
        || arguments.training.scale.is_some()
        || arguments.keep_rows;
    let size = std::fs::metadata(&arguments.input.data)
        .map_or(0, |about| if about.is_file() { about.len() } else { 0 });
    let needs_rows = needs_rows || arguments.kernel.contains("scale");
    training.reads_pieces() && !needs_rows && size > arguments.training.memory as u64 / 2
}

fn calibrator(name: CalibratorName) -> Calibrator {
    match name {
        CalibratorName::Sigmoid => Calibrator::Sigmoid,
        CalibratorName::Isotonic => Calibrator::Isotonic,
        CalibratorName::Platt => Calibrator::Platt,
    }
}

fn settings(arguments: &Train, stop: &StopSignal, console: &Console) -> anyhow::Result<Training> {
    let checkpoint = arguments.checkpoint.as_ref().map(|path| Checkpoint {
        path: path.clone(),
        every: arguments.checkpoint_every,
        resume: arguments.resume,
    });
    let warm = match &arguments.warm_start {
        Some(path) => Some(load(path, console)?.machine),
        None => None,
    };
    let training = training_input::settings(&arguments.training, stop)?;
    Ok(training.checkpoint(checkpoint).warm_start(warm).polish(arguments.polish))
}

/// The status line.
fn message(progress: &Progress) -> String {
    let subproblem = if progress.subproblems > 1 {
        format!("binary subproblem {} of {}, ", progress.subproblem + 1, progress.subproblems)
    } else {
        String::new()
    };
    let left =
        progress.time_left.map_or(String::new(), |left| format!(", about {} left", time(left)));
    let gap = match progress.gap {
        gap if gap.is_nan() => String::new(),
        gap => format!("gap {gap:.2e}, "),
    };
    let iterations = match progress.violation {
        violation if violation.is_nan() => String::new(),
        violation => {
            format!("{} iterations, {gap}violation {violation:.2e}, ", progress.iterations)
        }
    };
    let (supports, spent) = (progress.supports, time(progress.elapsed));
    let round = progress.round.map_or(String::new(), |round| {
        format!("round {}, {} examples moved, ", round.number, round.moved)
    });
    format!("{subproblem}{round}{iterations}{supports} supports, {spent}{left}")
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

/// What is trained.
struct Problem<'p> {
    input: &'p TrainingInput,
    kernel: &'p KernelRef,
    formulation: &'p FormulationRef,
}

/// Cross-validates if `--cv`, `--folds` or `--probabilities` asks for it.
fn cross_validation(
    arguments: &Train,
    problem: &Problem<'_>,
    training: &Training,
    seed: u64,
    console: &Console,
) -> anyhow::Result<Option<Validation>> {
    let Problem { input, kernel, formulation } = *problem;
    let given = TrainingInput::folds(&arguments.training)?;
    let has_leave_one_out = is_system(formulation);
    let is_needed = arguments.probabilities.is_some() && !has_leave_one_out;
    if arguments.cv.is_none() && given.is_none() && !is_needed {
        return Ok(None);
    }
    let folds = match given {
        Some(given) => Folds::given(given)?,
        None => {
            let count = arguments.cv.unwrap_or(5);
            Folds::new(&input.data, by_class(formulation), count, seed)?
        }
    };
    let status = console.status();
    let mut show = |progress: &Progress| status.set_message(message(progress));
    let formulations = [formulation.clone()];
    let validations =
        cross_validate(&input.data, kernel, &formulations, &folds, training, &mut show)
            .with_context(|| arguments.input.data.display().to_string())?;
    status.finish_and_clear();
    let validation =
        validations.into_iter().next().context("one formulation gives one result")??;
    console.summary(&format!(
        "{} folds: {} {:.6} over all examples, folds {:.6} to {:.6}",
        validation.folds.len(),
        validation.measure.name(),
        validation.quality,
        validation.folds.iter().copied().fold(f64::INFINITY, f64::min),
        validation.folds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    ));
    Ok(Some(validation))
}
