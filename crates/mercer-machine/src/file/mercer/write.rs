//! Writes a model file of Mercer's own format, and computes the digests of files and machines.

use std::collections::HashMap;
use std::io::Write;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use sha2::{Digest, Sha256};

use mercer_data::Scaling;
use mercer_data::scale::Map;

use super::header::{FileHeader, OutputText, PlanText, ScalingText};
use super::kept_rows;
use super::{KEY, VERSION};
use crate::{
    Array, Conformal, Curve, Input, Machine, MachineError, Model, PlanSections, Probabilities,
    Score, Spacing,
};

/// Named arrays, as little-endian bytes.
pub(super) struct ArrayWriter(Vec<(String, Dtype, Vec<usize>, Vec<u8>)>);

impl ArrayWriter {
    pub(super) fn f64s(&mut self, name: &str, values: &[f64]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.push((name.to_owned(), Dtype::F64, vec![values.len()], bytes));
    }

    pub(super) fn u32s(&mut self, name: &str, values: &[u32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.push((name.to_owned(), Dtype::U32, vec![values.len()], bytes));
    }

    fn f32s(&mut self, name: &str, values: &[f32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.push((name.to_owned(), Dtype::F32, vec![values.len()], bytes));
    }

    fn bytes(&mut self, name: &str, values: &[u8]) {
        self.0.push((name.to_owned(), Dtype::U8, vec![values.len()], values.to_vec()));
    }

    pub(super) fn starts(&mut self, name: &str, values: &[usize]) {
        let bytes = values.iter().flat_map(|value| (*value as u64).to_le_bytes()).collect();
        self.0.push((name.to_owned(), Dtype::U64, vec![values.len()], bytes));
    }
}

/// SHA-256 over names and bytes of arrays in the order of their names.
pub(super) fn digest<'a>(arrays: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut sorted: Vec<_> = arrays.collect();
    sorted.sort_by_key(|(name, _)| *name);
    let mut hash = Sha256::new();
    for (name, bytes) in sorted {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn write(model: &Model, out: &mut dyn Write) -> Result<(), MachineError> {
    let machine = &model.machine;
    let arrays = arrays(model);
    let digest =
        digest(arrays.0.iter().map(|(name, _, _, bytes)| (name.as_str(), bytes.as_slice())));
    let header = FileHeader {
        version: VERSION,
        digest,
        kernel: machine.kernel().spec().to_string(),
        output: machine.output().into(),
        scores: machine.scores().iter().map(letter).collect(),
        rows: machine.supports().rows(),
        columns: machine.columns(),
        features: model.input.features,
        names: model.input.names.clone(),
        target: model.input.target.clone(),
        zero_based: model.input.zero_based,
        scaling: model.input.scaling.as_ref().map(scaling_text),
        probabilities: model.probabilities.as_ref().map(Into::into),
        conformal: model.conformal.as_ref().map(Into::into),
        provenance: (&model.provenance).into(),
        training: model.training.as_deref().map(kept_rows::text),
        bins: machine.bins().map(|bins| bins.as_ref().into()),
        plan: model.plan.as_ref().map(plan_text),
    };
    let damaged =
        |error: &dyn std::fmt::Display| MachineError::Damaged { reason: error.to_string() };
    let text = serde_json::to_string(&header).map_err(|error| damaged(&error))?;
    let metadata = HashMap::from([(KEY.to_owned(), text)]);
    let views = arrays.0.iter().map(|(name, dtype, shape, bytes)| {
        let view = TensorView::new(*dtype, shape.clone(), bytes);
        view.map(|view| (name.as_str(), view)).map_err(|error| damaged(&error))
    });
    let views = views.collect::<Result<Vec<_>, _>>()?;
    let bytes = safetensors::serialize(views, Some(metadata)).map_err(|error| damaged(&error))?;
    out.write_all(&bytes)?;
    Ok(())
}

fn scaling_text(scaling: &Scaling) -> ScalingText {
    let quantiles = match scaling.map() {
        Map::Quantiles { count, .. } => Some(*count),
        _ => None,
    };
    ScalingText { spec: scaling.spec().to_string(), quantiles }
}

fn plan_text(plan: &PlanSections) -> PlanText {
    PlanText {
        spec: plan.spec.clone(),
        machine: plan.machine.clone(),
        stages: plan.sections.iter().map(|section| section.spec.clone()).collect(),
        tuning: plan.tuning.clone(),
    }
}

/// SHA-256 over the arrays of the machine, the text of its kernel, the JSON of its output, as in the header, and its shape: bytes
/// alone do not say which numbers belong to one row (ADR 0080).
pub(in crate::file) fn machine_digest(machine: &Machine) -> String {
    let mut arrays = ArrayWriter(Vec::new());
    machine_arrays(machine, &mut arrays);
    let kernel = machine.kernel().spec().to_string();
    let output = serde_json::to_string(&OutputText::from(machine.output()))
        .expect("numbers and texts can always be written as JSON");
    let (rows, columns) = (machine.supports().rows(), machine.columns());
    let scores: String = machine.scores().iter().map(letter).collect();
    let rank = machine.bins().map_or(0, |bins| bins.rank());
    let shape = format!("{rows} {columns} {scores} {rank}");
    let texts =
        [("kernel", kernel.as_bytes()), ("output", output.as_bytes()), ("shape", shape.as_bytes())];
    let named = arrays.0.iter().map(|(name, _, _, bytes)| (name.as_str(), bytes.as_slice()));
    digest(named.chain(texts))
}

/// SHA-256 over the arrays of a plan, their types, its texts and the digest of its machine; how it was tuned does not count.
pub(in crate::file) fn plan_digest(plan: &PlanSections) -> String {
    let mut arrays = ArrayWriter(Vec::new());
    plan_arrays(plan, &mut arrays);
    for (number, section) in plan.sections.iter().enumerate() {
        arrays.bytes(&format!("stage {number}"), section.spec.as_bytes());
    }
    let types: String =
        arrays.0.iter().map(|(name, dtype, ..)| format!("{name} {dtype:?}\n")).collect();
    let texts = [
        ("machine", plan.machine.as_bytes()),
        ("plan", plan.spec.as_bytes()),
        ("types", types.as_bytes()),
    ];
    let named = arrays.0.iter().map(|(name, _, _, bytes)| (name.as_str(), bytes.as_slice()));
    digest(named.chain(texts))
}

/// SHA-256 over what prediction sets rest on: their calibration, the machine, and what its rows go through before it.
pub(in crate::file) fn sets_digest(model: &Model, conformal: &Conformal) -> String {
    let mut arrays = ArrayWriter(Vec::new());
    input_arrays(&model.input, &mut arrays);
    arrays.f64s("conformal", &[conformal.coverage(), conformal.quantile()]);
    arrays.bytes("conformal rows", &conformal.rows().to_le_bytes());
    let machine = machine_digest(&model.machine);
    let scaling = model.input.scaling.as_ref().map(|scaling| scaling.spec().to_string());
    let scaling = scaling.unwrap_or_default();
    let texts = [("machine", machine.as_bytes()), ("scaling", scaling.as_bytes())];
    let named = arrays.0.iter().map(|(name, _, _, bytes)| (name.as_str(), bytes.as_slice()));
    digest(named.chain(texts))
}

fn letter(score: &Score) -> char {
    match score {
        Score::Expansion { .. } => 'e',
        Score::Linear { .. } => 'l',
        Score::Additive { .. } => 'a',
    }
}

/// Points of the curves, one after the other. A sigmoid has count 0 and one entry: A and B.
fn curve_arrays(curves: &[Curve], arrays: &mut ArrayWriter) {
    let (mut counts, mut scores, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for curve in curves {
        match curve {
            Curve::Sigmoid { a, b } => {
                counts.push(0);
                scores.push(*a);
                values.push(*b);
            }
            Curve::PiecewiseLinear { scores: at, values: probabilities } => {
                counts.push(at.len() as u32);
                scores.extend_from_slice(at);
                values.extend_from_slice(probabilities);
            }
        }
    }
    arrays.u32s("probabilities/curves/counts", &counts);
    arrays.f64s("probabilities/curves/scores", &scores);
    arrays.f64s("probabilities/curves/values", &values);
}

fn arrays(model: &Model) -> ArrayWriter {
    let mut arrays = ArrayWriter(Vec::new());
    machine_arrays(&model.machine, &mut arrays);
    match &model.probabilities {
        Some(Probabilities::Sigmoid { a, b }) => {
            arrays.f64s("probabilities/a", a);
            arrays.f64s("probabilities/b", b);
        }
        Some(Probabilities::Laplace { sigma }) => arrays.f64s("probabilities/sigma", &[*sigma]),
        Some(Probabilities::Marks(marks)) => arrays.f64s("probabilities/marks", marks),
        Some(Probabilities::Curves(curves)) => curve_arrays(curves, &mut arrays),
        None => {}
    }
    input_arrays(&model.input, &mut arrays);
    if let Some(plan) = &model.plan {
        plan_arrays(plan, &mut arrays);
    }
    if let Some(rows) = &model.training {
        kept_rows::write(rows, &mut arrays);
    }
    arrays
}

fn input_arrays(input: &Input, arrays: &mut ArrayWriter) {
    match input.scaling.as_ref().map(Scaling::map) {
        Some(Map::Affine { centres, factors }) => {
            arrays.f64s("input/scaling/centres", centres);
            arrays.f64s("input/scaling/factors", factors);
        }
        Some(Map::Quantiles { knots, .. }) => arrays.f64s("input/scaling/knots", knots),
        Some(Map::UnitNorm(_)) | None => {}
    }
    if let Some(means) = &input.means {
        arrays.f64s("input/means", means);
    }
}

fn plan_arrays(plan: &PlanSections, arrays: &mut ArrayWriter) {
    if let Some(calibration) = &plan.calibration {
        arrays.f64s("plan/calibration", &calibration.to_numbers());
    }
    for (number, section) in plan.sections.iter().enumerate() {
        for (name, array) in &section.arrays {
            let name = format!("plan/{number}-{}/{name}", section.stage());
            match array {
                Array::F64(values) => arrays.f64s(&name, values),
                Array::F32(values) => arrays.f32s(&name, values),
                Array::U32(values) => arrays.u32s(&name, values),
                Array::U8(values) => arrays.bytes(&name, values),
            }
        }
    }
}

fn machine_arrays(machine: &Machine, arrays: &mut ArrayWriter) {
    match (machine.supports().as_dense(), machine.supports().as_sparse()) {
        (Some(values), _) => arrays.f64s("machine/supports/dense", values),
        (None, Some((starts, indices, values))) => {
            arrays.starts("machine/supports/starts", starts);
            arrays.u32s("machine/supports/columns", indices);
            arrays.f64s("machine/supports/values", values);
        }
        (None, None) => unreachable!("a matrix is dense or sparse"),
    }
    if let Some(centre) = machine.centre() {
        arrays.f64s("machine/centre", centre);
    }
    if let Some(bins) = machine.bins() {
        arrays.f32s("machine/bins/encoding", bins.encoding());
        if let Spacing::Power { top, exponent } = bins.spacing() {
            arrays.f64s("machine/bins/power", &[*top, f64::from(*exponent)]);
        }
        if let Spacing::Quantile { starts, cuts } = bins.spacing() {
            arrays.starts("machine/bins/starts", starts);
            arrays.f64s("machine/bins/cuts", cuts);
        }
    }
    score_arrays(machine, arrays);
}

fn score_arrays(machine: &Machine, arrays: &mut ArrayWriter) {
    let offsets: Vec<f64> = machine.scores().iter().map(Score::offset).collect();
    let (mut starts, mut indices, mut values, mut weights) = (vec![0], vec![], vec![], vec![]);
    let mut bin_weights = Vec::new();
    for score in machine.scores() {
        match score {
            Score::Expansion { supports, coefficients, .. } => {
                indices.extend_from_slice(supports);
                values.extend_from_slice(coefficients);
            }
            Score::Linear { weights: linear, .. } => weights.extend_from_slice(linear),
            Score::Additive { weights: additive, .. } => bin_weights.extend_from_slice(additive),
        }
        starts.push(indices.len());
    }
    arrays.f64s("machine/scores/offsets", &offsets);
    arrays.starts("machine/scores/starts", &starts);
    arrays.u32s("machine/scores/supports", &indices);
    arrays.f64s("machine/scores/coefficients", &values);
    if !weights.is_empty() {
        arrays.f64s("machine/scores/weights", &weights);
    }
    if !bin_weights.is_empty() {
        arrays.f32s("machine/scores/bin_weights", &bin_weights);
    }
}
