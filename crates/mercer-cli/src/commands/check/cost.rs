//! Estimated time and memory of a training, from trials on a few rows.

use std::time::{Duration, Instant};

use anyhow::Context;
use mercer::data::scale::{self, ColumnStats};
use mercer::data::{Dataset, Targets, draw};
use mercer::machine::{Machine, Output, Score};
use mercer::query::Plan;
use mercer::train::{Cancel, Training, formulation, solver, train};
use serde_json::json;

use super::{Findings, size};
use crate::commands::StopSignal;
use crate::training_input::kernel;

/// Rows on which the speed of kernel values is measured.
const TIMED: usize = 256;
/// Rows of the larger of two trial trainings; the other has half as many.
const TRIAL_ROWS: usize = 2000;
/// Time limit of each trial.
const TRIAL_LIMIT: Duration = Duration::from_secs(5);
/// The default of `mercer train --memory`.
const MEMORY: f64 = (1u64 << 30) as f64;

/// What to try first.
struct Advice {
    kernel: &'static str,
    solver: &'static str,
    scaling: Option<&'static str>,
    formulation: &'static str,
}

/// Adds size and time of the kernel matrix, what to try first, and the time and memory of that training.
pub(super) fn estimate(
    data: &Dataset,
    columns: &ColumnStats,
    is_unscaled: bool,
    stop: &StopSignal,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let rows = data.examples.rows() as f64;
    let matrix = 8.0 * rows * rows;
    findings.add("kernel matrix bytes", size(matrix), matrix);
    let pass = pass_seconds(data)?;
    findings.add("kernel matrix seconds", format!("about {} on this computer", time(pass)), pass);
    if matrix > 16e9 {
        findings.remark(format!(
            "the kernel matrix ({}) is larger than the memory of most computers: give --memory, and expect several passes \
             of {} each",
            size(matrix),
            time(pass)
        ));
    }
    let advice = advise(data, columns, is_unscaled);
    findings.add("suggested kernel", advice.kernel, advice.kernel);
    findings.add("suggested solver", advice.solver, advice.solver);
    if let Some(scaling) = advice.scaling {
        findings.add("suggested scaling", scaling, scaling);
    }
    training(data, &advice, stop, findings)
}

/// Seconds for all kernel values of all pairs.
fn pass_seconds(data: &Dataset) -> anyhow::Result<f64> {
    let rows = data.examples.rows();
    let sample = data.examples.select(draw(rows, TIMED, 1));
    let count = sample.rows();
    let kernel = mercer::kernel::parse("rbf(gamma=1e-3)")?;
    let scores = vec![Score::expansion(&vec![1.0; count], 0.0)];
    let plan = Plan::exact(&Machine::new(kernel, sample.clone(), scores, Output::Novelty)?);
    plan.scores(&sample)?;
    let start = Instant::now();
    plan.scores(&sample)?;
    let each = start.elapsed().as_secs_f64() / (count * count) as f64;
    Ok(each * rows as f64 * rows as f64)
}

fn advise(data: &Dataset, columns: &ColumnStats, is_unscaled: bool) -> Advice {
    let examples = &data.examples;
    let is_wide =
        examples.columns() > examples.rows() || examples.is_sparse() && examples.columns() > 10_000;
    let is_histogram = columns.min.iter().all(|low| *low >= 0.0) && {
        let sums = examples.iter().take(100).map(|row| row.nonzeros().map(|(_, v)| v).sum::<f64>());
        let sums: Vec<f64> = sums.collect();
        sums.iter().all(|sum| (sum - sums[0]).abs() <= 1e-6 * sums[0].abs()) && sums[0] > 0.0
    };
    let formulation = match &data.targets {
        Targets::Absent => "one_class(nu=0.1)",
        targets if super::data::is_regression(targets) => "epsilon_svr(C=1)",
        _ => "c_svc(C=1)",
    };
    // Linear and additive solvers are for classification; they pay off when the kernel matrix does not fit.
    let is_large = examples.rows() > 20_000 && formulation.starts_with("c_svc");
    let (kernel, fast_solver) = if is_wide {
        ("linear", "linear")
    } else if is_histogram {
        ("chi2", "additive")
    } else {
        ("rbf(gamma=scale)", "smo")
    };
    let solver = if is_large { fast_solver } else { "smo" };
    // Histograms have one scale, and must not become negative.
    let scaling = (is_unscaled && !is_histogram).then(|| super::data::suggested_scaling(data));
    Advice { kernel, solver, scaling, formulation }
}

/// Trains on some rows and on half of them, and extrapolates: time grows as a power of the number of rows.
fn training(
    data: &Dataset,
    advice: &Advice,
    stop: &StopSignal,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let all = data.examples.rows();
    let most = all.min(TRIAL_ROWS);
    let mut trials = Vec::new();
    for count in [most / 2, most] {
        let some = data.select(&draw(all, count, 1));
        // A few rows may have a single class; then there is no estimate.
        let Ok(trial) = trial(some, advice, stop) else { return Ok(()) };
        stop.check()?;
        trials.push(trial);
    }
    let [(half, _, _), (full, memory, converged)] = trials[..] else { return Ok(()) };
    let power = (full / half.max(1e-6)).log2().clamp(1.0, 3.0);
    let times = all as f64 / most as f64;
    let seconds = full * times.powf(power);
    let bytes = memory * if advice.solver == "smo" { times * times } else { times };
    let bytes = if advice.solver == "smo" { bytes.min(MEMORY) } else { bytes };
    let more = if converged { "about" } else { "more than" };
    let text = if most == all {
        format!("{more} {} on this computer", time(seconds))
    } else {
        format!(
            "{more} {} on this computer, estimated from {most} rows and half of them",
            time(seconds)
        )
    };
    findings.add("training seconds", text, seconds);
    findings.add("training memory bytes", format!("about {}", size(bytes)), bytes);
    findings.add("trial formulation", advice.formulation, json!(advice.formulation));
    Ok(())
}

/// Seconds and bytes of one training, and whether it converged.
fn trial(
    mut data: Dataset,
    advice: &Advice,
    stop: &StopSignal,
) -> anyhow::Result<(f64, f64, bool)> {
    if let Some(scaling) = advice.scaling {
        data.examples = scale::parse(scaling)?.fit(&data.examples)?.apply(&data.examples)?;
    }
    let kernel = kernel(advice.kernel, &data)?;
    let training = Training::default()
        .solver(solver(advice.solver)?)
        .time_limit(Some(TRIAL_LIMIT))
        .cancel(Cancel::from_flag(stop.flag()));
    let what = formulation(advice.formulation)?;
    let trained =
        train(&data, &kernel, &what, &training, &mut |_| {}).context("a trial training")?;
    let report = trained.report;
    Ok((report.seconds, report.peak_memory_bytes as f64, report.converged))
}

fn time(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.2} s")
    } else if seconds < 7200.0 {
        format!("{:.1} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}
