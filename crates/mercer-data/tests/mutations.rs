//! Damaged files of every kind end in an error or in checked rows, never in a panic, and in little memory.
//!
//! `MERCER_MUTATIONS` sets the number of variants of each kind (100,000 unless told otherwise).

use std::io::{Cursor, Write};

use mercer_data::read::{Missing, Options, from_packed, whole};
use mercer_data::{Dataset, Matrix, Row, Targets, write};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Memory beyond the file's size that a reader may take.
const MEMORY: u64 = 64 << 20;

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

/// Cuts, flips, splices, repeats and large numbers.
fn mutate(bytes: &[u8], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..rng.random_range(1..4) {
        if out.is_empty() {
            break;
        }
        let at = rng.random_range(0..out.len());
        let end = (at + rng.random_range(1..24)).min(out.len());
        match rng.random_range(0..7) {
            0 => out.truncate(at),
            1 => out[at] ^= 1 << rng.random_range(0..8),
            2 => out[at] = rng.random(),
            3 => {
                let piece = out[at..end].to_vec();
                let to = rng.random_range(0..=out.len());
                out.splice(to..to, piece);
            }
            4 => {
                out.drain(at..end);
            }
            5 => {
                let large: [&[u8]; 5] =
                    [b"99999999999", b"4294967294", b"1e999", b"-", &[0xff, 0xff, 0xff, 0xff]];
                let piece = large[rng.random_range(0..large.len())];
                out.splice(at..at, piece.iter().copied());
            }
            _ => out[at..end].fill([0u8, 0xff, b'9', b'\n'][rng.random_range(0..4)]),
        }
    }
    out
}

/// The largest resident size so far, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

#[test]
fn damaged_files_end_in_an_error_or_in_checked_rows() {
    let count = std::env::var("MERCER_MUTATIONS").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(100_000);
    let start = peak();
    for kind in kinds() {
        let read = |bytes: Vec<u8>| {
            let source = Cursor::new(bytes);
            from_packed(source, kind.name, &kind.options).and_then(|mut chunks| whole(&mut *chunks))
        };
        assert!(read(kind.bytes.clone()).is_ok(), "{}", kind.name);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut refused = 0;
        for _ in 0..count {
            match read(mutate(&kind.bytes, &mut rng)) {
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
                Ok(data) => {
                    let rows = data.examples.rows();
                    assert!(data.targets.is_empty() || data.targets.len() == rows);
                    let mut entries = data.examples.iter().flat_map(Row::nonzeros);
                    assert!(entries.all(|(_, value)| value.is_finite()));
                }
            }
        }
        assert!(refused > count / 20, "{}: only {refused} of {count} refused", kind.name);
    }
    if let (Some(start), Some(end)) = (start, peak()) {
        assert!(end - start < MEMORY, "{} MiB more", (end - start) >> 20);
    }
}
