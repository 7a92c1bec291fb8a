//! Damaged model files of every kind end in an error or in a checked machine, never in a panic, and in
//! little memory.
//!
//! A test program of its own, because it counts every allocation of the process. `MERCER_MUTATIONS` sets the
//! number of variants of each format (default 5,000; `cargo xtask bench soak` sets more) and
//! `MERCER_MUTATION_SEED` the seed, which is new in each run and printed on failure.

use mercer_machine::file::{format, from_bytes, to_bytes};
use mercer_testkit::mutations::{PeakAlloc, survive};
use safetensors::SafeTensors;
use sha2::{Digest, Sha256};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const LIBSVM: &[u8] = b"svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 3\ntotal_sv 4\n\
    rho 0.1 -0.2 0.3\nlabel 7 -2 5\nprobA -1 -2 -3\nprobB 0 0.5 1\nnr_sv 1 2 1\nSV\n\
    1 2 1:1 3:0.25 \n-0.5 3 2:1 \n-0.5 0 1:0.1 \n-2 -3 1:2 2:2 \n";
const LIBLINEAR: &[u8] =
    b"solver_type MCSVM_CS\nnr_class 3\nlabel 3 1 2\nnr_feature 2\nbias 1\nw\n\
    1 2 3 \n4 5 6 \n7 8 1 \n";

#[test]
fn damaged_models_end_in_an_error_or_in_a_checked_machine() {
    let model = from_bytes(LIBSVM).unwrap();
    let written = |name: &str| to_bytes(&model, format(name).unwrap()).unwrap();
    let kinds = [
        ("libsvm", LIBSVM.to_vec()),
        ("liblinear", LIBLINEAR.to_vec()),
        ("onnx", written("onnx")),
        ("onnx", include_bytes!("golden/svc3.onnx").to_vec()),
        ("mercer", written("mercer")),
        ("mercer, scaled", include_bytes!("golden/scaled.mercer").to_vec()),
        ("mercer, additive", include_bytes!("golden/additive.mercer").to_vec()),
        ("mercer, means", include_bytes!("golden/means.mercer").to_vec()),
        ("mercer, curves", include_bytes!("golden/curves.mercer").to_vec()),
        ("mercer, tuned", include_bytes!("golden/tuned.mercer").to_vec()),
        ("mercer, kept rows", include_bytes!("golden/kept_rows.mercer").to_vec()),
    ];
    for (name, bytes) in kinds {
        survive(name, &bytes, &HEAP, |bytes| read(&bytes));
        if name.starts_with("mercer") {
            let name = format!("{name}, sealed anew");
            survive(&name, &bytes, &HEAP, |bytes| read(&sealed(bytes)));
        }
    }
}

fn read(bytes: &[u8]) -> Result<(), String> {
    let model = from_bytes(bytes).map_err(|error| error.to_string())?;
    assert!(!model.machine.scores().is_empty());
    Ok(())
}

/// The file with the digest that its damaged arrays have, so that what lies behind the digest is tested too.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"\\\"digest\\\":\\\"";
    let Ok(arrays) = SafeTensors::deserialize(&bytes) else { return bytes };
    let mut named: Vec<_> = arrays.iter().collect();
    named.sort_by_key(|(name, _)| *name);
    let mut hash = Sha256::new();
    for (name, view) in named {
        for part in [name.as_bytes(), view.data()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    let text: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let mark = bytes.windows(MARK.len()).position(|window| window == MARK);
    let place = mark.and_then(|at| bytes.get_mut(at + MARK.len()..at + MARK.len() + text.len()));
    if let Some(place) = place {
        place.copy_from_slice(text.as_bytes());
    }
    bytes
}
