//! From solutions over a factor to scores over its pivots, and the report of the factor.

use mercer_kernel::factor::Blocked;
use mercer_simd::Real;

use super::problem::{FactorQp, LowRankProblem, SolvedProgram};
use super::{ApproximationReport, LowRank, LowRankReport, Rule, approximation};
use crate::backend::{Fit, FittedScores};
use crate::conclude::conclude;
use crate::control::Control;
use crate::{Expansion, SubproblemReport, TrainError};

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
        pivots: match solver.pivots {
            Rule::Auto => "random, then solution_aware",
            other => other.name(),
        },
        precision: if T::BYTES == 4 { "single" } else { "double" },
        method: method(solved),
        systems: solver.systems.name(),
        iterations: solved.iter().map(|one| one.found.iterations).sum(),
        coordinate_updates: solved.iter().map(|one| one.found.updates).sum(),
        switched: solved.iter().any(|one| one.switched),
        fallbacks: solved.iter().map(|one| one.found.fallbacks).sum(),
        running_gap: solved.iter().map(|one| one.found.running_gap).fold(0.0, f64::max),
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
    let interior = solved.iter().filter(|one| one.found.iterations > 0).count();
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
    let measure = |(program, one): (&FactorQp, &SolvedProgram)| {
        if control.stop().is_some() {
            return approximation::sampled(problem, factor, program, one, problem.solver.seed);
        }
        approximation::measure(problem, factor, program, one)
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
    for (program, one) in programs.iter().zip(solved) {
        let found = &one.found;
        let is_constant = found.w.iter().all(|w| *w == 0.0);
        let multipliers = &found.evaluation.multipliers;
        let ended_early = found.stop.is_some();
        let formulation = problem.formulation;
        let end = conclude(formulation, multipliers, &program.targets, is_constant, ended_early)?;
        let beta = factor.coefficients(&found.w);
        expansions.push(Expansion {
            examples: pivots.clone(),
            coefficients: beta.iter().map(|beta| end.scale * beta).collect(),
            offset: end.offset,
        });
        reports.push(subproblem_report(problem, program, one, end.scale));
    }
    let scores = FittedScores::Expansions { blocks: vec![pivots], expansions };
    Ok(Fit {
        stop: solved.iter().filter_map(|one| one.found.stop).next_back(),
        kernel_values: (problem.examples.len() * factor.rank()) as u64,
        peak_memory_bytes: factor.store().bytes() + problem.source.diagonal.len() * 8,
        ..Fit::new(scores, reports)
    })
}

fn subproblem_report(
    problem: &LowRankProblem<'_>,
    program: &FactorQp,
    one: &SolvedProgram,
    scale: f64,
) -> SubproblemReport {
    let found = &one.found;
    let report = SubproblemReport {
        converged: found.evaluation.relative() <= problem.training().tolerance_used(),
        iterations: found.updates + found.iterations as u64,
        objective: scale * scale * found.evaluation.objective,
        gap: scale * scale * found.evaluation.gap,
        violation: found.evaluation.relative(),
        ..SubproblemReport::unsolved(program.name.clone())
    };
    report.with_point(&program.qp, &found.point.beta(&program.qp))
}
