//! Columns of a Gram matrix: the source of kernel values of a factor, with a cache.
//! How columns become coordinates is in `factor`.

use std::collections::HashMap;

use mercer_data::{Matrix, Row};
use mercer_simd::Isa;
use rayon::prelude::*;

use crate::KernelRef;
use crate::block::{Packed, Queries};

/// Columns of a Gram matrix, computed when they are needed.
pub trait GramColumns {
    /// `K(i, i)` of every row.
    fn diagonal(&self) -> &[f64];

    /// `K(i, row)` of every row `i`.
    fn column(&mut self, row: usize, out: &mut [f64]);

    /// The columns of several rows, one after the other.
    fn columns(&mut self, rows: &[usize], out: &mut [f64]) {
        let length = self.diagonal().len().max(1);
        for (row, out) in rows.iter().zip(out.chunks_exact_mut(length)) {
            self.column(*row, out);
        }
    }
}

/// Columns computed by one thread at once.
const BATCH: usize = 16;

/// Columns of the Gram matrix of some rows; those computed are cache as long as they fit a limit.
#[derive(Debug)]
pub struct KernelColumns {
    packed: Packed,
    rows: Matrix,
    diagonal: Vec<f64>,
    queries: Queries,
    scratch: Vec<f64>,
    cache: HashMap<usize, Box<[f64]>>,
    /// Columns that may be cache.
    limit: usize,
}

impl KernelColumns {
    /// Rows under a kernel, less `centre` where the kernel depends on differences only; at most `memory`
    /// bytes of columns are cache.
    pub fn new(kernel: KernelRef, rows: Matrix, centre: Option<&[f64]>, memory: usize) -> Self {
        let packed = Packed::new(kernel, &rows, centre);
        let mut diagonal = packed.squared_norms().to_vec();
        let form = packed.kernel().form();
        match form.finish() {
            Some(finish) => finish.self_values(Isa::current(), &mut diagonal),
            None => {
                let values = rows.iter().map(|row| packed.kernel().value(row, row));
                diagonal = values.collect();
            }
        }
        let limit = memory / (8 * rows.rows().max(1));
        let (queries, scratch, cache) = (packed.queries(), Vec::new(), HashMap::new());
        Self { packed, rows, diagonal, queries, scratch, cache, limit }
    }

    /// The rows.
    pub fn rows(&self) -> &Matrix {
        &self.rows
    }

    /// `b(i, i)` of every row.
    pub fn squared_norms(&self) -> &[f64] {
        self.packed.squared_norms()
    }

    /// Whether rows are centred first.
    pub fn is_shifted(&self) -> bool {
        self.packed.is_shifted()
    }

    /// `K(i, z)` of every row `i` for a point from outside.
    pub fn against(&mut self, point: Row<'_>, out: &mut [f64]) {
        let Self { packed, queries, scratch, .. } = self;
        fill(packed, queries, scratch, point, out);
    }
}

fn fill(
    packed: &Packed,
    queries: &mut Queries,
    scratch: &mut Vec<f64>,
    point: Row<'_>,
    out: &mut [f64],
) {
    let (isa, point) = (Isa::current(), std::iter::once(point));
    packed.load(isa, point.clone(), queries);
    packed.visit(isa, queries, point, scratch, |tile| {
        out[tile.rows.clone()].copy_from_slice(tile.of(0));
    });
}

/// Columns of several rows, by all threads.
fn compute_columns(packed: &Packed, matrix: &Matrix, rows: &[usize], out: &mut [f64]) {
    let (isa, length) = (Isa::current(), (out.len() / rows.len().max(1)).max(1));
    let parts = out.par_chunks_mut(BATCH * length).zip(rows.par_chunks(BATCH));
    parts.for_each_init(
        || (packed.queries(), Vec::new()),
        |(queries, scratch), (out, rows)| {
            let points = rows.iter().map(|row| matrix.row(*row));
            packed.load(isa, points.clone(), queries);
            packed.visit(isa, queries, points, scratch, |tile| {
                for (query, out) in out.chunks_exact_mut(length).enumerate() {
                    out[tile.rows.clone()].copy_from_slice(tile.of(query));
                }
            });
        },
    );
}

impl GramColumns for KernelColumns {
    fn diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    fn column(&mut self, row: usize, out: &mut [f64]) {
        if let Some(cache) = self.cache.get(&row) {
            out.copy_from_slice(cache);
            return;
        }
        let Self { packed, queries, scratch, rows, .. } = self;
        fill(packed, queries, scratch, rows.row(row), out);
        if self.cache.len() < self.limit {
            self.cache.insert(row, out.into());
        }
    }

    fn columns(&mut self, rows: &[usize], out: &mut [f64]) {
        let length = self.diagonal.len().max(1);
        let unknown: Vec<usize> =
            rows.iter().copied().filter(|row| !self.cache.contains_key(row)).collect();
        let mut fresh = vec![0.0; unknown.len() * length];
        compute_columns(&self.packed, &self.rows, &unknown, &mut fresh);
        let mut fresh = fresh.chunks_exact(length);
        for (row, out) in rows.iter().zip(out.chunks_exact_mut(length)) {
            if let Some(cache) = self.cache.get(row) {
                out.copy_from_slice(cache);
            } else if let Some(values) = fresh.next() {
                out.copy_from_slice(values);
                if self.cache.len() < self.limit {
                    self.cache.insert(*row, values.into());
                }
            }
        }
    }
}
