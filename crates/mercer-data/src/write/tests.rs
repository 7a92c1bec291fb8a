//! Tests of the writers: every format reads back what was written.

use std::io::Cursor;

use super::*;
use crate::Matrix;
use crate::read::{Label, Options, from_reader, read_all};
use mercer_testkit::names::ADVERSARIAL;

fn back(bytes: Vec<u8>, name: &str) -> Dataset {
    let mut chunks = from_reader(Cursor::new(bytes), name, &Options::default()).unwrap();
    read_all(&mut *chunks).unwrap()
}

fn sample() -> Dataset {
    let values = vec![0.1, 0.0, -1e300, 5e-324, 1.0 / 3.0, 1e17];
    Dataset {
        examples: Matrix::dense(3, values).unwrap(),
        targets: Targets::Numbers(vec![-1.0, 2.5]),
        names: None,
    }
}

/// Labels, columns and ids that try to be more than names.
fn adversarial(is_trimmed: bool) -> (Dataset, Vec<String>) {
    let names = ADVERSARIAL.iter().filter(|name| !is_trimmed || name.trim() == **name);
    let names: Vec<String> = names.map(|name| (*name).to_owned()).collect();
    let rows = names.len();
    let values = (0..rows * rows).map(|at| (at % 7) as f64).collect();
    let examples = Matrix::dense(rows, values).unwrap();
    let targets = Targets::Names(names.clone());
    (Dataset { examples, targets, names: Some(names.clone()) }, names)
}

#[test]
fn adversarial_names_come_back_or_are_refused() {
    let mut held = Vec::new();
    for (format, is_trimmed) in FORMATS.iter().flat_map(|format| [(format, false), (format, true)])
    {
        let (data, ids) = adversarial(is_trimmed);
        let mut bytes = Vec::new();
        match dataset(&data, Some(&ids), format, &mut bytes) {
            Ok(()) => held.push(format.name),
            Err(DataError::NotBuiltIn { .. }) if !cfg!(feature = "parquet") => continue,
            Err(DataError::Inexpressible { what, .. }) => {
                assert!(!what.is_empty());
                continue;
            }
            Err(other) => panic!("{}: {other}", format.name),
        }
        let name = format!("x.{}", format.endings[0]);
        let options =
            Options { id: Some("id".to_owned()), label: Label::Last, ..Options::default() };
        let mut chunks = from_reader(Cursor::new(bytes), &name, &options).unwrap();
        let (again, found) = crate::read::read_all_within(&mut *chunks, usize::MAX).unwrap();
        assert_eq!(again.targets, data.targets, "{name}");
        assert_eq!(found.as_deref(), Some(&ids[..]), "{name}");
        assert_eq!(again.examples, data.examples, "{name}");
        // A header of text holds no numbers: these get a letter.
        let expected = &header(&data, true)[1..=ids.len()];
        assert_eq!(again.names.as_deref(), Some(expected), "{name}");
    }
    assert!(held.contains(&"csv") && held.contains(&"arrow"), "{held:?}");
}

#[test]
fn every_format_gives_back_every_bit() {
    let data = sample();
    for format in FORMATS {
        let mut bytes = Vec::new();
        match dataset(&data, None, format, &mut bytes) {
            Err(DataError::NotBuiltIn { .. }) if !cfg!(feature = "parquet") => continue,
            written => written.unwrap(),
        }
        let again = back(bytes, &format!("x.{}", format.endings[0]));
        assert_eq!(again.examples.to_dense(), data.examples, "{}", format.name);
        if !format.labels_apart {
            assert_eq!(again.targets, data.targets, "{}", format.name);
        }
    }
    let mut bytes = Vec::new();
    labels(&data.targets, &mut bytes).unwrap();
    assert_eq!(back(bytes, "y.npy").examples.as_dense().unwrap(), [-1.0, 2.5]);
}

#[test]
fn what_a_format_cannot_say_is_refused_by_name() {
    let words = Dataset { targets: Targets::Names(vec!["a".into(), "b".into()]), ..sample() };
    let ids = ["x".to_owned(), "y".to_owned()];
    let said = |data: &Dataset, ids, name: &str| {
        let format = FORMATS.iter().find(|format| format.name == name).unwrap();
        dataset(data, ids, format, &mut Vec::new()).unwrap_err().to_string()
    };
    assert_eq!(
        said(&words, None, "libsvm"),
        "LIBSVM text cannot express the label 'a' (only numbers)"
    );
    assert_eq!(said(&sample(), Some(&ids), "npy"), "NPY cannot express ids of rows");
    assert_eq!(said(&sample(), Some(&ids), "idx"), "IDX cannot express ids of rows");
    let mut text = Vec::new();
    dataset(&words, Some(&ids), FORMATS[1], &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("id,x1,x2,x3,label\nx,0.1,0,-1e300,a\n"), "{text}");
}

#[test]
fn pixels_are_written_as_bytes() {
    let written = |values: Vec<f64>| {
        let examples = Matrix::dense(2, values).unwrap();
        let data = Dataset { examples, targets: Targets::Absent, names: None };
        let format = FORMATS.iter().find(|format| format.name == "idx").unwrap();
        let mut bytes = Vec::new();
        dataset(&data, None, format, &mut bytes).unwrap();
        assert_eq!(back(bytes.clone(), "x.idx").examples, data.examples);
        bytes
    };
    assert_eq!(written(vec![0.0, 255.0]), [0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255]);
    for other in [-0.0, 0.5, 256.0, -1.0] {
        assert_eq!(written(vec![1.0, other]).len(), 12 + 16, "{other}");
    }
}
