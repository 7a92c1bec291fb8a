//! The Gaussian (RBF) kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_simd::Isa;
use mercer_spec::{Entry, Kind, Parameter, Spec};

use crate::bound::{UNIT, capped};
use crate::{ExponentialForm, Finish, Form, Kernel, KernelRef, Profile};

/// `K(u, v) = exp(-gamma |u - v|²)`
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "rbf",
    summary: "exp(-gamma |u - v|²)",
    parameters: &[Parameter {
        name: "gamma",
        kind: Kind::POSITIVE,
        default: None,
        help: "inverse squared width",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(Rbf { gamma: checked.number("gamma") })),
};

#[derive(Debug)]
struct Rbf {
    gamma: f64,
}

impl Kernel for Rbf {
    fn form(&self) -> Form<'_> {
        Form::Shift(self)
    }

    fn is_positive_semidefinite(&self) -> bool {
        true
    }

    fn spec(&self) -> Spec {
        Spec::new("rbf").set("gamma", self.gamma)
    }
}

impl Finish for Rbf {
    fn finish(&self, isa: Isa, sums: &mut [f64], uu: f64, vv: &[f64]) {
        mercer_simd::gaussian(isa, sums, uu, vv, self.gamma);
    }

    fn bound(&self, _: f64, _: f64, _: f64) -> f64 {
        1.0 + 1e-10
    }

    fn self_bound(&self, _: f64) -> f64 {
        1.0
    }

    /// `|u - v|²` is wrong by at most `E = (relative + 3u)(|u| + |v|)² <= 2 (relative + 3u)(uu + vv)`;
    /// clamping at zero only helps. exp(-t) is Lipschitz with constant 1 for t >= 0, the product with
    /// gamma adds `u t exp(-t) <= u / e`, and exp itself its relative error.
    fn error(&self, relative: f64, uu: f64, vv: f64, _: f64) -> f64 {
        exponential_error(self.gamma, 2.0 * (relative + 3.0 * UNIT) * (uu + vv))
    }

    fn relative_error(&self, _: f64) -> Option<f64> {
        None
    }

    fn profile(&self) -> Profile {
        Profile::Gaussian { gamma: self.gamma }
    }

    fn exponential(&self) -> Option<ExponentialForm> {
        Some(ExponentialForm::OfDistance { gamma: self.gamma })
    }
}

/// Error of a computed `exp(-gamma t)`, `t >= 0` known to within `error`. Nothing is claimed where sums may
/// overflow: their difference is NaN.
pub(super) fn exponential_error(gamma: f64, error: f64) -> f64 {
    if !error.is_finite() {
        return f64::INFINITY;
    }
    capped(gamma * error * (1.0 + 4.0 * UNIT), 1.0)
        + UNIT
        + mercer_simd::EXP_RELATIVE_ERROR * (1.0 + 1e-6)
        + f64::MIN_POSITIVE
}
