use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, Subproblem, tables_only};
use crate::{Loss, Qp, TrainError};

/// `min ½|w|² + C Σ w_i ln(1 + exp(-y_i f(x_i)))` (\[YHL11\]); solved by `additive` and its kin.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "logistic",
    summary: "classification by logistic regression; scores are log odds",
    parameters: &[Parameter {
        name: "C",
        kind: Kind::POSITIVE,
        default: Some("1"),
        help: "penalty of an error",
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

    fn loss(&self) -> Option<Loss> {
        Some(Loss::Logistic { c: self.c })
    }

    fn quadratic_program(&self, _: &Subproblem<'_>) -> Result<Qp, TrainError> {
        Err(tables_only("logistic"))
    }
}
