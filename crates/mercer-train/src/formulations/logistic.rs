//! `logistic`: logistic regression, for the linear and additive solvers; it has no quadratic program.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, ProblemForm, Subproblem, needs_additive_solver};
use crate::{Loss, Qp, TrainError};

/// `min ½|w|² + C Σ w_i ln(1 + exp(-y_i f(x_i)))` (\[YHL11\]); solved by the linear and additive solvers.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "logistic",
    summary: "classification by logistic regression; scores are log odds (linear and additive solvers)",
    parameters: &[Parameter {
        name: "C",
        kind: Kind::POSITIVE,
        default: Some("1"),
        help: "penalty of the logistic loss",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(Logistic { c: checked.number("C") })),
};

#[derive(Debug)]
struct Logistic {
    c: f64,
}

impl Formulation for Logistic {
    fn spec(&self) -> Spec {
        Spec::new("logistic").set("C", self.c)
    }

    fn goal(&self) -> Goal {
        Goal::Classes
    }

    fn form(&self) -> ProblemForm {
        ProblemForm::SumOfLosses
    }

    fn loss(&self) -> Option<Loss> {
        Some(Loss::Logistic { c: self.c })
    }

    fn quadratic_program(&self, _: &Subproblem<'_>) -> Result<Qp, TrainError> {
        Err(needs_additive_solver("logistic"))
    }
}
