use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, Part};
use crate::{Loss, Qp, TrainError};

/// `min ½|w|² + C Σ w_i ξ_i`, `y_i f(x_i) >= 1 - ξ_i` (\[CV95\], \[CL11\] eq. 1).
///
/// Dual in β = y α: `min ½ β'Kβ - y'β`, `0 <= y_i β_i <= C w_i`, `Σ β = 0`.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "c_svc",
    summary: "classification; errors cost C each",
    parameters: &[Parameter {
        name: "C",
        kind: Kind::POSITIVE,
        default: Some("1"),
        help: "price of an error",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(CSvc { price: checked.number("C") })),
};

#[derive(Debug)]
struct CSvc {
    price: f64,
}

impl Formulation for CSvc {
    fn spec(&self) -> Spec {
        Spec::new("c_svc").set("C", self.price)
    }

    fn goal(&self) -> Goal {
        Goal::Classes
    }

    fn loss(&self) -> Option<Loss> {
        Some(Loss::Hinge { price: self.price })
    }

    fn quadratic_program(&self, part: &Part<'_>) -> Result<Qp, TrainError> {
        part.check_sides()?;
        let rows = part.targets.len();
        let sides = part.targets.iter().zip(part.weights);
        Ok(Qp {
            rows,
            lower: sides.clone().map(|(y, w)| (y * self.price * w).min(0.0)).collect(),
            upper: sides.map(|(y, w)| (y * self.price * w).max(0.0)).collect(),
            linear: part.targets.iter().map(|y| -y).collect(),
            start: vec![0.0; rows],
            groups: vec![0; rows],
        })
    }
}
