//! Tests of the fitted curves: sigmoid, isotonic regression and LIBSVM's numbers.

use mercer_machine::{ClassName, Machine, Score};

use super::*;
use crate::{Folds, Training, cross_validate, formulation};

fn point(score: f64, target: f64, weight: f64) -> ScoredPoint {
    ScoredPoint { score, target, weight }
}

#[test]
fn the_sigmoid_of_logistic_data_is_found() {
    // Points in the shares that A = -1.5, B = 0.4 give.
    let mut points = Vec::new();
    for score in [-2.0, -1.0, 1.0, 2.0f64] {
        let share = 1.0 / (1.0 + (-1.5 * score + 0.4).exp());
        points.extend([point(score, 1.0, 1e6 * share), point(score, 0.0, 1e6 * (1.0 - share))]);
    }
    let (a, b) = sigmoid(&points);
    assert!((a + 1.5).abs() < 1e-6 && (b - 0.4).abs() < 1e-6, "{a} {b}");
}

#[test]
fn the_isotonic_curve_pools_what_falls() {
    let points = vec![
        point(3.0, 1.0, 1.0),
        point(1.0, 1.0, 1.0),
        point(2.0, 0.0, 3.0),
        point(0.0, 0.0, 1.0),
        point(3.0, 0.5, 1.0),
    ];
    let Curve::PiecewiseLinear { scores, values } = isotonic(points) else { panic!("lines") };
    assert_eq!(scores, [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values, [0.0, 0.25, 0.25, 0.75]);
}

#[test]
fn scores_that_mislead_or_say_nothing_are_not_turned_round() {
    let data = mercer_data::synthetic::ripley(4, 1);
    for wrong in [-1.0, 0.0] {
        let labels = Labels::new(&data.targets).unwrap();
        let scores =
            labels.class_of.iter().map(|class| vec![if *class == 0 { wrong } else { -wrong }]);
        let output = Output::Classes { names: labels.names.clone(), scheme: Scheme::OneVsOne };
        let validation = Validation {
            scores: scores.collect(),
            output,
            measure: crate::Measure::Accuracy,
            quality: 0.0,
            folds: vec![],
            correlation: None,
            iterations: 0,
            seconds: 0.0,
            converged: true,
        };
        for calibrator in [Calibrator::Sigmoid, Calibrator::Isotonic] {
            let Probabilities::Curves(curves) =
                calibrate_probabilities(&data, &validation, None, calibrator).unwrap()
            else {
                panic!("curves")
            };
            assert!(curves[0].at(1.0) > 0.5 && curves[0].at(-1.0) < 0.5 && curves[0].at(0.0) < 0.5);
        }
    }
}

const BINS: f64 = 8.0;

/// What held-out queries say of predicted probabilities.
#[test]
fn reliability_on_held_out_queries_is_within_sampling_error() {
    let data = mercer_data::synthetic::ripley(1500, 3);
    let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
    let c_svc = formulation("c_svc(C=1)").unwrap();
    let folds = Folds::new(&data, true, 5, 1).unwrap();
    let (training, alone) = (Training::default(), std::slice::from_ref(&c_svc));
    let found = cross_validate(&data, &kernel, alone, &folds, &training, &mut |_| {}).unwrap();
    let validation = found[0].as_ref().unwrap();
    let machine = crate::train(&data, &kernel, &c_svc, &training, &mut |_| {}).unwrap().machine;
    let fresh = mercer_data::synthetic::ripley(8000, 4);
    let exact = scores(&machine, &fresh.examples);
    let labels = Labels::new(&fresh.targets).unwrap();
    for calibrator in [Calibrator::Sigmoid, Calibrator::Isotonic] {
        let probabilities = calibrate_probabilities(&data, validation, None, calibrator).unwrap();
        let of = |score: f64| probabilities.of_classes(&machine, &[score]).unwrap()[0];
        let (mut bins, mut seen) = (vec![(0.0, 0.0, 0.0); 8], vec![0.0f64; 8]);
        for scores in &validation.scores {
            seen[(of(scores[0]) * (BINS - 1e-9)) as usize] += 1.0;
        }
        let mut loss = 0.0;
        for (row, score) in exact.iter().enumerate() {
            let p = of(*score);
            assert_eq!(p > 0.5, *score > 0.0);
            let is_first = name(&labels, row) == machine.classes()[0];
            loss -= if is_first { p.ln() } else { (1.0 - p).ln() } / exact.len() as f64;
            let bin = &mut bins[(p * (BINS - 1e-9)) as usize];
            *bin = (bin.0 + p, bin.1 + f64::from(u8::from(is_first)), bin.2 + 1.0);
        }
        for ((predicted, came_true, count), learned) in bins.into_iter().zip(seen) {
            let (p, share) = (predicted / count, came_true / count);
            // Three standard errors of the share among the queries and of the one that was learned from.
            let deviation = (p * (1.0 - p)).sqrt();
            let slack = 3.0 * deviation * (count.sqrt().recip() + learned.max(1.0).sqrt().recip());
            assert!(
                count < 50.0 || (p - share).abs() <= slack,
                "{calibrator:?}: {p} predicted, {share} of {count} came true, {learned} learned"
            );
        }
        // The best possible is about 0.21: the classes overlap.
        assert!(loss < 0.26, "{calibrator:?}: log loss {loss}");
    }
}

fn name(labels: &Labels, row: usize) -> ClassName {
    labels.names[labels.class_of[row] as usize].clone()
}

fn scores(machine: &Machine, rows: &mercer_data::Matrix) -> Vec<f64> {
    let Score::Expansion { supports, coefficients, offset } = &machine.scores()[0] else {
        panic!("an expansion")
    };
    let score = |row: mercer_data::Row<'_>| {
        let terms = supports.iter().zip(coefficients).map(|(support, beta)| {
            beta * machine.kernel().value(machine.supports().row(*support as usize), row)
        });
        terms.sum::<f64>() - offset
    };
    rows.iter().map(score).collect()
}
