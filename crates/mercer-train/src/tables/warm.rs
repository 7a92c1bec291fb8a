//! Coefficients that carry over from one training to the next.

use mercer_simd::Real as _;
use mercer_simd::factors::Encoding;

use super::part::{Learned, Shared};
use super::{Duals, Loss};
use crate::{TrainError, Training};

/// Coefficients of an earlier training, fitted to the new C; none where there is no such training.
pub(super) fn warm_start<M: Encoding>(
    training: &Training,
    shared: &Shared<M>,
    questions: usize,
) -> Result<Vec<Vec<M::Real>>, TrainError> {
    let refuse = |reason: &str| Err(TrainError::WarmStart { reason: reason.to_owned() });
    if training.duals().is_some() && shared.transposed.is_some() {
        return refuse("coefficients of examples do not make the weights of penalty=l1");
    }
    if training.has_warm_machine() {
        return refuse(
            "solvers of tables start from coefficients (continue_from), not from machines",
        );
    }
    let Some(duals) = training.duals() else { return Ok(Vec::new()) };
    let rows = duals.parts.iter().all(|part| part.len() == shared.store.rows());
    if duals.parts.len() != questions || !rows {
        return refuse("it has other questions or other examples");
    }
    Ok(fitted(duals, shared))
}

/// Coefficients of another C.
pub(super) fn fitted<M: Encoding>(duals: &Duals, shared: &Shared<M>) -> Vec<Vec<M::Real>> {
    let factor = shared.loss.c() / duals.c;
    let fit = |(row, stored): (usize, &f64)| {
        let weight = shared.weights.as_ref().map_or(1.0, |weights| weights[row].to_f64());
        let limit = match shared.loss {
            Loss::SquaredHinge { .. } => f64::INFINITY,
            _ => M::Real::from_f64(shared.loss.c() * weight).to_f64(),
        };
        let value = stored * factor;
        // What was at the old limit is at the new one, to the bit.
        M::Real::from_f64(if value.abs() >= limit * (1.0 - 1e-6) {
            limit.copysign(value)
        } else {
            value
        })
    };
    duals.parts.iter().map(|part| part.iter().enumerate().map(fit).collect()).collect()
}

impl Duals {
    pub(super) fn take<M: Encoding>(
        shared: &Shared<M>,
        learned: &mut [Option<Learned<M::Real>>],
    ) -> Self {
        let rows = shared.store.rows();
        let take = |part: &mut Option<Learned<M::Real>>| match part {
            Some(part) => {
                std::mem::take(&mut part.coefficients).iter().map(|c| c.to_f64()).collect()
            }
            None => vec![0.0; rows],
        };
        Self { c: shared.loss.c(), parts: learned.iter_mut().map(take).collect() }
    }
}
