//! Weighted sums of kernel values in f64: to recompute `Kβ`, and for scores of examples.
//!
//! Slower than sums over cached f32 rows (`gram.rs`), but without their rounding errors.

use mercer_kernel::block::{BLOCK, Packed};
use rayon::prelude::*;

use super::source::Source;
use crate::decomposition::add_pack;

/// Supports packed by one thread.
const PACK: usize = 1024;
/// Supports that are packed at the same time.
const BATCH: usize = 4 * PACK;

/// `Σ_j weights[j] K(examples[i], supports[j])` for every `i`, from f64 kernel values.
pub(crate) fn kernel_sums(
    source: &Source<'_>,
    examples: &[u32],
    supports: &[u32],
    weights: &[f64],
) -> Vec<f64> {
    let mut sums = vec![0.0; examples.len()];
    for (supports, weights) in supports.chunks(BATCH).zip(weights.chunks(BATCH)) {
        let packs: Vec<Packed> = supports
            .par_chunks(PACK)
            .map(|supports| {
                let rows = source.examples.select(supports.iter().map(|row| *row as usize));
                Packed::new(source.kernel.clone(), &rows, source.centre.as_deref())
            })
            .collect();
        sums.par_chunks_mut(BLOCK).zip(examples.par_chunks(BLOCK)).for_each_init(
            Vec::new,
            |scratch, (sums, examples)| {
                for (packed, weights) in packs.iter().zip(weights.chunks(PACK)) {
                    let rows = examples.iter().map(|row| source.row(*row));
                    add_pack(packed, weights, rows, sums, scratch);
                }
            },
        );
    }
    sums
}
