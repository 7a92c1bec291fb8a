//! How the multipliers of a solved quadratic program become scale and offset of a score.
//! What each formulation does with them is in [`crate::formulations`]; how scores become a machine is in
//! [`crate::assemble`].

use crate::{FormulationRef, ScaleAndOffset, TrainError};

/// Scale and offset of a score. A solution that ended early always has one.
///
/// Without support vectors (`is_constant`) the score is a constant: the sign of the larger class.
pub(crate) fn scale_and_offset(
    formulation: &FormulationRef,
    multipliers: &[f64],
    targets: &[f64],
    is_constant: bool,
    ended_early: bool,
) -> Result<ScaleAndOffset, TrainError> {
    let score = match (formulation.scale_and_offset(multipliers), ended_early) {
        (Err(_), true) => ScaleAndOffset { scale: 1.0, offset: multipliers[0] },
        (score, _) => score?,
    };
    let offset = if is_constant { majority_offset(targets, score.offset) } else { score.offset };
    Ok(ScaleAndOffset { offset, ..score })
}

/// The offset of a constant score: that of the larger class, or `otherwise` if targets are not classes.
pub(crate) fn majority_offset(targets: &[f64], otherwise: f64) -> f64 {
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
