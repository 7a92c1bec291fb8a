//! Blocks of kernel values: some examples against all examples of a block of columns.

use mercer_kernel::block::{BLOCK, Packed};
use mercer_kernel::{Finish, Profile};
use mercer_simd::{DenseQueries32, Isa, Panels32, SparseQueries32};
use rayon::prelude::*;

use super::cache::Segments;
use super::source::{F32Rows, Source};
use super::value::GramValue;

/// Panels of singles per piece of work: 384 rows, whose products with a batch stay in the second cache.
const PIECE_PANELS: usize = 4;
const F32_CHUNK: usize = PIECE_PANELS * Panels32::WIDTH;
/// Examples multiplied at once with a piece.
const BATCH: usize = 128;
/// Rows of doubles per piece of work.
const F64_CHUNK: usize = 1024;

/// Examples that are columns of the Gram matrix, packed for products.
#[derive(Debug)]
pub(crate) struct GramColumns {
    pub(super) rows: Vec<u32>,
    pack: Pack,
}

#[derive(Debug)]
enum Pack {
    F32(Vec<Piece>),
    F64(Vec<Packed>),
}

/// Columns multiplied by one thread at a time.
#[derive(Debug)]
struct Piece {
    panels: Panels32,
    /// Squared norms, zero-padded to whole lanes.
    norms: Vec<f32>,
}

/// A batch of examples ready to be multiplied with panels.
struct Batch {
    queries: Queries,
    norms: Vec<f32>,
}

enum Queries {
    Dense(DenseQueries32),
    Sparse(SparseQueries32),
}

impl GramColumns {
    /// Packs rows in singles if the source has them and `exact` is not asked for.
    pub(crate) fn new(source: &Source<'_>, rows: Vec<u32>, exact: bool) -> Self {
        let pack = match &source.f32_rows {
            Some(f32_rows) if !exact => Pack::F32(
                rows.par_chunks(F32_CHUNK).map(|rows| Piece::new(source, f32_rows, rows)).collect(),
            ),
            _ => Pack::F64(
                rows.par_chunks(F64_CHUNK)
                    .map(|piece| {
                        let piece = source.examples.select(piece.iter().map(|row| *row as usize));
                        Packed::new(source.kernel.clone(), &piece, source.centre.as_deref())
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
            Pack::F32(pieces) => pieces.iter().map(|piece| piece.panels.bytes()).sum(),
            Pack::F64(pieces) => pieces.iter().map(Packed::bytes).sum(),
        }
    }

    /// Kernel values of the wanted examples against all columns; `out` holds one full row for each, in
    /// segments that pieces of work divide evenly if there are several.
    ///
    /// Every value has the same bits whatever else is computed beside it and on how many threads.
    pub(super) fn compute<T: GramValue>(
        &self,
        source: &Source<'_>,
        wanted: &[u32],
        out: &mut [Segments<T>],
    ) {
        if wanted.is_empty() || self.rows.is_empty() {
            return;
        }
        match &self.pack {
            Pack::F32(packs) => {
                let f32_rows = source.f32_rows.as_ref().expect("singles were packed from it");
                let form = source.kernel.form();
                let finish = form.finish().expect("kernels in singles have a form");
                let batches: Vec<Batch> = wanted
                    .par_chunks(BATCH)
                    .map(|batch| Batch::new(source, f32_rows, batch))
                    .collect();
                pieces(out, self.len(), F32_CHUNK).into_par_iter().zip(packs).for_each_init(
                    Scratch::default,
                    |scratch, (mut rows, piece)| {
                        for (batch, rows) in batches.iter().zip(rows.chunks_mut(BATCH)) {
                            piece.fill(f32_rows.profile, finish, batch, rows, scratch);
                        }
                    },
                );
            }
            Pack::F64(packs) => {
                pieces(out, self.len(), F64_CHUNK).into_par_iter().zip(packs).for_each(
                    |(mut rows, packed)| {
                        for (batch, rows) in wanted.chunks(BLOCK).zip(rows.chunks_mut(BLOCK)) {
                            fill_f64(source, packed, batch, rows);
                        }
                    },
                );
            }
        }
    }
}

impl GramColumns {
    /// Kernel values of the wanted examples against all columns, row after row, by one thread.
    pub(crate) fn fill<T: GramValue>(&self, source: &Source<'_>, wanted: &[u32], out: &mut [T]) {
        let width = self.rows.len();
        match &self.pack {
            Pack::F32(packs) => {
                let f32_rows = source.f32_rows.as_ref().expect("singles were packed from it");
                let form = source.kernel.form();
                let finish = form.finish().expect("kernels in singles have a form");
                let mut scratch = Scratch::default();
                for (batch, out) in wanted.chunks(BATCH).zip(out.chunks_mut(BATCH * width)) {
                    let batch = Batch::new(source, f32_rows, batch);
                    for (number, piece) in packs.iter().enumerate() {
                        let mut rows = cut(out, width, number * F32_CHUNK, F32_CHUNK);
                        piece.fill(f32_rows.profile, finish, &batch, &mut rows, &mut scratch);
                    }
                }
            }
            Pack::F64(packs) => {
                for (batch, out) in wanted.chunks(BLOCK).zip(out.chunks_mut(BLOCK * width)) {
                    for (number, packed) in packs.iter().enumerate() {
                        let mut rows = cut(out, width, number * F64_CHUNK, F64_CHUNK);
                        fill_f64(source, packed, batch, &mut rows);
                    }
                }
            }
        }
    }
}

/// The same stretch of every row of `width` values.
fn cut<T>(rows: &mut [T], width: usize, start: usize, length: usize) -> Vec<&mut [T]> {
    let end = (start + length).min(width);
    rows.chunks_mut(width).map(|row| &mut row[start..end]).collect()
}

/// Cuts all rows of `width` values at the same places: `result[piece][row]`.
fn pieces<T>(rows: &mut [Segments<T>], width: usize, length: usize) -> Vec<Vec<&mut [T]>> {
    let count = width.div_ceil(length);
    let mut pieces: Vec<Vec<&mut [T]>> =
        (0..count).map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        let parts = row.iter_mut().flat_map(|segment| segment.chunks_mut(length));
        let starts = (0..).step_by(length);
        for ((pieces, part), start) in pieces.iter_mut().zip(parts).zip(starts) {
            let inside = part.len().min(width - start);
            pieces.push(&mut part[..inside]);
        }
    }
    pieces
}

impl Batch {
    fn new(source: &Source<'_>, f32_rows: &F32Rows, rows: &[u32]) -> Self {
        let mut norms = Vec::with_capacity(rows.len());
        if f32_rows.is_sparse {
            let mut queries = SparseQueries32::new(f32_rows.columns());
            let (mut slots, mut values) = (Vec::new(), Vec::new());
            for row in rows {
                norms.push(f32_rows.list(source.row(*row), &mut slots, &mut values));
                queries.push(&slots, &values);
            }
            return Self { queries: Queries::Sparse(queries), norms };
        }
        let mut queries = DenseQueries32::new(f32_rows.columns());
        let mut buffer = vec![0.0; f32_rows.columns()];
        for row in rows {
            norms.push(f32_rows.write(source.row(*row), &mut buffer));
            queries.push(&buffer);
        }
        Self { queries: Queries::Dense(queries), norms }
    }
}

#[derive(Default)]
struct Scratch {
    products: Vec<f32>,
    wide: Vec<f64>,
}

impl Piece {
    fn new(source: &Source<'_>, f32_rows: &F32Rows, rows: &[u32]) -> Self {
        let mut norms = Vec::with_capacity(F32_CHUNK);
        let panels = Panels32::pack(rows.len(), f32_rows.columns(), |row, out| {
            norms.push(f32_rows.write(source.row(rows[row]), out));
        });
        norms.resize(rows.len().next_multiple_of(mercer_simd::LANES32), 0.0);
        Self { panels, norms }
    }

    fn fill<T: GramValue>(
        &self,
        profile: Profile,
        finish: &dyn Finish,
        batch: &Batch,
        rows: &mut [&mut [T]],
        scratch: &mut Scratch,
    ) {
        let isa = Isa::current();
        let range = 0..self.panels.panels();
        let stride = self.panels.lanes(range.clone()).len();
        let size = batch.norms.len() * stride;
        scratch.products.resize(size.max(scratch.products.len()), 0.0);
        let products = &mut scratch.products[..size];
        match &batch.queries {
            Queries::Dense(queries) => {
                self.panels.dots_dense(isa, queries, range, products, stride);
            }
            Queries::Sparse(queries) => {
                self.panels.dots_sparse(isa, queries, range, products, stride);
            }
        }
        let products = products.chunks_exact_mut(stride);
        for ((row, products), own) in rows.iter_mut().zip(products).zip(&batch.norms) {
            match profile {
                Profile::Identity => {}
                Profile::Gaussian { gamma } => {
                    mercer_simd::gaussian32(isa, products, *own, &self.norms, gamma as f32);
                }
                _ => {
                    scratch.wide.clear();
                    scratch.wide.extend(products.iter().map(|value| f64::from(*value)));
                    // Powers do not read the self-sums.
                    finish.finish(isa, &mut scratch.wide, 0.0, &[]);
                    for (place, value) in products.iter_mut().zip(&scratch.wide) {
                        *place = *value as f32;
                    }
                }
            }
            for (place, value) in row.iter_mut().zip(products.iter()) {
                *place = T::from_f32(*value);
            }
        }
    }
}

fn fill_f64<T: GramValue>(
    source: &Source<'_>,
    packed: &Packed,
    wanted: &[u32],
    rows: &mut [&mut [T]],
) {
    let isa = Isa::current();
    let (mut queries, mut scratch) = (packed.queries(), Vec::new());
    let examples = wanted.iter().map(|row| source.row(*row));
    packed.load(isa, examples.clone(), &mut queries);
    packed.visit(isa, &queries, examples, &mut scratch, |tile| {
        for query in tile.queries.clone() {
            let places = &mut rows[query][tile.rows.clone()];
            for (place, value) in places.iter_mut().zip(tile.of(query)) {
                *place = T::from_f64(*value);
            }
        }
    });
}
