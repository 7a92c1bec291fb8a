//! `nu_svc`: the SVM with ν instead of C, as LIBSVM's nu-SVC.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::{Formulation, FormulationEntry, Goal, ScaleAndOffset, Subproblem, fill};
use crate::{Qp, TrainError};

/// ν-SVC (\[SSWB00\], \[CL11\] eq. 3): ν is an upper bound of the share of margin errors and a lower bound of
/// the share of support vectors.
///
/// Dual in β = y α: `min ½ β'Kβ`, `0 <= y_i β_i <= w_i`, `Σ_{y=1} β = -Σ_{y=-1} β = ν Σ w / 2`. With the
/// multipliers `r_+`, `r_-` of the two sums the machine is `(β / r, (r_+ + r_-) / 2r)`, `r = (r_+ - r_-) / 2`.
pub(super) static ENTRY: FormulationEntry = FormulationEntry {
    name: "nu_svc",
    summary: "classification (nu-SVC); nu bounds the share of margin errors",
    parameters: &[Parameter {
        name: "nu",
        kind: Kind::Number { low: 0.0, high: 1.0, closed: true },
        default: Some("0.5"),
        help: "upper bound of the share of margin errors, lower bound of the share of support vectors",
    }],
    variadic: false,
    build: |checked| {
        let nu = checked.number("nu");
        if nu <= 0.0 {
            return Err(checked.refuse("nu must be above 0"));
        }
        Ok(Arc::new(NuSvc { nu }))
    },
};

/// Half-margins up to this count as zero, an error; LIBSVM divides by them all the same.
const LEAST_MARGIN: f64 = 1e-12;

#[derive(Debug)]
struct NuSvc {
    nu: f64,
}

impl Formulation for NuSvc {
    fn spec(&self) -> Spec {
        Spec::new("nu_svc").set("nu", self.nu)
    }

    fn goal(&self) -> Goal {
        Goal::Classes
    }

    fn can_be_infeasible(&self) -> bool {
        true
    }

    fn quadratic_program(&self, subproblem: &Subproblem<'_>) -> Result<Qp, TrainError> {
        subproblem.check_signs()?;
        let sides = || subproblem.targets.iter().zip(subproblem.weights);
        let all: f64 = subproblem.weights.iter().sum();
        let half = self.nu * all / 2.0;
        let weight = |sign: f64| sides().filter(|(y, _)| **y == sign).map(|(_, w)| w).sum::<f64>();
        let smaller = weight(1.0).min(weight(-1.0));
        // The tolerance covers rounding errors of the sums.
        if half > smaller * (1.0 + 1e-12) {
            return Err(TrainError::InfeasibleNu {
                subproblem: subproblem.name.to_owned(),
                nu: self.nu,
                limit: 2.0 * smaller / all,
            });
        }
        let limit = |sign: f64| sides().map(move |(y, w)| if *y == sign { *w } else { 0.0 });
        let (plus, minus) = (fill(half, limit(1.0)), fill(half, limit(-1.0)));
        let rows = subproblem.targets.len();
        Ok(Qp {
            rows,
            lower: sides().map(|(y, w)| (y * w).min(0.0)).collect(),
            upper: sides().map(|(y, w)| (y * w).max(0.0)).collect(),
            linear: vec![0.0; rows],
            start: plus.iter().zip(&minus).map(|(plus, minus)| plus - minus).collect(),
            groups: subproblem.targets.iter().map(|y| u8::from(*y < 0.0)).collect(),
        })
    }

    fn scale_and_offset(&self, multipliers: &[f64]) -> Result<ScaleAndOffset, TrainError> {
        let margin = (multipliers[0] - multipliers[1]) / 2.0;
        if margin <= LEAST_MARGIN {
            return Err(TrainError::NoMargin { nu: self.nu, margin });
        }
        let middle = f64::midpoint(multipliers[0], multipliers[1]);
        Ok(ScaleAndOffset { scale: 1.0 / margin, offset: middle / margin })
    }
}
