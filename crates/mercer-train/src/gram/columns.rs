//! Computes kernel values: some examples against all examples of a block of columns. Caching is in `cache.rs`.

use mercer_data::Row;
use mercer_kernel::block::{BLOCK, Packed};
use mercer_kernel::{Finish, Profile};
use mercer_simd::{DenseQueries32, Isa, Panels32, SparseQueries32};
use rayon::prelude::*;

use super::cache::Segments;
use super::source::{F32Rows, Source};
use super::value::GramValue;

/// f32 panels per chunk: 384 columns, whose products with a batch stay in the L2 cache.
const CHUNK_PANELS: usize = 4;
pub(super) const F32_CHUNK: usize = CHUNK_PANELS * Panels32::WIDTH;
/// Examples that are multiplied with a chunk at once.
pub(super) const BATCH: usize = 128;
/// f64 columns per chunk.
const F64_CHUNK: usize = 1024;

/// Examples that are columns of the Gram matrix, packed for fast products.
#[derive(Debug)]
pub(crate) struct GramColumns {
    pub(super) rows: Vec<u32>,
    pack: Pack,
}

/// The packed columns, in chunks.
#[derive(Debug)]
enum Pack {
    F32(Vec<F32Chunk>),
    F64(Vec<Packed>),
}

/// A chunk of f32 columns; one thread multiplies it at a time.
#[derive(Debug)]
pub(super) struct F32Chunk {
    pub(super) panels: Panels32,
    /// Squared norms, padded with zeros to a multiple of the SIMD lanes.
    norms: Vec<f32>,
}

/// A batch of examples, packed for products with panels.
pub(super) struct QueryBatch {
    queries: PackedQueries,
    norms: Vec<f32>,
}

enum PackedQueries {
    Dense(DenseQueries32),
    Sparse(SparseQueries32),
}

impl GramColumns {
    /// Packs the columns in f32 if the source allows it and `exact` is false, else in f64.
    pub(crate) fn new(source: &Source<'_>, rows: Vec<u32>, exact: bool) -> Self {
        let pack = match &source.f32_rows {
            Some(f32_rows) if !exact => Pack::F32(
                rows.par_chunks(F32_CHUNK)
                    .map(|rows| F32Chunk::new(f32_rows, rows.len(), |row| source.row(rows[row])))
                    .collect(),
            ),
            _ => Pack::F64(
                rows.par_chunks(F64_CHUNK)
                    .map(|rows| {
                        let chunk = source.examples.select(rows.iter().map(|row| *row as usize));
                        Packed::new(source.kernel.clone(), &chunk, source.centre.as_deref())
                    })
                    .collect(),
            ),
        };
        Self { rows, pack }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.pack {
            Pack::F32(chunks) => chunks.iter().map(|chunk| chunk.panels.bytes()).sum(),
            Pack::F64(chunks) => chunks.iter().map(Packed::bytes).sum(),
        }
    }

    /// Kernel values of some examples against all columns; `out` has one row for each, in segments whose length is a
    /// multiple of the chunks if there are several.
    ///
    /// Every value has the same bits, whatever else is computed in the same call and on how many threads.
    pub(super) fn compute<T: GramValue>(
        &self,
        source: &Source<'_>,
        examples: &[u32],
        out: &mut [Segments<T>],
    ) {
        if examples.is_empty() || self.rows.is_empty() {
            return;
        }
        match &self.pack {
            Pack::F32(packs) => {
                let f32_rows =
                    source.f32_rows.as_ref().expect("f32 columns are packed from f32 rows");
                let form = source.kernel.form();
                let finish = form.finish().expect("kernels with f32 rows have a form");
                let batches: Vec<QueryBatch> = examples
                    .par_chunks(BATCH)
                    .map(|batch| {
                        QueryBatch::new(f32_rows, batch.iter().map(|row| source.row(*row)))
                    })
                    .collect();
                split_rows(out, self.len(), F32_CHUNK).into_par_iter().zip(packs).for_each_init(
                    Scratch::default,
                    |scratch, (mut rows, chunk)| {
                        for (batch, rows) in batches.iter().zip(rows.chunks_mut(BATCH)) {
                            chunk.fill(f32_rows.profile, finish, batch, rows, scratch);
                        }
                    },
                );
            }
            Pack::F64(packs) => {
                split_rows(out, self.len(), F64_CHUNK).into_par_iter().zip(packs).for_each(
                    |(mut rows, packed)| {
                        for (batch, rows) in examples.chunks(BLOCK).zip(rows.chunks_mut(BLOCK)) {
                            fill_f64(source, packed, batch, rows);
                        }
                    },
                );
            }
        }
    }
}

impl GramColumns {
    /// Kernel values of some examples against all columns, row-major, by one thread.
    pub(crate) fn fill<T: GramValue>(&self, source: &Source<'_>, examples: &[u32], out: &mut [T]) {
        let width = self.rows.len();
        match &self.pack {
            Pack::F32(packs) => {
                let f32_rows =
                    source.f32_rows.as_ref().expect("f32 columns are packed from f32 rows");
                let form = source.kernel.form();
                let finish = form.finish().expect("kernels with f32 rows have a form");
                let mut scratch = Scratch::default();
                for (batch, out) in examples.chunks(BATCH).zip(out.chunks_mut(BATCH * width)) {
                    let batch = QueryBatch::new(f32_rows, batch.iter().map(|row| source.row(*row)));
                    for (number, chunk) in packs.iter().enumerate() {
                        let mut rows = column_range(out, width, number * F32_CHUNK, F32_CHUNK);
                        chunk.fill(f32_rows.profile, finish, &batch, &mut rows, &mut scratch);
                    }
                }
            }
            Pack::F64(packs) => {
                for (batch, out) in examples.chunks(BLOCK).zip(out.chunks_mut(BLOCK * width)) {
                    for (number, packed) in packs.iter().enumerate() {
                        let mut rows = column_range(out, width, number * F64_CHUNK, F64_CHUNK);
                        fill_f64(source, packed, batch, &mut rows);
                    }
                }
            }
        }
    }
}

/// The same range of columns of every row of `width` values.
fn column_range<T>(rows: &mut [T], width: usize, start: usize, length: usize) -> Vec<&mut [T]> {
    let end = (start + length).min(width);
    rows.chunks_mut(width).map(|row| &mut row[start..end]).collect()
}

/// Splits all rows of `width` values into chunks of `length` columns: `result[chunk][row]`.
fn split_rows<T>(rows: &mut [Segments<T>], width: usize, length: usize) -> Vec<Vec<&mut [T]>> {
    let count = width.div_ceil(length);
    let mut chunks: Vec<Vec<&mut [T]>> =
        (0..count).map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        let parts = row.iter_mut().flat_map(|segment| segment.chunks_mut(length));
        let starts = (0..).step_by(length);
        for ((chunk, part), start) in chunks.iter_mut().zip(parts).zip(starts) {
            let inside = part.len().min(width - start);
            chunk.push(&mut part[..inside]);
        }
    }
    chunks
}

impl QueryBatch {
    pub(super) fn new<'r>(
        f32_rows: &F32Rows,
        rows: impl ExactSizeIterator<Item = Row<'r>>,
    ) -> Self {
        let count = rows.len();
        let mut norms = Vec::with_capacity(count);
        if f32_rows.is_sparse {
            let mut queries = SparseQueries32::new(f32_rows.columns());
            let (mut slots, mut values) = (Vec::new(), Vec::new());
            for row in rows {
                norms.push(f32_rows.list(row, &mut slots, &mut values));
                queries.push(&slots, &values);
            }
            return Self { queries: PackedQueries::Sparse(queries), norms };
        }
        let columns = f32_rows.columns();
        let mut queries = DenseQueries32::new(columns);
        let mut buffer = vec![0.0; count * columns];
        let places = buffer.chunks_exact_mut(columns.max(1));
        norms.extend(rows.zip(places).map(|(row, place)| f32_rows.write(row, place)));
        norms.resize(count, 0.0);
        queries.push_rows(&buffer, count, columns);
        Self { queries: PackedQueries::Dense(queries), norms }
    }
}

/// Buffers that one thread reuses.
#[derive(Default)]
pub(super) struct Scratch {
    products: Vec<f32>,
    products_f64: Vec<f64>,
}

impl F32Chunk {
    pub(super) fn new<'r>(f32_rows: &F32Rows, rows: usize, at: impl Fn(usize) -> Row<'r>) -> Self {
        let mut norms = Vec::with_capacity(F32_CHUNK);
        let panels = Panels32::pack(rows, f32_rows.columns(), |row, out| {
            norms.push(f32_rows.write(at(row), out));
        });
        norms.resize(rows.next_multiple_of(mercer_simd::LANES32), 0.0);
        Self { panels, norms }
    }

    fn fill<T: GramValue>(
        &self,
        profile: Profile,
        finish: &dyn Finish,
        batch: &QueryBatch,
        rows: &mut [&mut [T]],
        scratch: &mut Scratch,
    ) {
        let values = self.values(profile, finish, batch, scratch);
        for (row, values) in rows.iter_mut().zip(values) {
            for (out, value) in row.iter_mut().zip(values) {
                *out = T::from_f32(*value);
            }
        }
    }

    /// Kernel values of the columns, for one example of the batch after the other; zeros may follow the last column.
    pub(super) fn values<'s>(
        &self,
        profile: Profile,
        finish: &dyn Finish,
        batch: &QueryBatch,
        scratch: &'s mut Scratch,
    ) -> std::slice::ChunksExact<'s, f32> {
        let isa = Isa::current();
        let range = 0..self.panels.panels();
        let stride = self.panels.lanes(range.clone()).len();
        let size = batch.norms.len() * stride;
        let Scratch { products, products_f64 } = scratch;
        products.resize(size.max(products.len()), 0.0);
        let products = &mut products[..size];
        match &batch.queries {
            PackedQueries::Dense(queries) => {
                self.panels.dots_dense(isa, queries, range, products, stride);
            }
            PackedQueries::Sparse(queries) => {
                self.panels.dots_sparse(isa, queries, range, products, stride);
            }
        }
        for (products, norm) in products.chunks_exact_mut(stride).zip(&batch.norms) {
            match profile {
                Profile::Identity => {}
                Profile::Gaussian { gamma } => {
                    mercer_simd::gaussian32(isa, products, *norm, &self.norms, gamma as f32);
                }
                _ => {
                    products_f64.clear();
                    products_f64.extend(products.iter().map(|value| f64::from(*value)));
                    // Powers do not use the squared norms.
                    finish.finish(isa, products_f64, 0.0, &[]);
                    for (out, value) in products.iter_mut().zip(products_f64.iter()) {
                        *out = *value as f32;
                    }
                }
            }
        }
        products.chunks_exact(stride)
    }
}

fn fill_f64<T: GramValue>(
    source: &Source<'_>,
    packed: &Packed,
    examples: &[u32],
    rows: &mut [&mut [T]],
) {
    let isa = Isa::current();
    let (mut queries, mut scratch) = (packed.queries(), Vec::new());
    let examples = examples.iter().map(|row| source.row(*row));
    packed.load(isa, examples.clone(), &mut queries);
    packed.visit(isa, &queries, examples, &mut scratch, |tile| {
        for query in tile.queries.clone() {
            let row = &mut rows[query][tile.rows.clone()];
            for (out, value) in row.iter_mut().zip(tile.of(query)) {
                *out = T::from_f64(*value);
            }
        }
    });
}
