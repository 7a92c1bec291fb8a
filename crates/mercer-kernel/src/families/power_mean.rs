//! The power mean kernels. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::linear::Identity;
use crate::bound::capped;
use crate::{Curve, Domain, Form, Kernel, KernelRef, Term};

/// `K(u, v) = Σ ((u_j^p + v_j^p) / 2)^(1/p)`, the power mean family of \[YW12\].
///
/// p = -1 is `chi2`, p = 0 `hellinger`, p = -inf `intersection`. Semidefinite for p <= 0; for p > 0 terms
/// do not vanish where one row is zero, and nothing is proved.
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "power_mean",
    summary: "Σ ((u_j^p + v_j^p) / 2)^(1/p)",
    parameters: &[Parameter {
        name: "p",
        kind: Kind::Number { low: f64::NEG_INFINITY, high: 64.0, closed: true },
        default: Some("-1"),
        help: "exponent, -inf to 64; at most 0 for a semidefinite kernel",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(PowerMean { p: checked.number("p") })),
};

#[derive(Debug)]
struct PowerMean {
    p: f64,
}

impl Kernel for PowerMean {
    fn form(&self) -> Form<'_> {
        Form::Additive(self, &Identity)
    }

    fn is_positive_semidefinite(&self) -> bool {
        self.p <= 0.0
    }

    fn spec(&self) -> Spec {
        Spec::new("power_mean").set("p", self.p)
    }

    fn domain(&self) -> Domain {
        Domain::NonNegative
    }
}

impl Term for PowerMean {
    fn term(&self, u: f64, v: f64) -> f64 {
        mercer_simd::Term::PowerMean(self.p).at(u, v)
    }

    fn simd_twin(&self) -> Option<mercer_simd::Term> {
        Some(mercer_simd::Term::PowerMean(self.p))
    }

    fn vanishes_at_zero(&self) -> bool {
        self.p <= 0.0
    }

    /// Each term lies between its two values, and `κ(u, u) = u`.
    fn magnitude(&self, uu: f64, vv: f64) -> f64 {
        if self.p <= 0.0 { uu.sqrt() * vv.sqrt() } else { uu + vv }
    }

    /// The mean is `d exp(m)` with `m = ln((1 + e^x)/2)/p`, `x = |p| ln t`, `t = low/high`.
    ///
    /// In units of `u`, with `a = |ln t|`: `x` is wrong by `3|x| + |p|` (quotient, logarithm, product),
    /// hence `e^x - 1` by `e^x (3|x| + |p|) + 3(1 - e^x)`, and `m` by that over `(1 + e^x)|p|`, at most
    /// `min(3a, 3.3/|p|) + 1/2`, and by `5|m|` from `ln_1p` and the division, where
    /// `|m| <= min(a/2, ln 2/|p|)`. The exponential function and the product add 3:
    /// `4 + min(5.5 a, 6.8/|p|)`; `a < 1455` for finite numbers, and a shifted logarithm adds 1 to each `a`.
    ///
    /// Below [`mercer_simd::LEAST_POWER`] the geometric mean is taken, whose logarithm differs by `|p| a²/8`.
    fn rounding(&self) -> f64 {
        if self.p.abs() < mercer_simd::LEAST_POWER {
            4.0
        } else {
            4.0 + capped(7.0 / self.p.abs(), 8200.0)
        }
    }

    fn curve(&self) -> Curve {
        if self.p <= 0.0 { Curve::Concave } else { Curve::Unknown }
    }
}
