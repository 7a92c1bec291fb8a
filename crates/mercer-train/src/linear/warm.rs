//! Warm starts of linear trainings from the coefficients of an earlier one.
//! Machines are no starting point here: coefficients of all examples are needed.

use mercer_simd::Real as _;
use mercer_simd::factors::Encoding;

use super::solution::SubproblemSolution;
use super::subproblem::LinearProblem;
use super::{Duals, Loss};
use crate::{TrainError, Training};

/// Coefficients of an earlier training, scaled to the new C; none where there is no such training.
pub(super) fn warm_start<M: Encoding>(
    training: &Training,
    problem: &LinearProblem<M>,
    subproblems: usize,
) -> Result<Vec<Vec<M::Real>>, TrainError> {
    let refuse = |reason: &str| Err(TrainError::WarmStart { reason: reason.to_owned() });
    if training.duals.is_some() && problem.transposed.is_some() {
        return refuse("coefficients of examples do not make the weights of penalty=l1");
    }
    if training.warm.is_some() {
        return refuse(
            "linear and additive solvers start from coefficients (continue_from), not from machines",
        );
    }
    let Some(duals) = &training.duals else { return Ok(Vec::new()) };
    let rows = duals.subproblems.iter().all(|part| part.len() == problem.store.rows());
    if duals.subproblems.len() != subproblems || !rows {
        return refuse("it has other subproblems or other examples");
    }
    Ok(scaled(duals, problem))
}

/// Coefficients of another C.
pub(super) fn scaled<M: Encoding>(duals: &Duals, problem: &LinearProblem<M>) -> Vec<Vec<M::Real>> {
    let factor = problem.loss.c() / duals.c;
    let fit = |(row, stored): (usize, &f64)| {
        let weight = problem.weights.as_ref().map_or(1.0, |weights| weights[row].to_f64());
        let limit = match problem.loss {
            Loss::SquaredHinge { .. } => f64::INFINITY,
            _ => M::Real::from_f64(problem.loss.c() * weight).to_f64(),
        };
        let value = stored * factor;
        // What was at the old bound is at the new one, to the bit.
        M::Real::from_f64(if value.abs() >= limit * (1.0 - 1e-6) {
            limit.copysign(value)
        } else {
            value
        })
    };
    duals.subproblems.iter().map(|part| part.iter().enumerate().map(fit).collect()).collect()
}

impl Duals {
    pub(super) fn take<M: Encoding>(
        problem: &LinearProblem<M>,
        solved: &mut [Option<SubproblemSolution<M::Real>>],
    ) -> Self {
        let rows = problem.store.rows();
        let take = |part: &mut Option<SubproblemSolution<M::Real>>| match part {
            Some(part) => {
                std::mem::take(&mut part.coefficients).iter().map(|c| c.to_f64()).collect()
            }
            None => vec![0.0; rows],
        };
        Self { c: problem.loss.c(), subproblems: solved.iter_mut().map(take).collect() }
    }
}
