//! Rows of the Gram matrix: computed in blocks, cached under a memory limit, in f32 or f64.
//!
//! Columns are grouped in blocks. A binary subproblem reads some blocks side by side: all examples in one block, or
//! the two blocks of a pair of classes. Cached rows of a block serve every subproblem that reads the block. Which rows
//! are needed is decided by the solver (`solvers/smo`).

mod cache;
mod columns;
mod kernel_sums;
mod source;
mod value;
mod weighted_columns;

use mercer_simd::Isa;
use rayon::prelude::*;

use cache::{Cache, RowKey};
pub(crate) use columns::GramColumns;
pub(crate) use kernel_sums::kernel_sums;
pub(crate) use source::{F32_LIMIT, F32Rows, Source};
pub(crate) use value::GramValue;
pub(crate) use weighted_columns::WeightedColumns;

/// Maximal number of values per segment of a cached row; a multiple of the chunk sizes in `columns.rs`.
const SEGMENT: usize = 3072;
/// Columns of the gradient that one task updates.
const TASK_COLUMNS: usize = SEGMENT / 2;
/// Values of longer rows are not in a near cache when a table is made of them.
const LONG_ROW: usize = 2048;
/// Rows of a table that one task computes.
const TABLE_ROWS: usize = 128;

/// Kernel rows over blocks of columns.
#[derive(Debug)]
pub(crate) struct Gram<'a> {
    pub(crate) source: Source<'a>,
    /// The examples of each block before shrinking.
    full: Vec<Vec<u32>>,
    rows: StoredRows,
    /// Kernel values computed so far.
    computed: u64,
    peak_pack: usize,
    /// Peak bytes of the cache of f32 rows, after the switch to f64.
    peak_cached: usize,
}

/// The rows, in one of the two precisions.
#[derive(Debug)]
enum StoredRows {
    F32(RowStore<f32>),
    F64(RowStore<f64>),
}

/// Packed columns and cached rows of one precision.
#[derive(Debug)]
struct RowStore<T> {
    columns: Vec<GramColumns>,
    cache: Cache<T>,
}

/// The blocks that one subproblem reads, side by side.
#[derive(Debug, Clone)]
pub(crate) struct View {
    blocks: Vec<u32>,
}

impl View {
    /// These blocks in this order.
    pub(crate) fn new(blocks: &[usize]) -> Self {
        Self { blocks: blocks.iter().map(|block| *block as u32).collect() }
    }
}

macro_rules! each {
    ($gram:expr, $store:ident => $body:expr) => {
        match &mut $gram.rows {
            StoredRows::F32($store) => $body,
            StoredRows::F64($store) => $body,
        }
    };
}

impl<'a> Gram<'a> {
    /// `blocks` are disjoint groups of examples; `memory` limits packed columns and cached rows, in bytes.
    pub(crate) fn new(source: Source<'a>, blocks: Vec<Vec<u32>>, memory: usize) -> Self {
        let rows = if source.fits_f32 {
            StoredRows::F32(RowStore::new(&source, &blocks, false, memory))
        } else {
            StoredRows::F64(RowStore::new(&source, &blocks, true, memory))
        };
        let mut gram =
            Self { source, full: blocks, rows, computed: 0, peak_pack: 0, peak_cached: 0 };
        gram.record_pack_bytes();
        gram
    }

    /// The same for solvers that compute kernel values themselves: no columns are packed.
    pub(crate) fn without_columns(source: Source<'a>, blocks: Vec<Vec<u32>>) -> Self {
        let rows = StoredRows::F64(RowStore { columns: Vec::new(), cache: Cache::new(0, 1) });
        Self { source, full: blocks, rows, computed: 0, peak_pack: 0, peak_cached: 0 }
    }

    /// Counts what a solver computed without the rows of this matrix.
    pub(crate) fn add_work(&mut self, kernel_values: u64, peak_bytes: usize) {
        self.computed += kernel_values;
        self.peak_pack = self.peak_pack.max(peak_bytes);
    }

    /// The examples of a view, shrunk ones included.
    pub(crate) fn examples(&self, view: &View) -> Vec<u32> {
        view.blocks.iter().flat_map(|block| self.full[*block as usize].iter().copied()).collect()
    }

    /// How many kernel rows of a view fit in memory.
    pub(crate) fn capacity(&mut self, view: &View) -> usize {
        each!(self, store => store.capacity(view))
    }

    pub(crate) fn is_f64(&self) -> bool {
        matches!(self.rows, StoredRows::F64(_))
    }

    /// Continues with f64 values; all rows are computed again.
    pub(crate) fn switch_to_f64(&mut self, memory: usize) {
        if !self.is_f64() {
            // The f32 rows are freed before memory is allocated for f64 rows.
            self.peak_cached = self.cached_bytes();
            self.rows = StoredRows::F64(RowStore { columns: Vec::new(), cache: Cache::new(0, 1) });
            self.rows = StoredRows::F64(RowStore::new(&self.source, &self.full, true, memory));
            self.record_pack_bytes();
        }
    }

    /// Computes the rows of these examples that are not cached.
    pub(crate) fn fetch(&mut self, view: &View, examples: &[u32]) {
        let source = &self.source;
        self.computed += each!(self, store => store.fetch(source, view, examples));
    }

    /// Square matrix of kernel values among examples; `columns` are their positions in the view. The rows must
    /// have been fetched.
    pub(crate) fn table(&mut self, view: &View, examples: &[u32], columns: &[u32]) -> Vec<f64> {
        if let StoredRows::F32(store) = &self.rows
            && self.source.has_cheap_values()
            && store.width(view) > LONG_ROW
        {
            return computed_table(&self.source, examples);
        }
        each!(self, store => store.table(view, examples, columns))
    }

    /// `k_beta[c] += Σ_i deltas[i] K(examples[i], c)` over all columns of the view. The rows must
    /// have been fetched.
    pub(crate) fn add(
        &mut self,
        view: &View,
        examples: &[u32],
        deltas: &[f64],
        k_beta: &mut [f64],
    ) {
        each!(self, store => store.add(view, examples, deltas, k_beta));
    }

    /// `Σ_i weights[i] K(examples[i], c)` for all columns of the view, from rows that are kept where memory allows.
    pub(crate) fn sums(&mut self, view: &View, examples: &[u32], weights: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; each!(self, store => store.width(view))];
        let most = (self.capacity(view) / 2).max(1);
        for (examples, weights) in examples.chunks(most).zip(weights.chunks(most)) {
            self.fetch(view, examples);
            self.add(view, examples, weights, &mut sums);
        }
        sums
    }

    /// Removes columns (shrinking): `kept` are positions in the view, increasing. Only for a view that no other
    /// subproblem shares.
    pub(crate) fn shrink(&mut self, view: &View, kept: &[u32]) {
        let source = &self.source;
        each!(self, store => store.shrink(source, view, kept));
    }

    /// Restores all columns; the cached rows are dropped.
    pub(crate) fn restore(&mut self, view: &View) {
        let exact = self.is_f64();
        let (source, full) = (&self.source, &self.full);
        each!(self, store => store.restore(source, view, full, exact));
    }

    /// Kernel values computed so far.
    pub(crate) fn computed(&self) -> u64 {
        self.computed
    }

    /// Peak bytes of packed columns and cached rows.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_pack + self.peak_cached.max(self.cached_bytes())
    }

    fn cached_bytes(&self) -> usize {
        match &self.rows {
            StoredRows::F32(store) => store.cache.peak(),
            StoredRows::F64(store) => store.cache.peak(),
        }
    }

    fn record_pack_bytes(&mut self) {
        let held = each!(self, store => store.columns.iter().map(GramColumns::bytes).sum());
        self.peak_pack = self.peak_pack.max(held);
    }
}

/// The table computed again: the same bits as from cached rows, of which each value is in a cache line of its own.
fn computed_table(source: &Source<'_>, examples: &[u32]) -> Vec<f64> {
    let size = examples.len();
    let columns = GramColumns::new(source, examples.to_vec(), false);
    let mut table = vec![0.0; size * size];
    let parts =
        table.par_chunks_mut((TABLE_ROWS * size).max(1)).zip(examples.par_chunks(TABLE_ROWS));
    parts.for_each(|(table, examples)| columns.fill(source, examples, table));
    table
}

impl<T: GramValue> RowStore<T> {
    fn new(source: &Source<'_>, blocks: &[Vec<u32>], exact: bool, memory: usize) -> Self {
        let columns: Vec<GramColumns> =
            blocks.iter().map(|rows| GramColumns::new(source, rows.clone(), exact)).collect();
        let packed: usize = columns.iter().map(GramColumns::bytes).sum();
        let longest = columns.iter().map(GramColumns::len).max().unwrap_or(0);
        let cache = Cache::new(memory.saturating_sub(packed), longest.min(SEGMENT));
        Self { columns, cache }
    }

    /// Columns of a view.
    fn width(&self, view: &View) -> usize {
        view.blocks.iter().map(|block| self.columns[*block as usize].len()).sum()
    }

    fn capacity(&self, view: &View) -> usize {
        let segment = self.cache.segment();
        let lengths = view.blocks.iter().map(|block| self.columns[*block as usize].len());
        let segments: usize = lengths.map(|length| length.div_ceil(segment)).sum();
        self.cache.limit() / segments.max(1)
    }

    fn fetch(&mut self, source: &Source<'_>, view: &View, examples: &[u32]) -> u64 {
        let mut computed = 0;
        let keep = examples.len() * view.blocks.len();
        for block in &view.blocks {
            let key = |row: &u32| -> RowKey { (*block, *row) };
            let missing: Vec<u32> =
                examples.iter().copied().filter(|row| !self.cache.touch(key(row))).collect();
            let columns = &self.columns[*block as usize];
            let mut rows = self.cache.allocate(missing.len(), columns.len(), keep);
            columns.compute(source, &missing, &mut rows);
            computed += (missing.len() * columns.len()) as u64;
            for (row, values) in missing.iter().zip(rows) {
                self.cache.insert(key(row), values);
            }
        }
        computed
    }

    fn row(&self, block: u32, example: u32) -> &[Vec<T>] {
        self.cache.get((block, example)).expect("rows are fetched before they are read")
    }

    /// First column of each block of the view.
    fn starts(&self, view: &View) -> Vec<usize> {
        let lengths = view.blocks.iter().map(|block| self.columns[*block as usize].len());
        std::iter::once(0)
            .chain(lengths.scan(0, |end, length| {
                *end += length;
                Some(*end)
            }))
            .collect()
    }

    fn table(&self, view: &View, examples: &[u32], columns: &[u32]) -> Vec<f64> {
        let starts = self.starts(view);
        let width = starts[view.blocks.len()];
        let is_whole = width > 0 && columns.len().is_multiple_of(width);
        if is_whole && columns.iter().zip((0..width as u32).cycle()).all(|(a, b)| *a == b) {
            return self.whole_table(view, &examples[..width], columns.len());
        }
        let segment = self.cache.segment();
        let place = |column: &u32| {
            let block = starts.partition_point(|start| *start <= *column as usize) - 1;
            let inside = *column as usize - starts[block];
            (block, inside / segment, inside % segment)
        };
        let places: Vec<(usize, usize, usize)> = columns.iter().map(place).collect();
        let size = columns.len();
        let mut table = vec![0.0; size * size];
        // Only the upper triangle is read, the lower one is copied: reads are slow, because each value is in its
        // own cache line.
        let rows = table.par_chunks_mut(size.max(1)).with_min_len(16).enumerate();
        rows.zip(examples).for_each(|((first, out), example)| {
            let rows: Vec<&[Vec<T>]> =
                view.blocks.iter().map(|block| self.row(*block, *example)).collect();
            for (value, (block, segment, at)) in out.iter_mut().zip(&places).skip(first) {
                *value = rows[*block][*segment][*at].to_f64();
            }
        });
        for row in 1..size {
            for column in 0..row {
                table[row * size + column] = table[column * size + row];
            }
        }
        table
    }

    /// The same for all examples of the view in order, repeated until there are `size`: rows are copied as they are.
    fn whole_table(&self, view: &View, examples: &[u32], size: usize) -> Vec<f64> {
        let width = examples.len();
        let mut table = Vec::with_capacity(size * size);
        for example in examples {
            let start = table.len();
            for block in &view.blocks {
                let mut left = self.columns[*block as usize].len();
                for values in self.row(*block, *example) {
                    let inside = values.len().min(left);
                    table.extend(values[..inside].iter().map(|value| value.to_f64()));
                    left -= inside;
                }
            }
            for _ in 1..size / width {
                table.extend_from_within(start..start + width);
            }
        }
        for _ in 1..size / width {
            table.extend_from_within(..width * size);
        }
        table
    }

    fn add(&self, view: &View, examples: &[u32], deltas: &[f64], k_beta: &mut [f64]) {
        let isa = Isa::current();
        let mut rest = k_beta;
        for block in &view.blocks {
            let (own_columns, others) = rest.split_at_mut(self.columns[*block as usize].len());
            rest = others;
            let rows: Vec<&[Vec<T>]> = examples.iter().map(|row| self.row(*block, *row)).collect();
            let segment = self.cache.segment();
            own_columns.par_chunks_mut(TASK_COLUMNS).enumerate().for_each(|(task, k_beta)| {
                let (number, start) =
                    (task * TASK_COLUMNS / segment, task * TASK_COLUMNS % segment);
                let inside = start..start + k_beta.len();
                let rows: Vec<&[T]> = rows.iter().map(|row| &row[number][inside.clone()]).collect();
                mercer_simd::add_rows(isa, &rows, deltas, k_beta);
            });
        }
    }

    fn shrink(&mut self, source: &Source<'_>, view: &View, kept: &[u32]) {
        let block = view.blocks[0];
        let columns = &self.columns[block as usize];
        let exact = size_of::<T>() == size_of::<f64>();
        let rows = kept.iter().map(|at| columns.rows[*at as usize]).collect();
        self.columns[block as usize] = GramColumns::new(source, rows, exact);
        self.cache.compact(block, kept, &self.columns[block as usize].rows);
    }

    fn restore(&mut self, source: &Source<'_>, view: &View, full: &[Vec<u32>], exact: bool) {
        let block = view.blocks[0];
        let rows = &full[block as usize];
        if self.columns[block as usize].len() < rows.len() {
            self.columns[block as usize] = GramColumns::new(source, rows.clone(), exact);
            self.cache.remove_block(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use mercer_data::synthetic::ripley;

    use super::*;

    /// A kernel row, computed as a sum with one weight of 1.
    fn row(gram: &mut Gram<'_>, view: &View, example: u32, width: usize) -> Vec<f64> {
        let mut k_beta = vec![0.0; width];
        gram.fetch(view, &[example]);
        gram.add(view, &[example], &[1.0], &mut k_beta);
        k_beta
    }

    #[test]
    fn rows_do_not_depend_on_which_rows_are_computed_together() {
        let data = ripley(900, 3);
        let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
        let blocks = vec![(0..600).collect(), (600..900).collect::<Vec<u32>>()];
        let source = || Source::new(&kernel, &data.examples);
        let mut gram = Gram::new(source(), blocks.clone(), 1 << 22);
        let mut other = Gram::new(source(), blocks, 900 * 4 * 8);
        let view = View::new(&[0, 1]);
        let wanted: Vec<u32> = (0..900).step_by(7).collect();
        gram.fetch(&view, &wanted);
        let table = gram.table(&view, &wanted, &wanted);
        for (at, example) in wanted.iter().enumerate() {
            let together = row(&mut gram, &view, *example, 900);
            assert_eq!(row(&mut other, &view, *example, 900), together);
            let exact = kernel.value(data.examples.row(*example as usize), data.examples.row(700));
            assert!((exact - together[700]).abs() < 1e-6);
            assert_eq!(table[at * wanted.len() + at], together[*example as usize]);
            assert!((table[at * wanted.len() + 3] - together[21]).abs() < 1e-6);
        }
    }

    #[test]
    fn kernel_sums_agree_with_added_rows_also_after_shrinking() {
        let data = ripley(150, 5);
        let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
        let mut gram =
            Gram::new(Source::new(&kernel, &data.examples), vec![(0..150).collect()], 1 << 20);
        let view = View::new(&[0]);
        let chosen = [3u32, 77, 149, 20, 21];
        let weights = [1.0, -2.0, 0.5, 3.0, 0.25];
        let mut k_beta = vec![0.0; 150];
        gram.fetch(&view, &chosen);
        gram.add(&view, &chosen, &weights, &mut k_beta);
        let all: Vec<u32> = (0..150).collect();
        let exact = kernel_sums(&gram.source, &all, &chosen, &weights);
        assert!(k_beta.iter().zip(&exact).all(|(sum, exact)| (sum - exact).abs() < 1e-5));
        let kept: Vec<u32> = (0..150).step_by(2).collect();
        gram.shrink(&view, &kept);
        let narrow = [5, 77].map(|example| row(&mut gram, &view, example, 75));
        gram.switch_to_f64(1 << 20);
        for (example, narrow) in [5, 77].into_iter().zip(narrow) {
            let full = row(&mut gram, &view, example, 150);
            let same = narrow.iter().zip(full.iter().step_by(2)).all(|(a, b)| (a - b).abs() < 1e-6);
            assert!(same);
        }
    }
}
