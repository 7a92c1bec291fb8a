//! Damaged files of every kind end in an error or in checked rows, never in a panic, and in little memory.
//!
//! A test program of its own, because it counts every allocation of the process. `MERCER_MUTATIONS` sets the
//! number of variants of each format (default 5,000; `cargo xtask bench soak` sets more) and
//! `MERCER_MUTATION_SEED` the seed, which is new in each run and printed on failure.

use std::io::{Cursor, Write};

use mercer_data::read::{Missing, Options, from_packed, read_all};
use mercer_data::{Dataset, Matrix, Row, Targets, write};
use mercer_testkit::mutations::{PeakAlloc, survive};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

struct Kind {
    name: &'static str,
    bytes: Vec<u8>,
    options: Options,
}

fn sample() -> Dataset {
    let values = (0..40).map(|at| f64::from((at * 29) % 13) / 4.0 - 1.0).collect();
    let examples = Matrix::dense(4, values).unwrap();
    Dataset { examples, targets: Targets::Numbers(vec![1.0; 10]), names: None }
}

fn packed(name: &str, text: &[u8]) -> Vec<u8> {
    match name {
        "x.svm.gz" => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(text).unwrap();
            out.finish().unwrap()
        }
        _ => {
            let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            out.write_all(text).unwrap();
            out.finish().unwrap()
        }
    }
}

fn kinds() -> Vec<Kind> {
    let data = sample();
    let written = |name: &str| {
        let format = write::FORMATS.iter().find(|format| format.name == name).unwrap();
        let mut bytes = Vec::new();
        write::dataset(&data, None, format, &mut bytes).unwrap();
        bytes
    };
    let svm = written("libsvm");
    let plain = Options { unpacked_limit: 1 << 20, ..Options::default() };
    let table = b"id,colour,size,label\n7,red,1.5,yes\n8,blue,?,no\n9,red,2e3,yes\n10,,4,no\n";
    let hot = Options {
        one_hot: vec!["colour".into()],
        id: Some("id".into()),
        missing: Missing::Mean,
        ..plain.clone()
    };
    let mut idx = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2];
    idx.extend(1..=12);
    let mut all = vec![
        Kind { name: "x.csv", bytes: written("csv"), options: plain.clone() },
        Kind { name: "y.csv", bytes: table.to_vec(), options: hot },
        Kind { name: "x.npy", bytes: written("npy"), options: plain.clone() },
        Kind { name: "x.idx", bytes: idx, options: plain.clone() },
    ];
    let nulls = Options {
        one_hot: vec!["colour".into()],
        id: Some("name".into()),
        missing: Missing::Zero,
        ..plain.clone()
    };
    all.push(Kind {
        name: "views.arrow",
        bytes: include_bytes!("golden/views.arrow").to_vec(),
        options: Options {
            one_hot: ["colour", "raw", "kind"].map(String::from).into(),
            ..nulls.clone()
        },
    });
    let golden: [(&str, &[u8]); 3] = [
        ("x.arrow", include_bytes!("golden/types.arrow")),
        ("x.arrows", include_bytes!("golden/types.arrows")),
        ("x.feather", include_bytes!("golden/types-lz4.feather")),
    ];
    #[cfg(feature = "parquet")]
    all.push(Kind {
        name: "x.parquet",
        bytes: include_bytes!("golden/types-plain.parquet").to_vec(),
        options: nulls.clone(),
    });
    #[cfg(feature = "parquet")]
    all.push(Kind {
        name: "y.parquet",
        bytes: include_bytes!("golden/types.parquet").to_vec(),
        options: nulls.clone(),
    });
    for (name, bytes) in golden {
        all.push(Kind { name, bytes: bytes.to_vec(), options: nulls.clone() });
    }
    for name in ["x.svm.gz", "x.svm.bz2"] {
        all.push(Kind { name, bytes: packed(name, &svm), options: plain.clone() });
    }
    #[cfg(feature = "xz")]
    {
        let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
        out.write_all(&svm).unwrap();
        let bytes = out.finish().unwrap();
        all.push(Kind { name: "x.svm.xz", bytes, options: plain.clone() });
    }
    #[cfg(feature = "zstd")]
    {
        let bytes = zstd::encode_all(Cursor::new(&svm), 3).unwrap();
        all.push(Kind { name: "x.svm.zst", bytes, options: plain.clone() });
    }
    all.push(Kind { name: "x.svm", bytes: svm, options: plain });
    all
}

#[test]
fn damaged_files_end_in_an_error_or_in_checked_rows() {
    for kind in kinds() {
        survive(kind.name, &kind.bytes, &HEAP, |bytes| {
            let source = Cursor::new(bytes);
            let data = from_packed(source, kind.name, &kind.options)
                .and_then(|mut chunks| read_all(&mut *chunks))
                .map_err(|error| error.to_string())?;
            let rows = data.examples.rows();
            assert!(data.targets.is_empty() || data.targets.len() == rows);
            let mut entries = data.examples.iter().flat_map(Row::nonzeros);
            assert!(entries.all(|(_, value)| value.is_finite()));
            Ok(())
        });
    }
}
