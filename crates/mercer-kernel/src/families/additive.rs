//! What the plain additive kernels `Σ κ(u_j, v_j)` share.

use mercer_spec::Spec;

use super::linear::Identity;
use crate::{Domain, Form, Kernel, Term};

/// A kernel that is nothing but the sum of its terms, on non-negative rows.
#[derive(Debug)]
pub(super) struct Additive<T> {
    pub(super) term: T,
    pub(super) name: &'static str,
}

impl<T: Term> Kernel for Additive<T> {
    fn form(&self) -> Form<'_> {
        Form::Additive(&self.term, &Identity)
    }

    fn is_positive_semidefinite(&self) -> bool {
        true
    }

    fn spec(&self) -> Spec {
        Spec::new(self.name)
    }

    fn domain(&self) -> Domain {
        Domain::NonNegative
    }
}
