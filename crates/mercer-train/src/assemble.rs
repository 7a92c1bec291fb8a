//! Solutions become a machine.

use mercer_data::Matrix;
use mercer_kernel::KernelRef;
use mercer_machine::{Machine, Output, Score};

use crate::{Expansion, TrainError};

/// Puts the scores over one set of supports, in the order of `blocks`: the supports of a class stand
/// together, so that a duel reads two runs of them and skips the others.
pub(crate) fn machine(
    kernel: &KernelRef,
    examples: &Matrix,
    blocks: &[Vec<u32>],
    learned: &[Expansion],
    output: Output,
) -> Result<Machine, TrainError> {
    let mut used = vec![false; examples.rows()];
    learned.iter().flat_map(|score| &score.examples).for_each(|row| used[*row as usize] = true);
    let ordered = blocks.iter().flatten().map(|row| *row as usize);
    let supports: Vec<usize> = ordered.filter(|row| used[*row]).collect();
    let mut place = vec![0u32; examples.rows()];
    for (position, row) in (0u32..).zip(&supports) {
        place[*row] = position;
    }
    let scores = learned
        .iter()
        .map(|score| {
            let pairs = score.examples.iter().zip(&score.coefficients);
            let mut pairs: Vec<(u32, f64)> =
                pairs.map(|(row, beta)| (place[*row as usize], *beta)).collect();
            pairs.sort_unstable_by_key(|(support, _)| *support);
            let (supports, coefficients) = pairs.into_iter().unzip();
            Score::Expansion { supports, coefficients, offset: score.offset }
        })
        .collect();
    Ok(Machine::new(kernel.clone(), examples.select(supports), scores, output)?)
}
