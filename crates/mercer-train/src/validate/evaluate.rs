//! What cross-validation scores are worth: the quality of the answers they give, and correlation.
//! The scores are computed by the backends.

use mercer_data::Targets;
use mercer_machine::{Answer, Output};

use super::{FoldRun, Folds, Measure, Validation};
use crate::TrainError;
use crate::problem::Problem;

impl FoldRun<'_> {
    /// The quality over all examples and in each fold.
    pub(super) fn evaluate(
        self,
        problem: &Problem<'_>,
        folds: &Folds,
    ) -> Result<Validation, TrainError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let scored = |fold: Option<u32>| {
            let of = folds.of();
            (0..self.scores.len())
                .filter(move |row| fold.is_none_or(|fold| of[*row] == fold))
                .filter(|row| !self.scores[*row].is_empty())
        };
        let each = |fold| quality(problem, scored(Some(fold)), &self.scores);
        Ok(Validation {
            output: problem.output.clone(),
            measure: Measure::of(self.formulation.goal(), problem.targets),
            quality: quality(problem, scored(None), &self.scores),
            folds: (0..folds.count() as u32).map(each).collect(),
            correlation: correlation(problem, scored(None), &self.scores),
            iterations: self.iterations,
            seconds: self.seconds,
            converged: self.converged,
            scores: self.scores,
        })
    }
}

/// The validation by leave-one-out scores: every example is a fold of its own.
pub(crate) fn leave_one_out(problem: &Problem<'_>, scores: Vec<Vec<f64>>) -> Validation {
    let scored = || (0..scores.len()).filter(|row| !scores[*row].is_empty());
    let quality = quality(problem, scored(), &scores);
    Validation {
        output: problem.output.clone(),
        measure: Measure::of(problem.formulation.goal(), problem.targets),
        quality,
        folds: vec![quality],
        correlation: correlation(problem, scored(), &scores),
        iterations: 0,
        seconds: 0.0,
        converged: true,
        scores,
    }
}

/// The mean over these examples of right answers or of squared errors.
fn quality(problem: &Problem<'_>, rows: impl Iterator<Item = usize>, scores: &[Vec<f64>]) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for row in rows {
        sum += merit(problem, row, &scores[row]);
        count += 1;
    }
    sum / count.max(1) as f64
}

/// 1 or 0 for a right or wrong answer; the squared error of a value.
pub(crate) fn merit(problem: &Problem<'_>, row: usize, scores: &[f64]) -> f64 {
    let numbers = match problem.targets {
        Targets::Numbers(numbers) => Some(numbers.as_slice()),
        _ => None,
    };
    match problem.output.verdict(scores).answer {
        Answer::Class(class) => f64::from(u8::from(class == problem.labels.class_of[row] as usize)),
        Answer::Value(value) => (value - problem.values[row]).powi(2),
        Answer::Inlier(inside) => {
            // As LIBSVM counts: the answer is 1 or -1, and any other target is wrong.
            let answer = if inside { 1.0 } else { -1.0 };
            f64::from(u8::from(numbers.map_or(inside, |numbers| numbers[row] == answer)))
        }
    }
}

/// The squared correlation of scores and targets, for regressions.
fn correlation(
    problem: &Problem<'_>,
    rows: impl Iterator<Item = usize>,
    scores: &[Vec<f64>],
) -> Option<f64> {
    if problem.output != Output::Value {
        return None;
    }
    let pairs: Vec<(f64, f64)> = rows.map(|row| (scores[row][0], problem.values[row])).collect();
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
    let joint = sum(&|pair| (pair.0 - x) * (pair.1 - y));
    let variances = sum(&|pair| (pair.0 - x).powi(2)) * sum(&|pair| (pair.1 - y).powi(2));
    Some(joint * joint / variances)
}
