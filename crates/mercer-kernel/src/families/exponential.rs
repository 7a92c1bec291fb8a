//! The exponential kernel: a Gaussian of the distance of an inner kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_simd::Isa;
use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::rbf::exponential_error;
use super::{finish_of, form_over, inner};
use crate::bound::UNIT;
use crate::{Domain, Finish, Form, Kernel, KernelRef, Profile, form};

/// `exp(-gamma (k(u, u) + k(v, v) - 2 k(u, v)))`: the Gaussian in the feature space of the inner kernel.
///
/// With `chi2` inside the distance is `Σ (u_j - v_j)² / (u_j + v_j)`, scikit-learn's `chi2_kernel`.
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "exponential",
    summary: "exp(-gamma (inner(u, u) + inner(v, v) - 2 inner(u, v)))",
    parameters: &[
        Parameter {
            name: "inner",
            kind: Kind::Component,
            default: None,
            help: "the semidefinite kernel whose distance is used",
        },
        Parameter {
            name: "gamma",
            kind: Kind::POSITIVE,
            default: None,
            help: "inverse squared width",
        },
    ],
    variadic: false,
    build: |checked| {
        let inner = inner(checked)?;
        if !inner.is_positive_semidefinite() {
            let reason = format!("{} is not semidefinite, so it has no distance", inner.spec());
            return Err(checked.refuse(reason));
        }
        Ok(Arc::new(Exponential { inner, gamma: checked.number("gamma") }))
    },
};

#[derive(Debug)]
struct Exponential {
    inner: KernelRef,
    gamma: f64,
}

impl Exponential {
    /// The exponent of inner values.
    fn exponent(&self, value: f64, query_value: f64, row_value: f64) -> f64 {
        let distance = (-2.0f64).mul_add(value, query_value + row_value);
        // NaN (from sums that overflow) stays NaN, so that the query's score says so.
        -(self.gamma * if distance < 0.0 { 0.0 } else { distance })
    }
}

impl Kernel for Exponential {
    fn form(&self) -> Form<'_> {
        form_over(&self.inner, self)
    }

    fn is_positive_semidefinite(&self) -> bool {
        true
    }

    fn spec(&self) -> Spec {
        Spec::new("exponential").with(self.inner.spec()).set("gamma", self.gamma)
    }

    fn domain(&self) -> Domain {
        self.inner.domain()
    }
}

impl Finish for Exponential {
    fn finish(&self, isa: Isa, sums: &mut [f64], uu: f64, vv: &[f64]) {
        let inner = finish_of(&self.inner);
        inner.finish(isa, sums, uu, vv);
        let mut self_values = [vv, &[uu]].concat();
        inner.self_values(isa, &mut self_values);
        let query_value = self_values[vv.len()];
        for (sum, row_value) in sums.iter_mut().zip(self_values) {
            *sum = self.exponent(*sum, query_value, row_value);
        }
        mercer_simd::exp(isa, sums);
    }

    /// Once for each level of nested kernels: the inner self-value stands for all three.
    fn self_values(&self, isa: Isa, norms: &mut [f64]) {
        finish_of(&self.inner).self_values(isa, norms);
        for value in &mut *norms {
            *value = self.exponent(*value, *value, *value);
        }
        mercer_simd::exp(isa, norms);
    }

    fn bound(&self, _: f64, _: f64, _: f64) -> f64 {
        1.0 + 1e-10
    }

    fn self_bound(&self, _: f64) -> f64 {
        1.0
    }

    /// As for `rbf`, with the errors of the three inner values, what of them underflows, and three roundings of their sum.
    fn error(&self, relative: f64, uu: f64, vv: f64, magnitude: f64) -> f64 {
        let inner = finish_of(&self.inner);
        let wrong = |a: f64, b: f64, m: f64| inner.error(relative, a, b, m);
        let (mu, mv) = (uu * (1.0 + 1e-6), vv * (1.0 + 1e-6));
        let errors = wrong(uu, uu, mu) + wrong(vv, vv, mv) + 2.0 * wrong(uu, vv, magnitude);
        let sizes = inner.bound(uu, uu, mu)
            + inner.bound(vv, vv, mv)
            + 2.0 * inner.bound(uu, vv, magnitude);
        exponential_error(self.gamma, errors + 4.0 * UNIT * sizes + f64::MIN_POSITIVE)
    }

    fn relative_error(&self, _: f64) -> Option<f64> {
        None
    }

    fn exponential(&self) -> Option<form::ExponentialForm> {
        let is_sum = finish_of(&self.inner).profile() == Profile::Identity;
        is_sum.then_some(form::ExponentialForm::OfDistance { gamma: self.gamma })
    }
}
