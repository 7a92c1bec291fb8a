//! `ridge`: kernel ridge regression, solved as a linear system (solver `direct`).

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, ProblemForm, Subproblem, needs_direct_solver};
use crate::systems::System;
use crate::{Qp, TrainError};

/// Kernel ridge regression (\[SGV98\]): `min ½ λ|w|² + ½ Σ w_i (y_i - f(x_i))²`, by
/// `(K + λ diag(1/w)) β = y`; with a bias also `Σ β = 0`, which is the least-squares SVM for
/// regression.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "ridge",
    summary: "kernel ridge regression; a linear system, so every example is a support (solver direct)",
    parameters: &[
        Parameter {
            name: "lambda",
            kind: Kind::POSITIVE,
            default: Some("1"),
            help: "regularisation strength, the factor of |w|²",
        },
        Parameter {
            name: "bias",
            kind: Kind::Word(&["no", "yes"]),
            default: Some("no"),
            help: "whether to fit an intercept",
        },
    ],
    variadic: false,
    build: |checked| {
        let has_bias = checked.spec("bias").is_some_and(|word| word.name() == "yes");
        Ok(Arc::new(Ridge { lambda: checked.number("lambda"), has_bias }))
    },
};

#[derive(Debug)]
struct Ridge {
    lambda: f64,
    has_bias: bool,
}

impl Formulation for Ridge {
    fn spec(&self) -> Spec {
        let bias = if self.has_bias { "yes" } else { "no" };
        Spec::new("ridge").set("lambda", self.lambda).set("bias", bias)
    }

    fn goal(&self) -> Goal {
        Goal::Value
    }

    fn form(&self) -> ProblemForm {
        ProblemForm::LinearSystem
    }

    fn quadratic_program(&self, _: &Subproblem<'_>) -> Result<Qp, TrainError> {
        Err(needs_direct_solver("ridge"))
    }

    fn system(&self, subproblem: &Subproblem<'_>) -> Option<System> {
        Some(System {
            targets: subproblem.targets.to_vec(),
            ridge: subproblem.weights.iter().map(|weight| self.lambda / weight).collect(),
            has_bias: self.has_bias,
        })
    }
}
