//! `one_class`: novelty detection, as LIBSVM's one-class SVM.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, Subproblem, fill};
use crate::{Qp, TrainError};

/// One-class SVM (\[SPSSW01\], \[CL11\] eq. 7): at most a share ν of the examples lies
/// outside.
///
/// Dual: `min ½ β'Kβ`, `0 <= β_i <= w_i`, `Σ β = ν Σ w` (LIBSVM's scaling).
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "one_class",
    summary: "novelty detection (one-class SVM); at most a share nu of the examples lies outside",
    parameters: &[Parameter {
        name: "nu",
        kind: Kind::Number { low: 0.0, high: 1.0, closed: true },
        default: Some("0.5"),
        help: "upper bound of the share of examples outside, lower bound of the share of support vectors",
    }],
    variadic: false,
    build: |checked| {
        let nu = checked.number("nu");
        if nu <= 0.0 {
            return Err(checked.refuse("nu must be above 0"));
        }
        Ok(Arc::new(OneClass { nu }))
    },
};

#[derive(Debug)]
struct OneClass {
    nu: f64,
}

impl Formulation for OneClass {
    fn spec(&self) -> Spec {
        Spec::new("one_class").set("nu", self.nu)
    }

    fn goal(&self) -> Goal {
        Goal::Novelty
    }

    fn quadratic_program(&self, subproblem: &Subproblem<'_>) -> Result<Qp, TrainError> {
        let rows = subproblem.weights.len();
        let total = self.nu * subproblem.weights.iter().sum::<f64>();
        Ok(Qp {
            rows,
            lower: vec![0.0; rows],
            upper: subproblem.weights.to_vec(),
            linear: vec![0.0; rows],
            start: fill(total, subproblem.weights.iter().copied()),
            groups: vec![0; rows],
        })
    }
}
