//! Examples in the order of a factor, as the factorisation reads them.
//! The kernel values come from [`crate::gram`]; the factorisation is in [`mercer_kernel::factor`].

use mercer_kernel::factor::Tiles;

use crate::gram::{GramColumns, GramValue, Source};

/// Examples whose Gram matrix is factored.
pub(crate) struct FactorRows<'a> {
    pub(super) source: &'a Source<'a>,
    /// The example of each row.
    pub(super) examples: &'a [u32],
    diagonal: Vec<f64>,
    /// Whether kernel values are computed in f64.
    exact: bool,
}

impl<'a> FactorRows<'a> {
    pub(crate) fn new(source: &'a Source<'a>, examples: &'a [u32], exact: bool) -> Self {
        let diagonal = examples.iter().map(|row| source.diagonal[*row as usize]).collect();
        Self { source, examples, diagonal, exact }
    }

    fn named(&self, rows: &[u32]) -> Vec<u32> {
        rows.iter().map(|row| self.examples[*row as usize]).collect()
    }
}

impl<T: GramValue> Tiles<T> for FactorRows<'_> {
    type Ready = GramColumns;

    fn diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    fn ready(&self, pivots: &[u32]) -> GramColumns {
        GramColumns::new(self.source, self.named(pivots), self.exact)
    }

    fn values(&self, ready: &GramColumns, rows: &[u32], out: &mut [T]) {
        ready.fill(self.source, &self.named(rows), out);
    }
}
