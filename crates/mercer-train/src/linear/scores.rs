//! Scores of plain linear machines.
//! Those of additive machines, over bins, are in `additive/tables.rs`.

use mercer_machine::Score;
use mercer_simd::Real as _;
use mercer_simd::factors::Encoding;

use super::solution::SubproblemSolution;
use super::subproblem::LinearProblem;
use crate::TrainError;
use crate::backend::FittedScores;

/// Linear in the values; a subproblem that was not started has a constant score.
pub(crate) fn linear_scores<M: Encoding>(
    problem: &LinearProblem<M>,
    solved: &[Option<SubproblemSolution<M::Real>>],
) -> Result<FittedScores, TrainError> {
    let columns = problem.columns.all();
    let score = |solution: &Option<SubproblemSolution<M::Real>>| match solution {
        Some(solution) => {
            let weights: Vec<f64> = solution.weights.iter().map(|w| w.to_f64()).collect();
            let weights = problem.columns.scatter(&weights, 1);
            Score::Linear { weights, offset: solution.offset }
        }
        None => Score::Linear { weights: vec![0.0; columns], offset: 1.0 },
    };
    Ok(FittedScores::Linear { columns, scores: solved.iter().map(score).collect() })
}
