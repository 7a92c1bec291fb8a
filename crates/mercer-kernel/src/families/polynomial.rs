//! The polynomial kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_simd::Isa;
use mercer_spec::{Entry, Kind, Parameter, Spec};

use crate::bound::{HIDDEN, UNIT};
use crate::form::ORDINARY;
use crate::{Finish, Form, Kernel, KernelRef, Profile};

/// `K(u, v) = (gamma u·v + coef0)^degree`
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "polynomial",
    summary: "(gamma u·v + coef0)^degree",
    parameters: &[
        Parameter {
            name: "degree",
            kind: Kind::Integer { low: 0, high: 100 },
            default: Some("3"),
            help: "the power",
        },
        Parameter {
            name: "gamma",
            kind: Kind::POSITIVE,
            default: Some("1"),
            help: "factor of the dot product",
        },
        Parameter {
            name: "coef0",
            kind: Kind::REAL,
            default: Some("0"),
            help: "constant added before the power is taken",
        },
    ],
    variadic: false,
    build: |checked| {
        Ok(Arc::new(Polynomial {
            degree: checked.integer("degree") as u32,
            gamma: checked.number("gamma"),
            coef0: checked.number("coef0"),
        }))
    },
};

#[derive(Debug)]
struct Polynomial {
    degree: u32,
    gamma: f64,
    coef0: f64,
}

impl Polynomial {
    /// Bound on `|gamma s + coef0|`.
    fn inside(&self, magnitude: f64) -> f64 {
        self.gamma * magnitude + self.coef0.abs()
    }
}

impl Kernel for Polynomial {
    fn form(&self) -> Form<'_> {
        Form::Dot(self)
    }

    fn is_positive_semidefinite(&self) -> bool {
        self.coef0 >= 0.0
    }

    fn spec(&self) -> Spec {
        Spec::new("polynomial")
            .set("degree", f64::from(self.degree))
            .set("gamma", self.gamma)
            .set("coef0", self.coef0)
    }
}

impl Finish for Polynomial {
    fn finish(&self, isa: Isa, sums: &mut [f64], _: f64, _: &[f64]) {
        mercer_simd::polynomial(isa, sums, self.gamma, self.coef0, self.degree);
    }

    fn self_values(&self, isa: Isa, vv: &mut [f64]) {
        self.finish(isa, vv, 0.0, &[]);
    }

    fn bound(&self, _: f64, _: f64, magnitude: f64) -> f64 {
        self.inside(magnitude).powi(self.degree as i32) * (1.0 + 1e-10)
    }

    fn self_bound(&self, vv: f64) -> f64 {
        let p = f64::from(self.degree);
        self.inside(vv).powi(self.degree as i32) * (1.0 + (4.0 * p + 8.0) * UNIT)
    }

    /// What a squared norm may hide must not count beside the inside, either.
    fn is_ordinary(&self, vv: f64) -> bool {
        ORDINARY.contains(&self.self_bound(vv)) && self.gamma * HIDDEN <= 1e-20 * self.inside(vv)
    }

    /// The inside is wrong by `gamma e + u A`, the power multiplies that by `p A^(p-1)` and adds at most
    /// `p` roundings of its own; the factor covers the second order while `p (relative + u) < 1e-2`.
    ///
    /// Powers below 1 that underflow are off by a few `2^-1074` (each of at most 7 squarings and 7 products adds
    /// `2^-1075`, and what follows multiplies by less than 1), which [`bound::error`](crate::bound::error) adds.
    fn error(&self, relative: f64, uu: f64, vv: f64, magnitude: f64) -> f64 {
        let bound = self.bound(uu, vv, magnitude);
        self.relative_error(relative).map_or(f64::INFINITY, |r| r * bound)
    }

    fn relative_error(&self, relative: f64) -> Option<f64> {
        let p = f64::from(self.degree);
        (p * (relative + UNIT) < 1e-2).then_some(1.02 * p * (relative + 2.0 * UNIT))
    }

    /// A constant has no slope for stages to use.
    fn profile(&self) -> Profile {
        if self.degree == 0 {
            return Profile::Other;
        }
        Profile::Power { scale: self.gamma, shift: self.coef0, degree: self.degree }
    }
}
