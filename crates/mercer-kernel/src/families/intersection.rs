use std::sync::Arc;

use mercer_simd::Isa;
use mercer_spec::Entry;

use super::additive::Additive;
use crate::{KernelRef, Term};

/// `K(u, v) = Σ min(u_j, v_j)`, the histogram intersection.
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "intersection",
    summary: "Σ min(u_j, v_j)",
    parameters: &[],
    variadic: false,
    build: |_| {
        Ok(Arc::new(Additive {
            term: Minimum,
            name: "intersection",
        }))
    },
};

#[derive(Debug)]
struct Minimum;

impl Term for Minimum {
    fn term(&self, u: f64, v: f64) -> f64 {
        mercer_simd::term_min(u, v)
    }

    fn accumulate(&self, isa: Isa, u: f64, column: &[f64], sums: &mut [f64]) {
        mercer_simd::add_min(isa, u, column, sums);
    }

    fn rounding(&self) -> f64 {
        0.0
    }
}
