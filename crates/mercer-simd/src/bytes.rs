//! Exact dot products of byte rows and byte queries; zero groups of the queries are skipped.

#![expect(unsafe_code, reason = "pointer arithmetic inside panels, bounded by the safe driver")]
#![expect(clippy::needless_range_loop, reason = "plain indices into register arrays unroll fully")]

use std::ops::Range;

use crate::aligned::AlignedBuffer;
use crate::isa::Isa;
use crate::vector::{ByteVector, SimdBackend, Task};

/// Rows of unsigned bytes packed once for one instruction set, laid out as
/// `[panel][group of columns][register of rows][byte]`.
///
/// The byte order within a register depends on the instruction set; the products do not.
#[derive(Clone, Debug)]
pub struct BytePanels {
    isa: Isa,
    shape: PanelShape,
    values: AlignedBuffer<u8>,
    rows: usize,
    columns: usize,
}

/// The layout of bytes for an instruction set.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct PanelShape {
    /// Columns that are multiplied together.
    group: usize,
    /// Rows of one register.
    rows: usize,
    /// Registers side by side in a full panel.
    registers: usize,
}

impl PanelShape {
    fn panel_rows(self) -> usize {
        self.rows * self.registers
    }
}

impl BytePanels {
    /// Columns up to which a product cannot overflow: `255 · 255 · 33_000 < 2^31`.
    pub const MOST_COLUMNS: usize = 33_000;

    /// Packs `rows` rows; `fill(row, buffer)` writes row `row` into a zeroed buffer.
    ///
    /// # Panics
    /// If there are more than [`BytePanels::MOST_COLUMNS`] columns or they do not fit in memory.
    pub fn pack(isa: Isa, rows: usize, columns: usize, fill: impl FnMut(usize, &mut [u8])) -> Self {
        assert!(columns <= Self::MOST_COLUMNS, "too many columns for 32-bit sums");
        let (shape, values) = isa.run(PackBytes { rows, columns, fill });
        BytePanels { isa, shape, values, rows, columns }
    }

    /// Rows packed, without padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of each row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows of a full panel: up to 96.
    pub fn panel_rows(&self) -> usize {
        self.shape.panel_rows()
    }

    /// Number of panels.
    pub fn panels(&self) -> usize {
        self.rows.div_ceil(self.panel_rows())
    }

    /// Memory held by the packed values.
    pub fn bytes(&self) -> usize {
        self.values.len()
    }

    /// Row indices covered by these panels; the end counts the padding rows of the last panel.
    ///
    /// # Panics
    /// If there are not that many panels.
    pub fn lanes(&self, panels: Range<usize>) -> Range<usize> {
        assert!(panels.start <= panels.end && panels.end <= self.panels(), "no such panels");
        let padded = self.rows.next_multiple_of(self.shape.rows);
        let width = self.panel_rows();
        (panels.start * width).min(padded)..(panels.end * width).min(padded)
    }

    /// An empty block of queries for these rows.
    pub fn queries(&self) -> ByteQueries {
        ByteQueries {
            isa: self.isa,
            group: self.shape.group,
            columns: self.columns,
            entries: Vec::new(),
            ends: Vec::new(),
            sums: Vec::new(),
            row: vec![0; self.columns.next_multiple_of(4)],
        }
    }

    /// `out[q * stride + (lane − first lane)]` = exact dot product of the `q`th of these queries and row `lane`.
    ///
    /// # Panics
    /// If the queries were not made for these rows, the panels or queries do not exist, `stride` is narrower
    /// than the panels or `out` too short.
    pub fn dots(
        &self,
        queries: &ByteQueries,
        query_range: Range<usize>,
        panels: Range<usize>,
        out: &mut [i32],
        stride: usize,
    ) {
        let fits = queries.columns == self.columns && queries.group == self.shape.group;
        assert!(fits, "the queries were not made for these rows");
        assert!(
            query_range.start <= query_range.end && query_range.end <= queries.len(),
            "no such queries"
        );
        let lanes = self.lanes(panels.clone()).len();
        crate::panels::check_output_size(query_range.len(), lanes, out.len(), stride);
        if lanes > 0 && !query_range.is_empty() {
            self.isa.run(ByteDots {
                panels: self,
                queries,
                query_range,
                range: panels,
                out,
                stride,
            });
        }
    }
}

/// Queries of unsigned bytes: the groups of columns that are not zero throughout.
#[derive(Clone, Debug)]
pub struct ByteQueries {
    isa: Isa,
    group: usize,
    columns: usize,
    entries: Vec<ByteGroup>,
    /// End of each query in `entries`.
    ends: Vec<usize>,
    /// Sum of the bytes of each query.
    sums: Vec<i32>,
    row: Vec<u8>,
}

/// One group of columns of a query.
#[derive(Copy, Clone, Debug, Default)]
struct ByteGroup {
    group: u32,
    /// Two words or four bytes, as the instruction needs them.
    word: u32,
}

impl ByteQueries {
    /// Removes all queries and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.ends.clear();
        self.sums.clear();
    }

    /// Appends one query.
    ///
    /// # Panics
    /// If `row` has not one value per column.
    pub fn push(&mut self, row: &[u8]) {
        assert_eq!(row.len(), self.columns, "one value per column");
        self.row[..row.len()].copy_from_slice(row);
        let start = self.entries.len();
        self.entries.resize(start + self.columns.div_ceil(self.group), ByteGroup::default());
        let entries = &mut self.entries[start..];
        let mut kept = 0;
        // Written first and counted if not zero: no branch to mispredict.
        if self.group == 2 {
            for (group, bytes) in (0u32..).zip(self.row.as_chunks::<2>().0).take(entries.len()) {
                let word = u32::from(bytes[0]) | u32::from(bytes[1]) << 16;
                entries[kept] = ByteGroup { group, word };
                kept += usize::from(word != 0);
            }
        } else {
            for (group, bytes) in (0u32..).zip(self.row.as_chunks::<4>().0) {
                let word = u32::from_le_bytes(*bytes);
                entries[kept] = ByteGroup { group, word };
                kept += usize::from(word != 0);
            }
        }
        self.entries.truncate(start + kept);
        self.ends.push(self.entries.len());
        self.sums.push(byte_sums(self.isa, row).0);
    }

    /// Number of queries.
    #[expect(
        clippy::len_without_is_empty,
        reason = "callers need the number of queries, not whether it is zero"
    )]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Columns of each query.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Bytes of a panel that stay in the L1 cache while queries are multiplied with it.
const FIRST_CACHE: usize = 46 << 10;

/// How many registers of `bytes` each make a panel: one less than `most` where that makes it stay in the first cache.
/// On MNIST 3v8 with VNNI, five take 2.6 us a query where six take 3.7; where neither fits, six are the better.
fn registers(most: usize, bytes: usize) -> usize {
    let is_near = most * bytes > FIRST_CACHE && (most - 1) * bytes <= FIRST_CACHE;
    if is_near && most > 1 { most - 1 } else { most }
}

struct ByteSums<'a>(&'a [u8]);

impl Task for ByteSums<'_> {
    type Output = (i32, i32);

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> (i32, i32) {
        let (mut sum, mut squares) = (0i32, 0i32);
        for byte in self.0 {
            let byte = i32::from(*byte);
            sum += byte;
            squares += byte * byte;
        }
        (sum, squares)
    }
}

/// The sum of some bytes and that of their squares.
///
/// # Panics
/// If there are more than [`BytePanels::MOST_COLUMNS`] of them.
pub fn byte_sums(isa: Isa, bytes: &[u8]) -> (i32, i32) {
    assert!(bytes.len() <= BytePanels::MOST_COLUMNS, "too many bytes for 32-bit sums");
    isa.run(ByteSums(bytes))
}

struct PackBytes<F> {
    rows: usize,
    columns: usize,
    fill: F,
}

impl<F: FnMut(usize, &mut [u8])> Task for PackBytes<F> {
    type Output = (PanelShape, AlignedBuffer<u8>);
    const USES_BYTES: bool = true;

    #[inline(always)]
    fn run<B: SimdBackend>(mut self) -> (PanelShape, AlignedBuffer<u8>) {
        let group = B::Bytes::GROUP;
        let groups = self.columns.div_ceil(group);
        let register = B::Bytes::ROWS * group;
        let registers = registers(B::Bytes::REGISTERS, groups * register);
        let shape = PanelShape { group, rows: B::Bytes::ROWS, registers };
        let size = self.rows.next_multiple_of(shape.rows).checked_mul(groups * group);
        let mut values = AlignedBuffer::zeroed(size.expect("panels larger than memory"));
        let mut buffer = vec![0; self.columns];
        for row in 0..self.rows {
            buffer.fill(0);
            (self.fill)(row, &mut buffer);
            let panel = row / shape.panel_rows();
            let left = self.rows.next_multiple_of(shape.rows) - panel * shape.panel_rows();
            let registers = shape.registers.min(left / shape.rows);
            let inside = row % shape.panel_rows();
            let start =
                panel * shape.panel_rows() * groups * group + inside / shape.rows * register;
            for column in 0..groups * group {
                let at = start + column / group * registers * register;
                let byte = buffer.get(column).copied().unwrap_or(0);
                let (place, stored) = B::Bytes::place(inside % shape.rows, column % group, byte);
                values[at + place] = stored;
            }
        }
        (shape, values)
    }
}

struct ByteDots<'a> {
    panels: &'a BytePanels,
    queries: &'a ByteQueries,
    query_range: Range<usize>,
    range: Range<usize>,
    out: &'a mut [i32],
    stride: usize,
}

impl Task for ByteDots<'_> {
    type Output = ();
    const USES_BYTES: bool = true;

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let (panels, queries) = (self.panels, self.queries);
        let groups = panels.columns.div_ceil(panels.shape.group);
        let first = panels.lanes(self.range.clone()).start;
        for panel in self.range {
            let lanes = panels.lanes(panel..panel + 1);
            let bytes = groups * panels.shape.group;
            let sweep = BytePanelSweep {
                rows: &panels.values[lanes.start * bytes..lanes.end * bytes],
                entries: &queries.entries,
                groups,
            };
            let mut start =
                self.query_range.start.checked_sub(1).map_or(0, |last| queries.ends[last]);
            for (place, query) in self.query_range.clone().enumerate() {
                let out = &mut self.out[place * self.stride + lanes.start - first..][..lanes.len()];
                let range = start..queries.ends[query];
                let sum = queries.sums[query];
                match lanes.len() / panels.shape.rows {
                    1 => sweep.query::<B::Bytes, 1>(range, sum, out),
                    2 => sweep.query::<B::Bytes, 2>(range, sum, out),
                    3 => sweep.query::<B::Bytes, 3>(range, sum, out),
                    4 => sweep.query::<B::Bytes, 4>(range, sum, out),
                    5 => sweep.query::<B::Bytes, 5>(range, sum, out),
                    _ => sweep.query::<B::Bytes, 6>(range, sum, out),
                }
                start = queries.ends[query];
            }
        }
    }
}

/// All rows of one panel.
struct BytePanelSweep<'a> {
    rows: &'a [u8],
    entries: &'a [ByteGroup],
    groups: usize,
}

impl BytePanelSweep<'_> {
    /// One query against `N` registers of rows.
    #[inline(always)]
    fn query<B: ByteVector, const N: usize>(
        &self,
        entries: Range<usize>,
        sum: i32,
        out: &mut [i32],
    ) {
        assert!(
            out.len() == N * B::ROWS && self.rows.len() == N * B::ROWS * B::GROUP * self.groups
        );
        // SAFETY: entries name groups below `groups`, since `push` counted them off a row of as many
        // columns as the panel has; each group has `N` registers in the panel, and `out` a place for
        // each of their rows. `B` belongs to the backend this body was inlined into.
        unsafe {
            let mut sums = [B::zero(); N];
            for entry in &self.entries[entries] {
                let x = B::query(entry.word);
                let rows = self.rows.as_ptr().add(entry.group as usize * N * B::ROWS * B::GROUP);
                for n in 0..N {
                    sums[n].multiply_add(x, rows.add(n * B::ROWS * B::GROUP));
                }
            }
            for n in 0..N {
                sums[n].store(sum.wrapping_mul(128), out.as_mut_ptr().add(n * B::ROWS));
            }
        }
    }
}
