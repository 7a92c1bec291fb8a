//! Adversarial model files: `tests/data/trust/README.md` says what each of them shows. Damaged files made at
//! random are in `tests/mutations.rs`; every verb of the command reads these files in `mercer-cli/tests/it/crafted.rs`.

use std::fs;
use std::path::Path;

use mercer_data::Matrix;

use super::{from_bytes, to_bytes};
use crate::{Curve, Machine, Model, Output, Parent, Probabilities, Score};

/// Files that are refused, with a part of the message.
const REFUSED: [(&str, &str); 4] = [
    ("columns_2pow62_panic.mercer", "4611686018427387904 columns are claimed"),
    ("craft_cols_empty_1099511627776.mercer", "1099511627776 columns are claimed"),
    ("merged_overflow.model", "a coefficient of score 1 is inf"),
    ("nested_normalized_16.mercer", "kernels are inside each other"),
];

/// Reading alone does not show what is wrong with the others: digests, shapes and numbers are valid.
#[test]
fn adversarial_files_with_valid_digests_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trust");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if ![".mercer", ".model"].iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        count += 1;
        let read = from_bytes(&fs::read(&path).unwrap());
        if let Some((_, message)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            let said = read.expect_err(&name).to_string();
            assert!(said.contains(message), "{name}: {said}");
            continue;
        }
        let model = read.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!model.machine.scores().is_empty(), "{name}");
        assert_eq!(
            model.plan.is_some(),
            HAVE_PLANS.iter().any(|plan| name.contains(plan)),
            "{name}"
        );
    }
    assert_eq!(count, 38);
}

/// Parts of the names of files that hold a plan.
const HAVE_PLANS: [&str; 4] = ["forged_plan", ".anyt.", ".comp.", "budgeted"];

fn novelty(supports: Matrix, coefficients: &[f64]) -> Model {
    let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
    let scores = vec![Score::expansion(coefficients, 0.5)];
    Machine::new(kernel, supports, scores, Output::Novelty).unwrap().into()
}

#[test]
fn a_sole_support_of_zeros_is_written_and_read_again() {
    let own = super::format("mercer").unwrap();
    let given = novelty(Matrix::sparse(0, &[0, 0], &[], &[]).unwrap(), &[1.0]);
    let again = from_bytes(&to_bytes(&given, own).unwrap()).unwrap();
    assert_eq!((again.machine.supports().rows(), again.machine.columns()), (1, 0));
    assert_eq!(again.machine.scores(), given.machine.scores());
}

#[test]
fn numbers_that_are_no_probabilities_or_shares_are_refused() {
    let own = super::format("mercer").unwrap();
    let given = novelty(Matrix::dense(1, vec![1.0]).unwrap(), &[1.0]);
    let nan = f64::NAN;
    let curve = |values: Vec<f64>| {
        Probabilities::Curves(vec![Curve::PiecewiseLinear { scores: vec![0.0, 1.0], values }])
    };
    for wrong in [
        Probabilities::Sigmoid { a: vec![nan], b: vec![0.0] },
        Probabilities::Sigmoid { a: vec![1.0], b: vec![f64::INFINITY] },
        Probabilities::Laplace { sigma: nan },
        Probabilities::Laplace { sigma: -1.0 },
        Probabilities::Marks(vec![1.0, nan]),
        Probabilities::Marks(vec![1.0, 0.0]),
        curve(vec![0.5, 1.5]),
        curve(vec![-0.5, 0.5]),
        curve(vec![0.5, nan]),
    ] {
        let model = Model { probabilities: Some(wrong.clone()), ..given.clone() };
        let mut bytes = Vec::new();
        (own.write)(&model, &mut bytes).unwrap();
        assert!(from_bytes(&bytes).is_err(), "{wrong:?}");
        assert!(to_bytes(&model, own).is_err(), "{wrong:?}");
    }
    let parent = Parent { machine: "x".into(), supports: 1, method: "m".into(), error: -0.5 };
    let mut model = given;
    model.provenance.parent = Some(parent);
    let said = to_bytes(&model, own).unwrap_err().to_string();
    assert_eq!(said, "the error of its compression is outside its range");
}
