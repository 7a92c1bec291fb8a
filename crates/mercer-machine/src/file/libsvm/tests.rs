//! Tests of the LIBSVM format.

use super::super::{from_bytes, to_bytes};
use super::FORMAT;
use crate::{Model, Output, Probabilities, Score};

const THREE_CLASSES: &str = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 3\ntotal_sv 4\n\
    rho 0.1 -0.2 0.3\nlabel 7 -2 5\nprobA -1 -2 -3\nprobB 0 0.5 1\nnr_sv 1 2 1\nSV\n\
    1 2 1:1 3:0.25 \n-0.5 3 2:1 \n-0.5 0 1:0.1 \n-2 -3 1:2 2:2 \n";

fn model(text: &str) -> Model {
    from_bytes(text.as_bytes()).unwrap()
}

#[test]
fn coefficients_go_to_the_pairs_they_belong_to() {
    let machine = model(THREE_CLASSES).machine;
    assert_eq!(machine.supports().rows(), 4);
    let expected = [
        Score::expansion(&[1.0, -0.5, -0.5, 0.0], 0.1),
        Score::expansion(&[2.0, 0.0, 0.0, -2.0], -0.2),
        Score::expansion(&[0.0, 3.0, 0.0, -3.0], 0.3),
    ];
    assert_eq!(machine.scores(), expected);
}

#[test]
fn written_text_reads_back_as_the_same_machine() {
    let types = ["c_svc", "nu_svc"].map(|name| THREE_CLASSES.replace("c_svc", name));
    let one_class = "svm_type one_class\nkernel_type polynomial\ndegree 4\ngamma 1e-3\ncoef0 1\n\
        nr_class 2\ntotal_sv 1\nrho 0.1\nSV\n0.30000000000000004 1:1e-7 \n";
    let svr = "svm_type nu_svr\nkernel_type sigmoid\ngamma 0.1\ncoef0 -1\nnr_class 2\ntotal_sv 1\n\
        rho 1e300\nprobA 0.7\nSV\n-1.5 2:3 \n";
    let linear =
        "svm_type epsilon_svr\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0\nSV\n1 1:1\n";
    let given = "svm_type one_class\nkernel_type precomputed\nnr_class 2\ntotal_sv 2\nrho 0\nSV\n\
        1 0:4 \n2 0:1 \n";
    for text in types.iter().map(String::as_str).chain([one_class, svr, linear, given]) {
        let first = model(text);
        let written = to_bytes(&first, &FORMAT).unwrap();
        let again = from_bytes(&written).unwrap();
        assert_eq!(first.machine.scores(), again.machine.scores(), "{text}");
        assert_eq!(first.machine.supports(), again.machine.supports(), "{text}");
        assert_eq!(first.machine.output(), again.machine.output(), "{text}");
        assert_eq!(first.machine.kernel().spec(), again.machine.kernel().spec(), "{text}");
        assert_eq!(first.probabilities, again.probabilities, "{text}");
        assert_eq!(first.provenance, again.provenance, "{text}");
    }
}

#[test]
fn a_vector_shared_by_classes_is_written_for_each() {
    // The same vector in classes 0 and 2, with pairs (0,1) and (1,2) that share class 1 only in part.
    let text = THREE_CLASSES.replace("-2 -3 1:2 2:2", "-2 -3 1:1 3:0.25");
    let first = model(&text);
    assert_eq!(first.machine.supports().rows(), 3);
    let again = from_bytes(&to_bytes(&first, &FORMAT).unwrap()).unwrap();
    for (a, b) in first.machine.scores().iter().zip(again.machine.scores()) {
        // Supports may come back in another order; compare as sets of (row, coefficient).
        let list = |score: &Score, model: &Model| {
            let Score::Expansion { supports, coefficients, .. } = score else {
                panic!("expansion")
            };
            let rows = supports
                .iter()
                .map(|s| model.machine.supports().row(*s as usize).nonzeros().collect::<Vec<_>>());
            let mut pairs: Vec<_> = rows.zip(coefficients.iter().copied()).collect();
            pairs.sort_by(|x, y| x.partial_cmp(y).unwrap());
            pairs
        };
        assert_eq!(list(a, &first), list(b, &again));
    }
}

#[test]
fn old_files_with_few_digits_and_any_key_order_are_read() {
    let text =
        "svm_type one_class\ntotal_sv 1\nkernel_type linear\nnr_class 2\nrho 0.0297609\nSV\n1\t1:2";
    let model = model(text);
    assert_eq!(model.machine.output(), &Output::Novelty);
    assert_eq!(model.machine.scores()[0].offset(), 0.0297609);
    assert_eq!(model.probabilities, None::<Probabilities>);
}

/// LIBSVM takes an index 0 as one more column.
#[test]
fn an_index_0_counts_all_columns_from_0() {
    let text = THREE_CLASSES.replacen("1:1 3:0.25", "0:1 3:0.25", 1);
    let first = model(&text);
    assert!(first.input.zero_based);
    assert_eq!(first.machine.columns(), 4);
    let written = String::from_utf8(to_bytes(&first, &FORMAT).unwrap()).unwrap();
    assert!(written.contains(" 0:1 3:0.25 "), "{written}");
    assert!(!model(THREE_CLASSES).input.zero_based);
    let unsorted = THREE_CLASSES.replacen("1:1 3:0.25", "1:1 0:0.25", 1);
    let said = from_bytes(unsorted.as_bytes()).unwrap_err().to_string();
    assert_eq!(said, "line 12: index 0 comes after 1; indices must increase");
}

#[test]
fn broken_texts_say_where() {
    for (from, to, message) in [
        ("c_svc", "d_svc", "line 1: unknown svm_type 'd_svc'"),
        ("rbf", "wavelet", "line 2: unknown kernel_type 'wavelet'"),
        ("gamma 0.5\n", "", "line 1: 'gamma' is missing"),
        ("rho 0.1 -0.2 0.3", "rho 0.1", "line 11: 'rho' has 1 values, 3 are needed"),
        ("rho 0.1", "rho nan", "line 6: 'nan' is not a finite number"),
        ("nr_sv 1 2 1", "nr_sv 1 2 2", "line 11: 'nr_sv' does not add up to 'total_sv'"),
        ("nr_sv", "nr_vs", "line 10: unknown key 'nr_vs'"),
        ("SV\n", "", "line 11: unknown key '1'"),
        ("-0.5 3 2:1 \n", "", "line 14: the file ends after 3 of 4 vectors"),
        ("1:1 3:0.25", "3:1 1:0.25", "line 12: index 1 comes after 3; indices must increase"),
        ("1 2 1:1", "1 1:1", "line 12: 1 coefficients, 2 are needed"),
        ("label 7 -2 5", "label 7 7 5", "class '7' is named twice"),
    ] {
        let text = THREE_CLASSES.replacen(from, to, 1);
        assert_eq!(from_bytes(text.as_bytes()).unwrap_err().to_string(), message);
    }
    assert!(from_bytes(b"").is_err());
    assert!(from_bytes(b"1 1:2\n").is_err());
}
