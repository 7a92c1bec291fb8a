use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::linear::Identity;
use crate::{Domain, Form, Kernel, KernelRef, Term};

/// `K(u, v) = Σ ((u_j^p + v_j^p) / 2)^(1/p)`, the power mean family of [YW12].
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

    fn metal(&self) -> Option<mercer_simd::Term> {
        Some(mercer_simd::Term::PowerMean(self.p))
    }

    fn vanishes_at_zero(&self) -> bool {
        self.p <= 0.0
    }

    /// Each term lies between its two values, and `κ(u, u) = u`.
    fn magnitude(&self, uu: f64, vv: f64) -> f64 {
        if self.p <= 0.0 { (uu * vv).sqrt() } else { uu + vv }
    }

    fn rounding(&self) -> f64 {
        // The mean is high * ((1 + t^|p|) / 2)^(1/p) with t <= 1; exp and ln cost a few units each and the
        // logarithm of t is multiplied by |p| before it is exponentiated.
        64.0 + 16.0 * self.p.abs().min(1e6)
    }
}
