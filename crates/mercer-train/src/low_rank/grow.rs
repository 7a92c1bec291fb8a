//! Grows the low-rank factor; intermediate solutions show which rows matter and whether the rank suffices.
//! Pivots are drawn and columns computed in [`mercer_kernel::factor`].

use mercer_kernel::factor::{Blocked, Draw, GrowthLimit};
use mercer_simd::Real;

use super::approximation;
use super::factor_rows::FactorRows;
use super::problem::{FactorQp, LowRankProblem, SolvedProgram};
use super::{LowRank, Rule};
use crate::TrainError;
use crate::control::Control;
use crate::gram::GramValue;

/// Rank of the first intermediate solution.
const FIRST_RANK: usize = 256;
/// The largest rank with `rank=auto`.
pub(super) const LARGEST_RANK: usize = 2048;
/// Once the residual trace is below this share, pivots are the rows of largest residual (greedy).
const GREEDY_SHARE: f64 = 1e-3;
/// Relative gap of the intermediate solutions.
const INTERMEDIATE_GAP: f64 = 3e-2;
/// Minimal sampling weight of a row, whatever its coefficient.
const LEAST_WEIGHT: f64 = 1e-4;
/// If a doubling of the rank leaves more than this share of the loss, the rank grows no further.
const WORTHWHILE: f64 = 0.9;

/// Grows the factor to its final rank; returns the last intermediate solutions as a starting point.
pub(super) fn grow_factor<T: Real + GramValue>(
    factor: &mut Blocked<T>,
    rows: &FactorRows<'_>,
    problem: &LowRankProblem<'_>,
    programs: &[FactorQp],
    control: &mut Control<'_>,
) -> Result<Option<Vec<SolvedProgram>>, TrainError> {
    let solver: &LowRank = problem.solver;
    let all = rows.examples.len();
    let limit = solver.largest_rank(all);
    // The residual trace cannot fall below rounding errors.
    let floor = if T::BYTES == 4 { 1e-6 } else { 1e-14 };
    let share = solver.trace_share(problem.diagonal().iter().sum(), floor);
    let is_aware = matches!(solver.pivots, Rule::Auto | Rule::SolutionAware);
    let (mut weights, mut solved): (Option<Vec<f64>>, Option<Vec<SolvedProgram>>) = (None, None);
    let mut lost_before = f64::INFINITY;
    loop {
        let is_settled = solver.rank.is_some() || solver.trace.is_some();
        let in_one_go = solver.rank.is_some() && !is_aware;
        let target = if in_one_go { limit } else { limit.min(FIRST_RANK.max(2 * factor.rank())) };
        let rank_before = factor.rank();
        let until = GrowthLimit { rank: target, trace_share: share };
        let is_whole = grow_to_rank(factor, rows, solver, weights.as_deref(), until, control);
        if let Some(reason) = factor.store().failure() {
            return Err(TrainError::FactorFile { reason });
        }
        let has_ended = factor.rank() >= limit || factor.rank() == rank_before;
        if !is_whole || has_ended || factor.trace_share() <= share {
            return Ok(solved);
        }
        // For a bound on the trace alone the factor only needs more room.
        if is_settled && !is_aware {
            continue;
        }
        let next = problem.solve(factor, programs, solved.as_deref(), INTERMEDIATE_GAP, control)?;
        if control.stop().is_some() {
            return Ok(Some(next));
        }
        if !is_settled {
            let lost: f64 = programs
                .iter()
                .zip(&next)
                .map(|(program, result)| {
                    approximation::sampled(problem, factor, program, result, solver.seed).quadratic
                })
                .sum();
            let size: f64 =
                next.iter().map(|result| result.solution.evaluation.objective.abs()).sum();
            if lost <= solver.tolerance * size || lost > WORTHWHILE * lost_before {
                return Ok(Some(next));
            }
            lost_before = lost;
        }
        if is_aware {
            weights = Some(importance(all, programs, &next));
        }
        solved = Some(next);
    }
}

/// Grows the factor to a limit; `false` if it was stopped.
fn grow_to_rank<T: Real + GramValue>(
    factor: &mut Blocked<T>,
    rows: &FactorRows<'_>,
    solver: &LowRank,
    weights: Option<&[f64]>,
    until: GrowthLimit,
    control: &mut Control<'_>,
) -> bool {
    let mut go_on = |factor: &Blocked<T>| {
        let status = crate::control::Status {
            violation: factor.trace_share(),
            gap: f64::NAN,
            supports: factor.rank(),
        };
        control.report_and_go_on(status)
    };
    if solver.pivots == Rule::Greedy {
        return factor.grow(rows, Draw::Greedy, until, &mut go_on);
    }
    let draw = weights.map_or(Draw::Random, Draw::Weighted);
    let share = if solver.pivots == Rule::Random { 0.0 } else { GREEDY_SHARE };
    let random = GrowthLimit { trace_share: share.max(until.trace_share), ..until };
    factor.grow(rows, draw, random, &mut go_on)
        && (random == until || factor.grow(rows, Draw::Greedy, until, &mut go_on))
}

/// Sampling weight of each row: the largest `(β / bound)²` over the subproblems.
fn importance(rows: usize, programs: &[FactorQp], solved: &[SolvedProgram]) -> Vec<f64> {
    let mut weights = vec![LEAST_WEIGHT; rows];
    for (program, result) in programs.iter().zip(solved) {
        let qp = &program.qp;
        let beta = qp.fold(&result.solution.point.beta(qp));
        for (at, beta) in beta.iter().enumerate() {
            let limit = (at..qp.len())
                .step_by(qp.rows)
                .map(|v| qp.upper[v].max(-qp.lower[v]))
                .fold(0.0, f64::max);
            let row = program.rows.as_ref().map_or(at, |rows| rows[at] as usize);
            if limit > 0.0 {
                weights[row] = weights[row].max((beta / limit).powi(2) + LEAST_WEIGHT);
            }
        }
    }
    weights
}
