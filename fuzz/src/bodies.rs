//! What each fuzz target does with its input. Shared by the targets of cargo-fuzz and by the test that feeds them the
//! corpus again (`crates/mercer/tests/fuzz_corpus.rs`); nothing here depends on a fuzzer.
//!
//! A body panics if an input breaks a promise: a value that is not finite, a file that is written and cannot be read
//! again. Everything that an input may cause is an error.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::LazyLock;

use mercer::compile::{Compiler, Compression, Goal, compressor};
use mercer::data::read::{Missing, Options, from_packed, read_all};
use mercer::data::{Dataset, Matrix, Row, scale, write};
use mercer::machine::{Machine, Model, Score, file};
use mercer::query::{EmptySets, Plan, PlanTrust, QueryOptions, SetDecision, SetOptions};
use mercer::spec::Spec;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A target: its name, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target; one file each in `fuzz_targets/`.
pub const TARGETS: &[Target] = &[
    ("data_libsvm", |bytes| data("libsvm", bytes)),
    ("data_csv", |bytes| data("csv", bytes)),
    ("data_npy", |bytes| data("npy", bytes)),
    ("data_idx", |bytes| data("idx", bytes)),
    ("data_arrow", |bytes| data("arrow", bytes)),
    ("data_parquet", |bytes| data("parquet", bytes)),
    ("data_packed", packed),
    ("model_text", model),
    ("model_onnx", model),
    ("model_own", |bytes| model(&redigested(bytes))),
    ("pipeline", |bytes| pipeline(&redigested(bytes))),
    ("specs", specs),
];

/// Runs a target by its name.
///
/// # Panics
/// If there is no such target, or the input breaks a promise.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.expect("the target is listed").1(bytes);
}

/// Reads rows of one format; the first byte chooses options.
fn data(format: &str, bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let missing = [Missing::Error, Missing::Zero, Missing::Mean, Missing::Drop];
    let options = Options {
        format: Some(format.to_owned()),
        missing: missing[usize::from(choice & 3)],
        zero_based: choice & 4 != 0,
        sort: choice & 8 != 0,
        precomputed: choice & 16 != 0,
        line_by_line: choice & 32 != 0,
        one_hot: if choice & 64 != 0 { vec!["1".to_owned()] } else { Vec::new() },
        unpacked_limit: 1 << 22,
        ..Options::default()
    };
    read("x", bytes, &options);
}

/// Reads rows whose format and compression are recognised; the first byte chooses the ending of the name.
fn packed(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let names = ["x", "x.csv", "x.svm.gz", "x.csv.bz2", "x.xz", "x.zst", "x.parquet", "x.arrow"];
    let options = Options { unpacked_limit: 1 << 22, ..Options::default() };
    read(names[usize::from(choice & 7)], bytes, &options);
}

fn read(name: &str, bytes: &[u8], options: &Options) {
    let chunks = from_packed(Cursor::new(bytes.to_vec()), name, options);
    let Ok(data) = chunks.and_then(|mut chunks| read_all(&mut *chunks)) else { return };
    check_rows(&data.examples);
    assert!(data.targets.is_empty() || data.targets.len() == data.examples.rows());
    if let Some(names) = &data.names {
        assert_eq!(names.len(), data.examples.columns());
    }
    written_again(&data);
}

fn check_rows(rows: &Matrix) {
    for row in rows.iter() {
        let entries: Vec<(u32, f64)> = row.nonzeros().collect();
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "columns increase");
        assert!(entries.iter().all(|(column, _)| (*column as usize) < rows.columns()));
        assert!(entries.iter().all(|(_, value)| value.is_finite()));
    }
}

/// Rows that were read can be written as LIBSVM text, and read again; texts as labels are refused.
fn written_again(data: &Dataset) {
    let format = write::FORMATS.iter().find(|format| format.name == "libsvm");
    let mut bytes = Vec::new();
    if write::dataset(data, None, format.expect("it is registered"), &mut bytes).is_err() {
        return;
    }
    let options = Options { format: Some("libsvm".to_owned()), ..Options::default() };
    let again = from_packed(Cursor::new(bytes), "x", &options);
    let again = again.and_then(|mut chunks| read_all(&mut *chunks)).expect("it was written");
    let bits = |row: Row<'_>| row.nonzeros().map(|(c, v)| (c, v.to_bits())).collect::<Vec<_>>();
    assert!(again.examples.iter().map(bits).eq(data.examples.iter().map(bits)));
}

/// Reads a model; what is read can be written in our format, and read again.
fn model(bytes: &[u8]) {
    let Ok(model) = file::from_bytes(bytes) else { return };
    let own = file::format("mercer").expect("it is registered");
    let bytes = file::to_bytes(&model, own).expect("a model that was read can be written");
    let again = file::from_bytes(&bytes).expect("what was written can be read");
    assert_eq!(file::digest(&again.machine), file::digest(&model.machine));
}

/// A model file of our own format with the digests that its arrays have: what lies behind them is tested too.
fn redigested(bytes: &[u8]) -> Vec<u8> {
    let renewed = || -> Option<Vec<u8>> {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (head, arrays) = rest.split_at_checked(length)?;
        let mut outer: BTreeMap<String, Value> = serde_json::from_slice(head).ok()?;
        let mut inner: Value =
            serde_json::from_str(outer.get("__metadata__")?.get("mercer")?.as_str()?).ok()?;
        let plan = inner.as_object_mut()?.remove("plan");
        let mut file = |inner: &Value| -> Option<Vec<u8>> {
            outer.get_mut("__metadata__")?["mercer"] = Value::String(inner.to_string());
            let head = serde_json::to_vec(&outer).ok()?;
            Some([&(head.len() as u64).to_le_bytes()[..], &head, arrays].concat())
        };
        inner["digest"] = Value::String(digest(&file(&inner)?)?);
        if let Some(mut plan) = plan {
            let model = file::from_bytes(&file(&inner)?).ok();
            if let (Some(model), Some(plan)) = (model, plan.as_object_mut()) {
                plan.insert("machine".to_owned(), Value::String(file::digest(&model.machine)));
            }
            inner.as_object_mut()?.insert("plan".to_owned(), plan);
        }
        file(&inner)
    };
    renewed().unwrap_or_else(|| bytes.to_vec())
}

/// SHA-256 over names and bytes of all arrays, as `docs/format.md` defines it.
fn digest(bytes: &[u8]) -> Option<String> {
    let arrays = safetensors::SafeTensors::deserialize(bytes).ok()?;
    let mut named: Vec<_> = arrays.iter().collect();
    named.sort_by_key(|(name, _)| *name);
    let mut hash = Sha256::new();
    for (name, view) in named {
        for part in [name.as_bytes(), view.data()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Machines beyond these sizes take long, and show nothing that smaller ones do not.
const MOST_SUPPORTS: usize = 64;
const MOST_COLUMNS: usize = 64;
const MOST_SCORES: usize = 64;

/// What `inspect`, `predict`, `explain`, `compile`, `compress` and `export` do with a model.
fn pipeline(bytes: &[u8]) {
    let Ok(model) = file::from_bytes(bytes) else { return };
    let machine = &model.machine;
    let exact = Plan::exact(machine);
    let _ = (exact.exact_stage().packed().bytes(), exact.exact_stage().cost());
    for format in file::FORMATS {
        if let Ok(bytes) = file::to_bytes(&model, format) {
            let _ = file::from_bytes(&bytes);
        }
    }
    let live = exact.exact_stage().packed().live_columns();
    let is_small = machine.supports().rows() <= MOST_SUPPORTS
        && live <= MOST_COLUMNS
        && machine.scores().len() <= MOST_SCORES;
    if !is_small {
        return;
    }
    let rows = queries(machine);
    let plan = Plan::of(&model);
    for plan in [Ok(exact), plan].into_iter().flatten() {
        answer(&model, &plan, &rows);
    }
    for text in ["cascade(anytime, exact)", "cascade(low_precision, compressed(2), exact)"] {
        let spec: Spec = text.parse().expect("it is a plan");
        if let Ok(compiled) = Compiler::new(machine).run(&spec) {
            let plan = Plan::load(machine, &compiled.sections, PlanTrust::Nothing)
                .expect("it was compiled");
            answer(&model, &plan, &rows);
        }
    }
    let method = compressor("greedy").expect("it is registered");
    let _ = Compression::new(machine, method).goal(Goal::Size(1)).keep_vectors(true).run();
}

/// The supports, zeros and some other row.
fn queries(machine: &Machine) -> Matrix {
    let mut builder = mercer::data::MatrixBuilder::new();
    machine.supports().iter().for_each(|row| builder.push_row(row));
    builder.push_row(Row::Dense(&[]));
    let width = machine.columns().min(8);
    builder.push_row(Row::Dense(&vec![0.5; width]));
    builder.finish(machine.columns())
}

fn answer(model: &Model, plan: &Plan, rows: &Matrix) {
    let Ok(rows) = model.input.prepare(rows) else { return };
    let Ok(decisions) = plan.decide(&rows) else { return };
    assert_eq!(decisions.len(), rows.rows());
    for (row, decision) in decisions.iter().enumerate().take(4) {
        let is_empty = decision.range.low > decision.range.high;
        assert!(!is_empty, "a range is not empty");
        let _ = plan.explain(&rows, row, &QueryOptions::default());
    }
    if let Some(stored) = &model.conformal {
        let options = SetOptions::default();
        let refused = plan.predict_sets(&rows, stored, &options).is_err();
        assert!(refused, "the calibration of a file is not believed");
        let sets = plan.predict_sets(&rows, &stored.vouched(), &options).unwrap_or_default();
        let may_be_empty = SetOptions { empty: EmptySets::Allowed, ..options };
        let _ = plan.predict_sets(&rows, &stored.vouched(), &may_be_empty);
        let is_empty =
            |set: &SetDecision| set.set.size() < 1.0 && !model.machine.classes().is_empty();
        assert!(!sets.iter().any(is_empty), "a set holds the label");
    }
    if let (Some(probabilities), Ok(scores)) = (&model.probabilities, plan.scores(&rows)) {
        for scores in scores.chunks_exact(model.machine.scores().len()) {
            let found = probabilities.of_classes(&model.machine, scores);
            let is_share = |share: &f64| (0.0..=1.0).contains(share);
            assert!(found.is_none_or(|shares| shares.iter().all(is_share)), "{scores:?}");
        }
    }
}

/// A machine on which plans can be fitted at once.
static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let kernel = mercer::kernel::parse("rbf(gamma=0.5)").expect("it is a kernel");
    let supports = Matrix::dense(2, vec![0.0, 1.0, 1.0, 0.0, -1.0, 0.5]).expect("they are finite");
    let scores = vec![Score::expansion(&[1.0, -0.5, 0.25], 0.1)];
    let output = mercer::machine::Output::Value;
    Machine::new(kernel, supports, scores, output).expect("its parts fit")
});

/// Texts of kernels, formulations, solvers, scalings, compressors, grids, contracts and plans.
fn specs(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(kernel) = mercer::kernel::parse(text) {
        let printed = kernel.spec().to_string();
        let again = mercer::kernel::parse(&printed).expect("a printed kernel is a kernel");
        assert_eq!(again.spec().to_string(), printed);
        let (u, v) = (Row::Dense(&[0.5, 0.0, 2.0]), Row::Dense(&[1.0, 3.0]));
        assert_eq!(kernel.value(u, v).to_bits(), again.value(u, v).to_bits());
    }
    let _ = (mercer::train::formulation(text), mercer::train::solver(text), compressor(text));
    let _ = (scale::parse(text), text.parse::<mercer::tune::Contract>());
    if let Ok(texts) = mercer::train::expand(text) {
        assert!(!texts.is_empty() && texts.len() <= 10_000);
    }
    let Ok(spec) = text.parse::<Spec>() else { return };
    assert_eq!(spec.to_string().parse::<Spec>().expect("it was printed"), spec);
    let _ = Compiler::new(&MACHINE).run(&spec);
}
