//! Tests of the LIBLINEAR format.

use super::super::{from_bytes, to_bytes};
use super::FORMAT;
use crate::{Answer, Model, Output, Probabilities, Score};
use mercer_data::Matrix;

fn model(text: &str) -> Model {
    from_bytes(text.as_bytes()).unwrap()
}

const BINARY: &str =
    "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 2\nw\n0.5 \n-1 \n0.25 \n";

const THREE: &str = "solver_type MCSVM_CS\nnr_class 3\nlabel 3 1 2\nnr_feature 2\nbias -1\nw\n\
    1 2 3 \n4 5 6 \n";

#[test]
fn binary_scores_take_the_bias_as_their_offset() {
    let model = model(BINARY);
    assert_eq!(model.machine.scores(), [Score::Linear { weights: vec![0.5, -1.0], offset: -0.5 }]);
    assert_eq!(model.probabilities, Some(Probabilities::Sigmoid { a: vec![-1.0], b: vec![0.0] }));
}

#[test]
fn several_classes_have_a_score_each_and_the_largest_wins() {
    let text = THREE;
    let machine = model(text).machine;
    assert_eq!(machine.scores()[1], Score::Linear { weights: vec![2.0, 5.0], offset: 0.0 });
    assert_eq!(machine.verdict(&[1.0, 5.0, 5.0]).answer, Answer::Class(1));
    let two = text.replace("nr_class 3", "nr_class 2").replace("3 1 2", "3 1");
    let two = two.replace("1 2 3 ", "1 2 ").replace("4 5 6 ", "4 5 ");
    let machine = model(&two).machine;
    // Equal scores are the first class's, which stands second here.
    assert_eq!(machine.classes()[1].to_string(), "3");
    assert_eq!(machine.verdict(&[0.0]).answer, Answer::Class(1));
}

#[test]
fn regression_and_novelty_are_read_and_written() {
    let svr = "solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 1\nbias -1\nw\n2.5 \n";
    let one = "solver_type ONECLASS_SVM\nnr_class 2\nnr_feature 1\nbias -1\nrho 0.5\nw\n2 \n";
    assert_eq!(model(svr).machine.output(), &Output::Value);
    assert_eq!(model(one).machine.scores()[0].offset(), 0.5);
    for text in [svr, one, BINARY] {
        let first = model(text);
        let again = from_bytes(&to_bytes(&first, &FORMAT).unwrap()).unwrap();
        assert_eq!(first.machine.scores(), again.machine.scores(), "{text}");
        assert_eq!(first.machine.output(), again.machine.output(), "{text}");
    }
}

/// `w·((x - c) f) - b`: an affine scaling goes into the weights and the offset.
#[test]
fn an_affine_scaling_is_folded_into_the_weights() {
    let rows = Matrix::dense(2, vec![1.0, -40.0, 3.0, 60.0, 8.0, 7.0]).unwrap();
    for (text, recipe) in [(BINARY, "standard"), (BINARY, "min_max(low=-1)"), (THREE, "max_abs")] {
        let mut first = model(text);
        first.input.scaling = Some(mercer_data::scale::parse(recipe).unwrap().fit(&rows).unwrap());
        let again = from_bytes(&to_bytes(&first, &FORMAT).unwrap()).unwrap();
        assert!(again.input.scaling.is_none());
        let scores = |model: &Model, row: &[f64]| -> Vec<f64> {
            let row = Matrix::dense(2, row.to_vec()).unwrap();
            let row = model.input.prepare(&row).unwrap();
            let dot = |score: &Score| match score {
                Score::Linear { weights, offset } => {
                    row.row(0)
                        .nonzeros()
                        .map(|(at, value)| value * weights[at as usize])
                        .sum::<f64>()
                        - offset
                }
                _ => panic!("linear scores"),
            };
            model.machine.scores().iter().map(dot).collect()
        };
        for row in [[0.5, 2.0], [-3.0, 100.0], [1e3, -1e3], [0.0, 0.0]] {
            let (a, b) = (scores(&first, &row), scores(&again, &row));
            for (x, y) in a.iter().zip(&b) {
                // A few roundings of terms no larger than these.
                let size: f64 = row.iter().map(|value| value.abs()).sum::<f64>() + 100.0;
                assert!((x - y).abs() <= 8.0 * f64::EPSILON * size, "{recipe}: {x} {y}");
            }
            let answer = |model: &Model, scores: &[f64]| model.machine.verdict(scores).answer;
            assert_eq!(answer(&first, &a), answer(&again, &b), "{recipe}");
        }
    }
}

#[test]
fn broken_texts_say_where() {
    for (from, to, message) in [
        ("L2R_LR", "L3R", "line 1: unknown solver_type 'L3R'"),
        ("nr_feature 2", "nr_feature 9", "line 9: the file ends after 3 of 10 lines of weights"),
        ("bias 2", "bias nan", "line 5: 'nan' is not a finite number"),
        ("-1 \n", "-1 2 \n", "line 8: 2 weights, 1 are needed"),
        ("label 1 -1", "label 1", "line 6: 'label' has 1 values, 2 are needed"),
        ("bias 2", "bias -1", "line 9: more than 2 lines of weights"),
    ] {
        let text = BINARY.replacen(from, to, 1);
        assert_eq!(from_bytes(text.as_bytes()).unwrap_err().to_string(), message);
    }
}
