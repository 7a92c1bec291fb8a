use super::super::{from_bytes, to_bytes};
use super::FORMAT;
use crate::{
    Array, Budget, Calibration, ClassName, Counts, Grid, Input, Machine, Model, Output,
    PlanSections, Probabilities, Provenance, Refusal, SampleParts, Scale, Scheme, Score, Section,
    Settled, Spacing, Speed, Trial, Tuning, Verification, file,
};
use mercer_data::Matrix;
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
        },
        probabilities: Some(Probabilities::Sigmoid { a: vec![-1.5], b: vec![0.25] }),
        provenance: Provenance { origin: "test".into(), ..Provenance::default() },
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
    assert_eq!(model.provenance, again.provenance);
    assert_eq!(to_bytes(&again, &FORMAT).unwrap(), bytes);
}

fn tabled(scale: Spacing) -> Model {
    let kernel = mercer_kernel::parse("chi2").unwrap();
    let factors = vec![0.0, 0.0, 0.25, -1.0, 0.5, 1e-30];
    let grid = Arc::new(Grid::new(scale, 2, factors).unwrap());
    let names = ["a", "b", "c"].map(|name| ClassName::Text(name.into())).to_vec();
    let output = Output::Classes { names, scheme: Scheme::OneVsRest };
    let score = |at: u16| Score::Table {
        weights: (0..6).map(|n| f32::from(n + at) / 7.0).collect(),
        offset: f64::from(at) / 3.0,
    };
    Model::from(Machine::tabled(kernel, 3, grid, (0..3).map(score).collect(), output).unwrap())
}

#[test]
fn machines_of_tables_come_back_with_their_grid() {
    let starts = vec![0, 3, 3, 5];
    let cuts = vec![-1.0, 0.5, 2.0, 7.0, 7.0];
    for scale in [Spacing::Power { top: 0.1, exponent: 2 }, Spacing::Quantile { starts, cuts }] {
        let model = tabled(scale);
        let bytes = to_bytes(&model, &FORMAT).unwrap();
        let again = from_bytes(&bytes).unwrap();
        assert_eq!(model.machine.grid(), again.machine.grid());
        assert_eq!(model.machine.scores(), again.machine.scores());
        assert_eq!(to_bytes(&again, &FORMAT).unwrap(), bytes);
        assert!(String::from_utf8_lossy(&bytes).contains("\\\"format\\\":3,"));
        for length in (0..bytes.len()).step_by(7) {
            assert!(from_bytes(&bytes[..length]).is_err(), "cut to {length} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let _ = from_bytes(&damaged);
        }
        for other in file::FORMATS.iter().filter(|format| format.name != "mercer") {
            let refused = to_bytes(&model, other).unwrap_err().to_string();
            assert!(refused.contains("cannot express"), "{}: {refused}", other.name);
        }
    }
}

#[test]
fn plans_are_kept_with_their_arrays_and_belong_to_one_machine() {
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
    assert_eq!(error, "the model file is damaged: its calibration makes no sense");
    model.plan.as_mut().unwrap().calibration = None;
    model.plan.as_mut().unwrap().machine.insert(0, '0');
    let error = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "the model file is damaged: its plan was made for another machine");
}

/// What `tune` writes down, with odd numbers.
fn tuning() -> Tuning {
    let speed = Speed { single_us: 10.125, batch_us: 0.0, bytes: 1 << 40 };
    let trial = Trial {
        plan: "cascade(low_precision, exact)".to_owned(),
        us: 7.5,
        mean_cost: 1e15,
        settled: 1.0,
        dropped: false,
    };
    let refusal = Refusal { stage: "spectral".to_owned(), reason: "\"<not> a square\"".to_owned() };
    let settled = Settled { stage: "exact".to_owned(), queries: 3 };
    Tuning {
        contract: "certified".to_owned(),
        aim: "latency".to_owned(),
        seed: u64::MAX,
        instruction_set: "avx2".to_owned(),
        threads: 2,
        budget: Some(Budget { microseconds: 40.0, rate: 1200.0, multiply_adds: 48_000 }),
        tolerance: Some(0.5),
        sample: SampleParts {
            rows: 10,
            fitted: 3,
            scaled: 0,
            measured: 4,
            verified: 3,
            repeated: 1,
        },
        exact: speed,
        plan: speed,
        tried: vec![trial],
        refused: vec![refusal],
        stopped: true,
        verification: Verification {
            queries: 3,
            differences: 0,
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
    plan.tuning.as_mut().unwrap().tolerance = Some(-1.0);
    model.plan = Some(plan);
    let error = from_bytes(&to_bytes(&model, &FORMAT).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "the model file is damaged: the record of its tuning makes no sense");
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
fn newer_files_are_told_apart_from_damaged_ones() {
    let bytes = to_bytes(&sample(), &FORMAT).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("\\\"format\\\":1,"));
    let at = bytes.windows(12).position(|w| w == b"\\\"format\\\":1").unwrap();
    let mut newer = bytes.clone();
    newer[at + 11] = b'9';
    let message = from_bytes(&newer).unwrap_err().to_string();
    assert_eq!(message, "the model file has format 9; this version reads up to 5");
}

/// The file as version 0.1.0 wrote it: later versions must read it to the same bits.
/// `cargo xtask fixtures golden-model` writes it anew, which only a new format number justifies.
#[test]
fn the_golden_file_of_format_1_reads_as_it_was_written() {
    let golden = include_bytes!("golden-1.mercer");
    let model = from_bytes(golden).unwrap();
    assert_eq!(model.machine.scores(), sample().machine.scores());
    assert_eq!(model.machine.supports(), sample().machine.supports());
    assert_eq!(model.machine.centre(), sample().machine.centre());
    assert_eq!(to_bytes(&model, &FORMAT).unwrap(), golden);
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
        assert!(String::from_utf8_lossy(&bytes).contains("\\\"format\\\":2,"), "{text}");
        let again = from_bytes(&bytes).unwrap();
        assert_eq!(model.input, again.input, "{text}");
        assert_eq!(to_bytes(&again, &FORMAT).unwrap(), bytes, "{text}");
    }
}

/// The first file with a scaling: format 2.
#[test]
fn the_golden_file_of_format_2_reads_as_it_was_written() {
    let golden = include_bytes!("golden-2.mercer");
    let model = from_bytes(golden).unwrap();
    assert_eq!(model.machine.scores(), sample().machine.scores());
    assert_eq!(model.input, scaled("standard").input);
    assert_eq!(to_bytes(&model, &FORMAT).unwrap(), golden);
}

fn with_means() -> Model {
    let mut model = scaled("standard");
    model.input.means = Some(vec![1.0 / 3.0, -0.0, 5e-324]);
    model
}

/// Machines of tables: format 3; means for missing values: format 5.
#[test]
fn the_golden_files_of_formats_3_and_5_read_as_they_were_written() {
    let golden = include_bytes!("golden-3.mercer");
    let model = from_bytes(golden).unwrap();
    let expected = tabled(Spacing::Power { top: 0.1, exponent: 2 });
    assert_eq!(model.machine.grid(), expected.machine.grid());
    assert_eq!(model.machine.scores(), expected.machine.scores());
    assert_eq!(to_bytes(&model, &FORMAT).unwrap(), golden);
    let golden = include_bytes!("golden-5.mercer");
    let model = from_bytes(golden).unwrap();
    assert_eq!(model.input, with_means().input);
    assert_eq!(to_bytes(&model, &FORMAT).unwrap(), golden);
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

#[test]
#[ignore = "writes the golden file: cargo xtask fixtures golden-model"]
fn write_the_golden_files() {
    let tabled = tabled(Spacing::Power { top: 0.1, exponent: 2 });
    let all = [(1, sample()), (2, scaled("standard")), (3, tabled), (5, with_means())];
    for (number, model) in all {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/file/own");
        let path = format!("{folder}/golden-{number}.mercer");
        std::fs::write(path, to_bytes(&model, &FORMAT).unwrap()).unwrap();
    }
}
