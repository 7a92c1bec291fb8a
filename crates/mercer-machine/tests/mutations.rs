//! Damaged model files of every kind end in an error or in a checked machine, never in a panic, and in
//! little memory.
//!
//! `MERCER_MUTATIONS` sets the number of variants of each kind (100,000 unless told otherwise).

use mercer_machine::file::{format, from_bytes, to_bytes};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Memory beyond the file's size that a reader may take.
const MEMORY: u64 = 64 << 20;

const LIBSVM: &[u8] = b"svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 3\ntotal_sv 4\n\
    rho 0.1 -0.2 0.3\nlabel 7 -2 5\nprobA -1 -2 -3\nprobB 0 0.5 1\nnr_sv 1 2 1\nSV\n\
    1 2 1:1 3:0.25 \n-0.5 3 2:1 \n-0.5 0 1:0.1 \n-2 -3 1:2 2:2 \n";
const LIBLINEAR: &[u8] =
    b"solver_type MCSVM_CS\nnr_class 3\nlabel 3 1 2\nnr_feature 2\nbias 1\nw\n\
    1 2 3 \n4 5 6 \n7 8 1 \n";

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
fn damaged_models_end_in_an_error_or_in_a_checked_machine() {
    let count = std::env::var("MERCER_MUTATIONS").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(100_000);
    let model = from_bytes(LIBSVM).unwrap();
    let written = |name: &str| to_bytes(&model, format(name).unwrap()).unwrap();
    let kinds = [
        ("libsvm", LIBSVM.to_vec()),
        ("liblinear", LIBLINEAR.to_vec()),
        ("onnx", written("onnx")),
        ("onnx", include_bytes!("golden/svc3.onnx").to_vec()),
        ("mercer", written("mercer")),
    ];
    let start = peak();
    for (name, bytes) in kinds {
        assert!(from_bytes(&bytes).is_ok(), "{name}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut refused = 0;
        for _ in 0..count {
            match from_bytes(&mutate(&bytes, &mut rng)) {
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
                Ok(model) => assert!(!model.machine.scores().is_empty()),
            }
        }
        assert!(refused > count / 20, "{name}: only {refused} of {count} refused");
    }
    if let (Some(start), Some(end)) = (start, peak()) {
        assert!(end - start < MEMORY, "{} MiB more", (end - start) >> 20);
    }
}
