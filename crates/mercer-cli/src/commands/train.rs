use std::time::Duration;

use anyhow::Context;
use mercer::kernel::KernelRef;
use mercer::machine::Model;
use mercer::train::{
    Calibrator, Checkpoint, Folds, FormulationRef, LinearReport, LowRankReport, Progress, Report,
    Rows, Stop, Training, Validation, by_class, calibrate_probabilities, cross_validate,
    formulation, is_system, train, train_rows,
};
use serde_json::json;

use super::{StopSignal, describe, load};
use crate::args::{CalibratorName, Train};
use crate::console::Console;
use crate::failure::{DONE, INTERRUPTED, STOPPED};
use crate::lesson::{self, Lesson, kernel};

pub(super) fn run(arguments: &Train, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let formulation = formulation(&arguments.formulation)?;
    let training = settings(arguments, &stop, console)?;
    let lesson = if stays_outside(arguments, &training) {
        console.info("the examples stay in their file: they are read in pieces");
        Lesson::outside(&arguments.input, &stop)?
    } else {
        Lesson::read(&arguments.input, &arguments.kernel, &arguments.learning, &stop)?
    };
    let kernel = kernel(&arguments.kernel, &lesson.data)?;
    console.info(&format!("{}, {}", formulation.spec(), kernel.spec()));
    let asked = (&kernel, &formulation);
    let validation = cross_validation(arguments, &lesson, asked, &training, seed, console)?;
    let status = console.status();
    let mut show = |progress: &Progress| status.set_message(message(progress));
    let trained = match &lesson.outside {
        Some(rows) => {
            let rows = (rows as &dyn Rows, &lesson.data.targets);
            train_rows(rows, &kernel, &formulation, &training, &mut show)
        }
        None => train(&lesson.data, &kernel, &formulation, &training, &mut show),
    };
    let trained = trained.with_context(|| arguments.input.data.display().to_string())?;
    status.finish_and_clear();
    let mut model = lesson.model(trained.machine, &formulation);
    if let Some(name) = arguments.probabilities {
        // Where leaving one out cost nothing, and no folds were asked for, it is the better sample.
        let judged = validation.as_ref().or(trained.left_out.as_ref());
        let judged = judged.context("probabilities need cross-validation or leave-one-out")?;
        let weights = training.example_weights();
        model.probabilities =
            Some(calibrate_probabilities(&lesson.data, judged, weights, calibrator(name))?);
    }
    lesson::save(&model, &arguments.output)?;
    let judged = Judged { folds: validation.as_ref(), left_out: trained.left_out.as_ref() };
    report(arguments, &model, &trained.report, &judged, console);
    Ok(match trained.report.stop {
        Some(Stop::Cancelled) => INTERRUPTED,
        None if trained.report.converged => DONE,
        _ => STOPPED,
    })
}

/// Whether a solver that can read rows in pieces learns from a file that memory is too small for, and nothing
/// else needs the rows: read, they take about twice the bytes of text.
fn stays_outside(arguments: &Train, training: &Training) -> bool {
    let needs_rows = arguments.cv.is_some()
        || arguments.probabilities.is_some()
        || arguments.learning.folds.is_some()
        || arguments.learning.scale.is_some();
    let size = std::fs::metadata(&arguments.input.data)
        .map_or(0, |about| if about.is_file() { about.len() } else { 0 });
    training.reads_pieces() && !needs_rows && size > arguments.learning.memory as u64 / 2
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
    let training = lesson::settings(&arguments.learning, stop)?;
    Ok(training.checkpoint(checkpoint).warm_start(warm).polish(arguments.polish))
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
    let steps = match progress.violation {
        violation if violation.is_nan() => String::new(),
        violation => format!("{} steps, {gap}violation {violation:.2e}, ", progress.iterations),
    };
    let (supports, spent) = (progress.supports, time(progress.elapsed));
    format!("{part}{steps}{supports} supports, {spent}{left}")
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

fn table_object(table: &LinearReport) -> serde_json::Value {
    json!({
        "levels": table.levels, "rank": table.rank,
        "relative_error": table.factor.relative_error, "worst_error": table.factor.worst_error,
        "nonzeros": table.nonzeros, "example_bytes": table.example_bytes,
        "nonzero_weights": table.weights,
        "chunks_on_disk": table.chunks,
        "preparation_seconds": table.preparation,
    })
}

/// What a low-rank training says, as an object.
pub(super) fn low_rank_object(report: &LowRankReport) -> serde_json::Value {
    let lost = |lost: &mercer::train::LostReport| {
        json!({
            "question": lost.name, "objective": lost.objective, "gap": lost.gap,
            "square_of_w": lost.square,
            "theorem_1": lost.bound, "quadratic": lost.quadratic, "error": lost.error,
            "original_gap": lost.original_gap, "exact": lost.is_exact,
        })
    };
    let guard = report.guard.as_ref().map(|guard| {
        json!({
            "kept_low_rank": guard.kept_low_rank, "examples": guard.examples,
            "equal_cost": guard.equal_cost, "within_reach": guard.within_reach,
            "held_out": guard.held_out, "measure": guard.measure.name(),
            "low_rank": guard.low_rank, "exact": guard.exact, "sentence": guard.sentence,
        })
    });
    let polish = report.polish.as_ref().map(|polish| {
        json!({
            "active_set_first": polish.is_gated, "active_examples": polish.active_examples,
            "active_steps": polish.active_steps, "steps": polish.steps,
        })
    });
    json!({
        "rank": report.rank, "trace": report.trace, "trace_share": report.trace_share,
        "pivots": report.pivots, "precision": report.precision, "method": report.method,
        "systems": report.systems, "iterations": report.iterations, "coordinate_updates": report.coordinate_updates,
        "switched": report.switched, "fallbacks": report.fallbacks, "believed_gap": report.believed,
        "factor_bytes": report.factor_bytes, "on_disk": report.on_disk,
        "factor_seconds": report.factor_seconds, "solve_seconds": report.solve_seconds,
        "lost": report.lost.iter().map(lost).collect::<Vec<_>>(), "guard": guard, "polish": polish,
    })
}

fn table_sentence(table: &LinearReport) -> String {
    let bytes = table.example_bytes as f64 / table.nonzeros.max(1) as f64;
    let place = match table.chunks {
        Some(chunks) => format!("{chunks} chunks in a temporary file"),
        None => format!("{bytes:.1} bytes per non-zero"),
    };
    if let Some(weights) = table.weights {
        return format!("{weights} weights are not zero; values as they are, {place}");
    }
    if table.levels == "off" {
        return format!("values as they are, {place}");
    }
    format!(
        "{} levels, rank {}, the kernel is off by {:.1e} (at worst {:.1e} of its largest value), \
         {place}",
        table.levels, table.rank, table.factor.relative_error, table.factor.worst_error,
    )
}

fn low_rank_summary(report: &LowRankReport, console: &Console) {
    console.summary(&format!(
        "rank {} leaves {:.2} % of the trace; {} pivots, {}, {} precision, {:.0} MiB{}",
        report.rank,
        100.0 * report.trace_share,
        report.pivots,
        report.method,
        report.precision,
        report.factor_bytes as f64 / f64::from(1 << 20),
        if report.on_disk { " in a file" } else { "" },
    ));
    let sum = |of: fn(&mercer::train::LostReport) -> f64| report.lost.iter().map(of).sum::<f64>();
    let about = if report.lost.iter().all(|lost| lost.is_exact) { "" } else { "about " };
    console.summary(&format!(
        "lost: {about}{:.3e} of the objective {:.6e} (theorem 1 allows {:.1e}); gap {:.1e} on the low-rank problem, \
         {about}{:.3e} on the original one",
        sum(|lost| lost.quadratic),
        sum(|lost| lost.objective),
        sum(|lost| lost.bound),
        sum(|lost| lost.gap),
        sum(|lost| lost.original_gap),
    ));
    if let Some(guard) = &report.guard {
        console.summary(&guard.sentence);
    }
    if let Some(polish) = &report.polish {
        console.summary(&format!(
            "polished: {} steps on {} active examples, then {} steps on all",
            polish.active_steps, polish.active_examples, polish.steps,
        ));
    }
}

/// Quality by machines that did not learn from the examples.
struct Judged<'v> {
    folds: Option<&'v Validation>,
    left_out: Option<&'v Validation>,
}

fn report(
    arguments: &Train,
    model: &Model,
    report: &Report,
    judged: &Judged<'_>,
    console: &Console,
) {
    if console.json {
        let mut object = json!({
            "seconds": report.seconds, "iterations": report.iterations,
            "converged": report.converged, "objective": report.objective, "gap": report.gap,
            "supports": report.supports, "bounded": report.bounded,
            "peak_memory_bytes": report.peak_memory_bytes,
            "violation": report.violation, "table": report.table.as_deref().map(table_object),
            "low_rank": report.low_rank.as_deref().map(low_rank_object),
            "chosen": report.chosen,
        });
        if let Some(validation) = judged.folds {
            object["cross_validation"] = validated(validation);
        }
        if let Some(system) = &report.system {
            object["system"] = json!({ "rank": system.rank, "trace_left": system.trace_left });
        }
        if let Some(left_out) = judged.left_out {
            object["leave_one_out"] = json!({
                "measure": left_out.measure.name(), "quality": left_out.quality,
                "correlation": left_out.correlation,
            });
        }
        println!("{object}");
    }
    let machine = &model.machine;
    if let Some(chosen) = &report.chosen {
        console.summary(chosen);
    }
    if let Some(low_rank) = &report.low_rank {
        low_rank_summary(low_rank, console);
    }
    if let Some(table) = &report.table {
        console.summary(&table_sentence(table));
    }
    if let Some(rank) = report.system.and_then(|system| system.rank) {
        let left = report.system.map_or(0.0, |system| system.trace_left);
        console.summary(&format!("low rank: {rank} pivots leave {left:.1e} of the kernel's trace"));
    }
    if let Some(left_out) = judged.left_out {
        let name = left_out.measure.name();
        console.summary(&format!("leave-one-out {name} {:.6}", left_out.quality));
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
        let left = if report.gap.is_finite() {
            format!(", within {:.2e} of the optimum", report.gap)
        } else {
            String::new()
        };
        console.warn(&format!("not converged: {why}; the machine is the best so far{left}"));
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
    let is_free = is_system(formulation);
    let is_needed = arguments.probabilities.is_some() && !is_free;
    if arguments.cv.is_none() && given.is_none() && !is_needed {
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
