//! Rows packed once for many dot products; the queries are in `queries.rs`, the loops in `tile.rs`.

use std::ops::Range;

use crate::aligned::{AlignedBuffer, PlainNumber};
use crate::isa::Isa;
use crate::queries::{DenseQueries, SparseQueries};
use crate::tile::{DenseDots, SparseDots};
use crate::vector::{Element, Join, SimdBackend, Task};

/// Lanes to which the width of a panel of f64 is padded.
pub const LANES64: usize = f64::PAD;

/// Lanes to which the width of a panel of f32 is padded.
pub const LANES32: usize = f32::PAD;

/// Cache lines side by side in a full panel: 12 AVX2 or 6 AVX-512 registers.
pub(crate) const LINES_PER_PANEL: usize = 6;

/// Rows packed once for many products, laid out as `[panel][column][lane]`.
///
/// A panel holds 48 f64 rows or 96 of f32 side by side, one per lane; the last panel is
/// only as wide as needed, padded with zero rows to a multiple of 64 bytes.
#[derive(Clone, Debug)]
pub struct Panels<T> {
    values: AlignedBuffer<T>,
    rows: usize,
    columns: usize,
}

/// Rows of f64: products are one chain of fused multiply-adds in column order.
pub type Panels64 = Panels<f64>;

/// Rows of f32: products are sums of short chains, see [`Panels::dot_error_terms`].
pub type Panels32 = Panels<f32>;

impl<T: Element + PlainNumber> Panels<T> {
    /// Rows in a full panel: 48 or 96.
    pub const WIDTH: usize = LINES_PER_PANEL * T::PAD;

    /// Packs `rows` rows; `fill(row, buffer)` writes row `row` into a zeroed buffer.
    ///
    /// # Panics
    /// If the panels do not fit in memory.
    pub fn pack(rows: usize, columns: usize, mut fill: impl FnMut(usize, &mut [T])) -> Self {
        let lanes = rows.next_multiple_of(T::PAD);
        let size = lanes.checked_mul(columns).expect("panels larger than memory");
        let mut panels = Panels { values: AlignedBuffer::zeroed(size), rows, columns };
        let mut buffer = vec![T::default(); columns];
        for row in 0..rows {
            buffer.fill(T::default());
            fill(row, &mut buffer);
            let width = panels.width(row / Self::WIDTH);
            let start = panels.start(row / Self::WIDTH);
            let columns = panels.values[start..].chunks_exact_mut(width);
            for (lanes, &value) in columns.zip(&buffer) {
                lanes[row % Self::WIDTH] = value;
            }
        }
        panels
    }

    /// Rows packed, without padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of each row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of panels.
    pub fn panels(&self) -> usize {
        self.rows.div_ceil(Self::WIDTH)
    }

    /// Memory held by the packed values.
    pub fn bytes(&self) -> usize {
        size_of_val::<[T]>(&self.values)
    }

    /// Row indices covered by these panels; the end counts the padding rows of the last panel.
    ///
    /// # Panics
    /// If there are not that many panels.
    pub fn lanes(&self, panels: Range<usize>) -> Range<usize> {
        assert!(panels.start <= panels.end && panels.end <= self.panels(), "no such panels");
        let padded = self.rows.next_multiple_of(T::PAD);
        (panels.start * Self::WIDTH).min(padded)..(panels.end * Self::WIDTH).min(padded)
    }

    /// Copies one row out of the packed form.
    ///
    /// # Panics
    /// If there is no such row or `out` does not have one element per column.
    pub fn copy_row(&self, row: usize, out: &mut [T]) {
        assert!(row < self.rows, "no such row");
        assert_eq!(out.len(), self.columns, "one element per column");
        let panel = row / Self::WIDTH;
        let lane = row % Self::WIDTH;
        for (place, lanes) in out.iter_mut().zip(self.panel(panel).chunks(self.width(panel))) {
            *place = lanes[lane];
        }
    }

    /// `n` such that a computed dot product is within `γ_n Σ|x||z|` of the exact one.
    ///
    /// With `γ_n = n u / (1 − n u)` and `u` half an ulp of one: each product passes through at most
    /// `n` roundings. f64 runs one chain, so `n` is the number of columns; f32 runs chains of
    /// `L = columns / 16` (within 32 and 128) and add their sums, so `n = L + columns / L − 1`. If
    /// products underflow, each column adds at most the smallest positive number to the error.
    pub fn dot_error_terms(columns: usize) -> usize {
        match T::JOIN {
            Join::Continue => columns,
            Join::Add => {
                let chunk = T::chunk(columns, 1);
                chunk.min(columns) + columns.div_ceil(chunk).max(1) - 1
            }
        }
    }

    /// `out[q * stride + (lane − first lane)]` = dot product of query `q` and row `lane`.
    ///
    /// For f64: `s ← fma(x_c, z_c, s)` over the columns in order, from +0, and finally `s + 0`,
    /// which turns a −0 left by underflow into +0. The padding lanes of the last panel get 0.
    ///
    /// # Panics
    /// If the columns differ, the panels do not exist, `stride` is narrower than the panels or
    /// `out` too short.
    pub fn dots_dense(
        &self,
        isa: Isa,
        queries: &DenseQueries<T>,
        panels: Range<usize>,
        out: &mut [T],
        stride: usize,
    ) {
        assert_eq!(queries.columns(), self.columns, "queries and rows differ in columns");
        let lanes = self.lanes(panels.clone()).len();
        check_output_size(queries.len(), lanes, out.len(), stride);
        if lanes > 0 && queries.len() > 0 {
            isa.run(DenseDots { panels: self, queries, range: panels, out, stride });
        }
    }

    /// As [`Panels::dots_dense`] for sparse queries, with the same bits.
    ///
    /// # Panics
    /// As [`Panels::dots_dense`].
    pub fn dots_sparse(
        &self,
        isa: Isa,
        queries: &SparseQueries<T>,
        panels: Range<usize>,
        out: &mut [T],
        stride: usize,
    ) {
        assert_eq!(queries.columns(), self.columns, "queries and rows differ in columns");
        let lanes = self.lanes(panels.clone()).len();
        check_output_size(queries.len(), lanes, out.len(), stride);
        if lanes > 0 && queries.len() > 0 {
            isa.run(SparseDots { panels: self, queries, range: panels, out, stride });
        }
    }

    /// Squared norms of all rows: the chain of [`Panels::dots_dense`] of each row with itself.
    ///
    /// For f32 it is one chain, not a sum of short ones.
    ///
    /// # Panics
    /// If `out` does not have one element per row.
    pub fn squared_norms(&self, isa: Isa, out: &mut [T]) {
        assert_eq!(out.len(), self.rows, "one element per row");
        isa.run(RowNorms { panels: self, out });
    }

    /// Lanes of a panel.
    #[inline(always)]
    pub(crate) fn width(&self, panel: usize) -> usize {
        (self.rows.next_multiple_of(T::PAD) - panel * Self::WIDTH).min(Self::WIDTH)
    }

    /// Where a panel starts in `values`; all panels before it are full.
    #[inline(always)]
    fn start(&self, panel: usize) -> usize {
        panel * Self::WIDTH * self.columns
    }

    /// The values of one panel, `[column][lane]`.
    #[inline(always)]
    pub(crate) fn panel(&self, panel: usize) -> &[T] {
        &self.values[self.start(panel)..][..self.width(panel) * self.columns]
    }
}

pub(crate) fn check_output_size(queries: usize, lanes: usize, out: usize, stride: usize) {
    assert!(stride >= lanes, "the stride is narrower than the panels");
    let needed = queries.saturating_sub(1).saturating_mul(stride).saturating_add(lanes);
    assert!(queries == 0 || out >= needed, "the output is too short");
}

struct RowNorms<'a, T> {
    panels: &'a Panels<T>,
    out: &'a mut [T],
}

impl<T: Element + PlainNumber> Task for RowNorms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        for (panel, out) in self.out.chunks_mut(Panels::<T>::WIDTH).enumerate() {
            out.fill(T::default());
            for lanes in self.panels.panel(panel).chunks_exact(self.panels.width(panel)) {
                for (norm, &value) in out.iter_mut().zip(lanes) {
                    *norm = value.square_add(*norm);
                }
            }
            for norm in out {
                *norm = norm.positive_zero();
            }
        }
    }
}
