//! `epsilon_svr`: regression with the ε-insensitive loss, as LIBSVM's epsilon-SVR.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, Subproblem};
use crate::{Loss, Qp, TrainError};

/// ε-SVR (\[Vap98\], \[CL11\] eq. 10): errors up to ε are free, the rest costs C per unit.
///
/// Dual: variables `0 <= β_i <= C w_i` with `q_i = ε - y_i`, and `-C w_i <= β_{n+i} <= 0` with
/// `q_{n+i} = -(ε + y_i)`; `Σ β = 0`.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "epsilon_svr",
    summary: "regression (epsilon-SVR); epsilon-insensitive loss times C",
    parameters: &[
        Parameter {
            name: "C",
            kind: Kind::POSITIVE,
            default: Some("1"),
            help: "penalty of errors beyond epsilon",
        },
        Parameter {
            name: "epsilon",
            kind: Kind::Number { low: 0.0, high: f64::INFINITY, closed: true },
            default: Some("0.1"),
            help: "half-width of the tube; smaller errors cost nothing",
        },
    ],
    variadic: false,
    build: |checked| {
        let (c, epsilon) = (checked.number("C"), checked.number("epsilon"));
        if !epsilon.is_finite() {
            return Err(checked.refuse("epsilon must be finite"));
        }
        Ok(Arc::new(EpsilonSvr { c, epsilon }))
    },
};

#[derive(Debug)]
struct EpsilonSvr {
    c: f64,
    epsilon: f64,
}

impl Formulation for EpsilonSvr {
    fn spec(&self) -> Spec {
        Spec::new("epsilon_svr").set("C", self.c).set("epsilon", self.epsilon)
    }

    fn goal(&self) -> Goal {
        Goal::Value
    }

    fn loss(&self) -> Option<Loss> {
        Some(Loss::EpsilonInsensitive { c: self.c, epsilon: self.epsilon })
    }

    fn quadratic_program(&self, subproblem: &Subproblem<'_>) -> Result<Qp, TrainError> {
        let rows = subproblem.targets.len();
        let zeros = vec![0.0; rows];
        let limits: Vec<f64> = subproblem.weights.iter().map(|w| self.c * w).collect();
        let below = subproblem.targets.iter().map(|y| self.epsilon - y);
        let above = subproblem.targets.iter().map(|y| -(self.epsilon + y));
        Ok(Qp {
            rows,
            lower: zeros.iter().copied().chain(limits.iter().map(|limit| -limit)).collect(),
            upper: limits.iter().copied().chain(zeros.iter().copied()).collect(),
            linear: below.chain(above).collect(),
            start: vec![0.0; 2 * rows],
            groups: vec![0; 2 * rows],
        })
    }
}
