//! Rows of signed bytes against queries of unsigned bytes: exact integer products.

#![expect(unsafe_code, reason = "pointer arithmetic inside panels, bounded by the safe driver")]
#![expect(clippy::needless_range_loop, reason = "plain indices into register arrays unroll fully")]

use std::ops::Range;

use crate::isa::Isa;
use crate::lines::Lines;
use crate::vector::{ByteVector, Machine, Task};

/// Rows in a panel of bytes.
const ROWS: usize = 16;
/// Consecutive columns of a row that lie together.
const QUAD: usize = 4;

/// Rows of signed bytes, laid out as `[panel of 16 rows][four columns][row][column of the four]`.
#[derive(Clone, Debug)]
pub struct PanelsI8 {
    values: Lines<i8>,
    sums: Vec<i32>,
    rows: usize,
    columns: usize,
}

impl PanelsI8 {
    /// Columns up to which a product cannot overflow: `255 · 128 · 65536 < 2^31`.
    pub const MOST_COLUMNS: usize = 65_536;

    /// Packs `rows` rows; `fill(row, buffer)` writes row `row` into a zeroed buffer.
    ///
    /// # Panics
    /// If there are more than [`PanelsI8::MOST_COLUMNS`] columns or they do not fit in memory.
    pub fn pack(rows: usize, columns: usize, mut fill: impl FnMut(usize, &mut [i8])) -> Self {
        assert!(columns <= Self::MOST_COLUMNS, "too many columns for 32-bit sums");
        let quads = columns.div_ceil(QUAD);
        let size = rows.next_multiple_of(ROWS).checked_mul(quads * QUAD);
        let mut values = Lines::zeroed(size.expect("panels larger than memory"));
        let mut buffer = vec![0; columns];
        let mut sums = Vec::with_capacity(rows);
        for row in 0..rows {
            buffer.fill(0);
            fill(row, &mut buffer);
            sums.push(buffer.iter().map(|&z| i32::from(z)).sum());
            let panel = &mut values[row / ROWS * ROWS * QUAD * quads..];
            for (lanes, four) in panel.chunks_exact_mut(ROWS * QUAD).zip(buffer.chunks(QUAD)) {
                lanes[row % ROWS * QUAD..][..four.len()].copy_from_slice(four);
            }
        }
        PanelsI8 { values, sums, rows, columns }
    }

    /// Rows packed, without padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of each row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of panels of 16 rows.
    pub fn panels(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    /// Memory held by the packed values.
    pub fn bytes(&self) -> usize {
        self.values.len()
    }

    /// The sum of each row, to correct products for the zero point of a quantised query.
    pub fn row_sums(&self) -> &[i32] {
        &self.sums
    }

    /// Row indices covered by these panels; the end counts the padding rows of the last panel.
    ///
    /// # Panics
    /// If there are not that many panels.
    pub fn lanes(&self, panels: Range<usize>) -> Range<usize> {
        assert!(panels.start <= panels.end && panels.end <= self.panels(), "no such panels");
        panels.start * ROWS..panels.end * ROWS
    }

    /// `out[q * stride + (lane − first lane)]` = exact dot product of query `q` and row `lane`.
    ///
    /// # Panics
    /// If the columns differ, the panels do not exist, `stride` is narrower than the panels or
    /// `out` too short.
    pub fn dots(
        &self,
        isa: Isa,
        queries: &ByteQueries,
        panels: Range<usize>,
        out: &mut [i32],
        stride: usize,
    ) {
        assert_eq!(queries.columns, self.columns, "queries and rows differ in columns");
        let lanes = self.lanes(panels.clone()).len();
        crate::panels::check_room(queries.len(), lanes, out.len(), stride);
        if lanes > 0 && queries.len() > 0 {
            isa.run(ByteDots { panels: self, queries, range: panels, out, stride });
        }
    }
}

/// Queries of unsigned bytes, row after row, as bytes and widened.
#[derive(Clone, Debug)]
pub struct ByteQueries {
    bytes: Lines<u8>,
    wide: Lines<i16>,
    columns: usize,
    length: usize,
}

impl ByteQueries {
    /// An empty block.
    pub fn new(columns: usize) -> Self {
        ByteQueries { bytes: Lines::zeroed(0), wide: Lines::zeroed(0), columns, length: 0 }
    }

    /// Removes all queries and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.wide.clear();
        self.length = 0;
    }

    /// Appends one query.
    ///
    /// # Panics
    /// If `row` has not one value per column.
    pub fn push(&mut self, row: &[u8]) {
        assert_eq!(row.len(), self.columns, "one value per column");
        let start = self.bytes.len();
        let end = start + self.columns.next_multiple_of(QUAD);
        self.bytes.grow(end);
        self.wide.grow(end);
        self.bytes[start..][..self.columns].copy_from_slice(row);
        for (wide, &byte) in self.wide[start..].iter_mut().zip(row) {
            *wide = byte.into();
        }
        self.length += 1;
    }

    /// Number of queries.
    #[expect(clippy::len_without_is_empty, reason = "a block is asked for its size, not its state")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Columns of each query.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

struct ByteDots<'a> {
    panels: &'a PanelsI8,
    queries: &'a ByteQueries,
    range: Range<usize>,
    out: &'a mut [i32],
    stride: usize,
}

impl Task for ByteDots<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let quads = self.panels.columns.div_ceil(QUAD);
        let lanes = self.panels.lanes(self.range.clone());
        let sweep = ByteSweep {
            rows: self.panels.values[lanes.start * QUAD * quads..].as_ptr(),
            lanes: lanes.len(),
            quads,
            bytes: self.queries.bytes.as_ptr(),
            wide: self.queries.wide.as_ptr(),
            out: self.out.as_mut_ptr(),
            stride: self.stride,
        };
        // SAFETY: `dots` checked that `out` holds all queries times all lanes of the range; `M` is
        // the machine of the target features this body was inlined into.
        unsafe { sweep.all::<M::Bytes>(self.queries.len()) }
    }
}

/// All rows of a range of panels against some queries.
#[derive(Copy, Clone)]
struct ByteSweep {
    rows: *const i8,
    lanes: usize,
    quads: usize,
    bytes: *const u8,
    wide: *const i16,
    out: *mut i32,
    stride: usize,
}

impl ByteSweep {
    /// Tiles of `N` vectors by `Q` queries that fit the registers of the machine.
    #[inline(always)]
    unsafe fn all<B: ByteVector>(self, queries: usize) {
        let mut lane = 0;
        // SAFETY: strips end within the lanes, which are a multiple of 16.
        unsafe {
            if B::ROWS == ROWS {
                while lane + 4 * ROWS <= self.lanes {
                    self.strip::<B, 4, 4>(lane, queries);
                    lane += 4 * ROWS;
                }
                while lane < self.lanes {
                    self.strip::<B, 1, 4>(lane, queries);
                    lane += ROWS;
                }
            } else {
                while lane < self.lanes {
                    self.strip::<B, 2, 4>(lane, queries);
                    lane += 2 * B::ROWS;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn strip<B: ByteVector, const N: usize, const Q: usize>(
        self,
        lane: usize,
        queries: usize,
    ) {
        let mut query = 0;
        // SAFETY: the strip exists and so do the queries.
        unsafe {
            while query + Q <= queries {
                self.tile::<B, N, Q>(lane, query);
                query += Q;
            }
            while query < queries {
                self.tile::<B, N, 1>(lane, query);
                query += 1;
            }
        }
    }

    /// `N` vectors of rows from `lane` on times `Q` queries from `query` on, over all columns.
    #[inline(always)]
    unsafe fn tile<B: ByteVector, const N: usize, const Q: usize>(self, lane: usize, query: usize) {
        // SAFETY: the caller gives rows and queries that exist; each has `quads` groups of four.
        unsafe {
            let mut sums = [[B::zero(); Q]; N];
            let mut rows = [self.rows; N];
            for n in 0..N {
                let row = lane + n * B::ROWS;
                let panel = row / ROWS * ROWS * QUAD * self.quads;
                rows[n] = self.rows.add(panel + row % ROWS * QUAD);
            }
            let first = query * QUAD * self.quads;
            for quad in 0..self.quads {
                let start = first + quad * QUAD;
                let mut four = [B::query(self.bytes.add(start), self.wide.add(start)); Q];
                for q in 1..Q {
                    let place = start + q * QUAD * self.quads;
                    four[q] = B::query(self.bytes.add(place), self.wide.add(place));
                }
                for n in 0..N {
                    B::multiply_add(&mut sums[n], &four, rows[n].add(quad * ROWS * QUAD));
                }
            }
            for q in 0..Q {
                for n in 0..N {
                    let place = (query + q) * self.stride + lane + n * B::ROWS;
                    sums[n][q].store(self.out.add(place));
                }
            }
        }
    }
}
