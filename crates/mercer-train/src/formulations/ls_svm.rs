//! `ls_svm`: the least-squares SVM, solved as a linear system (solver `direct`).

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, ProblemForm, Subproblem, needs_direct_solver};
use crate::systems::System;
use crate::{Qp, TrainError};

/// Least-squares SVM (\[SV99\]): `min ½|w|² + ½ C Σ w_i (y_i - f(x_i))²`, by
/// `(K + diag(1/(C w))) β - b = y`, `Σ β = 0`.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "ls_svm",
    summary: "classification by the least-squares SVM; a linear system, so every example is a support (solver direct)",
    parameters: &[Parameter {
        name: "C",
        kind: Kind::POSITIVE,
        default: Some("1"),
        help: "penalty of squared errors",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(LsSvm { c: checked.number("C") })),
};

#[derive(Debug)]
struct LsSvm {
    c: f64,
}

impl Formulation for LsSvm {
    fn spec(&self) -> Spec {
        Spec::new("ls_svm").set("C", self.c)
    }

    fn goal(&self) -> Goal {
        Goal::Classes
    }

    fn form(&self) -> ProblemForm {
        ProblemForm::LinearSystem
    }

    fn quadratic_program(&self, _: &Subproblem<'_>) -> Result<Qp, TrainError> {
        Err(needs_direct_solver("ls_svm"))
    }

    fn system(&self, subproblem: &Subproblem<'_>) -> Option<System> {
        Some(System {
            targets: subproblem.targets.to_vec(),
            ridge: subproblem.weights.iter().map(|weight| 1.0 / (self.c * weight)).collect(),
            has_bias: true,
        })
    }
}
