//! The additive chi-squared kernel. One entry of the registry in `families.rs`.

use std::sync::Arc;

use mercer_spec::Entry;

use super::additive::Additive;
use crate::{Curve, KernelRef, Term};

/// `K(u, v) = Σ 2 u_j v_j / (u_j + v_j)`, the additive chi-squared kernel (\[YW12\]).
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "chi2",
    summary: "Σ 2 u_j v_j / (u_j + v_j)",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Arc::new(Additive { term: HarmonicMean, name: "chi2" })),
};

#[derive(Debug)]
struct HarmonicMean;

impl Term for HarmonicMean {
    fn term(&self, u: f64, v: f64) -> f64 {
        mercer_simd::Term::Chi2.at(u, v)
    }

    fn simd_twin(&self) -> Option<mercer_simd::Term> {
        Some(mercer_simd::Term::Chi2)
    }

    fn rounding(&self) -> f64 {
        4.0
    }

    fn curve(&self) -> Curve {
        Curve::Concave
    }
}
