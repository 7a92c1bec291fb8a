//! `nu_svr`: regression with ν instead of ε, as LIBSVM's nu-SVR.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, ScaleAndOffset, Subproblem, fill};
use crate::{Qp, TrainError};

/// ν-SVR (\[SSWB00\], \[CL11\] eq. 12): ε is part of the solution; ν is an upper bound of the share of
/// examples outside the tube.
///
/// Dual: `0 <= β_i <= C w_i` and `-C w_i <= β_{n+i} <= 0`, both with `q = -y_i`; the first
/// group sums to `C ν Σ w / 2`, the second to its negative. b is half the sum of the two multipliers.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "nu_svr",
    summary: "regression (nu-SVR); epsilon is found so that nu bounds the share outside the tube",
    parameters: &[
        Parameter {
            name: "nu",
            kind: Kind::Number { low: 0.0, high: 1.0, closed: true },
            default: Some("0.5"),
            help: "upper bound of the share of examples outside the tube",
        },
        Parameter {
            name: "C",
            kind: Kind::POSITIVE,
            default: Some("1"),
            help: "penalty of errors outside the tube",
        },
    ],
    variadic: false,
    build: |checked| {
        let (nu, c) = (checked.number("nu"), checked.number("C"));
        if nu <= 0.0 {
            return Err(checked.refuse("nu must be above 0"));
        }
        Ok(Arc::new(NuSvr { nu, c }))
    },
};

#[derive(Debug)]
struct NuSvr {
    nu: f64,
    c: f64,
}

impl Formulation for NuSvr {
    fn spec(&self) -> Spec {
        Spec::new("nu_svr").set("nu", self.nu).set("C", self.c)
    }

    fn goal(&self) -> Goal {
        Goal::Value
    }

    fn can_be_infeasible(&self) -> bool {
        true
    }

    fn quadratic_program(&self, subproblem: &Subproblem<'_>) -> Result<Qp, TrainError> {
        let rows = subproblem.targets.len();
        let limits: Vec<f64> = subproblem.weights.iter().map(|w| self.c * w).collect();
        let half = self.nu * limits.iter().sum::<f64>() / 2.0;
        let start = fill(half, limits.iter().copied());
        let zeros = vec![0.0; rows];
        let linear = subproblem.targets.iter().map(|y| -y);
        Ok(Qp {
            rows,
            lower: zeros.iter().copied().chain(limits.iter().map(|limit| -limit)).collect(),
            upper: limits.iter().copied().chain(zeros.iter().copied()).collect(),
            linear: linear.clone().chain(linear).collect(),
            start: start.iter().copied().chain(start.iter().map(|value| -value)).collect(),
            groups: [vec![0; rows], vec![1; rows]].concat(),
        })
    }

    fn scale_and_offset(&self, multipliers: &[f64]) -> Result<ScaleAndOffset, TrainError> {
        Ok(ScaleAndOffset { scale: 1.0, offset: f64::midpoint(multipliers[0], multipliers[1]) })
    }
}
