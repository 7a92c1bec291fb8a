use std::time::Duration;

use anyhow::Context;
use mercer::kernel::KernelRef;
use mercer::machine::Model;
use mercer::train::{
    Checkpoint, Folds, FormulationRef, Progress, Report, Stop, TableReport, Training, Validation,
    by_class, cross_validate, formulation, train,
};
use serde_json::json;

use super::{StopSignal, describe, load};
use crate::args::Train;
use crate::console::Console;
use crate::failure::{DONE, INTERRUPTED, STOPPED};
use crate::lesson::{self, Lesson, kernel};

pub(super) fn run(arguments: &Train, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let formulation = formulation(&arguments.formulation)?;
    let lesson = Lesson::read(&arguments.input, &arguments.kernel, &arguments.learning, &stop)?;
    let kernel = kernel(&arguments.kernel, &lesson.data)?;
    console.info(&format!("{}, {}", formulation.spec(), kernel.spec()));
    let training = settings(arguments, &stop, console)?;
    let asked = (&kernel, &formulation);
    let validation = cross_validation(arguments, &lesson, asked, &training, seed, console)?;
    let status = console.status();
    let mut show = |progress: &Progress| status.set_message(message(progress));
    let trained = train(&lesson.data, &kernel, &formulation, &training, &mut show)
        .with_context(|| arguments.input.data.display().to_string())?;
    status.finish_and_clear();
    let model = lesson.model(trained.machine, &formulation);
    lesson::save(&model, &arguments.output)?;
    report(arguments, &model, &trained.report, validation.as_ref(), console);
    Ok(match trained.report.stop {
        Some(Stop::Cancelled) => INTERRUPTED,
        None if trained.report.converged => DONE,
        _ => STOPPED,
    })
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
    let training = lesson::settings(&arguments.learning, stop)?;
    Ok(training.checkpoint(checkpoint).warm_start(warm))
}

fn message(progress: &Progress) -> String {
    let part = if progress.parts > 1 {
        format!("question {} of {}, ", progress.part + 1, progress.parts)
    } else {
        String::new()
    };
    let left =
        progress.time_left.map_or(String::new(), |left| format!(", about {} left", time(left)));
    let gap = match progress.gap {
        gap if gap.is_nan() => String::new(),
        gap => format!("gap {gap:.2e}, "),
    };
    format!(
        "{part}{} steps, {gap}violation {:.2e}, {} supports, {}{left}",
        progress.iterations,
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

fn table_object(table: &TableReport) -> serde_json::Value {
    json!({
        "levels": table.levels, "rank": table.rank,
        "relative_error": table.factor.relative_error, "worst_error": table.factor.worst_error,
        "nonzeros": table.nonzeros, "example_bytes": table.example_bytes,
        "preparation_seconds": table.preparation,
    })
}

fn report(
    arguments: &Train,
    model: &Model,
    report: &Report,
    validation: Option<&Validation>,
    console: &Console,
) {
    if console.json {
        let mut object = json!({
            "seconds": report.seconds, "iterations": report.iterations,
            "converged": report.converged, "objective": report.objective, "gap": report.gap,
            "supports": report.supports, "bounded": report.bounded,
            "peak_memory_bytes": report.peak_memory_bytes,
            "violation": report.violation, "table": report.table.as_deref().map(table_object),
        });
        if let Some(validation) = validation {
            object["cross_validation"] = validated(validation);
        }
        println!("{object}");
    }
    let machine = &model.machine;
    if let Some(table) = &report.table {
        console.summary(&format!(
            "{} levels, rank {}, the kernel is off by {:.1e} (at worst {:.1e} of its largest value), \
             {:.1} bytes per non-zero",
            table.levels,
            table.rank,
            table.factor.relative_error,
            table.factor.worst_error,
            table.example_bytes as f64 / table.nonzeros.max(1) as f64,
        ));
    }
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
        let why = report.stop.map_or("the tolerance was not reached", Stop::reason);
        console.warn(&format!("not converged: {why}; the machine is the best so far"));
    }
}

/// Quality of all examples by machines that did not learn from them.
fn cross_validation(
    arguments: &Train,
    lesson: &Lesson,
    (kernel, formulation): (&KernelRef, &FormulationRef),
    training: &Training,
    seed: u64,
    console: &Console,
) -> anyhow::Result<Option<Validation>> {
    let given = Lesson::folds(&arguments.learning)?;
    if arguments.cv.is_none() && given.is_none() {
        return Ok(None);
    }
    let folds = match given {
        Some(given) => Folds::given(given)?,
        None => {
            let count = arguments.cv.unwrap_or(5);
            Folds::new(&lesson.data, by_class(formulation), count, seed)?
        }
    };
    let status = console.status();
    let mut show = |progress: &Progress| status.set_message(message(progress));
    let alone = [formulation.clone()];
    let found = cross_validate(&lesson.data, kernel, &alone, &folds, training, &mut show)
        .with_context(|| arguments.input.data.display().to_string())?;
    status.finish_and_clear();
    let validation = found.into_iter().next().context("one formulation gives one result")??;
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

fn validated(validation: &Validation) -> serde_json::Value {
    json!({
        "measure": validation.measure.name(), "quality": validation.quality,
        "folds": validation.folds, "correlation": validation.correlation,
        "converged": validation.converged, "seconds": validation.seconds,
    })
}
