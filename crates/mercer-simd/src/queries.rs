//! Blocks of queries in the memory layouts of the products; buffers that are refilled for each block.

use crate::aligned::{AlignedBuffer, PlainNumber};
use crate::isa::Isa;
use crate::vector::{Element, Join, SimdBackend, Task};

/// Queries interleaved in one group of dense queries.
pub(crate) const GROUP: usize = 4;

/// Columns in one chunk of sparse queries: 64 columns of a full panel are 24 KiB, which stay in
/// the first cache while all queries of the block walk over them.
pub(crate) const SPARSE_CHUNK: usize = 64;

/// Dense queries, interleaved by four: `[group][column][query of the group]`. Where the last group is not full,
/// it holds values of earlier queries, which nothing reads.
#[derive(Clone, Debug)]
pub struct DenseQueries<T> {
    values: AlignedBuffer<T>,
    columns: usize,
    length: usize,
}

/// Dense queries of f64.
pub type DenseQueries64 = DenseQueries<f64>;

/// Dense queries of f32.
pub type DenseQueries32 = DenseQueries<f32>;

impl<T: Element + PlainNumber> DenseQueries<T> {
    /// An empty block.
    pub fn new(columns: usize) -> Self {
        DenseQueries { values: AlignedBuffer::zeroed(0), columns, length: 0 }
    }

    /// Removes all queries and keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.length = 0;
    }

    /// Appends one query.
    ///
    /// # Panics
    /// If `row` has not one value per column.
    pub fn push(&mut self, row: &[T]) {
        assert_eq!(row.len(), self.columns, "one value per column");
        let group = self.length / GROUP * GROUP * self.columns;
        if self.length.is_multiple_of(GROUP) {
            self.values.grow(group + GROUP * self.columns);
        }
        let member = self.length % GROUP;
        for (place, &value) in self.values[group..].chunks_exact_mut(GROUP).zip(row) {
            place[member] = value;
        }
        self.length += 1;
    }

    /// Appends `count` queries from a row-major matrix whose rows start `stride` values apart.
    ///
    /// # Panics
    /// If `rows` is too short.
    pub fn push_rows(&mut self, rows: &[T], count: usize, stride: usize) {
        let columns = self.columns;
        let row = |at: usize| &rows[at * stride..][..columns];
        let mut done = 0;
        while done < count {
            if self.length.is_multiple_of(GROUP) && done + GROUP <= count {
                let start = self.length * self.columns;
                self.values.grow(start + GROUP * self.columns);
                let pairs = row(done).iter().zip(row(done + 1));
                let fours = pairs.zip(row(done + 2)).zip(row(done + 3));
                let places = self.values[start..].chunks_exact_mut(GROUP);
                for (place, (((a, b), c), d)) in places.zip(fours) {
                    place.copy_from_slice(&[*a, *b, *c, *d]);
                }
                self.length += GROUP;
                done += GROUP;
            } else {
                self.push(row(done));
                done += 1;
            }
        }
    }

    /// Number of queries.
    #[expect(
        clippy::len_without_is_empty,
        reason = "callers need the number of queries, not whether it is zero"
    )]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Columns of each query.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Squared norms: the chain of fused multiply-adds of each query with itself.
    ///
    /// # Panics
    /// If `out` does not have one element per query.
    pub fn squared_norms(&self, isa: Isa, out: &mut [T]) {
        assert_eq!(out.len(), self.length, "one element per query");
        isa.run(DenseNorms { queries: self, out });
    }

    #[inline(always)]
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }
}

struct DenseNorms<'a, T> {
    queries: &'a DenseQueries<T>,
    out: &'a mut [T],
}

impl<T: Element + PlainNumber> Task for DenseNorms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let size = GROUP * self.queries.columns;
        for (group, out) in self.out.chunks_mut(GROUP).enumerate() {
            let mut norms = [T::default(); GROUP];
            let values = &self.queries.values[group * size..][..size];
            for column in values.chunks_exact(GROUP) {
                for member in 0..GROUP {
                    norms[member] = column[member].square_add(norms[member]);
                }
            }
            for (place, norm) in out.iter_mut().zip(norms) {
                *place = norm.positive_zero();
            }
        }
    }
}

/// Sparse queries: the values that are not zero, cut into chunks of columns.
///
/// Chunk by chunk, the entries of all queries lie one after the other, in the order in which
/// the products read them.
#[derive(Clone, Debug)]
pub struct SparseQueries<T> {
    columns: usize,
    /// At least one, so that a query without columns still writes its zeros.
    chunks: Vec<ColumnChunk<T>>,
    length: usize,
}

/// Sparse queries of f64.
pub type SparseQueries64 = SparseQueries<f64>;

/// Sparse queries of f32.
pub type SparseQueries32 = SparseQueries<f32>;

/// What all queries hold within one chunk of columns.
#[derive(Clone, Debug)]
pub(crate) struct ColumnChunk<T> {
    pub entries: Vec<SparseEntry<T>>,
    /// For each query, where its entries end.
    pub ends: Vec<usize>,
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct SparseEntry<T> {
    pub value: T,
    pub column: u32,
}

impl<T: Element + PlainNumber> SparseQueries<T> {
    /// An empty block.
    pub fn new(columns: usize) -> Self {
        let empty = ColumnChunk { entries: Vec::new(), ends: Vec::new() };
        let chunks = vec![empty; columns.div_ceil(Self::chunk(columns)).max(1)];
        SparseQueries { columns, chunks, length: 0 }
    }

    /// Columns in one chunk. Where chunks are added, they determine the rounding, so they are
    /// those of the dense product; where a chain continues, the cache decides.
    fn chunk(columns: usize) -> usize {
        match T::JOIN {
            Join::Continue => SPARSE_CHUNK,
            Join::Add => T::chunk(columns, 1),
        }
    }

    /// Removes all queries and keeps the memory.
    pub fn clear(&mut self) {
        for chunk in &mut self.chunks {
            chunk.entries.clear();
            chunk.ends.clear();
        }
        self.length = 0;
    }

    /// Appends one query given by increasing columns and their values.
    ///
    /// # Panics
    /// If the lengths differ, or the columns do not increase or are not below the number of columns.
    pub fn push(&mut self, columns: &[u32], values: &[T]) {
        assert_eq!(columns.len(), values.len(), "one value per column");
        assert!(columns.windows(2).all(|pair| pair[0] < pair[1]), "columns must increase");
        assert!(
            columns.last().is_none_or(|&last| (last as usize) < self.columns),
            "no such column"
        );
        let width = Self::chunk(self.columns);
        let mut begin = 0;
        for (at, chunk) in self.chunks.iter_mut().enumerate() {
            let limit = (at + 1) * width;
            let mut end = begin;
            while end < columns.len() && (columns[end] as usize) < limit {
                end += 1;
            }
            let pairs = columns[begin..end].iter().zip(&values[begin..end]);
            chunk.entries.extend(pairs.map(|(&column, &value)| SparseEntry { value, column }));
            chunk.ends.push(chunk.entries.len());
            begin = end;
        }
        self.length += 1;
    }

    /// Number of queries.
    #[expect(
        clippy::len_without_is_empty,
        reason = "callers need the number of queries, not whether it is zero"
    )]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Columns of each query.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of stored values in all queries.
    pub fn stored(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.entries.len()).sum()
    }

    /// Squared norms: the chain of fused multiply-adds of each query with itself.
    ///
    /// # Panics
    /// If `out` does not have one element per query.
    pub fn squared_norms(&self, isa: Isa, out: &mut [T]) {
        assert_eq!(out.len(), self.length, "one element per query");
        isa.run(SparseNorms { queries: self, out });
    }

    #[inline(always)]
    pub(crate) fn chunks(&self) -> &[ColumnChunk<T>] {
        &self.chunks
    }
}

struct SparseNorms<'a, T> {
    queries: &'a SparseQueries<T>,
    out: &'a mut [T],
}

impl<T: Element + PlainNumber> Task for SparseNorms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        self.out.fill(T::default());
        for chunk in &self.queries.chunks {
            let mut start = 0;
            for (norm, &end) in self.out.iter_mut().zip(&chunk.ends) {
                for entry in &chunk.entries[start..end] {
                    *norm = entry.value.square_add(*norm);
                }
                start = end;
            }
        }
        for norm in self.out {
            *norm = norm.positive_zero();
        }
    }
}
