//! Scores become probabilities: sigmoids fitted to scores that were not trained on.

use mercer_data::Dataset;
use mercer_machine::{Output, Probabilities, Scheme, pairs};

use crate::labels::Labels;
use crate::{TrainError, Validation};

/// Steps of Newton's method; a dozen are usual.
const STEPS: usize = 100;
/// The flattest slope: scores that say nothing leave every probability at a half, on the right side.
const FLATTEST: f64 = -1e-9;

/// Fits `P(first class | f) = 1 / (1 + exp(A f))` to each score of a validation (\[Platt00\] with the
/// smoothed targets and the safe Newton steps of \[LLW07\]), weights counted.
///
/// Differs from the papers: B is zero and A below zero. A machine's label changes at f = 0, so this is the
/// only sigmoid whose larger probability is always that of the label.
///
/// # Errors
/// If the validation is not one of classes, or weights and examples differ in number.
pub fn calibrate(
    data: &Dataset,
    validation: &Validation,
    weights: Option<&[f64]>,
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
    let slope = |(number, (first, second)): (usize, &(usize, Option<usize>))| {
        let mut points = Vec::new();
        for (row, scores) in validation.scores.iter().enumerate() {
            let class = labels.class_of[row] as usize;
            let is_asked = class == *first || second.is_none_or(|second| class == second);
            let weight = weights.map_or(1.0, |weights| weights[row]);
            if let (true, Some(score)) = (is_asked && weight > 0.0, scores.get(number)) {
                points.push(Point { score: *score, is_first: class == *first, weight });
            }
        }
        fit(&points)
    };
    let a: Vec<f64> = sides.iter().enumerate().map(slope).collect();
    let b = vec![0.0; a.len()];
    Ok(Probabilities::Sigmoid { a, b })
}

/// One score with its class.
struct Point {
    score: f64,
    is_first: bool,
    weight: f64,
}

/// The slope A that minimises `-Σ w (t ln p + (1 - t) ln(1 - p))`, a convex function of one variable.
fn fit(points: &[Point]) -> f64 {
    let total = |is_first: bool| -> f64 {
        points.iter().filter(|point| point.is_first == is_first).map(|point| point.weight).sum()
    };
    let (plus, minus) = (total(true), total(false));
    let (high, low) = ((plus + 1.0) / (plus + 2.0), 1.0 / (minus + 2.0));
    let target = |point: &Point| if point.is_first { high } else { low };
    let size = points.iter().map(|point| point.score.abs()).fold(0.0, f64::max);
    if size == 0.0 || !size.is_finite() {
        return FLATTEST;
    }
    // Scores are divided by the largest, so that the slope has a sensible size.
    let loss = |a: f64| -> f64 {
        let each = |point: &Point| {
            let z = a * point.score / size;
            let t = target(point);
            // ln(1 + e^z) - (1 - t) z, without overflow.
            let softplus = if z > 0.0 { z + (-z).exp().ln_1p() } else { z.exp().ln_1p() };
            point.weight * (softplus - (1.0 - t) * z)
        };
        points.iter().map(each).sum()
    };
    let mut a = 0.0;
    let mut best = loss(a);
    for _ in 0..STEPS {
        let (mut gradient, mut curvature) = (0.0, 1e-12);
        for point in points {
            let x = point.score / size;
            let p = 1.0 / (1.0 + (a * x).exp());
            gradient += point.weight * x * ((1.0 - p) - (1.0 - target(point)));
            curvature += point.weight * x * x * p * (1.0 - p);
        }
        let mut step = -gradient / curvature;
        let mut next = loss(a + step);
        while next > best && step.abs() > 1e-12 * a.abs().max(1.0) {
            step /= 2.0;
            next = loss(a + step);
        }
        if next >= best || step.abs() <= 1e-10 * a.abs().max(1.0) {
            break;
        }
        a += step;
        best = next;
    }
    (a / size).min(FLATTEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Folds, Training, cross_validate, formulation};
    use mercer_data::Targets;

    #[test]
    fn the_slope_of_logistic_data_is_found() {
        // Points at ±1 and ±2 in the shares that slope -1.5 gives.
        let mut points = Vec::new();
        for score in [-2.0, -1.0, 1.0, 2.0f64] {
            let share = 1.0 / (1.0 + (-1.5 * score).exp());
            points.push(Point { score, is_first: true, weight: 1e6 * share });
            points.push(Point { score, is_first: false, weight: 1e6 * (1.0 - share) });
        }
        assert!((fit(&points) + 1.5).abs() < 1e-3, "{}", fit(&points));
    }

    #[test]
    fn scores_that_mislead_or_say_nothing_are_not_turned_round() {
        let points = [
            Point { score: -1.0, is_first: true, weight: 1.0 },
            Point { score: 1.0, is_first: false, weight: 1.0 },
        ];
        assert_eq!(fit(&points), FLATTEST);
        assert_eq!(fit(&[]), FLATTEST);
    }

    #[test]
    fn predicted_probabilities_are_near_the_shares_that_come_true() {
        let data = mercer_data::synthetic::ripley(600, 3);
        let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
        let c_svc = formulation("c_svc(C=1)").unwrap();
        let folds = Folds::new(&data, true, 5, 1).unwrap();
        let training = Training::default();
        let found = cross_validate(
            &data,
            &kernel,
            std::slice::from_ref(&c_svc),
            &folds,
            &training,
            &mut |_| {},
        )
        .unwrap();
        let validation = found[0].as_ref().unwrap();
        let probabilities = calibrate(&data, validation, None).unwrap();
        let machine = crate::train(&data, &kernel, &c_svc, &training, &mut |_| {}).unwrap().machine;
        let fresh = mercer_data::synthetic::ripley(4000, 4);
        let exact = mercer_query_scores(&machine, &fresh.examples);
        let labels = Labels::new(&fresh.targets).unwrap();
        let (mut bins, mut sure) = (vec![(0.0, 0.0, 0usize); 5], 0);
        for (row, score) in exact.iter().enumerate() {
            let p = probabilities.of_classes(&machine, &[*score]).unwrap();
            let is_first = name(&labels, row) == machine.classes()[0];
            sure += usize::from((p[0] > 0.5) == (*score > 0.0));
            let bin = &mut bins[(p[0] * 4.999) as usize];
            *bin = (bin.0 + p[0], bin.1 + f64::from(u8::from(is_first)), bin.2 + 1);
        }
        assert_eq!(sure, exact.len());
        for (predicted, came_true, count) in bins {
            let n = count as f64;
            // Three standard errors of a share, and what 600 examples cannot tell.
            let slack = 3.0 * (0.25 / n).sqrt() + 0.1;
            assert!((predicted - came_true).abs() <= slack * n, "{predicted} {came_true} {count}");
        }
        assert!(!matches!(data.targets, Targets::Absent));
    }

    fn name(labels: &Labels, row: usize) -> mercer_machine::ClassName {
        labels.names[labels.class_of[row] as usize].clone()
    }

    fn mercer_query_scores(
        machine: &mercer_machine::Machine,
        rows: &mercer_data::Matrix,
    ) -> Vec<f64> {
        let mercer_machine::Score::Expansion { supports, coefficients, offset } =
            &machine.scores()[0]
        else {
            return Vec::new();
        };
        let score = |row: mercer_data::Row<'_>| {
            let terms = supports.iter().zip(coefficients).map(|(support, beta)| {
                beta * machine.kernel().value(machine.supports().row(*support as usize), row)
            });
            terms.sum::<f64>() - offset
        };
        rows.iter().map(score).collect()
    }
}
