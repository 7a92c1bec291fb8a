//! The linear filter before the stage `nearest`: least squares, and thresholds beyond which it decides.

use mercer_data::{Dataset, Matrix, Row, Targets};
use mercer_machine::{Answer, ClassName, Machine, Score};
use mercer_train::{Training, formulation, train};

use crate::CompileError;

/// A linear machine that answers the easy queries: `w·x + c` beyond `low` or `high`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FittedFilter {
    pub weights: Vec<f64>,
    pub constant: f64,
    pub low: f64,
    pub high: f64,
}

impl FittedFilter {
    /// Trains a linear SVM on the labels of the rows, or on the machine's own answers where there are none.
    ///
    /// \[DM03\], section 4: `H = min(max l, mean l + 3 sd)` over the rows with `l > 0` that the machine
    /// answers with the other class, `L` likewise below zero, and 0 for an empty set.
    pub(super) fn fit(
        machine: &Machine,
        rows: &Matrix,
        truths: &[f64],
        labels: Option<&[Option<Answer>]>,
    ) -> Result<Self, CompileError> {
        let sign = |row: usize| match labels.and_then(|labels| labels.get(row).copied().flatten()) {
            Some(Answer::Class(class)) => class == 0,
            Some(Answer::Inlier(inlier)) => inlier,
            _ => truths[row] > 0.0,
        };
        let targets: Vec<f64> =
            (0..truths.len()).map(|row| if sign(row) { 1.0 } else { -1.0 }).collect();
        if targets.iter().all(|target| *target == targets[0]) {
            // Nothing to tell apart: zero lies beyond no threshold.
            let weights = vec![0.0; machine.columns()];
            return Ok(Self { weights, constant: 0.0, low: 0.0, high: 0.0 });
        }
        let (weights, constant) = linear(machine, rows, targets)?;
        let value = |row: Row<'_>| {
            let inside =
                row.nonzeros().take_while(|(column, _)| (*column as usize) < weights.len());
            inside.map(|(column, x)| weights[column as usize] * x).sum::<f64>() + constant
        };
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for (row, truth) in rows.iter().zip(truths) {
            let l = value(row);
            if l > 0.0 && *truth <= 0.0 {
                above.push(l);
            } else if l < 0.0 && *truth > 0.0 {
                below.push(-l);
            }
        }
        let (low, high) = (-end(&below), end(&above));
        Ok(Self { weights, constant, low, high })
    }
}

/// The largest, or three standard deviations above the mean if that is less; 0 of none.
fn end(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let largest = values.iter().copied().fold(0.0, f64::max);
    largest.min(mean + 3.0 * square.sqrt())
}

fn linear(
    machine: &Machine,
    rows: &Matrix,
    targets: Vec<f64>,
) -> Result<(Vec<f64>, f64), CompileError> {
    let unfit = |reason: String| CompileError::Unfit { stage: "nearest", reason };
    let data = Dataset { examples: rows.clone(), targets: Targets::Numbers(targets), names: None };
    let kernel = mercer_kernel::parse("linear").map_err(|error| unfit(error.to_string()))?;
    let c_svc = formulation("c_svc(C=1)").map_err(|error| unfit(error.to_string()))?;
    let trained = train(&data, &kernel, &c_svc, &Training::default(), &mut |_| {});
    let trained = trained.map_err(|error| unfit(format!("its linear filter: {error}")))?;
    let filter_machine = &trained.machine;
    let columns = machine.columns();
    let mut weights = vec![0.0; columns];
    let score = &filter_machine.scores()[0];
    match score {
        Score::Linear { weights: trained_weights, .. } => {
            weights
                .iter_mut()
                .zip(trained_weights)
                .for_each(|(weight, trained)| *weight = *trained);
        }
        _ => {
            let coefficients = score.dense(filter_machine.supports().rows());
            for (row, beta) in filter_machine.supports().iter().zip(&coefficients) {
                for (column, x) in row.nonzeros() {
                    if let Some(weight) = weights.get_mut(column as usize) {
                        *weight += beta * x;
                    }
                }
            }
        }
    }
    let mut constant = -score.offset();
    if filter_machine.classes().first() != Some(&ClassName::Number(1.0)) {
        weights.iter_mut().for_each(|weight| *weight = -*weight);
        constant = -constant;
    }
    if !constant.is_finite() || weights.iter().any(|weight| !weight.is_finite()) {
        return Err(unfit("its linear filter overflows".to_owned()));
    }
    Ok((weights, constant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_the_largest_or_three_deviations() {
        assert_eq!(end(&[]), 0.0);
        assert_eq!(end(&[0.5, 0.7]), 0.7);
        let mut many = vec![0.1; 400];
        many.push(9.0);
        assert!(end(&many) < 2.0, "{}", end(&many));
    }
}
