//! Sums of f32 kernel values over weighted supports. The f64 ones are in [`crate::decomposition`].

use mercer_data::{Matrix, Row};
use mercer_kernel::KernelRef;
use mercer_simd::Isa;
use rayon::prelude::*;

use super::columns::{BATCH, F32_CHUNK, F32Chunk, QueryBatch, Scratch};
use super::source::F32Rows;

/// Supports with a weight each, packed in f32: `Σ_j weight_j K(x, z_j)` of rows x, added in f64.
///
/// A sum has the same bits whatever batch its row is in, on any number of threads and instruction set.
#[derive(Debug)]
pub(crate) struct WeightedColumns {
    chunks: Vec<F32Chunk>,
    weights: Vec<f64>,
}

impl WeightedColumns {
    /// Packs the supports.
    pub(crate) fn new(f32_rows: &F32Rows, supports: &Matrix, weights: &[f64]) -> Self {
        let starts: Vec<usize> = (0..supports.rows()).step_by(F32_CHUNK).collect();
        let chunk = |start: &usize| {
            let count = F32_CHUNK.min(supports.rows() - start);
            F32Chunk::new(f32_rows, count, |row| supports.row(start + row))
        };
        Self { chunks: starts.par_iter().map(chunk).collect(), weights: weights.to_vec() }
    }

    /// Memory of the packed supports, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.panels.bytes()).sum::<usize>() + 8 * self.weights.len()
    }

    /// Adds the sum of each row to its place in `sums`.
    pub(crate) fn add_rows<'r>(
        &self,
        kernel: &KernelRef,
        f32_rows: &F32Rows,
        row: impl Fn(usize) -> Row<'r> + Sync,
        sums: &mut [f64],
    ) {
        let isa = Isa::current();
        let form = kernel.form();
        let finish = form.finish().expect("kernels with f32 rows have a form");
        let batches = sums.par_chunks_mut(BATCH).enumerate();
        batches.for_each_init(Scratch::default, |scratch, (batch, sums)| {
            let first = batch * BATCH;
            let rows = (first..first + sums.len()).map(&row);
            let batch = QueryBatch::new(f32_rows, rows);
            for (chunk, weights) in self.chunks.iter().zip(self.weights.chunks(F32_CHUNK)) {
                let values = chunk.values(f32_rows.profile, finish, &batch, scratch);
                for (sum, values) in sums.iter_mut().zip(values) {
                    *sum += mercer_simd::weighted_sum(isa, &values[..weights.len()], weights);
                }
            }
        });
    }
}
