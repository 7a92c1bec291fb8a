//! The histogram intersection kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_spec::Entry;

use super::additive::Additive;
use crate::{Curve, KernelRef, Term};

/// `K(u, v) = Σ min(u_j, v_j)`, the histogram intersection.
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "intersection",
    summary: "Σ min(u_j, v_j)",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Arc::new(Additive { term: Minimum, name: "intersection" })),
};

#[derive(Debug)]
struct Minimum;

impl Term for Minimum {
    fn term(&self, u: f64, v: f64) -> f64 {
        mercer_simd::Term::Min.at(u, v)
    }

    fn simd_twin(&self) -> Option<mercer_simd::Term> {
        Some(mercer_simd::Term::Min)
    }

    fn rounding(&self) -> f64 {
        0.0
    }

    fn curve(&self) -> Curve {
        Curve::Kinked
    }
}
