//! The linear kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_simd::Isa;
use mercer_spec::{Entry, Spec};

use crate::{Finish, Form, Kernel, KernelRef, Profile};

/// `K(u, v) = u·v`
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "linear",
    summary: "u·v",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Arc::new(Linear)),
};

#[derive(Debug)]
struct Linear;

impl Kernel for Linear {
    fn form(&self) -> Form<'_> {
        Form::Dot(&Identity)
    }

    fn is_positive_semidefinite(&self) -> bool {
        true
    }

    fn spec(&self) -> Spec {
        Spec::new("linear")
    }
}

/// `h(s) = s`
#[derive(Debug)]
pub(super) struct Identity;

impl Finish for Identity {
    fn finish(&self, _: Isa, _: &mut [f64], _: f64, _: &[f64]) {}

    fn self_values(&self, _: Isa, _: &mut [f64]) {}

    fn bound(&self, _: f64, _: f64, magnitude: f64) -> f64 {
        magnitude
    }

    fn error(&self, relative: f64, _: f64, _: f64, magnitude: f64) -> f64 {
        relative * magnitude
    }

    fn relative_error(&self, relative: f64) -> Option<f64> {
        Some(relative)
    }

    fn profile(&self) -> Profile {
        Profile::Identity
    }
}
