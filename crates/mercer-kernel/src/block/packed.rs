//! Rows packed once for many kernel values in f64, and the loop over their tiles.
//!
//! `packed_f32.rs` has products in f32, `coded.rs` products of bytes.

use std::ops::Range;
use std::sync::Arc;

use mercer_data::{Matrix, Row};
use mercer_simd::{Isa, Panels64};

use super::inverted::Inverted;
use super::panel_store::PanelStore;
use super::queries::{Layout, Norms, Queries};
use crate::live::{CentredRow, PackedColumns, SparseEntries};
use crate::{Form, KernelRef};

/// Panels per tile: 4 x 48 rows of values for 256 queries stay in the second cache.
const TILE_PANELS: usize = 4;
/// Rows whose panels would be larger are stored by column (inverted) instead.
pub(super) const MAX_PANEL_BYTES: usize = 4 << 30;
/// So are rows whose panels would take more than this, and more than [`PANEL_GROWTH`] times the stored values.
const SMALL_PANEL_BYTES: usize = 16 << 20;
const PANEL_GROWTH: usize = 1024;

/// Whether rows may be packed as panels of `columns` numbers each: memory follows what the rows store.
pub(super) fn fits_panels(rows: &Matrix, columns: usize, bytes_per_number: usize) -> bool {
    let lanes = rows.rows().next_multiple_of(mercer_simd::LANES64);
    let bytes = lanes.saturating_mul(columns).saturating_mul(bytes_per_number);
    let stored = rows.nonzeros().saturating_mul(bytes_per_number);
    bytes <= MAX_PANEL_BYTES && bytes <= SMALL_PANEL_BYTES.max(stored.saturating_mul(PANEL_GROWTH))
}

/// Rows packed once for many kernel values: live columns only, centred where the kernel allows it.
#[derive(Debug)]
pub struct Packed {
    kernel: KernelRef,
    rows: usize,
    pub(super) live: Arc<PackedColumns>,
    /// `b(z, z)` of the packed rows, zero-padded to whole lanes.
    squared_norms: Vec<f64>,
    store: Storage,
}

#[derive(Debug)]
enum Storage {
    Panels(PanelStore),
    Inverted(Inverted),
    Rows(Matrix),
}

/// Kernel values of some queries against some packed rows.
#[derive(Debug)]
pub struct Tile<'a> {
    /// Which queries of the block.
    pub queries: Range<usize>,
    /// Which packed rows.
    pub rows: Range<usize>,
    /// Values of the queries, one after the other.
    pub values: &'a [f64],
    /// Distance between the values of one query and the next.
    pub stride: usize,
}

impl Tile<'_> {
    /// Values of one query of the block against the tile's rows.
    pub fn of(&self, query: usize) -> &[f64] {
        let start = (query - self.queries.start) * self.stride;
        &self.values[start..start + self.rows.len()]
    }
}

impl Packed {
    /// Packs rows for a kernel. `centre` is subtracted from both sides where the kernel depends on
    /// differences only, and ignored otherwise.
    pub fn new(kernel: KernelRef, rows: &Matrix, centre: Option<&[f64]>) -> Self {
        let (live, is_inverted) = Self::plan(&kernel, rows, centre);
        Self::in_columns(kernel, rows, live, is_inverted, None)
    }

    /// As [`Packed::new`], for rows that stay at hand: large panels are packed when the first value is computed, or by
    /// [`Packed::pack`].
    pub fn shared(kernel: KernelRef, rows: &Arc<Matrix>, centre: Option<&[f64]>) -> Self {
        let (live, is_inverted) = Self::plan(&kernel, rows, centre);
        Self::in_columns(kernel, rows, live, is_inverted, Some(rows))
    }

    /// From now on values are computed pair by pair, or from panels that are packed piece by piece for a block of queries and
    /// not kept, until [`Packed::pack`] is called: for rows of [`Packed::shared`] of which few values are asked. The bits are
    /// the same.
    pub fn set_in_pieces(&mut self) {
        if let Storage::Panels(panels) = &mut self.store {
            panels.set_in_pieces();
        }
    }

    /// Packs the rows now, and keeps them packed.
    pub fn pack(&self) {
        if let Storage::Panels(panels) = &self.store {
            panels.whole(&self.live);
        }
    }

    /// The live columns of rows, and whether they are stored by column.
    fn plan(
        kernel: &KernelRef,
        rows: &Matrix,
        centre: Option<&[f64]>,
    ) -> (Arc<PackedColumns>, bool) {
        let form = kernel.form();
        let centre = if matches!(form, Form::Shift(_)) { centre } else { None };
        let keep_all = match form {
            Form::Additive(term, _) => !term.vanishes_at_zero(),
            Form::Dot(_) | Form::Shift(_) => false,
            Form::Opaque => true,
        };
        // Rows that claim very many columns are kept as they are, and evaluated pair by pair.
        let keep_all = keep_all && fits_panels(rows, rows.columns(), size_of::<f64>());
        let live = Arc::new(PackedColumns::new(rows, centre, keep_all));
        let is_inverted = inverts(&form) && prefers_inverted(rows, &live);
        (live, is_inverted)
    }

    /// Packs rows in consecutive pieces of these sizes. All pieces take the same [`Queries`], loaded by
    /// any of them.
    ///
    /// # Panics
    /// If the sizes do not add up to the rows.
    pub fn pieces(
        kernel: &KernelRef,
        rows: &Matrix,
        centre: Option<&[f64]>,
        sizes: &[usize],
    ) -> Vec<Self> {
        assert_eq!(sizes.iter().sum::<usize>(), rows.rows(), "pieces of all rows");
        let whole = Self::new(kernel.clone(), rows, centre);
        let is_inverted = matches!(whole.store, Storage::Inverted(_));
        let mut first = 0;
        let piece = |size: &usize| {
            let range = first..first + size;
            first = range.end;
            Self::in_columns(
                kernel.clone(),
                &rows.select(range),
                Arc::clone(&whole.live),
                is_inverted,
                None,
            )
        };
        sizes.iter().map(piece).collect()
    }

    /// Packs rows in live columns that were found before; later if they are shared.
    fn in_columns(
        kernel: KernelRef,
        rows: &Matrix,
        live: Arc<PackedColumns>,
        is_inverted: bool,
        shared: Option<&Arc<Matrix>>,
    ) -> Self {
        let form = kernel.form();
        let mut squared_norms: Vec<f64> =
            rows.iter().map(|row| centred_squared_norm(&form, row, &live)).collect();
        let vectorised = match form {
            // Terms that count zeros need every column in the panels.
            Form::Additive(term, _) => {
                term.simd_twin().is_some()
                    && (term.vanishes_at_zero()
                        || live.has_all() && fits_panels(rows, live.len(), size_of::<f64>()))
            }
            Form::Opaque => false,
            Form::Dot(_) | Form::Shift(_) => true,
        };
        let store = if !vectorised {
            Storage::Rows(rows.clone())
        } else if is_inverted {
            Storage::Inverted(Inverted::new(rows, &live))
        } else if let Some(shared) = shared {
            Storage::Panels(PanelStore::of(shared))
        } else {
            Storage::Panels(PanelStore::packed(pack(rows, 0..rows.rows(), &live)))
        };
        squared_norms.resize(squared_norms.len().next_multiple_of(mercer_simd::LANES64), 0.0);
        Self { kernel, rows: rows.rows(), live, squared_norms, store }
    }

    /// Packs rows of the linear kernel that are given in the live columns of `like`; `fill(row, buffer)`
    /// writes a row into a zeroed buffer. All sets aligned with `like` take the same [`Queries`], loaded
    /// by any of them.
    pub fn aligned(like: &Self, rows: usize, fill: impl FnMut(usize, &mut [f64])) -> Self {
        let kernel = crate::parse("linear").expect("the linear kernel takes no parameters");
        let panels = Panels64::pack(rows, like.live.len(), fill);
        let squared_norms = vec![0.0; rows.next_multiple_of(mercer_simd::LANES64)];
        Self {
            kernel,
            rows,
            live: Arc::clone(&like.live),
            squared_norms,
            store: Storage::Panels(PanelStore::packed(panels)),
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> &KernelRef {
        &self.kernel
    }

    /// Number of packed rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns that are not zero throughout.
    pub fn live_columns(&self) -> usize {
        self.live.len()
    }

    /// The columns that are not zero throughout, in increasing order.
    pub fn live(&self) -> &[u32] {
        self.live.columns()
    }

    /// `b(z, z)` of the packed rows.
    pub fn squared_norms(&self) -> &[f64] {
        &self.squared_norms[..self.rows]
    }

    /// Copies a packed row out, in the live columns and centred.
    ///
    /// # Panics
    /// If there is no such row, or `out` does not have one element for each live column.
    pub fn copy_row(&self, row: usize, out: &mut [f64]) {
        assert_eq!(out.len(), self.live.len(), "one element per live column");
        match &self.store {
            Storage::Panels(panels) => panels.copy_row(row, &self.live, out),
            Storage::Inverted(inverted) => inverted.copy_row(row, out),
            Storage::Rows(rows) => {
                out.fill(0.0);
                let mut scratch = CentredRow::default();
                let SparseEntries { columns, values } =
                    scratch.apply(rows.row(row), self.live.shifts());
                for (column, value) in columns.iter().zip(values) {
                    if let Some(slot) = self.live.slot(*column) {
                        out[slot as usize] = *value;
                    }
                }
            }
        }
    }

    /// Whether rows are shifted by a centre.
    pub fn is_shifted(&self) -> bool {
        !self.live.is_unshifted()
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> usize {
        8 * self.squared_norms.len()
            + match &self.store {
                Storage::Panels(panels) => panels.bytes(),
                Storage::Inverted(inverted) => inverted.bytes(),
                Storage::Rows(rows) => 12 * rows.nonzeros(),
            }
    }

    /// An empty block for these rows.
    pub fn queries(&self) -> Queries {
        Queries::new(self.live.len())
    }

    /// Fills a block with queries.
    pub fn load<'a>(
        &self,
        isa: Isa,
        rows: impl Iterator<Item = Row<'a>> + Clone,
        queries: &mut Queries,
    ) {
        queries.fill(self, isa, rows, Norms::Chain);
    }

    /// As [`Packed::load`], without squared norms: for kernels that do not need them.
    pub fn load_without_norms<'a>(
        &self,
        isa: Isa,
        rows: impl Iterator<Item = Row<'a>> + Clone,
        queries: &mut Queries,
    ) {
        queries.fill(self, isa, rows, Norms::None);
    }

    /// The squared norm `b(x, x)` of a row, over all its columns, in an order without long chains:
    /// eight partial sums of squares by column modulo eight and a fixed tree for products of centred
    /// rows, plain columns for additive kernels. Its bits depend on the row alone. Its relative error is
    /// at most `γ_n`, `n` being the columns plus 6 and the roundings of one term.
    pub fn loose_squared_norm(&self, row: Row<'_>) -> f64 {
        match self.kernel.form() {
            form @ Form::Additive(..) => form.base(row, row),
            _ => self.live.loose_norm(row),
        }
    }

    /// Whether queries are kept as lists of non-zero entries.
    pub(super) fn needs_entries(&self) -> bool {
        !matches!(self.store, Storage::Panels(_))
            || matches!(self.kernel.form(), Form::Additive(..))
    }

    /// Computes all kernel values of the block, tile after tile in row order for each query.
    ///
    /// `rows` are the queries themselves, in the order they were loaded; only values that are computed pair by pair read them.
    pub fn visit<'a>(
        &self,
        isa: Isa,
        queries: &Queries,
        rows: impl Iterator<Item = Row<'a>>,
        scratch: &mut Vec<f64>,
        mut visit: impl FnMut(Tile<'_>),
    ) {
        match &self.store {
            Storage::Panels(panels) => {
                if let Some(packed) = self.rows_for_pairs(panels) {
                    return self.visit_pairs(isa, packed, queries, rows, scratch, &mut visit);
                }
                let size = TILE_PANELS * Panels64::WIDTH;
                panels.each(&self.live, size, |first, panels| {
                    self.visit_panels(isa, (first, panels), queries, scratch, &mut visit);
                });
            }
            Storage::Inverted(inverted) => {
                self.visit_inverted(isa, inverted, queries, scratch, &mut visit);
            }
            Storage::Rows(packed) => {
                for (query, row) in rows.enumerate() {
                    scratch.clear();
                    scratch.extend(packed.iter().map(|other| self.kernel.value(row, other)));
                    let (queries, rows) = (query..query + 1, 0..self.rows);
                    visit(Tile { queries, rows, values: scratch, stride: self.rows });
                }
            }
        }
    }

    /// The rows, if values are computed from them and not from panels: without a centre, products of two lists of entries
    /// take less time than packing panels for one query.
    fn rows_for_pairs<'a>(&self, panels: &'a PanelStore) -> Option<&'a Matrix> {
        let is_product = matches!(self.kernel.form(), Form::Dot(_) | Form::Shift(_));
        panels.in_pieces().filter(|rows| is_product && rows.is_sparse() && !self.is_shifted())
    }

    fn visit_pairs<'a>(
        &self,
        isa: Isa,
        packed: &Matrix,
        queries: &Queries,
        rows: impl Iterator<Item = Row<'a>>,
        scratch: &mut Vec<f64>,
        visit: &mut impl FnMut(Tile<'_>),
    ) {
        let form = self.kernel.form();
        let finish = form.finish().expect("panels are packed for kernels with a form");
        for ((query, row), norm) in rows.enumerate().zip(&queries.squared_norms) {
            scratch.clear();
            scratch.extend(packed.iter().map(|other| form.base(row, other)));
            finish.finish(isa, scratch, *norm, self.squared_norms());
            let (queries, rows) = (query..query + 1, 0..self.rows);
            visit(Tile { queries, rows, values: scratch, stride: self.rows });
        }
    }

    /// Panels with the number of their first row.
    fn visit_panels(
        &self,
        isa: Isa,
        rows: (usize, &Panels64),
        queries: &Queries,
        scratch: &mut Vec<f64>,
        visit: &mut impl FnMut(Tile<'_>),
    ) {
        let (first_row, panels) = rows;
        let form = self.kernel.form();
        let finish = form.finish().expect("panels are packed for kernels with a form");
        for first in (0..panels.panels()).step_by(TILE_PANELS) {
            let range = first..(first + TILE_PANELS).min(panels.panels());
            let lanes = panels.lanes(range.clone());
            let stride = lanes.len();
            // Products are written, sums of terms added.
            if queries.layout == Layout::Entries {
                scratch.clear();
            }
            scratch.resize(queries.len() * stride, 0.0);
            match (queries.layout, form) {
                (Layout::Dense, _) => {
                    panels.dots_dense(isa, &queries.dense, range, scratch, stride);
                }
                (Layout::Sparse, _) => {
                    panels.dots_sparse(isa, &queries.sparse, range, scratch, stride);
                }
                (Layout::Entries, _) => self.additive(isa, panels, queries, range, scratch),
            }
            let lanes = first_row + lanes.start..first_row + lanes.end;
            let norms = &self.squared_norms[lanes.clone()];
            for (values, norm) in scratch.chunks_exact_mut(stride).zip(&queries.squared_norms) {
                finish.finish(isa, values, *norm, norms);
            }
            let rows = lanes.start..lanes.end.min(self.rows);
            visit(Tile { queries: 0..queries.len(), rows, values: scratch, stride });
        }
    }

    /// Base sums of an additive kernel: `out[q][lane] = Σ_j κ(x_j, z_lane,j)` in column order.
    fn additive(
        &self,
        isa: Isa,
        panels: &Panels64,
        queries: &Queries,
        range: Range<usize>,
        out: &mut [f64],
    ) {
        let Form::Additive(term, _) = self.kernel.form() else {
            unreachable!("only additive kernels keep entries beside panels")
        };
        let twin = term.simd_twin().expect("panels are packed for vectorised terms");
        let stride = panels.lanes(range.clone()).len();
        for (query, sums) in out.chunks_exact_mut(stride).enumerate() {
            let SparseEntries { columns: slots, values } = queries.entries(query);
            if twin.vanishes_at_zero() {
                panels.accumulate_sparse(isa, twin, slots, values, range.clone(), sums);
                continue;
            }
            let mut row = vec![0.0; self.live.len()];
            for (slot, value) in slots.iter().zip(values) {
                row[*slot as usize] = *value;
            }
            panels.accumulate(isa, twin, &row, range.clone(), sums);
            for x in &queries.outside[query] {
                let beyond = term.term(*x, 0.0);
                sums.iter_mut().for_each(|sum| *sum += beyond);
            }
        }
    }

    fn visit_inverted(
        &self,
        isa: Isa,
        inverted: &Inverted,
        queries: &Queries,
        scratch: &mut Vec<f64>,
        visit: &mut impl FnMut(Tile<'_>),
    ) {
        let form = self.kernel.form();
        let finish = form.finish().expect("rows are inverted for kernels with a form");
        let term = if let Form::Additive(term, _) = form { Some(term) } else { None };
        for query in 0..queries.len() {
            for tile in 0..inverted.tiles() {
                let rows = inverted.rows_of(tile);
                scratch.clear();
                scratch.resize(rows.len(), 0.0);
                inverted.sums(isa, tile, term, queries.entries(query), scratch);
                let norm = queries.squared_norms[query];
                finish.finish(isa, scratch, norm, &self.squared_norms[rows.clone()]);
                let stride = rows.len();
                visit(Tile { queries: query..query + 1, rows, values: scratch, stride });
            }
        }
    }
}

/// Whether only columns where both rows are non-zero count, so that rows may be kept by column.
fn inverts(form: &Form<'_>) -> bool {
    match form {
        Form::Additive(term, _) => term.vanishes_at_zero(),
        _ => true,
    }
}

/// Panels of some of the rows.
pub(super) fn pack(rows: &Matrix, some: Range<usize>, live: &PackedColumns) -> Panels64 {
    let mut scratch = CentredRow::default();
    Panels64::pack(some.len(), live.len(), |row, out| {
        let row = rows.row(some.start + row);
        let SparseEntries { columns, values } = scratch.apply(row, live.shifts());
        for (column, value) in columns.iter().zip(values) {
            if let Some(slot) = live.slot(*column) {
                out[slot as usize] = *value;
            }
        }
    })
}

fn centred_squared_norm(form: &Form<'_>, row: Row<'_>, live: &PackedColumns) -> f64 {
    if live.is_unshifted() {
        return form.base(row, row);
    }
    let mut scratch = CentredRow::default();
    let values = scratch.apply(row, live.shifts()).values;
    mercer_simd::dot(Isa::current(), values, values)
}

/// Compares the expected work for queries with the density of the packed rows: the inverted form touches the
/// rows that share a column, the panels touch all rows for each non-zero of the query, in vectors.
fn prefers_inverted(rows: &Matrix, live: &PackedColumns) -> bool {
    if !fits_panels(rows, live.len(), size_of::<f64>()) {
        return true;
    }
    if !live.is_unshifted() {
        return false;
    }
    let mut counts = vec![0u32; live.len()];
    rows.iter().flat_map(Row::nonzeros).for_each(|(column, _)| {
        if let Some(slot) = live.slot(column) {
            counts[slot as usize] += 1;
        }
    });
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    let shared: f64 = counts.iter().map(|count| f64::from(*count).powi(2)).sum();
    let lanes_per_scatter = 8.0;
    lanes_per_scatter * shared < total * rows.rows() as f64
}
