//! Scores of additive machines: tables of one number per column and bin.
//! The weights they are made of come from [`crate::linear`]; answers are computed in `mercer-query`.

use std::sync::Arc;

use mercer_machine::{Bins, Score, Spacing};
use mercer_simd::factors::{Factors, StepEncoding};

use super::bins::ValueBins;
use crate::TrainError;
use crate::backend::FittedScores;
use crate::linear::{LinearProblem, SubproblemSolution};

/// Linear in the look-up factors.
pub(super) fn factor_scores(
    problem: &LinearProblem<Factors>,
    bins: &ValueBins,
    solved: &[Option<SubproblemSolution<f32>>],
) -> Result<FittedScores, TrainError> {
    let (columns, rank) = (problem.columns.all(), problem.encoding.rank());
    let read = problem.encoding.read().to_vec();
    let grid = Arc::new(Bins::new(spacing(bins).clone(), rank, read)?);
    let score = |solution: &Option<SubproblemSolution<f32>>| match solution {
        Some(solution) => {
            let weights = problem.columns.scatter(&solution.weights, rank);
            Score::Additive { weights, offset: solution.offset }
        }
        None => Score::Additive { weights: vec![0.0; columns * rank], offset: 1.0 },
    };
    let scores = solved.iter().map(score).collect();
    Ok(FittedScores::Tables { columns, grid, scores })
}

/// Tables that are the curves of the columns themselves.
pub(super) fn curve_scores(
    problem: &LinearProblem<StepEncoding>,
    bins: &ValueBins,
    solved: &[Option<SubproblemSolution<f32>>],
) -> Result<FittedScores, TrainError> {
    let count = problem.encoding.values().len();
    let grid = Arc::new(Bins::one_hot(spacing(bins).clone(), count)?);
    let columns = problem.columns.all();
    let score = |solution: &Option<SubproblemSolution<f32>>| match solution {
        Some(solution) => {
            let weights: Vec<f64> = solution.weights.iter().map(|w| f64::from(*w)).collect();
            let curves = problem.encoding.curves(&weights);
            let weights: Vec<f32> = curves.into_iter().map(|value| value as f32).collect();
            let weights = problem.columns.scatter(&weights, grid.rank());
            Score::Additive { weights, offset: solution.offset }
        }
        None => Score::Additive { weights: vec![0.0; columns * grid.rank()], offset: 1.0 },
    };
    let scores = solved.iter().map(score).collect();
    Ok(FittedScores::Tables { columns, grid, scores })
}

fn spacing(bins: &ValueBins) -> &Spacing {
    match bins {
        ValueBins::Kept(spacing) => spacing,
        ValueBins::Signed { .. } => unreachable!("signed bins are for linear machines"),
    }
}
