//! Probability calibration: increasing curves (Platt's sigmoid, isotonic regression) fitted to cross-validated scores.
//!
//! How a machine uses the curves is in `mercer-machine`; how the scores are made is in `validate.rs`.

use mercer_data::Dataset;
use mercer_machine::{Curve, Output, Probabilities, Scheme, pairs};

use crate::labels::Labels;
use crate::{TrainError, Validation};

/// Limit of Newton steps; about twelve are usual.
const STEPS: usize = 100;
/// The slope A nearest to zero: with uninformative scores every probability stays on the side of its label.
const FLATTEST: f64 = -1e-9;

/// The kind of curve that is fitted to the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calibrator {
    /// `1 / (1 + exp(A f + B))`, kept on the side of the label: two parameters, for few examples.
    Sigmoid,
    /// Isotonic regression: the best increasing curve, kept on the side of the label; for many examples.
    Isotonic,
    /// As LIBSVM: the plain sigmoid. The class of the larger probability may differ from the label.
    Platt,
}

/// Fits a curve to each score of a cross-validation, with weights, on the smoothed targets of \[Platt00\].
///
/// The label of a machine changes at f = 0, but a fitted curve passes one half at another score. Except with
/// [`Calibrator::Platt`], the probability of the label is therefore at least one half: between the two scores the
/// curve is cut at one half, elsewhere it is the fitted one.
///
/// # Errors
/// If the validation is not that of a classifier, or the number of weights is not that of the examples.
pub fn calibrate_probabilities(
    data: &Dataset,
    validation: &Validation,
    weights: Option<&[f64]>,
    calibrator: Calibrator,
) -> Result<Probabilities, TrainError> {
    let Output::Classes { names, scheme } = &validation.output else {
        return Err(TrainError::NoClasses);
    };
    let rows = validation.scores.len();
    let found = weights.map_or(rows, <[f64]>::len);
    if found != rows {
        return Err(TrainError::WeightCount { found, rows });
    }
    let labels = Labels::new(&data.targets)?;
    let sides: Vec<(usize, Option<usize>)> = match scheme {
        Scheme::OneVsOne => pairs(names.len()).map(|(a, b)| (a, Some(b))).collect(),
        Scheme::OneVsRest if names.len() == 2 => vec![(0, Some(1))],
        Scheme::OneVsRest => (0..names.len()).map(|class| (class, None)).collect(),
    };
    let points = |(number, (first, second)): (usize, &(usize, Option<usize>))| {
        let mut points = Vec::new();
        for (row, scores) in validation.scores.iter().enumerate() {
            let class = labels.class_of[row] as usize;
            let takes_part = class == *first || second.is_none_or(|second| class == second);
            let weight = weights.map_or(1.0, |weights| weights[row]);
            if let (true, Some(score)) = (takes_part && weight > 0.0, scores.get(number)) {
                points.push((*score, class == *first, weight));
            }
        }
        smoothed(&points)
    };
    let all = sides.iter().enumerate().map(points);
    Ok(match calibrator {
        Calibrator::Sigmoid => {
            let curve = |points: Vec<ScoredPoint>| {
                let (a, b) = sigmoid(&points);
                Curve::Sigmoid { a: a.min(FLATTEST), b }
            };
            Probabilities::Curves(all.map(curve).collect())
        }
        Calibrator::Isotonic => Probabilities::Curves(all.map(isotonic).collect()),
        Calibrator::Platt => {
            let (a, b) = all.map(|points| sigmoid(&points)).unzip();
            Probabilities::Sigmoid { a, b }
        }
    })
}

/// A score with its target probability and weight.
struct ScoredPoint {
    score: f64,
    target: f64,
    weight: f64,
}

/// Targets a little inside 0 and 1, by the total weight of each class (\[Platt00\]).
fn smoothed(points: &[(f64, bool, f64)]) -> Vec<ScoredPoint> {
    let total = |is_first: bool| -> f64 {
        points.iter().filter(|point| point.1 == is_first).map(|point| point.2).sum()
    };
    let (plus, minus) = (total(true), total(false));
    let (high, low) = ((plus + 1.0) / (plus + 2.0), 1.0 / (minus + 2.0));
    let point = |(score, is_first, weight): &(f64, bool, f64)| ScoredPoint {
        score: *score,
        target: if *is_first { high } else { low },
        weight: *weight,
    };
    points.iter().map(point).collect()
}

/// A and B that minimise `-Σ w (t ln p + (1 - t) ln(1 - p))`, by Newton's method with the safeguards of
/// \[LLW07\].
fn sigmoid(points: &[ScoredPoint]) -> (f64, f64) {
    let size = points.iter().map(|point| point.score.abs()).fold(0.0, f64::max);
    let total: f64 = points.iter().map(|point| point.weight).sum();
    if !size.is_finite() || total <= 0.0 {
        return (FLATTEST, 0.0);
    }
    // Scores are divided by the largest, so that the slope is of order one.
    let size = if size == 0.0 { 1.0 } else { size };
    let loss = |a: f64, b: f64| -> f64 {
        let each = |point: &ScoredPoint| {
            let z = a * point.score / size + b;
            // ln(1 + e^z) - (1 - t) z, without overflow.
            let softplus = if z > 0.0 { z + (-z).exp().ln_1p() } else { z.exp().ln_1p() };
            point.weight * (softplus - (1.0 - point.target) * z)
        };
        points.iter().map(each).sum()
    };
    let mean: f64 = points.iter().map(|point| point.weight * point.target).sum::<f64>() / total;
    let (mut a, mut b) = (0.0, ((1.0 - mean) / mean).ln());
    let mut best = loss(a, b);
    for _ in 0..STEPS {
        let (step_a, step_b) = newton(points, size, a, b);
        let mut share = 1.0;
        let mut next = loss(a + step_a, b + step_b);
        while next > best && share > 1e-10 {
            share /= 2.0;
            next = loss(a + share * step_a, b + share * step_b);
        }
        if next >= best {
            break;
        }
        (a, b, best) = (a + share * step_a, b + share * step_b, next);
        let moved = share * (step_a.abs() + step_b.abs());
        if moved <= 1e-10 * (a.abs() + b.abs()).max(1.0) {
            break;
        }
    }
    (a / size, b)
}

/// The Newton step at (a, b).
fn newton(points: &[ScoredPoint], size: f64, a: f64, b: f64) -> (f64, f64) {
    let (mut ga, mut gb, mut haa, mut hab, mut hbb) = (0.0, 0.0, 1e-12, 0.0, 1e-12);
    for point in points {
        let x = point.score / size;
        let p = 1.0 / (1.0 + (a * x + b).exp());
        let slope = point.weight * (point.target - p);
        let curve = point.weight * p * (1.0 - p);
        ga += slope * x;
        gb += slope;
        haa += curve * x * x;
        hab += curve * x;
        hbb += curve;
    }
    let determinant = haa * hbb - hab * hab;
    (-(hbb * ga - hab * gb) / determinant, -(haa * gb - hab * ga) / determinant)
}

/// Isotonic regression by pooling adjacent violators (\[BBBB72\]).
fn isotonic(mut points: Vec<ScoredPoint>) -> Curve {
    points.retain(|point| point.score.is_finite());
    points.sort_by(|a, b| a.score.total_cmp(&b.score));
    let mut pools: Vec<Pool> = Vec::new();
    for ScoredPoint { score, target, weight } in points {
        let same = pools.last().is_some_and(|pool| pool.last == score);
        let mut pool = Pool { first: score, last: score, sum: weight * target, weight };
        if same {
            pool = pools.pop().expect("there is a last pool").with(&pool);
        }
        while let Some(before) = pools.pop_if(|before| before.mean() >= pool.mean()) {
            pool = before.with(&pool);
        }
        pools.push(pool);
    }
    let (mut scores, mut shares) = (Vec::new(), Vec::new());
    for pool in &pools {
        scores.push(pool.first);
        shares.push(pool.mean());
        if pool.last > pool.first {
            scores.push(pool.last);
            shares.push(pool.mean());
        }
    }
    if scores.is_empty() {
        return Curve::Sigmoid { a: FLATTEST, b: 0.0 };
    }
    Curve::PiecewiseLinear { scores, values: shares }
}

/// Adjacent scores with one probability.
struct Pool {
    first: f64,
    last: f64,
    sum: f64,
    weight: f64,
}

impl Pool {
    fn mean(&self) -> f64 {
        self.sum / self.weight
    }

    fn with(&self, next: &Self) -> Self {
        Self {
            first: self.first,
            last: next.last,
            sum: self.sum + next.sum,
            weight: self.weight + next.weight,
        }
    }
}

#[cfg(test)]
mod tests;
