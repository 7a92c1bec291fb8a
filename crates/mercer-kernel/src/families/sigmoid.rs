//! The sigmoid kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_simd::Isa;
use mercer_spec::{Entry, Kind, Parameter, Spec};

use crate::bound::{UNIT, capped};
use crate::{Finish, Form, Kernel, KernelRef, Profile};

/// `K(u, v) = tanh(gamma u·v + coef0)`
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "sigmoid",
    summary: "tanh(gamma u·v + coef0); not semidefinite",
    parameters: &[
        Parameter {
            name: "gamma",
            kind: Kind::REAL,
            default: None,
            help: "factor of the dot product",
        },
        Parameter {
            name: "coef0",
            kind: Kind::REAL,
            default: Some("0"),
            help: "constant added before the tanh",
        },
    ],
    variadic: false,
    build: |checked| {
        let (gamma, coef0) = (checked.number("gamma"), checked.number("coef0"));
        Ok(Arc::new(Sigmoid { gamma, coef0 }))
    },
};

#[derive(Debug)]
struct Sigmoid {
    gamma: f64,
    coef0: f64,
}

impl Kernel for Sigmoid {
    fn form(&self) -> Form<'_> {
        Form::Dot(self)
    }

    fn is_positive_semidefinite(&self) -> bool {
        false
    }

    fn spec(&self) -> Spec {
        Spec::new("sigmoid").set("gamma", self.gamma).set("coef0", self.coef0)
    }
}

impl Finish for Sigmoid {
    fn finish(&self, isa: Isa, sums: &mut [f64], _: f64, _: &[f64]) {
        mercer_simd::polynomial(isa, sums, self.gamma, self.coef0, 1);
        mercer_simd::tanh(isa, sums);
    }

    fn bound(&self, _: f64, _: f64, _: f64) -> f64 {
        1.0 + 1e-10
    }

    /// tanh is Lipschitz with constant 1.
    fn error(&self, relative: f64, _: f64, _: f64, magnitude: f64) -> f64 {
        let scale = self.gamma.abs();
        let inside = scale * relative * magnitude + UNIT * (scale * magnitude + self.coef0.abs());
        capped(inside * (1.0 + 8.0 * UNIT), 2.0) + mercer_simd::TANH_RELATIVE_ERROR
    }

    fn relative_error(&self, _: f64) -> Option<f64> {
        None
    }

    fn profile(&self) -> Profile {
        Profile::Sigmoid { scale: self.gamma, shift: self.coef0 }
    }
}
