//! Machines of every kind in every file format that can store them: no label changes.

use mercer::data::{Dataset, Matrix, Targets, synthetic};
use mercer::kernel;
use mercer::machine::{Answer, Machine, Model, Scheme, file};
use mercer::query::Plan;
use mercer::train::{Training, formulation, train};

/// Points of `classes` clouds on a circle, far from the origin if `shift` says so.
fn clouds(rows: usize, classes: usize, shift: f64) -> Dataset {
    let noise = synthetic::ripley(rows, 5).examples.to_dense();
    let mut values = Vec::new();
    let mut labels = Vec::new();
    for row in 0..rows {
        let class = row % classes;
        let angle = class as f64 / classes as f64 * std::f64::consts::TAU;
        let noise = noise.row(row);
        values.push(2.0 * angle.cos() + noise.get(0) + shift);
        values.push(2.0 * angle.sin() + noise.get(1) + shift);
        labels.push(class as f64);
    }
    let examples = Matrix::dense(2, values).unwrap();
    Dataset { examples, targets: Targets::Numbers(labels), names: None }
}

fn sparse(rows: usize) -> Dataset {
    let dense = clouds(rows, 2, 0.0);
    let mut values = vec![0.0; rows * 40];
    for row in 0..rows {
        for column in 0..2 {
            values[row * 40 + (row * 7 + column * 19) % 38] = 1.0;
            values[row * 40 + 38 + column] = dense.examples.row(row).get(column);
        }
    }
    let examples = Matrix::dense(40, values).unwrap().to_sparse();
    Dataset { examples, ..dense }
}

fn learn(data: &Dataset, kernel: &str, what: &str, scheme: Scheme) -> Model {
    let kernel = kernel::parse(kernel).unwrap();
    let settings = Training::default().scheme(scheme);
    let what = formulation(what).unwrap();
    train(data, &kernel, &what, &settings, &mut |_| {}).unwrap().machine.into()
}

fn models() -> Vec<(&'static str, Model, Dataset)> {
    let one = Scheme::OneVsOne;
    let two = clouds(200, 2, 0.0);
    let ten = clouds(300, 10, 0.0);
    let far = clouds(200, 2, 1e6);
    let thin = sparse(200);
    let rbf = "rbf(gamma=0.5)";
    vec![
        ("binary", learn(&two, rbf, "c_svc(C=1)", one), two.clone()),
        ("linear", learn(&two, "linear", "c_svc(C=1)", one), two.clone()),
        ("ten classes", learn(&ten, rbf, "c_svc(C=1)", one), ten.clone()),
        ("ten, rest", learn(&ten, rbf, "c_svc(C=1)", Scheme::OneVsRest), ten),
        ("regression", learn(&two, rbf, "epsilon_svr(C=1,epsilon=0.1)", one), two.clone()),
        ("novelty", learn(&two, rbf, "one_class(nu=0.2)", one), two),
        ("sparse", learn(&thin, rbf, "c_svc(C=1)", one), thin),
        ("far away", learn(&far, rbf, "c_svc(C=1)", one), far),
    ]
}

fn answers(machine: &Machine, rows: &Matrix) -> Vec<Answer> {
    let decisions = Plan::exact(machine).decide(rows).unwrap();
    decisions.iter().map(|decision| decision.answer).collect()
}

#[test]
fn no_label_changes_on_any_way_between_formats() {
    let mut ways = 0;
    for (name, model, data) in models() {
        let before = answers(&model.machine, &data.examples);
        for first in file::FORMATS {
            let Ok(bytes) = file::to_bytes(&model, first) else { continue };
            let Ok(once) = file::from_bytes(&bytes) else { continue };
            for second in file::FORMATS {
                let Ok(bytes) = file::to_bytes(&once, second) else { continue };
                let Ok(twice) = file::from_bytes(&bytes) else { continue };
                // ONNX takes the centre of far rows off first, and so must who asks.
                let rows = twice.input.prepare(&data.examples).unwrap();
                let after = answers(&twice.machine, &rows);
                let narrow = [first.name, second.name].contains(&"onnx");
                let differs = |(a, b): &(&Answer, &Answer)| match (a, b) {
                    (Answer::Value(a), Answer::Value(b)) if narrow => (a - b).abs() > 1e-4,
                    (a, b) => a != b,
                };
                let changed = before.iter().zip(&after).filter(differs).count();
                assert_eq!(changed, 0, "{name}: {} to {}", first.name, second.name);
                ways += 1;
            }
        }
    }
    // Eight machines: seven that three formats can say, and one (one-vs-rest) that ours alone can.
    assert_eq!(ways, 7 * 9 + 1);
}

#[test]
fn our_own_file_keeps_every_bit_of_every_score() {
    let own = file::format("mercer").unwrap();
    for (name, model, data) in models() {
        let again = file::from_bytes(&file::to_bytes(&model, own).unwrap()).unwrap();
        let scores = |machine: &Machine| Plan::exact(machine).scores(&data.examples).unwrap();
        assert_eq!(scores(&model.machine), scores(&again.machine), "{name}");
    }
}
