use std::collections::HashMap;
use std::io::Write;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use sha2::{Digest, Sha256};

use mercer_data::Scaling;
use mercer_data::scale::Map;

use super::KEY;
use super::header::{Header, PlanText, ScalingText};
use crate::{
    Array, Curve, Machine, MachineError, Model, PlanSections, Probabilities, Score, Spacing,
};

/// Named arrays, as little-endian bytes.
pub(super) struct Arrays(Vec<(String, Dtype, Vec<usize>, Vec<u8>)>);

impl Arrays {
    fn reals(&mut self, name: &str, values: &[f64]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.push((name.to_owned(), Dtype::F64, vec![values.len()], bytes));
    }

    fn indices(&mut self, name: &str, values: &[u32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.push((name.to_owned(), Dtype::U32, vec![values.len()], bytes));
    }

    fn singles(&mut self, name: &str, values: &[f32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.push((name.to_owned(), Dtype::F32, vec![values.len()], bytes));
    }

    fn bytes(&mut self, name: &str, values: &[u8]) {
        self.0.push((name.to_owned(), Dtype::U8, vec![values.len()], values.to_vec()));
    }

    fn starts(&mut self, name: &str, values: &[usize]) {
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
    let header = Header {
        format: format_number(model),
        digest,
        kernel: machine.kernel().spec().to_string(),
        output: machine.output().into(),
        scores: machine.scores().iter().map(letter).collect(),
        rows: machine.supports().rows(),
        columns: machine.columns(),
        features: model.input.features,
        names: model.input.names.clone(),
        scaling: model.input.scaling.as_ref().map(scaling_text),
        probabilities: model.probabilities.as_ref().map(Into::into),
        provenance: (&model.provenance).into(),
        grid: machine.grid().map(|grid| grid.as_ref().into()),
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

/// The lowest format that says everything: what older programs can read, they shall.
fn format_number(model: &Model) -> u64 {
    if model.input.means.is_some() {
        return 5;
    }
    let has_tuning = model.plan.as_ref().is_some_and(|plan| plan.tuning.is_some());
    let has_curves = matches!(model.probabilities, Some(Probabilities::Curves(_)));
    if has_tuning || has_curves || model.provenance.parent.is_some() {
        return 4;
    }
    match (model.machine.grid(), &model.input.scaling) {
        (Some(_), _) => 3,
        (None, Some(_)) => 2,
        (None, None) => 1,
    }
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

/// SHA-256 over the machine's arrays, kernel and output.
pub(in crate::file) fn machine_digest(machine: &Machine) -> String {
    let mut arrays = Arrays(Vec::new());
    machine_arrays(machine, &mut arrays);
    let kernel = machine.kernel().spec().to_string();
    let output = format!("{:?}", machine.output());
    let texts = [("kernel", kernel.as_bytes()), ("output", output.as_bytes())];
    let named = arrays.0.iter().map(|(name, _, _, bytes)| (name.as_str(), bytes.as_slice()));
    digest(named.chain(texts))
}

fn letter(score: &Score) -> char {
    match score {
        Score::Expansion { .. } => 'e',
        Score::Linear { .. } => 'l',
        Score::Table { .. } => 't',
    }
}

/// Points of the curves, one after the other; a sigmoid has none and gives A and B.
fn curve_arrays(curves: &[Curve], arrays: &mut Arrays) {
    let (mut counts, mut scores, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for curve in curves {
        match curve {
            Curve::Sigmoid { a, b } => {
                counts.push(0);
                scores.push(*a);
                shares.push(*b);
            }
            Curve::Lines { scores: own, shares: values } => {
                counts.push(own.len() as u32);
                scores.extend_from_slice(own);
                shares.extend_from_slice(values);
            }
        }
    }
    arrays.indices("probabilities/counts", &counts);
    arrays.reals("probabilities/scores", &scores);
    arrays.reals("probabilities/shares", &shares);
}

fn arrays(model: &Model) -> Arrays {
    let mut arrays = Arrays(Vec::new());
    machine_arrays(&model.machine, &mut arrays);
    match &model.probabilities {
        Some(Probabilities::Sigmoid { a, b }) => {
            arrays.reals("probabilities/a", a);
            arrays.reals("probabilities/b", b);
        }
        Some(Probabilities::Laplace { sigma }) => arrays.reals("probabilities/sigma", &[*sigma]),
        Some(Probabilities::Marks(marks)) => arrays.reals("probabilities/marks", marks),
        Some(Probabilities::Curves(curves)) => curve_arrays(curves, &mut arrays),
        None => {}
    }
    match model.input.scaling.as_ref().map(Scaling::map) {
        Some(Map::Affine { centres, factors }) => {
            arrays.reals("input/scaling/centres", centres);
            arrays.reals("input/scaling/factors", factors);
        }
        Some(Map::Quantiles { knots, .. }) => arrays.reals("input/scaling/knots", knots),
        Some(Map::UnitNorm(_)) | None => {}
    }
    if let Some(means) = &model.input.means {
        arrays.reals("input/means", means);
    }
    if let Some(plan) = &model.plan {
        plan_arrays(plan, &mut arrays);
    }
    arrays
}

fn plan_arrays(plan: &PlanSections, arrays: &mut Arrays) {
    if let Some(calibration) = &plan.calibration {
        arrays.reals("plan/calibration", &calibration.to_numbers());
    }
    for (number, section) in plan.sections.iter().enumerate() {
        for (name, array) in &section.arrays {
            let name = format!("plan/{number}-{}/{name}", section.stage());
            match array {
                Array::F64(values) => arrays.reals(&name, values),
                Array::F32(values) => arrays.singles(&name, values),
                Array::U32(values) => arrays.indices(&name, values),
                Array::U8(values) => arrays.bytes(&name, values),
            }
        }
    }
}

fn machine_arrays(machine: &Machine, arrays: &mut Arrays) {
    match (machine.supports().as_dense(), machine.supports().as_sparse()) {
        (Some(values), _) => arrays.reals("machine/supports/dense", values),
        (None, Some((starts, indices, values))) => {
            arrays.starts("machine/supports/starts", starts);
            arrays.indices("machine/supports/columns", indices);
            arrays.reals("machine/supports/values", values);
        }
        (None, None) => unreachable!("a matrix is dense or sparse"),
    }
    if let Some(centre) = machine.centre() {
        arrays.reals("machine/centre", centre);
    }
    if let Some(grid) = machine.grid() {
        arrays.singles("machine/grid/factors", grid.factors());
        if let Spacing::Power { top, exponent } = grid.scale() {
            arrays.reals("machine/grid/power", &[*top, f64::from(*exponent)]);
        }
        if let Spacing::Quantile { starts, cuts } = grid.scale() {
            arrays.starts("machine/grid/starts", starts);
            arrays.reals("machine/grid/cuts", cuts);
        }
    }
    score_arrays(machine, arrays);
}

fn score_arrays(machine: &Machine, arrays: &mut Arrays) {
    let offsets: Vec<f64> = machine.scores().iter().map(Score::offset).collect();
    let (mut starts, mut indices, mut values, mut weights) = (vec![0], vec![], vec![], vec![]);
    let mut tables = Vec::new();
    for score in machine.scores() {
        match score {
            Score::Expansion { supports, coefficients, .. } => {
                indices.extend_from_slice(supports);
                values.extend_from_slice(coefficients);
            }
            Score::Linear { weights: own, .. } => weights.extend_from_slice(own),
            Score::Table { weights: own, .. } => tables.extend_from_slice(own),
        }
        starts.push(indices.len());
    }
    arrays.reals("machine/scores/offsets", &offsets);
    arrays.starts("machine/scores/starts", &starts);
    arrays.indices("machine/scores/supports", &indices);
    arrays.reals("machine/scores/coefficients", &values);
    if !weights.is_empty() {
        arrays.reals("machine/scores/weights", &weights);
    }
    if !tables.is_empty() {
        arrays.singles("machine/scores/tables", &tables);
    }
}
