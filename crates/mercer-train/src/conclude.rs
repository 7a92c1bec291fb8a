//! How the solution of a quadratic program becomes the score of a machine.
//! How scores become a machine is in [`crate::assemble`].

use crate::{Conclusion, FormulationRef, TrainError};

/// Scale and offset of a score. A solution that ended early always has one.
///
/// Without support vectors (`is_constant`) the score is a constant: the sign of the larger class.
pub(crate) fn conclude(
    formulation: &FormulationRef,
    multipliers: &[f64],
    targets: &[f64],
    is_constant: bool,
    ended_early: bool,
) -> Result<Conclusion, TrainError> {
    let conclusion = match (formulation.conclude(multipliers), ended_early) {
        (Err(_), true) => Conclusion { scale: 1.0, offset: multipliers[0] },
        (conclusion, _) => conclusion?,
    };
    let offset = if is_constant { majority(targets, conclusion.offset) } else { conclusion.offset };
    Ok(Conclusion { offset, ..conclusion })
}

/// The offset of a constant score: that of the larger class, or `otherwise` if targets are not classes.
pub(crate) fn majority(targets: &[f64], otherwise: f64) -> f64 {
    let balance: f64 = targets.iter().filter(|y| y.abs() == 1.0).sum();
    if targets.iter().all(|y| y.abs() == 1.0) {
        if balance >= 0.0 { -1.0 } else { 1.0 }
    } else {
        otherwise
    }
}

/// The score where the other folds lack a class of a subproblem, or both.
pub(crate) fn one_sided_score(has_plus: bool, has_minus: bool) -> Option<f64> {
    match (has_plus, has_minus) {
        (true, true) => None,
        (true, false) => Some(1.0),
        (false, true) => Some(-1.0),
        (false, false) => Some(0.0),
    }
}
