//! The kernel of precomputed values. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::linear::Identity;
use crate::{Form, Kernel, KernelRef};

/// Kernel values are given: a query is a row of values, one per training example, and a support is the
/// unit vector of its serial number, so that the value is their dot product.
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "precomputed",
    summary: "values are given: row of values · unit vector of the support's serial number",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Arc::new(Precomputed)),
};

#[derive(Debug)]
struct Precomputed;

impl Kernel for Precomputed {
    fn form(&self) -> Form<'_> {
        Form::Dot(&Identity)
    }

    fn is_positive_semidefinite(&self) -> bool {
        false
    }

    fn spec(&self) -> Spec {
        Spec::new("precomputed")
    }
}
