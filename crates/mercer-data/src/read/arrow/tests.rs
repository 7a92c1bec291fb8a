//! Tests of the Arrow reader on files of other programs.

use super::super::{Label, Missing, Options, from_reader, read_all};
use super::views;
use crate::{Dataset, Matrix, Targets, write};

fn read(bytes: &[u8], options: &Options) -> Result<Dataset, String> {
    let source = std::io::Cursor::new(bytes.to_vec());
    let chunks = from_reader(source, "x", options).and_then(|mut chunks| read_all(&mut *chunks));
    chunks.map_err(|error| error.to_string())
}

fn written(data: &Dataset) -> Vec<u8> {
    let format = write::FORMATS.iter().find(|format| format.name == "arrow").unwrap();
    let mut bytes = Vec::new();
    write::dataset(data, None, format, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_written_reads_back_to_the_same_bits() {
    let examples = Matrix::dense(2, vec![0.1, -0.0, 5e-324, 1e300, 3.0, 4.0]).unwrap();
    let names = Some(vec!["a".to_owned(), "größe".to_owned()]);
    for targets in [
        Targets::Numbers(vec![1.0, -1.0, 0.5]),
        Targets::Names(vec!["yes".into(), "nö".into(), "yes".into()]),
        Targets::Absent,
    ] {
        let label = if targets == Targets::Absent { Label::Absent } else { Label::Guess };
        let data = Dataset { examples: examples.clone(), targets, names: names.clone() };
        let options = Options { label, ..Options::default() };
        assert_eq!(read(&written(&data), &options).unwrap(), data);
    }
}

/// Files of pyarrow (`tests/golden/make_tables.py`): all types that are read, nulls, dictionaries, two batches,
/// stream and file, packed and not.
#[test]
fn files_of_others_hold_the_rows_their_writer_saw() {
    let files: [(&str, &[u8]); 4] = [
        ("file", include_bytes!("../../../tests/golden/types.arrow")),
        ("stream", include_bytes!("../../../tests/golden/types.arrows")),
        ("lz4", include_bytes!("../../../tests/golden/types-lz4.feather")),
        ("zstd", include_bytes!("../../../tests/golden/types-zstd.feather")),
    ];
    for (name, bytes) in files {
        if name == "zstd" && !cfg!(feature = "zstd") {
            continue;
        }
        let options = Options {
            missing: Missing::Zero,
            one_hot: vec!["colour".into()],
            id: Some("name".into()),
            ..Options::default()
        };
        let data = read(bytes, &options).unwrap();
        let names = data.names.as_ref().unwrap();
        assert_eq!(names[..4], ["i1", "u8", "i64", "f2"], "{name}");
        assert_eq!(names[7..], ["colour=blue", "colour=red"], "{name}");
        assert_eq!(
            data.targets,
            Targets::Names(["yes", "no", "yes", "no", "yes"].map(String::from).into())
        );
        let rows = data.examples.to_dense();
        assert_eq!(
            rows.as_dense().unwrap(),
            [
                -1.0, 200.0, 4e9, 0.5, 0.25, 1.0, 1.0, 0.0, 1.0, //
                0.0, 1.0, -5.0, -2.5, 0.1, 2.0, 0.0, 1.0, 0.0, //
                3.0, 2.0, 6.0, 0.0, 0.0, 3.0, 1.0, 0.0, 0.0, //
                4.0, 3.0, 7.0, 1.0, 1.5, 4.0, 0.0, 0.0, 1.0, //
                5.0, 4.0, 8.0, 2.0, 2.5, 5.0, 1.0, 1.0, 0.0,
            ],
            "{name}"
        );
        let said = read(bytes, &Options { missing: Missing::Error, ..options }).unwrap_err();
        assert!(said.contains("row 2: column 'i1' is empty"), "{name}: {said}");
    }
}

/// Files of polars, which writes words as views.
#[test]
fn words_may_be_views() {
    let files: [(&str, &[u8]); 2] = [
        ("plain", include_bytes!("../../../tests/golden/views.arrow")),
        ("zstd", include_bytes!("../../../tests/golden/views-zstd.arrow")),
    ];
    for (name, bytes) in files {
        if name == "zstd" && !cfg!(feature = "zstd") {
            continue;
        }
        views::check(name, |options| read(bytes, options));
    }
}

#[test]
fn damage_and_what_is_not_read_is_told() {
    let examples = Matrix::dense(1, vec![1.0, 2.0]).unwrap();
    let bytes = written(&Dataset { examples, targets: Targets::Absent, names: None });
    for end in 0..bytes.len() {
        assert!(
            read(&bytes[..end], &Options { format: Some("arrow".into()), ..Options::default() })
                .is_err()
        );
    }
    let listed = include_bytes!("../../../tests/golden/lists.arrow");
    let said = read(listed, &Options::default()).unwrap_err();
    assert_eq!(said, "Arrow: column 'tags' holds lists, which is not read");
}
