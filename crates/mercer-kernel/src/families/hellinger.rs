//! Hellinger's kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_spec::Entry;

use super::additive::Additive;
use crate::{Curve, KernelRef, Term};

/// `K(u, v) = Σ sqrt(u_j v_j)`, also called Bhattacharyya's.
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "hellinger",
    summary: "Σ sqrt(u_j v_j)",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Arc::new(Additive { term: GeometricMean, name: "hellinger" })),
};

#[derive(Debug)]
struct GeometricMean;

impl Term for GeometricMean {
    fn term(&self, u: f64, v: f64) -> f64 {
        mercer_simd::Term::Hellinger.at(u, v)
    }

    fn simd_twin(&self) -> Option<mercer_simd::Term> {
        Some(mercer_simd::Term::Hellinger)
    }

    fn rounding(&self) -> f64 {
        3.0
    }

    fn curve(&self) -> Curve {
        Curve::Concave
    }
}
