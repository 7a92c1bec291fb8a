//! The Jensen-Shannon kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_spec::Entry;

use super::additive::Additive;
use crate::{Curve, KernelRef, Term};

/// `K(u, v) = Σ (u_j/2) log2((u_j + v_j)/u_j) + (v_j/2) log2((u_j + v_j)/v_j)`.
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "jensen_shannon",
    summary: "Σ (u_j/2) log2((u_j+v_j)/u_j) + (v_j/2) log2((u_j+v_j)/v_j)",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Arc::new(Additive { term: Entropic, name: "jensen_shannon" })),
};

#[derive(Debug)]
struct Entropic;

impl Term for Entropic {
    fn term(&self, u: f64, v: f64) -> f64 {
        mercer_simd::Term::JensenShannon.at(u, v)
    }

    fn simd_twin(&self) -> Option<mercer_simd::Term> {
        Some(mercer_simd::Term::JensenShannon)
    }

    fn rounding(&self) -> f64 {
        // low/high, two logarithms of two units each, two products, one sum, one scaling; nothing cancels.
        12.0
    }

    fn curve(&self) -> Curve {
        Curve::Concave
    }
}
