//! Rows packed once for many dot products in f32; the error bounds are left to the caller.
//! f64 values with the bits of `Kernel::value` are in `packed`.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use mercer_data::{Matrix, Row};
use mercer_simd::{DenseQueries32, Isa, Panels32, SparseQueries32};

use super::packed::{MAX_PANEL_BYTES, Packed, fits_panels};
use super::queries::{Layout, choose};
use crate::live::{CentredRow, PackedColumns, SparseEntries};

/// Panels per tile: 2 x 96 rows of products for 256 queries stay in the second cache.
const TILE_PANELS: usize = 2;

/// Rows rounded to f32, in the live columns of a [`Packed`] and centred as there.
#[derive(Debug)]
pub struct PackedF32 {
    /// Packed when they are first needed.
    panels: OnceLock<Panels32>,
    /// What they are packed from; nothing where they were given packed.
    rows: Option<Arc<Matrix>>,
    live: Arc<PackedColumns>,
}

/// A block of queries in f32; reuse it to avoid allocations.
#[derive(Debug)]
pub struct QueriesF32 {
    layout: Layout,
    dense: DenseQueries32,
    sparse: SparseQueries32,
    row: Vec<f32>,
    gathered: Vec<f64>,
    columns: Vec<u32>,
    values: Vec<f32>,
    shifted: CentredRow,
}

/// Products of some queries with some rows.
#[derive(Debug)]
pub struct TileF32<'a> {
    /// Which queries of the block.
    pub queries: Range<usize>,
    /// Which rows.
    pub rows: Range<usize>,
    products: &'a mut [f32],
    stride: usize,
}

impl TileF32<'_> {
    /// Products of one query of the block with the tile's rows, to be changed in place.
    pub fn of(&mut self, query: usize) -> &mut [f32] {
        let start = (query - self.queries.start) * self.stride;
        &mut self.products[start..start + self.rows.len()]
    }
}

impl PackedF32 {
    /// Memory of the rows that are packed so far.
    pub fn bytes(&self) -> usize {
        self.panels.get().map_or(0, Panels32::bytes)
    }

    /// The rows that `like` was packed from, rounded; `None` if they need too much memory. They are packed when they are
    /// first needed: a caller that seldom computes in f32 does not hold them.
    pub fn aligned(like: &Packed, rows: &Arc<Matrix>) -> Option<Self> {
        let live = Arc::clone(&like.live);
        let fits = fits_panels(rows, live.len(), size_of::<f32>());
        fits.then(|| Self { panels: OnceLock::new(), rows: Some(Arc::clone(rows)), live })
    }

    /// Packs the rows now, so that the first query does not wait for it.
    pub fn pack(&self) {
        self.panels();
    }

    fn panels(&self) -> &Panels32 {
        let (rows, live) = (self.rows.as_ref(), &self.live);
        self.panels.get_or_init(|| {
            let mut scratch = CentredRow::default();
            let fill = |row: usize, out: &mut [f32]| {
                let Some(rows) = rows else { return };
                let SparseEntries { columns, values } = scratch.apply(rows.row(row), live.shifts());
                for (column, value) in columns.iter().zip(values) {
                    if let Some(slot) = live.slot(*column) {
                        out[slot as usize] = *value as f32;
                    }
                }
            };
            Panels32::pack(rows.map_or(0, |rows| rows.rows()), live.len(), fill)
        })
    }

    /// Packs rows that are given in the live columns of `like`, already in f32; `fill(row, buffer)`
    /// writes a row into a zeroed buffer. Queries are centred as for `like`, the rows are not; `None` if
    /// they need too much memory.
    pub fn of_rows(
        like: &Packed,
        rows: usize,
        fill: impl FnMut(usize, &mut [f32]),
    ) -> Option<Self> {
        let live = Arc::clone(&like.live);
        if rows.saturating_mul(live.len()).saturating_mul(4) > MAX_PANEL_BYTES {
            return None;
        }
        let panels = OnceLock::from(Panels32::pack(rows, live.len(), fill));
        Some(Self { panels, rows: None, live })
    }

    /// `n` such that a product of rounded rows is within `γ_n Σ|x||z|` in the unit roundoff of f32.
    pub fn error_terms(&self) -> usize {
        Panels32::dot_error_terms(self.live.len())
    }

    /// An empty block for these rows.
    pub fn queries(&self) -> QueriesF32 {
        let columns = self.live.len();
        QueriesF32 {
            layout: Layout::Dense,
            dense: DenseQueries32::new(columns),
            sparse: SparseQueries32::new(columns),
            row: vec![0.0; columns],
            gathered: vec![0.0; columns],
            columns: Vec::new(),
            values: Vec::new(),
            shifted: CentredRow::default(),
        }
    }

    /// Fills a block with queries, centred and then rounded. They must stay finite in f32:
    /// the sparse product would hide an infinite value that the dense one shows.
    pub fn load<'a>(&self, rows: impl Iterator<Item = Row<'a>> + Clone, queries: &mut QueriesF32) {
        queries.layout = choose(&self.live, &rows);
        queries.dense.clear();
        queries.sparse.clear();
        match queries.layout {
            Layout::Sparse => rows.for_each(|row| queries.push_sparse(&self.live, row)),
            _ => rows.for_each(|row| queries.push_dense(&self.live, row)),
        }
    }

    /// Computes all products of the block, tile after tile in row order.
    pub fn visit(
        &self,
        isa: Isa,
        queries: &QueriesF32,
        scratch: &mut Vec<f32>,
        mut visit: impl FnMut(TileF32<'_>),
    ) {
        let panels = self.panels();
        for first in (0..panels.panels()).step_by(TILE_PANELS) {
            let range = first..(first + TILE_PANELS).min(panels.panels());
            let lanes = panels.lanes(range.clone());
            let stride = lanes.len();
            let count = match queries.layout {
                Layout::Sparse => queries.sparse.len(),
                _ => queries.dense.len(),
            };
            scratch.resize(count * stride, 0.0);
            match queries.layout {
                Layout::Sparse => {
                    panels.dots_sparse(isa, &queries.sparse, range, scratch, stride);
                }
                _ => panels.dots_dense(isa, &queries.dense, range, scratch, stride),
            }
            let rows = lanes.start..lanes.end.min(panels.rows());
            visit(TileF32 { queries: 0..count, rows, products: scratch, stride });
        }
    }
}

impl QueriesF32 {
    fn push_dense(&mut self, live: &PackedColumns, row: Row<'_>) {
        match row {
            Row::Dense(values) if live.is_unshifted() => {
                live.gather(values, &mut self.gathered);
                for (rounded, value) in self.row.iter_mut().zip(&self.gathered) {
                    *rounded = *value as f32;
                }
            }
            _ => {
                self.row.fill(0.0);
                let SparseEntries { columns, values } = self.shifted.apply(row, live.shifts());
                for (column, value) in columns.iter().zip(values) {
                    if let Some(slot) = live.slot(*column) {
                        self.row[slot as usize] = *value as f32;
                    }
                }
            }
        }
        self.dense.push(&self.row);
    }

    fn push_sparse(&mut self, live: &PackedColumns, row: Row<'_>) {
        let entries = self.shifted.apply(row, live.shifts());
        live.keep_live(entries, |value| value as f32, &mut self.columns, &mut self.values);
        self.sparse.push(&self.columns, &self.values);
    }
}
