//! The linear systems `(D + V V') u = w` of the interior point method: D is diagonal, V has one row of the low-rank factor
//! for each variable. One file for each method. (The linear systems of `ls_svm`, `fisher` and `ridge` are in
//! `crate::systems`.)

mod product_form;
mod qr;
mod smw;
mod split;

use mercer_kernel::factor::{Store, TILE};
use mercer_simd::Real;
use rayon::prelude::*;

pub(crate) use product_form::ProductForm;

/// The method for the linear systems of the interior point method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Systems {
    /// Variables with small D are separated, the others are eliminated by one matrix product: as stable as the
    /// product form, and fast.
    Split,
    /// The product form of \[FS01\], Fig. 1 and procedures 1 and 2: stable, but scalar.
    ProductForm,
    /// The Sherman-Morrison-Woodbury formula of \[FS01\] section 3.1: inaccurate where D is small; for comparison.
    Smw,
    /// Householder QR of `[D^-1/2 V; I]`, rows sorted by D: stable, but slower.
    Qr,
}

impl Systems {
    /// Names, in the order of [`Systems::ALL`].
    pub const WORDS: &'static [&'static str] = &["split", "product_form", "smw", "qr"];
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Split, Self::ProductForm, Self::Smw, Self::Qr];

    /// Its name.
    pub fn name(self) -> &'static str {
        let at = Self::ALL.iter().position(|other| *other == self).unwrap_or(0);
        Self::WORDS[at]
    }

    /// Solves `(D + V V') u = w`, V row-major; `None` if the method breaks down.
    ///
    /// # Panics
    /// If V does not have `rank` columns, or D and w do not have one value per row.
    pub fn solve(self, rank: usize, rows: &[f64], d: &[f64], w: &[f64]) -> Option<Vec<f64>> {
        let store = Store::of_rows(rank, rows);
        assert_eq!((d.len(), w.len()), (store.rows(), store.rows()), "one number per row");
        let zeros = vec![0.0; rank];
        Factored::new(self, &store, d).map(|factored| factored.solve(&store, w, &zeros).0)
    }

    pub(crate) fn named(name: &str) -> Self {
        let at = Self::WORDS.iter().position(|word| *word == name).unwrap_or(0);
        Self::ALL[at]
    }
}

/// A factored system.
#[derive(Debug)]
pub(crate) enum Factored {
    Split(split::Split),
    ProductForm(product_form::FullProductForm),
    Smw(smw::Smw),
    Qr(qr::Qr),
}

impl Factored {
    /// Factors `D + V V'`; variable `v` has row `v mod rows`. An infinite D fixes its variable:
    /// `u_v = 0`.
    ///
    /// `None` if the method breaks down.
    pub(crate) fn new<T: Real>(systems: Systems, store: &Store<T>, d: &[f64]) -> Option<Self> {
        match systems {
            Systems::Split => split::Split::new(store, d).map(Self::Split),
            Systems::ProductForm => {
                Some(Self::ProductForm(product_form::FullProductForm::new(store, d)))
            }
            Systems::Smw => smw::Smw::new(store, d).map(Self::Smw),
            Systems::Qr => Some(Self::Qr(qr::Qr::new(store, d))),
        }
    }

    /// Solves `D u + V p = w`, `V'u - p = r`: `(D + V V') u = w + V r`, and `p = V'u - r` without the
    /// rounding errors of that sum.
    pub(crate) fn solve<T: Real>(
        &self,
        store: &Store<T>,
        w: &[f64],
        r: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Split(split) => split.solve(store, w, r),
            Self::ProductForm(form) => form.solve(store, w, r),
            Self::Smw(smw) => smw.solve(store, w, r),
            Self::Qr(qr) => qr.solve(w, r),
        }
    }
}

/// Sum of the variables of each row.
fn folded(values: &[f64], rows: usize) -> Vec<f64> {
    let mut sums = vec![0.0; rows];
    for side in values.chunks(rows.max(1)) {
        sums.iter_mut().zip(side).for_each(|(sum, value)| *sum += value);
    }
    sums
}

/// Rows of the factor for some variables, in f64.
fn rows_f64<T: Real>(store: &Store<T>, variables: &[u32]) -> Vec<f64> {
    let rows: Vec<u32> = variables.iter().map(|v| v % store.rows().max(1) as u32).collect();
    store.gather(&rows).iter().map(|value| value.to_f64()).collect()
}

/// Squared norms of the rows.
pub(crate) fn squared_norms<T: Real>(store: &Store<T>) -> Vec<f64> {
    let mut out = vec![0.0; store.rows()];
    out.par_chunks_mut(TILE).enumerate().for_each(|(tile, out)| {
        store.with(tile, |values| {
            for (norm, row) in out.iter_mut().zip(values.chunks_exact(store.stride().max(1))) {
                *norm = row[..store.rank()].iter().map(|g| g.to_f64() * g.to_f64()).sum();
            }
        });
    });
    out
}

#[cfg(test)]
mod tests;
