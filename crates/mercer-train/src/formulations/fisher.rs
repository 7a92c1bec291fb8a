//! `fisher`: the kernel Fisher discriminant, solved as a linear system (solver `direct`).

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, ProblemForm, Subproblem, needs_direct_solver};
use crate::systems::System;
use crate::{Qp, TrainError};

/// Kernel Fisher discriminant (\[MRWSM99\]) as least squares: the targets `W / W_+` and `-W / W_-` (W is the sum of
/// the weights) give Fisher's direction. The threshold is the mean of all projections.
///
/// `(K + diag(1/(C w))) β - b = t`, `Σ β = 0`. The scores are those of `ls_svm`, scaled and shifted; the labels
/// differ from those of `ls_svm` only where the classes differ in weight.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "fisher",
    summary: "classification by the kernel Fisher discriminant; a linear system, so every example is a support (solver direct)",
    parameters: &[Parameter {
        name: "C",
        kind: Kind::POSITIVE,
        default: Some("1"),
        help: "penalty of squared errors; 1/C is the ridge",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(Fisher { c: checked.number("C") })),
};

#[derive(Debug)]
struct Fisher {
    c: f64,
}

/// Targets of the two classes, given the total weight of each.
fn targets(plus: f64, minus: f64) -> (f64, f64) {
    let all = plus + minus;
    (all / plus, -all / minus)
}

/// Total weight of each class.
fn sums(subproblem: &Subproblem<'_>) -> (f64, f64) {
    let sum = |sign: f64| {
        let side = subproblem.targets.iter().zip(subproblem.weights).filter(|(y, _)| **y == sign);
        side.map(|(_, weight)| weight).sum::<f64>()
    };
    (sum(1.0), sum(-1.0))
}

impl Formulation for Fisher {
    fn spec(&self) -> Spec {
        Spec::new("fisher").set("C", self.c)
    }

    fn goal(&self) -> Goal {
        Goal::Classes
    }

    fn form(&self) -> ProblemForm {
        ProblemForm::LinearSystem
    }

    fn quadratic_program(&self, _: &Subproblem<'_>) -> Result<Qp, TrainError> {
        Err(needs_direct_solver("fisher"))
    }

    fn system(&self, subproblem: &Subproblem<'_>) -> Option<System> {
        let (plus, minus) = sums(subproblem);
        let (high, low) = targets(plus, minus);
        Some(System {
            targets: subproblem.targets.iter().map(|y| if *y > 0.0 { high } else { low }).collect(),
            ridge: subproblem.weights.iter().map(|weight| 1.0 / (self.c * weight)).collect(),
            has_bias: true,
        })
    }

    /// Leaving one example out changes the targets of all others. With a bias, the new targets `a t + d` give
    /// the score `a f + d`.
    fn correct_leave_one_out(&self, subproblem: &Subproblem<'_>, scores: &mut [f64]) {
        let (plus, minus) = sums(subproblem);
        let (high, low) = targets(plus, minus);
        for ((score, y), weight) in
            scores.iter_mut().zip(subproblem.targets).zip(subproblem.weights)
        {
            let (plus, minus) =
                if *y > 0.0 { (plus - weight, minus) } else { (plus, minus - weight) };
            // Without the last example of a class there is no discriminant: the score stays.
            if plus > 0.0 && minus > 0.0 {
                let (new_high, new_low) = targets(plus, minus);
                let stretch = (new_high - new_low) / (high - low);
                *score = new_low + stretch * (*score - low);
            }
        }
    }
}
