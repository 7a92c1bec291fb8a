use mercer_simd::{Real, Strided, StridedMut};
use rayon::prelude::*;

use super::Columns;

/// Columns of one matrix product: always the same, so that bits do not depend on threads.
const TOGETHER: usize = 16;

/// Residual columns computed before they are asked for.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Columns kept; none where nobody looks ahead.
    pub(super) most: usize,
    rows: Vec<usize>,
    /// `K(i, row) - g_i·g_row` over the first `rank` coordinates, one column after the other.
    columns: Vec<f64>,
    rank: usize,
}

impl Ahead {
    pub(super) fn has(&self, row: usize) -> bool {
        self.rows.contains(&row)
    }

    /// Copies a column that is known; returns the coordinates that were taken from it.
    pub(super) fn copy(&self, row: usize, out: &mut [f64]) -> Option<usize> {
        let at = self.rows.iter().position(|own| *own == row)?;
        out.copy_from_slice(&self.columns[at * out.len()..][..out.len()]);
        Some(self.rank)
    }

    /// Keeps these columns and no other, with all coordinates taken from them.
    pub(super) fn prepare(
        &mut self,
        rows: Vec<usize>,
        columns: &mut impl Columns,
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

/// Takes `g_i·g_row` over some coordinates from columns.
fn explain(rows: &[usize], coordinates: &[f64], length: usize, columns: &mut [f64]) {
    let inner = coordinates.len() / length;
    let parts = columns.par_chunks_mut(TOGETHER * length).zip(rows.par_chunks(TOGETHER));
    parts.for_each(|(columns, rows)| {
        let own: Vec<f64> = rows
            .iter()
            .flat_map(|row| coordinates.chunks_exact(length).map(|values| values[*row]))
            .collect();
        let own = Strided { values: &own[..], row: inner, column: 1 };
        let all = Strided { values: coordinates, row: length, column: 1 };
        let out = StridedMut { values: columns, row: length, column: 1 };
        f64::product([rows.len(), length, inner], own, all, out, 1.0, -1.0);
    });
}
