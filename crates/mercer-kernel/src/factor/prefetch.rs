//! Residual columns of the next pivots, computed together before they are needed.
//! Which pivots come next is decided by `rules`.

use mercer_simd::{ProductShape, Real, Strided, StridedMut};
use rayon::prelude::*;

use super::GramColumns;

/// Columns of one matrix product: always the same, so that bits do not depend on threads.
const BATCH: usize = 16;

/// Residual columns computed before they are needed.
#[derive(Debug, Default)]
pub(super) struct PrefetchedColumns {
    /// Columns computed at once; 0 turns prefetching off.
    pub(super) most: usize,
    rows: Vec<usize>,
    /// `K(i, row) - g_i·g_row` over the first `rank` coordinates, one column after the other.
    columns: Vec<f64>,
    rank: usize,
}

impl PrefetchedColumns {
    pub(super) fn has(&self, row: usize) -> bool {
        self.rows.contains(&row)
    }

    /// Copies a known column; returns the number of coordinates already subtracted from it.
    pub(super) fn copy(&self, row: usize, out: &mut [f64]) -> Option<usize> {
        let at = self.rows.iter().position(|prefetched| *prefetched == row)?;
        out.copy_from_slice(&self.columns[at * out.len()..][..out.len()]);
        Some(self.rank)
    }

    /// Replaces the columns by these, with all coordinates subtracted.
    pub(super) fn prepare(
        &mut self,
        rows: Vec<usize>,
        columns: &mut impl GramColumns,
        coordinates: &[f64],
    ) {
        let length = columns.diagonal().len().max(1);
        self.columns.clear();
        self.columns.resize(rows.len() * length, 0.0);
        columns.columns(&rows, &mut self.columns);
        explain(&rows, coordinates, length, &mut self.columns);
        (self.rows, self.rank) = (rows, coordinates.len() / length);
    }
}

/// Subtracts `g_i·g_row` over some coordinates from columns.
fn explain(rows: &[usize], coordinates: &[f64], length: usize, columns: &mut [f64]) {
    let inner = coordinates.len() / length;
    let parts = columns.par_chunks_mut(BATCH * length).zip(rows.par_chunks(BATCH));
    parts.for_each(|(columns, rows)| {
        let pivots: Vec<f64> = rows
            .iter()
            .flat_map(|row| coordinates.chunks_exact(length).map(|values| values[*row]))
            .collect();
        let pivots = Strided { values: &pivots[..], row: inner, column: 1 };
        let all = Strided { values: coordinates, row: length, column: 1 };
        let out = StridedMut { values: columns, row: length, column: 1 };
        let shape = ProductShape { rows: rows.len(), columns: length, inner };
        f64::product(shape, pivots, all, out, 1.0, -1.0);
    });
}
