//! `squared_hinge`: the SVM with squared hinge loss, for the linear and additive solvers; it has no quadratic
//! program here.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, ProblemForm, Subproblem, needs_additive_solver};
use crate::{Loss, Qp, TrainError};

/// `min ½|w|² + C Σ w_i max(0, 1 - y_i f(x_i))²` (\[HCLKS08\]); solved by the linear and additive
/// solvers.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "squared_hinge",
    summary: "classification; squared hinge loss times C (linear and additive solvers)",
    parameters: &[Parameter {
        name: "C",
        kind: Kind::POSITIVE,
        default: Some("1"),
        help: "penalty of margin violations",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(SquaredHinge { c: checked.number("C") })),
};

#[derive(Debug)]
struct SquaredHinge {
    c: f64,
}

impl Formulation for SquaredHinge {
    fn spec(&self) -> Spec {
        Spec::new("squared_hinge").set("C", self.c)
    }

    fn goal(&self) -> Goal {
        Goal::Classes
    }

    fn form(&self) -> ProblemForm {
        ProblemForm::SumOfLosses
    }

    fn loss(&self) -> Option<Loss> {
        Some(Loss::SquaredHinge { c: self.c })
    }

    fn quadratic_program(&self, _: &Subproblem<'_>) -> Result<Qp, TrainError> {
        Err(needs_additive_solver("squared_hinge"))
    }
}
