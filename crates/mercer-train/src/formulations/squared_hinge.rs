use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, Subproblem, tables_only};
use crate::{Loss, Qp, TrainError};

/// `min ½|w|² + C Σ w_i max(0, 1 - y_i f(x_i))²` (\[HCLKS08\]); solved by `additive` and its kin.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "squared_hinge",
    summary: "classification; errors cost C times their square",
    parameters: &[Parameter {
        name: "C",
        kind: Kind::POSITIVE,
        default: Some("1"),
        help: "penalty of an error",
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

    fn loss(&self) -> Option<Loss> {
        Some(Loss::SquaredHinge { c: self.c })
    }

    fn quadratic_program(&self, _: &Subproblem<'_>) -> Result<Qp, TrainError> {
        Err(tables_only("squared_hinge"))
    }
}
