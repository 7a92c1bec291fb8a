//! Tests of the ONNX format, on files of skl2onnx as well.

use super::super::{format, from_bytes, to_bytes};
use super::FORMAT;
use crate::{Answer, Bins, ClassName, Machine, Model, Output, Score, Spacing};
use mercer_data::{Matrix, Row};

/// Scores by the definition.
fn scores(machine: &Machine, row: &[f64]) -> Vec<f64> {
    let row = Row::Dense(row);
    let score = |score: &Score| match score {
        Score::Expansion { supports, coefficients, offset } => {
            let value = |s: &u32| machine.kernel().value(machine.supports().row(*s as usize), row);
            supports.iter().zip(coefficients).map(|(s, beta)| beta * value(s)).sum::<f64>() - offset
        }
        Score::Linear { weights, offset } => {
            row.nonzeros().map(|(column, x)| x * weights[column as usize]).sum::<f64>() - offset
        }
        Score::Additive { .. } => panic!("ONNX has no tables"),
    };
    machine.scores().iter().map(score).collect()
}

fn queries(columns: usize) -> Vec<Vec<f64>> {
    (0..40)
        .map(|q| (0..columns).map(|c| f64::from((q * 7 + c as i32 * 13) % 11 - 5) / 4.0).collect())
        .collect()
}

const THREE: &str = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 3\ntotal_sv 4\n\
    rho 0.1 -0.2 0.3\nlabel 7 -2 5\nprobA -1 -2 -3\nprobB 0 0.5 1\nnr_sv 1 2 1\nSV\n\
    1 2 1:1 3:0.25 \n-0.5 3 2:1 \n-0.5 0 1:0.1 \n-2 -3 1:2 2:2 \n";

fn texts() -> Vec<String> {
    let one_class = "svm_type one_class\nkernel_type polynomial\ndegree 2\ngamma 0.5\ncoef0 1\n\
        nr_class 2\ntotal_sv 2\nrho 0.1\nSV\n0.3 1:1 \n-0.2 2:1 3:1 \n";
    let svr = "svm_type nu_svr\nkernel_type sigmoid\ngamma 0.1\ncoef0 -1\nnr_class 2\ntotal_sv 1\n\
        rho 0.5\nSV\n-1.5 2:3 3:1 \n";
    let linear = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 4 9\nnr_feature 3\nbias 1\nw\n\
        0.5\n-1\n2\n0.25\n";
    let linear_value = "solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 3\nbias 1\nw\n\
        0.5\n-1\n2\n0.25\n";
    [THREE, one_class, svr, linear, linear_value].map(str::to_owned).to_vec()
}

#[test]
fn labels_survive_the_way_there_and_back() {
    for text in texts() {
        let first = from_bytes(text.as_bytes()).unwrap();
        let bytes = to_bytes(&first, &FORMAT).unwrap();
        assert_eq!(super::super::recognise(&bytes).unwrap().name, "onnx");
        let again = from_bytes(&bytes).unwrap();
        assert_eq!(first.machine.output(), again.machine.output());
        for query in queries(3) {
            let (a, b) = (scores(&first.machine, &query), scores(&again.machine, &query));
            for (x, y) in a.iter().zip(&b) {
                assert!((x - y).abs() < 1e-5, "{text}: {x} {y}");
            }
            if !matches!(first.machine.verdict(&a).answer, Answer::Value(_)) {
                assert_eq!(first.machine.verdict(&a).answer, again.machine.verdict(&b).answer);
            }
        }
    }
}

/// Files of skl2onnx 1.20 with what onnxruntime 1.31 answered (`tests/golden/make_onnx.py`).
#[test]
fn files_of_others_give_the_labels_of_onnxruntime() {
    let expected = include_str!("../../../tests/golden/onnx.txt");
    for (name, bytes) in [
        ("svc2", &include_bytes!("../../../tests/golden/svc2.onnx")[..]),
        ("svc3", include_bytes!("../../../tests/golden/svc3.onnx")),
        ("svr", include_bytes!("../../../tests/golden/svr.onnx")),
        ("oc", include_bytes!("../../../tests/golden/oc.onnx")),
    ] {
        let machine = from_bytes(bytes).unwrap().machine;
        let mut checked = 0;
        for line in expected.lines() {
            let Some(rest) = line.strip_prefix(&format!("{name} ")) else { continue };
            let numbers: Vec<f64> = rest.split(' ').map(|word| word.parse().unwrap()).collect();
            let (answer, row) = numbers.split_first().unwrap();
            let scores = scores(&machine, row);
            let found = match machine.verdict(&scores).answer {
                Answer::Class(class) => match &machine.classes()[class] {
                    ClassName::Number(number) => *number,
                    ClassName::Text(_) => panic!("numbers"),
                },
                Answer::Inlier(inlier) => {
                    if inlier {
                        1.0
                    } else {
                        -1.0
                    }
                }
                Answer::Value(value) => value,
            };
            // Labels are equal; values differ by the roundings of 27 terms in 32-bit floats.
            let slack = if *machine.output() == Output::Value { 1e-5 } else { 0.0 };
            assert!((found - answer).abs() <= slack, "{name}: {found} {answer} {scores:?}");
            checked += 1;
        }
        assert_eq!(checked, 40, "{name}");
    }
}

fn tables(scaling: Option<&str>) -> Model {
    let cuts = vec![0.5, 1.0, 2.0, 3.0];
    let spacing = Spacing::Quantile { starts: vec![0, 4, 4], cuts };
    let bins = Bins::one_hot(spacing, 5).unwrap();
    let score = Score::Additive { weights: (0..8u8).map(f32::from).collect(), offset: 0.5 };
    let kernel = mercer_kernel::parse("intersection").unwrap();
    let machine = Machine::additive(kernel, 2, bins.into(), vec![score], Output::Value).unwrap();
    let rows = Matrix::dense(2, vec![1.0, 2.0, 3.0, 5.0]).unwrap();
    let fit = |text| mercer_data::scale::parse(text).unwrap().fit(&rows).unwrap();
    let mut model: Model = machine.into();
    model.input.scaling = scaling.map(fit);
    model
}

/// `python/tests/test_onnx.py` runs such files.
#[test]
fn tables_are_written_by_standard_operators_and_not_read_back() {
    let bytes = to_bytes(&tables(Some("standard")), &FORMAT).unwrap();
    assert_eq!(super::super::recognise(&bytes).unwrap().name, "onnx");
    let has = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    assert!(["Less", "Gather", "ReduceSum", "centres"].into_iter().all(has));
    assert!(!has("ai.onnx.ml") && !has("label"));
    assert!(from_bytes(&bytes).is_err());
    let said = to_bytes(&tables(Some("quantile")), &FORMAT).unwrap_err().to_string();
    assert!(said.starts_with("ONNX cannot express rows scaled by quantile"), "{said}");
}

#[test]
fn what_onnx_cannot_say_is_refused_by_name() {
    let build = |kernel: &str, beta: f64| -> Model {
        let kernel = mercer_kernel::parse(kernel).unwrap();
        let supports = Matrix::dense(1, vec![1.0]).unwrap();
        let scores = vec![Score::expansion(&[beta], 0.0)];
        Machine::new(kernel, supports, scores, Output::Novelty).unwrap().into()
    };
    let said = |model: &Model| to_bytes(model, &FORMAT).unwrap_err().to_string();
    assert_eq!(said(&build("chi2", 1.0)), "ONNX cannot express the kernel chi2");
    assert!(said(&build("linear", 1e300)).contains("(32-bit floats)"));
    assert!(said(&build("linear", 0.0)).contains("a machine without supports"));
    assert!(format("onnx").is_some());
}
