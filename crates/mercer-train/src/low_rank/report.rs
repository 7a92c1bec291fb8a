//! From solutions over a factor to scores over its pivots, and the report of the factor.
//! Machine and report of a training are built in [`crate::report`], as for all backends.

use mercer_kernel::factor::Blocked;
use mercer_simd::Real;

use super::problem::{FactorQp, LowRankProblem, SolvedProgram};
use super::{ApproximationReport, LowRank, LowRankReport, Rule, approximation};
use crate::backend::{Fit, FittedScores};
use crate::control::Control;
use crate::{Expansion, ScaleAndOffset, SubproblemReport, TrainError};

/// Seconds spent on the factor and on the last solution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds {
    pub(super) factor: f64,
    pub(super) solve: f64,
}

/// The factor and how the programs were solved; the approximation error comes later.
pub(super) fn factor_report<T: Real>(
    solver: &LowRank,
    factor: &Blocked<T>,
    solved: &[SolvedProgram],
    seconds: Seconds,
) -> LowRankReport {
    LowRankReport {
        rank: factor.rank(),
        trace: factor.trace(),
        trace_share: factor.trace_share(),
        trace_bound: solver.trace,
        pivots: match solver.pivots {
            Rule::Auto => "random, then solution_aware",
            other => other.name(),
        },
        precision: if T::BYTES == 4 { "single" } else { "double" },
        method: method(solved),
        systems: solver.systems.name(),
        iterations: solved.iter().map(|result| result.solution.iterations).sum(),
        coordinate_updates: solved.iter().map(|result| result.solution.updates).sum(),
        switched: solved.iter().any(|result| result.switched),
        fallbacks: solved.iter().map(|result| result.solution.fallbacks).sum(),
        running_gap: solved.iter().map(|result| result.solution.running_gap).fold(0.0, f64::max),
        factor_bytes: factor.store().rows() * factor.rank() * T::BYTES,
        on_disk: factor.store().is_on_disk(),
        factor_seconds: seconds.factor,
        solve_seconds: seconds.solve,
        approximation: Vec::new(),
        guard: None,
        polish: None,
    }
}

/// The name of the method that found them.
fn method(solved: &[SolvedProgram]) -> &'static str {
    let interior = solved.iter().filter(|result| result.solution.iterations > 0).count();
    match interior {
        0 => "descent",
        all if all == solved.len() => "interior",
        _ => "descent and interior",
    }
}

/// The approximation error of each subproblem; estimated from a sample if the training was stopped.
pub(super) fn approximation_reports<T: Real>(
    problem: &LowRankProblem<'_>,
    factor: &Blocked<T>,
    programs: &[FactorQp],
    solved: &[SolvedProgram],
    control: &Control<'_>,
) -> Vec<ApproximationReport> {
    let measure = |(program, result): (&FactorQp, &SolvedProgram)| {
        if control.stop().is_some() {
            return approximation::sampled(problem, factor, program, result, problem.solver.seed);
        }
        approximation::measure(problem, factor, program, result)
    };
    programs.iter().zip(solved).map(measure).collect()
}

/// Scores over the pivots, and a report for each subproblem.
pub(super) fn low_rank_fit<T: Real>(
    problem: &LowRankProblem<'_>,
    factor: &Blocked<T>,
    programs: &[FactorQp],
    solved: &[SolvedProgram],
) -> Result<Fit, TrainError> {
    let pivots: Vec<u32> =
        factor.pivots().iter().map(|row| problem.examples[*row as usize]).collect();
    let (mut expansions, mut reports) = (Vec::new(), Vec::new());
    for (program, result) in programs.iter().zip(solved) {
        let solution = &result.solution;
        let ended_early = solution.stop.is_some();
        let ScaleAndOffset { scale, offset } =
            problem.scale_and_offset(program, result, ended_early)?;
        let beta = factor.coefficients(&solution.w);
        expansions.push(Expansion {
            examples: pivots.clone(),
            coefficients: beta.iter().map(|beta| scale * beta).collect(),
            offset,
        });
        reports.push(subproblem_report(problem, program, result, scale));
    }
    let scores = FittedScores::Expansions { example_sets: vec![pivots], expansions };
    Ok(Fit {
        stop: solved.iter().filter_map(|result| result.solution.stop).next_back(),
        kernel_values: (problem.examples.len() * factor.rank()) as u64,
        peak_memory_bytes: factor.store().bytes() + problem.source.diagonal.len() * 8,
        ..Fit::new(scores, reports)
    })
}

fn subproblem_report(
    problem: &LowRankProblem<'_>,
    program: &FactorQp,
    result: &SolvedProgram,
    scale: f64,
) -> SubproblemReport {
    let solution = &result.solution;
    let report = SubproblemReport {
        converged: solution.evaluation.relative() <= problem.training().tolerance_used(),
        iterations: solution.updates + solution.iterations as u64,
        objective: scale * scale * solution.evaluation.objective,
        gap: scale * scale * solution.evaluation.gap,
        violation: solution.evaluation.relative(),
        ..SubproblemReport::unsolved(program.name.clone())
    };
    report.with_point(&program.qp, &solution.identified)
}
