//! The Laplacian kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_simd::Isa;
use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::rbf::exponential_error;
use crate::{ExponentialForm, Finish, Form, Kernel, KernelRef, Term};

/// `K(u, v) = exp(-gamma Σ|u_j - v_j|)`
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "laplacian",
    summary: "exp(-gamma Σ|u_j - v_j|)",
    parameters: &[Parameter {
        name: "gamma",
        kind: Kind::POSITIVE,
        default: None,
        help: "inverse width",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(Laplacian { gamma: checked.number("gamma") })),
};

#[derive(Debug)]
struct Laplacian {
    gamma: f64,
}

impl Kernel for Laplacian {
    fn form(&self) -> Form<'_> {
        Form::Additive(self, self)
    }

    fn is_positive_semidefinite(&self) -> bool {
        true
    }

    fn spec(&self) -> Spec {
        Spec::new("laplacian").set("gamma", self.gamma)
    }
}

impl Term for Laplacian {
    fn term(&self, u: f64, v: f64) -> f64 {
        mercer_simd::Term::AbsDifference.at(u, v)
    }

    fn simd_twin(&self) -> Option<mercer_simd::Term> {
        Some(mercer_simd::Term::AbsDifference)
    }

    fn vanishes_at_zero(&self) -> bool {
        false
    }

    /// The squared norms are zero and say nothing; [`Finish::error`] below does without.
    fn magnitude(&self, _: f64, _: f64) -> f64 {
        f64::INFINITY
    }

    fn rounding(&self) -> f64 {
        1.0
    }
}

impl Finish for Laplacian {
    fn finish(&self, isa: Isa, sums: &mut [f64], _: f64, _: &[f64]) {
        for sum in &mut *sums {
            // Of a sum that overflows nothing is known: a tiny gamma may make the value anything.
            *sum = if *sum < f64::INFINITY { *sum * -self.gamma } else { f64::NAN };
        }
        mercer_simd::exp(isa, sums);
    }

    fn bound(&self, _: f64, _: f64, _: f64) -> f64 {
        1.0 + 1e-10
    }

    fn self_bound(&self, _: f64) -> f64 {
        1.0
    }

    /// All terms are positive, so the sum t has a relative error, and `t exp(-t) <= 1/e < 0.4` bounds what
    /// it does to the value (0.5 while the relative error is below one tenth).
    fn error(&self, relative: f64, _: f64, _: f64, _: f64) -> f64 {
        if relative < 0.1 { 0.5 * relative + exponential_error(0.0, 0.0) } else { 1.0 }
    }

    fn relative_error(&self, _: f64) -> Option<f64> {
        None
    }

    fn exponential(&self) -> Option<ExponentialForm> {
        Some(ExponentialForm::OfSum { gamma: self.gamma })
    }
}
