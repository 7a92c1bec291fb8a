//! From fitted scores to a machine.

use mercer_data::Matrix;
use mercer_machine::{Machine, MachineError, Score};

use crate::backend::FittedScores;
use crate::problem::Problem;
use crate::{Expansion, TrainError};

/// The machine of these scores, and its expansions over examples where it has some.
///
/// # Errors
/// If the scores make no valid machine.
pub(crate) fn machine(
    problem: &Problem<'_>,
    scores: FittedScores,
) -> Result<(Machine, Vec<Expansion>), TrainError> {
    let (kernel, output) = (problem.kernel.clone(), problem.output.clone());
    Ok(match scores {
        FittedScores::Expansions { blocks, expansions } => {
            let (supports, scores) = shared_supports(problem.matrix()?, &blocks, &expansions);
            (Machine::new(kernel, supports, scores, output)?, expansions)
        }
        FittedScores::Linear { columns, scores } => {
            let supports = Matrix::sparse(columns, &[0], &[], &[]).map_err(MachineError::from)?;
            (Machine::new(kernel, supports, scores, output)?, Vec::new())
        }
        FittedScores::Tables { columns, grid, scores } => {
            (Machine::additive(kernel, columns, grid, scores, output)?, Vec::new())
        }
    })
}

/// Puts the scores over one set of support vectors, in the order of `blocks`: those of a class are
/// contiguous, so that a pairwise classifier reads two runs of them and skips the others.
fn shared_supports(
    examples: &Matrix,
    blocks: &[Vec<u32>],
    expansions: &[Expansion],
) -> (Matrix, Vec<Score>) {
    let mut used = vec![false; examples.rows()];
    expansions.iter().flat_map(|score| &score.examples).for_each(|row| used[*row as usize] = true);
    let ordered = blocks.iter().flatten().map(|row| *row as usize);
    let supports: Vec<usize> = ordered.filter(|row| used[*row]).collect();
    let mut place = vec![0u32; examples.rows()];
    for (position, row) in (0u32..).zip(&supports) {
        place[*row] = position;
    }
    let score = |score: &Expansion| {
        let pairs = score.examples.iter().zip(&score.coefficients);
        let mut pairs: Vec<(u32, f64)> =
            pairs.map(|(row, beta)| (place[*row as usize], *beta)).collect();
        pairs.sort_unstable_by_key(|(support, _)| *support);
        let (supports, coefficients) = pairs.into_iter().unzip();
        Score::Expansion { supports, coefficients, offset: score.offset }
    };
    let scores = expansions.iter().map(score).collect();
    (examples.select(supports), scores)
}
