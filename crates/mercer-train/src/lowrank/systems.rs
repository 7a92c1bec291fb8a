//! Linear systems `(D + V V') u = w` of the interior point method, D diagonal and V a row of the factor for
//! each variable.

mod product_form;
mod qr;
mod split;
mod woodbury;

use mercer_kernel::factor::{Store, TILE};
use mercer_simd::Real;
use rayon::prelude::*;

pub(crate) use product_form::ProductForm;

/// How the systems are solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Systems {
    /// Variables of small D apart, the rest by one square: as stable as the product form, at the speed of
    /// products.
    Split,
    /// The product form of \[FS01\], Fig. 1 and procedures 1 and 2: stable, number by number.
    ProductForm,
    /// Sherman, Morrison and Woodbury: fails silently where D is small; for comparison.
    Woodbury,
    /// Householder's QR of `[D^-1/2 V; I]`, rows sorted by D: stable, slower.
    Qr,
}

impl Systems {
    /// Names, in the order of [`Systems::ALL`].
    pub const WORDS: &'static [&'static str] = &["split", "product_form", "woodbury", "qr"];
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Split, Self::ProductForm, Self::Woodbury, Self::Qr];

    /// Its name.
    pub fn name(self) -> &'static str {
        let at = Self::ALL.iter().position(|other| *other == self).unwrap_or(0);
        Self::WORDS[at]
    }

    /// Solves `(D + V V') u = w` for rows of V given one after the other; `None` if the method breaks down.
    ///
    /// # Panics
    /// If there are not `rank` numbers of V, one of D and one of w for each row.
    pub fn solve(self, rank: usize, rows: &[f64], d: &[f64], w: &[f64]) -> Option<Vec<f64>> {
        let store = Store::of_rows(rank, rows);
        assert_eq!((d.len(), w.len()), (store.rows(), store.rows()), "one number per row");
        let nothing = vec![0.0; rank];
        Factored::new(self, &store, d).map(|factored| factored.solve(&store, w, &nothing).0)
    }

    pub(crate) fn named(name: &str) -> Self {
        let at = Self::WORDS.iter().position(|word| *word == name).unwrap_or(0);
        Self::ALL[at]
    }
}

/// A system that was factored.
#[derive(Debug)]
pub(crate) enum Factored {
    Split(split::Split),
    ProductForm(product_form::Whole),
    Woodbury(woodbury::Woodbury),
    Qr(qr::Qr),
}

impl Factored {
    /// Factors `D + V V'`; variable `v` has row `v mod rows`. An infinite D fixes its variable: `u_v = 0`.
    ///
    /// `None` if the method breaks down.
    pub(crate) fn new<T: Real>(systems: Systems, store: &Store<T>, d: &[f64]) -> Option<Self> {
        match systems {
            Systems::Split => split::Split::new(store, d).map(Self::Split),
            Systems::ProductForm => Some(Self::ProductForm(product_form::Whole::new(store, d))),
            Systems::Woodbury => woodbury::Woodbury::new(store, d).map(Self::Woodbury),
            Systems::Qr => Some(Self::Qr(qr::Qr::new(store, d))),
        }
    }

    /// Solves `D u + V p = w`, `V'u - p = r`: `(D + V V') u = w + V r`, and `p = V'u - r` without the rounding
    /// of that sum.
    pub(crate) fn solve<T: Real>(
        &self,
        store: &Store<T>,
        w: &[f64],
        r: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Split(split) => split.solve(store, w, r),
            Self::ProductForm(whole) => whole.solve(store, w, r),
            Self::Woodbury(woodbury) => woodbury.solve(store, w, r),
            Self::Qr(qr) => qr.solve(w, r),
        }
    }
}

/// Sums of the variables of each row.
fn folded(values: &[f64], rows: usize) -> Vec<f64> {
    let mut sums = vec![0.0; rows];
    for part in values.chunks(rows.max(1)) {
        sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
    }
    sums
}

/// Rows of the factor for some variables, as doubles.
fn wide_rows<T: Real>(store: &Store<T>, variables: &[u32]) -> Vec<f64> {
    let rows: Vec<u32> = variables.iter().map(|v| v % store.rows().max(1) as u32).collect();
    store.gather(&rows).iter().map(|value| value.to_f64()).collect()
}

/// Squares of the rows.
pub(crate) fn squares<T: Real>(store: &Store<T>) -> Vec<f64> {
    let mut out = vec![0.0; store.rows()];
    out.par_chunks_mut(TILE).enumerate().for_each(|(tile, out)| {
        store.with(tile, |values| {
            for (place, row) in out.iter_mut().zip(values.chunks_exact(store.stride().max(1))) {
                *place = row[..store.rank()].iter().map(|g| g.to_f64() * g.to_f64()).sum();
            }
        });
    });
    out
}

#[cfg(test)]
mod tests;
