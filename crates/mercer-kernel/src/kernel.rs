//! The trait of kernels and their texts; how a kernel is computed is its form (`form.rs`).

use std::fmt::Debug;
use std::sync::Arc;

use mercer_data::Row;
use mercer_spec::{Spec, SpecError};

use crate::Form;

/// A kernel shared by machines, solvers and stages.
pub type KernelRef = Arc<dyn Kernel>;

/// A kernel function of two rows.
pub trait Kernel: Debug + Send + Sync {
    /// How it is computed from sums over columns.
    fn form(&self) -> Form<'_>;

    /// Whether every Gram matrix is proved to have no negative eigenvalue.
    fn is_positive_semidefinite(&self) -> bool;

    /// The text that builds it again.
    fn spec(&self) -> Spec;

    /// Which values rows may hold.
    fn domain(&self) -> Domain {
        Domain::Real
    }

    /// The reference value: a function of the two rows alone, the same bits on every processor and for
    /// sparse and dense rows.
    fn value(&self, u: Row<'_>, v: Row<'_>) -> f64 {
        self.form().value(u, v)
    }
}

/// Which values rows may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Any finite number.
    Real,
    /// Zero or more, as histograms are.
    NonNegative,
}

/// Builds a kernel from its text.
pub fn parse(text: &str) -> Result<KernelRef, SpecError> {
    crate::KERNELS.parse(text)
}
