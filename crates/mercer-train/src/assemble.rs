//! From fitted scores to a machine: sums over examples are put over one set of support vectors.
//! Scores are made in the backends; the report is built in [`crate::report`].

use mercer_data::Matrix;
use mercer_machine::{Machine, MachineError, Score};

use crate::backend::FittedScores;
use crate::decomposition::RowFile;
use crate::problem::Problem;
use crate::{Expansion, TrainError};

/// The machine of these scores; its supports are read from `file` where the examples are there, not in memory, and its expansions over examples where it has some.
///
/// # Errors
/// If the scores make no valid machine.
pub(crate) fn machine(
    problem: &Problem<'_>,
    scores: FittedScores,
    file: Option<&RowFile>,
) -> Result<(Machine, Vec<Expansion>), TrainError> {
    let (kernel, output) = (problem.kernel.clone(), problem.output.clone());
    Ok(match scores {
        FittedScores::Expansions { example_sets, expansions } => {
            let rows = problem.examples.rows();
            let (chosen, scores) = shared_supports(rows, &example_sets, &expansions);
            let supports = match file {
                Some(file) => file.select(&chosen)?,
                None => problem.matrix()?.select(chosen.iter().map(|row| *row as usize)),
            };
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

/// Puts the scores over one set of support vectors, in the order of `example_sets`: those of a class are
/// contiguous, so that a pairwise classifier reads two runs of them and skips the others.
fn shared_supports(
    examples: usize,
    example_sets: &[Vec<u32>],
    expansions: &[Expansion],
) -> (Vec<u32>, Vec<Score>) {
    let mut is_support = vec![false; examples];
    let with_coefficients = expansions.iter().flat_map(|expansion| &expansion.examples);
    with_coefficients.for_each(|example| is_support[*example as usize] = true);
    let ordered = example_sets.iter().flatten().copied();
    let supports: Vec<u32> = ordered.filter(|example| is_support[*example as usize]).collect();
    let mut support_of = vec![0u32; examples];
    for (support, example) in (0u32..).zip(&supports) {
        support_of[*example as usize] = support;
    }
    let score = |expansion: &Expansion| {
        let terms = expansion.examples.iter().zip(&expansion.coefficients);
        let mut terms: Vec<(u32, f64)> =
            terms.map(|(example, beta)| (support_of[*example as usize], *beta)).collect();
        terms.sort_unstable_by_key(|(support, _)| *support);
        let (supports, coefficients) = terms.into_iter().unzip();
        Score::Expansion { supports, coefficients, offset: expansion.offset }
    };
    let scores = expansions.iter().map(score).collect();
    (supports, scores)
}
