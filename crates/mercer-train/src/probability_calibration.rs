//! Scores become probabilities: rising curves fitted to scores that were not trained on.

use mercer_data::Dataset;
use mercer_machine::{Curve, Output, Probabilities, Scheme, pairs};

use crate::labels::Labels;
use crate::{TrainError, Validation};

/// Steps of Newton's method; a dozen are usual.
const STEPS: usize = 100;
/// The flattest slope: scores that say nothing leave every probability on the side of its label.
const FLATTEST: f64 = -1e-9;

/// What is fitted to the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calibrator {
    /// `1 / (1 + exp(A f + B))`, held to the side of the label: few numbers, for few examples.
    Sigmoid,
    /// The rising curve that fits best, held to the side of the label: for many examples.
    Isotonic,
    /// LIBSVM's: the sigmoid as it is, whose larger probability may be another than that of the label.
    Platt,
}

/// Fits a curve to each score of a validation, weights counted, on the smoothed targets of \[Platt00\].
///
/// A machine's label changes at f = 0, a fitted curve passes one half elsewhere. Of all rising curves whose
/// larger probability is that of the label, the fitted one cut at one half is the nearest: beyond the sliver
/// between the two points nothing changes.
///
/// # Errors
/// If the validation is not one of classes, or weights and examples differ in number.
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
            let is_asked = class == *first || second.is_none_or(|second| class == second);
            let weight = weights.map_or(1.0, |weights| weights[row]);
            if let (true, Some(score)) = (is_asked && weight > 0.0, scores.get(number)) {
                points.push((*score, class == *first, weight));
            }
        }
        smoothed(&points)
    };
    let all = sides.iter().enumerate().map(points);
    Ok(match calibrator {
        Calibrator::Sigmoid => {
            let curve = |points: Vec<Point>| {
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

/// One score with what is wanted of its probability.
struct Point {
    score: f64,
    target: f64,
    weight: f64,
}

/// Targets less sure than 0 and 1, by how much each class weighs.
fn smoothed(points: &[(f64, bool, f64)]) -> Vec<Point> {
    let total = |is_first: bool| -> f64 {
        points.iter().filter(|point| point.1 == is_first).map(|point| point.2).sum()
    };
    let (plus, minus) = (total(true), total(false));
    let (high, low) = ((plus + 1.0) / (plus + 2.0), 1.0 / (minus + 2.0));
    let point = |(score, is_first, weight): &(f64, bool, f64)| Point {
        score: *score,
        target: if *is_first { high } else { low },
        weight: *weight,
    };
    points.iter().map(point).collect()
}

/// A and B that minimise `-Σ w (t ln p + (1 - t) ln(1 - p))`, by the safe Newton steps of \[LLW07\].
fn sigmoid(points: &[Point]) -> (f64, f64) {
    let size = points.iter().map(|point| point.score.abs()).fold(0.0, f64::max);
    let total: f64 = points.iter().map(|point| point.weight).sum();
    if !size.is_finite() || total <= 0.0 {
        return (FLATTEST, 0.0);
    }
    // Scores are divided by the largest, so that the slope has a sensible size.
    let size = if size == 0.0 { 1.0 } else { size };
    let loss = |a: f64, b: f64| -> f64 {
        let each = |point: &Point| {
            let z = a * point.score / size + b;
            // ln(1 + e^z) - (1 - t) z, without overflow.
            let softplus = if z > 0.0 { z + (-z).exp().ln_1p() } else { z.exp().ln_1p() };
            point.weight * (softplus - (1.0 - point.target) * z)
        };
        points.iter().map(each).sum()
    };
    let share: f64 = points.iter().map(|point| point.weight * point.target).sum::<f64>() / total;
    let (mut a, mut b) = (0.0, ((1.0 - share) / share).ln());
    let mut best = loss(a, b);
    for _ in 0..STEPS {
        let (step_a, step_b) = newton(points, size, (a, b));
        let mut part = 1.0;
        let mut next = loss(a + step_a, b + step_b);
        while next > best && part > 1e-10 {
            part /= 2.0;
            next = loss(a + part * step_a, b + part * step_b);
        }
        if next >= best {
            break;
        }
        (a, b, best) = (a + part * step_a, b + part * step_b, next);
        let moved = part * (step_a.abs() + step_b.abs());
        if moved <= 1e-10 * (a.abs() + b.abs()).max(1.0) {
            break;
        }
    }
    (a / size, b)
}

/// One step of Newton's method.
fn newton(points: &[Point], size: f64, (a, b): (f64, f64)) -> (f64, f64) {
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

/// The rising curve of least squares: neighbours that fall are pooled until none do (\[BBBB72\]).
fn isotonic(mut points: Vec<Point>) -> Curve {
    points.retain(|point| point.score.is_finite());
    points.sort_by(|a, b| a.score.total_cmp(&b.score));
    let mut pools: Vec<Pool> = Vec::new();
    for Point { score, target, weight } in points {
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
    Curve::Lines { scores, shares }
}

/// Scores that share a probability.
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
