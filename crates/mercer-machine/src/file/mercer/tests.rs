//! Tests of Mercer's own model format. `tests/golden/*.mercer` fix its bytes, one file for each feature.

use super::super::{from_bytes, to_bytes};
use super::FORMAT;
use crate::{
    Array, Bins, Budget, Calibration, ClassName, Conformal, Counts, Curve, Input, Machine, Model,
    Output, Parent, PlanSections, Probabilities, Provenance, Refusal, SampleParts, Scale, Scheme,
    Score, Section, SettledByStage, Spacing, Speed, TrainingRows, Trial, Tuning, Verification,
    file,
};
use mercer_data::{Matrix, Targets};
use std::sync::Arc;

fn sample() -> Model {
    let kernel = mercer_kernel::parse("rbf(gamma=0.1)").unwrap();
    let supports = Matrix::dense(3, vec![1e6, 0.1, 0.0, 1e6 + 1.0, 0.0, 5e-324]).unwrap();
    let names = vec![ClassName::Text("no \"quotes\"".into()), ClassName::Number(-0.5)];
    let output = Output::Classes { names, scheme: Scheme::OneVsRest };
    let scores = vec![Score::expansion(&[1.0 / 3.0, -2.0], 0.7)];
    Model {
        machine: Machine::new(kernel, supports, scores, output).unwrap(),
        plan: None,
        input: Input {
            features: Some(3),
            names: Some(vec!["a".into(), "b".into(), "ü".into()]),
            scaling: None,
            means: None,
            target: None,
            zero_based: false,
        },
        probabilities: Some(Probabilities::Sigmoid { a: vec![-1.5], b: vec![0.25] }),
        conformal: Some(Conformal::from_parts(0.9, 99, -0.125).unwrap()),
        provenance: Provenance { origin: "test".into(), ..Provenance::default() },
        training: None,
    }
}

#[test]
fn saving_and_loading_changes_nothing() {
    let model = sample();
    let bytes = to_bytes(&model, &FORMAT).unwrap();
    let again = from_bytes(&bytes).unwrap();
    assert_eq!(model.machine.supports(), again.machine.supports());
    assert_eq!(model.machine.scores(), again.machine.scores());
    assert_eq!(model.machine.output(), again.machine.output());
    assert_eq!(model.machine.centre(), again.machine.centre());
    assert!(model.machine.centre().is_some());
    assert_eq!(model.input, again.input);
    assert_eq!(model.probabilities, again.probabilities);
    assert_eq!(model.conformal, again.conformal);
    assert_eq!(model.provenance, again.provenance);
    assert_eq!(to_bytes(&again, &FORMAT).unwrap(), bytes);
}

#[test]
fn the_target_column_and_the_first_index_are_kept() {
    let mut model = sample();
    model.input.target = Some("größe".to_owned());
    model.input.zero_based = true;
    let again = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap();
    assert_eq!(model.input, again.input);
}

/// A label is a name: 0.1 + 0.2 must not come back as 0.3. serde_json rounds some of these numbers wrongly unless its
/// feature `float_roundtrip` is on.
#[test]
fn labels_with_many_digits_come_back_to_the_bit() {
    let mut model = sample();
    let names: Vec<ClassName> = (1..=400u64)
        .map(|n| f64::from_bits(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !(1 << 62)))
        .filter(|number| number.is_finite())
        .map(ClassName::Number)
        .collect();
    let scores = vec![Score::expansion(&[1.0 / 3.0, -2.0], 0.7); names.len()];
    let output = Output::Classes { names, scheme: Scheme::OneVsRest };
    let (kernel, supports) =
        (model.machine.kernel().clone(), Matrix::clone(model.machine.supports()));
    model.machine = Machine::new(kernel, supports, scores, output).unwrap();
    model.probabilities = None;
    let again = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap();
    assert_eq!(model.machine.output(), again.machine.output());
}

fn additive(spacing: Spacing) -> Model {
    let kernel = mercer_kernel::parse("chi2").unwrap();
    let encoding = vec![0.0, 0.0, 0.25, -1.0, 0.5, 1e-30];
    let bins = Arc::new(Bins::new(spacing, 2, encoding).unwrap());
    let names = ["a", "b", "c"].map(|name| ClassName::Text(name.into())).to_vec();
    let output = Output::Classes { names, scheme: Scheme::OneVsRest };
    let score = |at: u16| Score::Additive {
        weights: (0..6).map(|n| f32::from(n + at) / 7.0).collect(),
        offset: f64::from(at) / 3.0,
    };
    Model::from(Machine::additive(kernel, 3, bins, (0..3).map(score).collect(), output).unwrap())
}

#[test]
fn additive_machines_come_back_with_their_bins() {
    let starts = vec![0, 3, 3, 5];
    let cuts = vec![-1.0, 0.5, 2.0, 7.0, 7.0];
    for spacing in [Spacing::Power { top: 0.1, exponent: 2 }, Spacing::Quantile { starts, cuts }] {
        let model = additive(spacing);
        let bytes = to_bytes(&model, &FORMAT).unwrap();
        let again = from_bytes(&bytes).unwrap();
        assert_eq!(model.machine.bins(), again.machine.bins());
        assert_eq!(model.machine.scores(), again.machine.scores());
        assert_eq!(to_bytes(&again, &FORMAT).unwrap(), bytes);
        for length in (0..bytes.len()).step_by(7) {
            assert!(from_bytes(&bytes[..length]).is_err(), "cut to {length} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let _ = from_bytes(&damaged);
        }
        // C and ONNX can say tables too: `tests/exact/c_tables.rs` of mercer-query and `test_onnx.py` compare answers.
        let is_other = |name: &str| !matches!(name, "mercer" | "c" | "onnx");
        for other in file::FORMATS.iter().filter(|format| is_other(format.name)) {
            let refused = to_bytes(&model, other).unwrap_err().to_string();
            assert!(refused.contains("cannot express"), "{}: {refused}", other.name);
        }
    }
}

#[test]
fn plans_are_kept_with_their_arrays_and_belong_to_one_machine() {
    let mut model = planned();
    let bytes = to_bytes(&model, &FORMAT).unwrap();
    let again = from_bytes(&bytes).unwrap();
    assert_eq!(model.plan, again.plan);
    assert_eq!(to_bytes(&again, &FORMAT).unwrap(), bytes);
    let counts = &mut model.plan.as_mut().unwrap().calibration.as_mut().unwrap().counts;
    *counts = Counts::ExcessErrors { worse: 3, better: 2 };
    let again = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap();
    assert_eq!(model.plan, again.plan);
    model.plan.as_mut().unwrap().calibration.as_mut().unwrap().bound = 0.5;
    let error = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "the model file is damaged: its calibration is not valid");
    model.plan.as_mut().unwrap().calibration = None;
    model.plan.as_mut().unwrap().machine.insert(0, '0');
    let error = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "the model file is damaged: its plan was made for another machine");
}

/// A model with a plan of two stages and its calibration.
fn planned() -> Model {
    let mut model = sample();
    let section = Section::new("spectral(limit=3)")
        .with("vectors", Array::F64(vec![1.0, -0.0, 5e-324]))
        .with("bytes", Array::U8(vec![1, 2, 255]))
        .with("counts", Array::U32(vec![7]))
        .with("panels", Array::F32(vec![0.1]));
    let spec = "cascade(low_precision, spectral(limit=3), exact)".to_owned();
    let machine = file::digest(&model.machine);
    let sections = vec![Section::new("low_precision"), section];
    let calibration = Calibration {
        threshold: 3.5,
        risk: 1e-3,
        delta: 0.05,
        queries: 6000,
        disagreements: 1,
        counts: Counts::Disagreements,
        bound: 0.1 / 127.0,
        scales: vec![Scale { slope: 1.0, shift: -0.0, residual_rms: 1e-300 }],
    };
    let calibration = Some(calibration);
    model.plan = Some(PlanSections { spec, machine, sections, calibration, tuning: None });
    model
}

/// A record of `tune` with unusual numbers.
fn tuning() -> Tuning {
    let speed = Speed { single_us: 10.125, batch_us: 0.0, bytes: 1 << 40 };
    let trial = Trial {
        plan: "cascade(low_precision, exact)".to_owned(),
        us: 7.5,
        mean_cost: 1e15,
        settled: 1.0,
        dropped: false,
        compared: false,
    };
    let refusal = Refusal { stage: "spectral".to_owned(), reason: "\"<not> a square\"".to_owned() };
    let settled = SettledByStage { stage: "exact".to_owned(), queries: 3 };
    Tuning {
        contract: "certified".to_owned(),
        aim: "latency".to_owned(),
        seed: u64::MAX,
        instruction_set: "avx2".to_owned(),
        threads: 2,
        budget: Some(Budget { microseconds: 40.0, rate: Some(1200.0), multiply_adds: 48_000 }),
        times: Vec::new(),
        tolerance: Some(0.5),
        sample: SampleParts { rows: 10, fitted: 3, measured: 4, verified: 3, repeated: 1 },
        exact: speed,
        plan: speed,
        tried: vec![trial],
        refused: vec![refusal],
        stopped: true,
        verification: Verification {
            queries: 3,
            disagreements: 0,
            unsettled: 0,
            stages: vec![settled],
            mean_cost: 12.5,
            exact_cost: 100,
            costs: vec![1, 2, 2],
        },
        reason: "it is faster".to_owned(),
    }
}

#[test]
fn the_record_of_a_tuning_is_kept_and_checked() {
    let mut model = sample();
    let machine = file::digest(&model.machine);
    let mut plan = PlanSections {
        spec: "exact".to_owned(),
        machine,
        sections: Vec::new(),
        calibration: None,
        tuning: Some(Box::new(tuning())),
    };
    model.plan = Some(plan.clone());
    let bytes = to_bytes(&model, &FORMAT).unwrap();
    let again = from_bytes(&bytes).unwrap();
    assert_eq!(model.plan, again.plan);
    assert_eq!(to_bytes(&again, &FORMAT).unwrap(), bytes);
    // Costs and times, and a trial of the last comparison, which the golden files do not have.
    let tuning = plan.tuning.as_mut().unwrap();
    let point = |multiply_adds, microseconds| crate::CostTime { multiply_adds, microseconds };
    tuning.times = vec![point(0, 0.5), point(48_000, 39.5)];
    tuning.tried[0].compared = true;
    model.plan = Some(plan.clone());
    let again = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap();
    assert_eq!(model.plan, again.plan);
    plan.tuning.as_mut().unwrap().times.reverse();
    model.plan = Some(plan.clone());
    assert!(from_bytes(&to_bytes(&model, &FORMAT).unwrap()).is_err(), "times increase");
    plan.tuning.as_mut().unwrap().tolerance = Some(-1.0);
    model.plan = Some(plan);
    let error = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "the model file is damaged: the record of its tuning is not valid");
}

#[test]
fn every_truncation_and_every_flipped_byte_is_refused_or_harmless() {
    let bytes = to_bytes(&sample(), &FORMAT).unwrap();
    for length in 0..bytes.len() {
        assert!(from_bytes(&bytes[..length]).is_err(), "cut to {length} bytes");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // A flip in the text may leave a valid model (another class name); the arrays are digested.
            let _ = from_bytes(&damaged);
        }
    }
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(from_bytes(&damaged).is_err());
}

#[test]
fn files_of_other_versions_are_not_called_damaged() {
    const MARK: &[u8] = b"\\\"version\\\":1,";
    let bytes = to_bytes(&sample(), &FORMAT).unwrap();
    let at = bytes.windows(MARK.len()).position(|window| window == MARK).unwrap();
    for digit in [b'0', b'9'] {
        let mut other = bytes.clone();
        other[at + MARK.len() - 2] = digit;
        let message = from_bytes(&other).unwrap_err().to_string();
        let found = char::from(digit);
        assert_eq!(message, format!("this file is version {found}; this build reads 1"));
    }
}

fn scaled(text: &str) -> Model {
    let mut model = sample();
    let rows = Matrix::dense(3, vec![1.0, 0.1, -2.0, 4.0, 1.0 / 3.0, 5.0, 2.0, 7.0, 1e-3]).unwrap();
    model.input.scaling = Some(mercer_data::scale::parse(text).unwrap().fit(&rows).unwrap());
    model
}

#[test]
fn scalings_travel_with_the_model_to_the_last_bit() {
    for text in
        ["standard", "min_max(low=-1)", "max_abs", "unit_norm(norm=l1)", "quantile(count=3)"]
    {
        let model = scaled(text);
        let bytes = to_bytes(&model, &FORMAT).unwrap();
        let again = from_bytes(&bytes).unwrap();
        assert_eq!(model.input, again.input, "{text}");
        assert_eq!(to_bytes(&again, &FORMAT).unwrap(), bytes, "{text}");
    }
}

fn with_means() -> Model {
    let mut model = scaled("standard");
    model.input.means = Some(vec![1.0 / 3.0, -0.0, 5e-324]);
    model
}

#[test]
fn means_that_do_not_fit_are_refused() {
    for means in [vec![1.0], vec![0.0, f64::NAN, 0.0]] {
        let mut model = with_means();
        model.input.means = Some(means);
        let said = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap_err().to_string();
        assert_eq!(said, "the model file is damaged: its means do not fit its columns");
    }
}

fn tuned() -> Model {
    let mut model = planned();
    model.plan.as_mut().unwrap().tuning = Some(Box::new(tuning()));
    model
}

fn with_curves() -> Model {
    let mut model = sample();
    let (scores, values) = (vec![-1.0, 0.5, 2.0], vec![0.1, 1.0 / 3.0, 0.9]);
    model.probabilities =
        Some(Probabilities::Curves(vec![Curve::PiecewiseLinear { scores, values }]));
    let machine = file::digest(&model.machine);
    let method = "quadratic".to_owned();
    model.provenance.parent = Some(Parent { machine, supports: 7, method, error: 0.1 });
    model
}

/// Rows that list their values, with names as targets, weights and weights of classes.
fn with_kept_rows() -> Model {
    let texts = ["b", "a", "b"].map(str::to_owned).to_vec();
    let examples = Matrix::sparse(3, &[0, 1, 1, 3], &[0, 1, 2], &[1e6, -0.5, 5e-324]).unwrap();
    let weights = Some(vec![1.0, 0.0, 2.5]);
    let rows = TrainingRows::new(examples, Targets::Names(texts), weights).unwrap();
    let class_weights = vec![(ClassName::Text("a".into()), 2.0), (ClassName::Number(-0.5), 0.25)];
    let rows = rows.with_options(Some("smo(shrinking=off)".into()), class_weights).unwrap();
    Model { training: Some(Arc::new(rows)), ..sample() }
}

#[test]
fn kept_rows_come_back_with_every_kind_of_targets() {
    for targets in [Targets::Absent, Targets::Numbers(vec![0.1, -2.0])] {
        let examples = Matrix::dense(2, vec![1.0, 0.0, -0.0, 1e-300]).unwrap();
        let rows = TrainingRows::new(examples, targets, None).unwrap();
        let model = Model { training: Some(Arc::new(rows)), ..sample() };
        let again = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap();
        assert_eq!(model.training, again.training);
        // A plan belongs to the machine, not to the rows that are kept beside it.
        assert_eq!(file::digest(&model.machine), file::digest(&again.machine));
    }
    let two = || Matrix::dense(1, vec![1.0, 2.0]).unwrap();
    let refused =
        |targets, weights| TrainingRows::new(two(), targets, weights).unwrap_err().to_string();
    let numbers = |values: &[f64]| Targets::Numbers(values.to_vec());
    assert_eq!(
        refused(numbers(&[1.0]), None),
        "the machine has 1 targets of kept rows, 2 are needed"
    );
    let long = Targets::Names(vec!["x".repeat(1 << 20); 2]);
    for text in [
        refused(numbers(&[1.0, f64::NAN]), None),
        refused(numbers(&[1.0, 2.0]), Some(vec![1.0, -1.0])),
        refused(long, None),
    ] {
        assert!(text.contains("kept rows"), "{text}");
    }
}

/// One golden file for each feature: its name and the model that it holds.
fn golden() -> [(&'static str, Model); 8] {
    let quantile =
        Spacing::Quantile { starts: vec![0, 3, 3, 5], cuts: vec![-1.0, 0.5, 2.0, 7.0, 7.0] };
    [
        ("plain", sample()),
        ("scaled", scaled("standard")),
        ("additive", additive(Spacing::Power { top: 0.1, exponent: 2 })),
        ("quantile_bins", additive(quantile)),
        ("means", with_means()),
        ("curves", with_curves()),
        ("tuned", tuned()),
        ("kept_rows", with_kept_rows()),
    ]
}

fn golden_path(name: &str) -> String {
    format!("{}/tests/golden/{name}.mercer", env!("CARGO_MANIFEST_DIR"))
}

/// Every build of this version reads and writes these files to the same bytes.
/// `cargo xtask fixtures golden-model` writes them again, which only a new version number justifies.
#[test]
fn golden_files_are_read_and_written_to_the_same_bytes() {
    for (name, expected) in golden() {
        let bytes = std::fs::read(golden_path(name)).unwrap();
        let model = from_bytes(&bytes).unwrap();
        assert_eq!(model.machine.scores(), expected.machine.scores(), "{name}");
        assert_eq!(model.machine.supports(), expected.machine.supports(), "{name}");
        assert_eq!(model.machine.centre(), expected.machine.centre(), "{name}");
        assert_eq!(model.machine.bins(), expected.machine.bins(), "{name}");
        assert_eq!(model.input, expected.input, "{name}");
        assert_eq!(model.probabilities, expected.probabilities, "{name}");
        assert_eq!(model.plan, expected.plan, "{name}");
        assert_eq!(model.provenance, expected.provenance, "{name}");
        assert_eq!(model.training, expected.training, "{name}");
        assert!(to_bytes(&model, &FORMAT).unwrap() == bytes, "{name}: other bytes are written");
    }
}

#[test]
#[ignore = "writes the golden files: cargo xtask fixtures golden-model"]
fn write_the_golden_files() {
    for (name, model) in golden() {
        std::fs::write(golden_path(name), to_bytes(&model, &FORMAT).unwrap()).unwrap();
    }
}

/// The same bytes: two rows of three columns, three rows of two; one number for each bin, or two.
#[test]
fn machines_of_the_same_bytes_and_another_shape_have_other_digests() {
    let kernel = || mercer_kernel::parse("linear").unwrap();
    let expansion = |rows: usize, columns: usize| {
        let supports = Matrix::dense(columns, (1..=6).map(f64::from).collect()).unwrap();
        assert_eq!(supports.rows(), rows);
        Machine::new(kernel(), supports, vec![Score::expansion(&[1.0, -1.0], 0.5)], Output::Value)
            .unwrap()
    };
    assert_ne!(file::digest(&expansion(2, 3)), file::digest(&expansion(3, 2)));
    assert_eq!(file::digest(&expansion(2, 3)), file::digest(&expansion(2, 3)));
    let sparse = |columns: usize| {
        let supports = Matrix::sparse(columns, &[0, 1], &[0], &[2.0]).unwrap();
        Machine::new(kernel(), supports, vec![Score::expansion(&[1.0], 0.5)], Output::Value)
            .unwrap()
    };
    assert_ne!(file::digest(&sparse(2)), file::digest(&sparse(3)));
    let bins = |rank: usize, columns: usize| {
        let spacing = Spacing::Power { top: 1.0, exponent: 1 };
        let encoding = vec![0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        let bins = Arc::new(Bins::new(spacing, rank, encoding).unwrap());
        let scores = vec![Score::Additive { weights: vec![1.0, -1.0], offset: 0.0 }];
        let kernel = mercer_kernel::parse("chi2").unwrap();
        Machine::additive(kernel, columns, bins, scores, Output::Value).unwrap()
    };
    assert_ne!(file::digest(&bins(1, 2)), file::digest(&bins(2, 1)));
}

/// Four bytes may be one number or four.
#[test]
fn plans_of_the_same_bytes_and_other_types_have_other_digests() {
    let plan = |array: Array| PlanSections {
        sections: vec![Section::new("spectral(limit=3)").with("vectors", array)],
        ..planned().plan.unwrap()
    };
    let (one, four) = (Array::F32(vec![0.0]), Array::U8(vec![0; 4]));
    assert_ne!(file::plan_digest(&plan(one)), file::plan_digest(&plan(four)));
}
