//! The linear filter before the stage `nearest`: a linear SVM for each score, and thresholds beyond which it decides.

use mercer_data::{Dataset, Matrix, Row, Targets};
use mercer_machine::{Answer, Array, ClassName, Machine, Score, Section, pairs};
use mercer_train::{Training, formulation, train};

use super::traces::Traces;
use super::unfit;
use crate::{CompileError, Task};

/// A linear machine that answers the easy queries: `w·x + c` beyond `low` or `high`.
#[derive(Debug, Clone, PartialEq)]
struct FittedFilter {
    weights: Vec<f64>,
    constant: f64,
    low: f64,
    high: f64,
}

/// Adds one filter for each score to the section; the first `labelled` rows are training rows.
pub(super) fn arrays(
    traces: &Traces<'_>,
    task: &Task<'_>,
    labelled: usize,
    section: Section,
) -> Result<Section, CompileError> {
    let machine = task.exact.machine();
    let count = machine.scores().len();
    let mut rows_of = vec![Vec::new(); count];
    for row in 0..traces.rows().rows() {
        traces.scores_of(row).into_iter().for_each(|score| rows_of[score].push(row));
    }
    let (mut weights, mut ends) = (Vec::new(), Vec::new());
    for (score, rows) in rows_of.iter().enumerate() {
        task.watch.step("nearest: the linear filter", score, count)?;
        let truths: Vec<f64> = rows.iter().map(|row| traces.truth(*row, score)).collect();
        let sign = |(row, truth): (&usize, &f64)| {
            let labelled = (*row < labelled).then_some(*row);
            labelled.and_then(|row| is_positive(task, score, row)).unwrap_or(*truth > 0.0)
        };
        let signs: Vec<bool> = rows.iter().zip(&truths).map(sign).collect();
        let rows = traces.rows().select(rows.iter().copied());
        let filter = FittedFilter::fit(machine, &rows, &truths, &signs)?;
        weights.extend(filter.weights);
        ends.extend([filter.constant, filter.low, filter.high]);
    }
    Ok(section.with("filter", Array::F64(weights)).with("filter_ends", Array::F64(ends)))
}

/// Whether the label of a row is on the positive side of a score, where the label is known.
fn is_positive(task: &Task<'_>, score: usize, row: usize) -> Option<bool> {
    match task.training_labels?.get(row).copied().flatten()? {
        Answer::Class(class) => {
            let (first, second) = match task.exact.machine().classes().len() {
                0..=2 => (0, 1),
                classes => pairs(classes).nth(score)?,
            };
            (class == first || class == second).then_some(class == first)
        }
        Answer::Inlier(is_inlier) => Some(is_inlier),
        Answer::Value(_) => None,
    }
}

impl FittedFilter {
    /// Trains a linear SVM on the signs of the rows: their labels, or the machine's own answers where there are none.
    ///
    /// \[DM03\], section 5.1: `H = min(max l, mean l + 3 sd)` over the rows with `l > 0` that the machine
    /// answers with the other class, `L` likewise below zero, and 0 for an empty set.
    fn fit(
        machine: &Machine,
        rows: &Matrix,
        truths: &[f64],
        signs: &[bool],
    ) -> Result<Self, CompileError> {
        let targets: Vec<f64> = signs.iter().map(|is_up| if *is_up { 1.0 } else { -1.0 }).collect();
        if signs.iter().all(|sign| *sign == signs[0]) {
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
        return Err(unfit("its linear filter overflows"));
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
