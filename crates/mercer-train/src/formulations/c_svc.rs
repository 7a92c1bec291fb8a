//! `c_svc`: the soft-margin SVM, as LIBSVM's C-SVC.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, Subproblem};
use crate::{Loss, Qp, TrainError};

/// `min ½|w|² + C Σ w_i ξ_i`, `y_i f(x_i) >= 1 - ξ_i` (\[CV95\], \[CL11\] eq. 1).
///
/// Dual in β = y α: `min ½ β'Kβ - y'β`, `0 <= y_i β_i <= C w_i`, `Σ β = 0`.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "c_svc",
    summary: "classification (C-SVC); hinge loss times C",
    parameters: &[Parameter {
        name: "C",
        kind: Kind::POSITIVE,
        default: Some("1"),
        help: "penalty of margin violations",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(CSvc { c: checked.number("C") })),
};

#[derive(Debug)]
struct CSvc {
    c: f64,
}

impl Formulation for CSvc {
    fn spec(&self) -> Spec {
        Spec::new("c_svc").set("C", self.c)
    }

    fn goal(&self) -> Goal {
        Goal::Classes
    }

    fn loss(&self) -> Option<Loss> {
        Some(Loss::Hinge { c: self.c })
    }

    fn quadratic_program(&self, subproblem: &Subproblem<'_>) -> Result<Qp, TrainError> {
        subproblem.check_signs()?;
        let rows = subproblem.targets.len();
        let sides = subproblem.targets.iter().zip(subproblem.weights);
        Ok(Qp {
            rows,
            lower: sides.clone().map(|(y, w)| (y * self.c * w).min(0.0)).collect(),
            upper: sides.map(|(y, w)| (y * self.c * w).max(0.0)).collect(),
            linear: subproblem.targets.iter().map(|y| -y).collect(),
            start: vec![0.0; rows],
            groups: vec![0; rows],
        })
    }
}
