//! The report of a training, as JSON and as text.

use std::path::Path;
use std::time::Duration;

use mercer::machine::Model;
use mercer::train::{LinearReport, LowRankReport, PrimalReport, Report, Stop, Validation};
use serde_json::{Value, json};

use super::super::describe;
use super::time;
use crate::console::Console;

/// The report of a linear or additive solver.
fn linear_object(linear: &LinearReport) -> Value {
    json!({
        "bins": linear.bins, "rank": linear.rank,
        "relative_error": linear.factor.relative_error, "worst_error": linear.factor.worst_error,
        "nonzeros": linear.nonzeros, "example_bytes": linear.example_bytes,
        "nonzero_weights": linear.weights,
        "chunks_on_disk": linear.chunks,
        "preparation_seconds": linear.preparation,
    })
}

/// The report of a low-rank training.
fn low_rank_object(report: &LowRankReport) -> Value {
    let subproblem = |lost: &mercer::train::ApproximationReport| {
        json!({
            "subproblem": lost.name, "objective": lost.objective, "gap": lost.gap,
            "square_of_w": lost.square,
            "supports": lost.supports, "theorem_1": lost.bound, "quadratic": lost.quadratic, "objective_error": lost.error,
            "original_gap": lost.original_gap, "is_exact": lost.is_exact,
        })
    };
    let guard = report.guard.as_ref().map(|guard| {
        json!({
            "kept_low_rank": guard.kept_low_rank, "examples": guard.examples,
            "equal_cost": guard.equal_cost, "within_reach": guard.within_reach,
            "held_out": guard.held_out, "measure": guard.measure.name(),
            "low_rank_quality": guard.low_rank, "exact_quality": guard.exact, "sentence": guard.sentence,
        })
    });
    let polish = report.polish.as_ref().map(|polish| {
        json!({
            "active_set_first": polish.is_gated, "active_examples": polish.active_examples,
            "active_steps": polish.active_steps, "iterations_on_all": polish.steps,
        })
    });
    json!({
        "rank": report.rank, "trace": report.trace, "trace_share": report.trace_share,
        "trace_bound": report.trace_bound,
        "pivots": report.pivots, "precision": report.precision, "method": report.method,
        "systems": report.systems, "iterations": report.iterations,
        "coordinate_updates": report.coordinate_updates,
        "switched": report.switched, "fallbacks": report.fallbacks, "computed_gap": report.running_gap,
        "factor_bytes": report.factor_bytes, "on_disk": report.on_disk,
        "factor_seconds": report.factor_seconds, "solve_seconds": report.solve_seconds,
        "approximation": report.approximation.iter().map(subproblem).collect::<Vec<_>>(),
        "guard": guard, "polish": polish,
    })
}

/// The report of the primal reformulation.
fn primal_object(report: &PrimalReport) -> Value {
    json!({
        "penalty": report.attractor, "dual_supports": report.dual_supports,
        "penalised_before": report.drawn[0], "penalised_after": report.drawn[1],
        "priced_columns": report.priced, "pricings": report.pricings,
        "relative_error": report.error, "largest_score_change": report.score_change,
        "unchanged_subproblems": report.unchanged,
    })
}

/// What the primal reformulation changed, in one sentence.
fn primal_sentence(primal: &PrimalReport, report: &Report) -> String {
    let PrimalReport { attractor, dual_supports, unchanged, .. } = primal;
    if *unchanged == report.subproblems.len() {
        return format!(
            "penalty {attractor}: the Gram matrix of the {dual_supports} supports is not rank-deficient, so their \
             coefficients are the only ones"
        );
    }
    let reduction = 100.0 * (1.0 - report.supports as f64 / (*dual_supports).max(1) as f64);
    format!(
        "penalty {attractor}: {dual_supports} supports of the dual solution become {} ({reduction:.1} % less), penalised \
         ones {} become {}; relative |W - W~| {:.1e}, scores differ by at most {:.1e}",
        report.supports, primal.drawn[0], primal.drawn[1], primal.error, primal.score_change,
    )
}

/// The same in one sentence.
fn linear_sentence(linear: &LinearReport) -> String {
    let bytes = linear.example_bytes as f64 / linear.nonzeros.max(1) as f64;
    let place = match linear.chunks {
        Some(chunks) => format!("{chunks} chunks in a temporary file"),
        None => format!("{bytes:.1} bytes per non-zero"),
    };
    if let Some(weights) = linear.weights {
        return format!("{weights} non-zero weights; values not binned, {place}");
    }
    if linear.bins == "off" {
        return format!("values not binned, {place}");
    }
    format!(
        "{} bins, rank {}, relative error of the kernel {:.1e} (at most {:.1e} of its largest value), \
         {place}",
        linear.bins, linear.rank, linear.factor.relative_error, linear.factor.worst_error,
    )
}

fn low_rank_summary(report: &LowRankReport, console: &Console) {
    console.summary(&format!(
        "rank {}, {:.2} % of the trace left; {} pivots, {}, {} precision, {:.0} MiB{}",
        report.rank,
        100.0 * report.trace_share,
        report.pivots,
        report.method,
        report.precision,
        report.factor_bytes as f64 / f64::from(1 << 20),
        if report.on_disk { " in a temporary file" } else { "" },
    ));
    if let Some(bound) = report.trace_bound.filter(|bound| report.trace > *bound) {
        console.summary(&format!(
            "a trace of {:.1e} is left, more than the {bound:e} asked for: a higher rank was not allowed, or rounding ended it",
            report.trace
        ));
    }
    let sum = |of: fn(&mercer::train::ApproximationReport) -> f64| {
        report.approximation.iter().map(of).sum::<f64>()
    };
    let about = if report.approximation.iter().all(|lost| lost.is_exact) { "" } else { "about " };
    console.summary(&format!(
        "low-rank error: {about}{:.3e} of the objective {:.6e} (bound of theorem 1: {:.1e} with {} support vectors); gap {:.1e} on the low-rank \
         problem, {about}{:.3e} on the original one",
        sum(|lost| lost.quadratic),
        sum(|lost| lost.objective),
        sum(|lost| lost.bound),
        sum(|lost| lost.supports as f64),
        sum(|lost| lost.gap),
        sum(|lost| lost.original_gap),
    ));
    if let Some(guard) = &report.guard {
        console.summary(&guard.sentence);
    }
    if let Some(polish) = &report.polish {
        console.summary(&format!(
            "polished: {} iterations on {} active examples, then {} iterations on all",
            polish.active_steps, polish.active_examples, polish.steps,
        ));
    }
}

/// Quality on examples that the machines were not trained on.
pub(super) struct Validations<'v> {
    pub(super) cross_validation: Option<&'v Validation>,
    pub(super) leave_one_out: Option<&'v Validation>,
}

/// The report as one JSON object.
pub(super) fn object(report: &Report, validations: &Validations<'_>) -> Value {
    let mut object = json!({
        "seconds": report.seconds, "iterations": report.iterations,
        "converged": report.converged, "objective": report.objective, "gap": report.gap,
        "supports": report.supports, "support_vectors": support_vectors(report),
        "bounded": report.bounded,
        "peak_memory_bytes": report.peak_memory_bytes,
        "violation": report.violation, "linear": report.linear.as_deref().map(linear_object),
        "low_rank": report.low_rank.as_deref().map(low_rank_object),
        "primal": report.primal.as_deref().map(primal_object),
        "chosen": report.chosen,
    });
    if let Some(validation) = validations.cross_validation {
        object["cross_validation"] = json!({
            "measure": validation.measure.name(), "quality": validation.quality,
            "folds": validation.folds, "correlation": validation.correlation,
            "converged": validation.converged, "seconds": validation.seconds,
        });
    }
    if let Some(system) = &report.system {
        object["system"] = json!({ "rank": system.rank, "trace_left": system.trace_left });
    }
    if let Some(left_out) = validations.leave_one_out {
        object["leave_one_out"] = json!({
            "measure": left_out.measure.name(), "quality": left_out.quality,
            "correlation": left_out.correlation,
        });
    }
    object
}

/// Support vectors of all binary subproblems: an example may be one in several of them.
fn support_vectors(report: &Report) -> usize {
    report.subproblems.iter().map(|subproblem| subproblem.supports).sum()
}

/// Supports and bounded support vectors; both are counted over the same vectors.
fn supports_sentence(report: &Report) -> String {
    let (distinct, all, bounded) = (report.supports, support_vectors(report), report.bounded);
    let problems = report.subproblems.len();
    if all == distinct && problems == 1 {
        return format!("{distinct} supports, {bounded} of them bounded (alpha = C)");
    }
    let of =
        if problems == 1 { String::new() } else { format!(" of {problems} binary subproblems") };
    format!(
        "{distinct} distinct supports; of the {all} support vectors{of}, {bounded} are bounded (alpha = C)"
    )
}

/// The report as text on standard error.
pub(super) fn print(
    output: &Path,
    model: &Model,
    report: &Report,
    validations: &Validations<'_>,
    console: &Console,
) {
    if let Some(chosen) = &report.chosen {
        console.summary(chosen);
    }
    if let Some(low_rank) = &report.low_rank {
        low_rank_summary(low_rank, console);
    }
    if let Some(primal) = &report.primal {
        console.summary(&primal_sentence(primal, report));
    }
    if let Some(linear) = &report.linear {
        console.summary(&linear_sentence(linear));
    }
    if let Some(rank) = report.system.and_then(|system| system.rank) {
        let left = report.system.map_or(0.0, |system| system.trace_left);
        console.summary(&format!("low rank: {rank} pivots, {left:.1e} of the kernel's trace left"));
    }
    if let Some(left_out) = validations.leave_one_out {
        let name = left_out.measure.name();
        console.summary(&format!("leave-one-out {name} {:.6}", left_out.quality));
    }
    console.summary(&format!(
        "{}: {}, {}, {}",
        output.display(),
        model.machine.kernel().spec(),
        describe(&model.machine),
        supports_sentence(report),
    ));
    console.summary(&format!(
        "objective {:.8}, gap {:.2e}, {} iterations, {}, {:.0} MiB",
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
