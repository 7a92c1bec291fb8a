//! Sums of kernel values in doubles, for what has to be honest.

use mercer_kernel::block::{BLOCK, Packed};
use mercer_simd::Isa;
use rayon::prelude::*;

use super::source::Source;

/// Supports packed at once.
const SUPPORTS: usize = 4096;

/// `Σ_j weights[j] K(examples[i], supports[j])` for every `i`, from kernel values in doubles.
pub(crate) fn fields(
    source: &Source<'_>,
    examples: &[u32],
    supports: &[u32],
    weights: &[f64],
) -> Vec<f64> {
    let isa = Isa::current();
    let mut sums = vec![0.0; examples.len()];
    for (supports, weights) in supports.chunks(SUPPORTS).zip(weights.chunks(SUPPORTS)) {
        let rows = source.examples.select(supports.iter().map(|row| *row as usize));
        let packed = Packed::new(source.kernel.clone(), &rows, source.centre.as_deref());
        sums.par_chunks_mut(BLOCK).zip(examples.par_chunks(BLOCK)).for_each_init(
            || (packed.queries(), Vec::new()),
            |(queries, scratch), (sums, examples)| {
                let rows = examples.iter().map(|row| source.row(*row));
                let mut partials = vec![[[0.0; 8]; 1]; examples.len()];
                packed.load(isa, rows.clone(), queries);
                packed.visit(isa, queries, rows, scratch, |tile| {
                    for query in tile.queries.clone() {
                        let (values, first) = (tile.of(query), tile.rows.start);
                        let partials = &mut partials[query];
                        mercer_simd::weighted_sums(isa, values, first, &[weights], partials);
                    }
                });
                for (sum, [partial]) in sums.iter_mut().zip(&partials) {
                    *sum += mercer_simd::fold8(partial);
                }
            },
        );
    }
    sums
}
