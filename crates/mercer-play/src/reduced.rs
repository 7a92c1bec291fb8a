//! A machine with fewer vectors beside the trained one, and the proved distance between them.

use std::time::Instant;

use mercer::compile::compress::SampleAgreement;
use mercer::compile::{CompileError, Compressed, Compression, FittingData, Goal, compressor};
use mercer::machine::{Model, Parent, Provenance, file};
use mercer::query::Plan;
use serde_json::{Value, json};

use crate::points::{Points, matrix};
use crate::training::TrainedMachine;

/// A compressed machine.
#[derive(Debug)]
pub struct ReducedMachine {
    /// It as a model, without a plan.
    pub model: Model,
    /// The exact plan.
    pub plan: Plan,
    report: Value,
}

impl ReducedMachine {
    /// Compresses a machine to `size` vectors. The points are the sample on which labels are compared.
    ///
    /// # Errors
    /// If the machine cannot be compressed.
    pub fn new(trained: &TrainedMachine, points: &Points, size: usize) -> anyhow::Result<Self> {
        let start = Instant::now();
        let machine = trained.machine();
        let rows = matrix(&points.values)?;
        let sample = trained.model.input.prepare(&rows)?;
        let fitting_data = FittingData { sample: Some(&sample), ..FittingData::default() };
        let run = |method: &str| -> anyhow::Result<Result<Compressed, CompileError>> {
            let compression = Compression::new(machine, compressor(method)?);
            let compression = compression.goal(Goal::Size(size.max(1))).keep_vectors(true);
            Ok(compression.fitting_data(fitting_data).run())
        };
        let compressed = match run("moved(iterations=30)")? {
            // Vectors cannot be moved under every kernel.
            Err(CompileError::Uncompressible { .. }) => run("greedy")?,
            other => other,
        };
        let Compressed { machine: small, report } = compressed?;
        let parent = Parent {
            machine: file::digest(machine),
            supports: report.before,
            method: report.method.clone(),
            error: report.error.relative,
        };
        let provenance = Provenance { parent: Some(parent), ..trained.model.provenance.clone() };
        let mut vectors = Vec::new();
        for row in small.supports().iter() {
            let mut pair = vec![0.0; small.columns().max(2)];
            row.write_dense(&mut pair[..small.columns()]);
            vectors.push([pair[0], pair[1]]);
        }
        let agreement = report.agreement.as_ref();
        // Rounding may have hidden a part of the square.
        let distance = report.error.absolute.hypot(report.error.rounding.max(0.0).sqrt());
        let object = json!({
            "method": report.method, "before": report.before, "after": report.after,
            "distance": distance, "relative": report.error.relative,
            "disagreements": agreement.map(|found| found.disagreements),
            "certified": agreement.and_then(SampleAgreement::certified_share),
            "largest_difference": agreement.map(|found| found.largest_difference),
            "vectors": unscaled(&vectors, points), "milliseconds": start.elapsed().as_secs_f64() * 1e3,
        });
        let plan = Plan::exact(&small);
        let model = Model { machine: small, plan: None, provenance, ..trained.model.clone() };
        Ok(Self { model, plan, report: object })
    }

    /// What the page is told.
    pub fn object(&self) -> Value {
        self.report.clone()
    }
}

/// Vectors as the user has points: the scaling undone.
fn unscaled(vectors: &[[f64; 2]], points: &Points) -> Vec<[f64; 2]> {
    let Some(map) = points.scaling.as_ref().map(mercer::data::Scaling::map) else {
        return vectors.to_vec();
    };
    let mercer::data::scale::Map::Affine { centres, factors } = map else { return Vec::new() };
    let back = |vector: &[f64; 2]| {
        [0, 1].map(|column| {
            let factor = factors[column];
            let value = if factor == 0.0 { 0.0 } else { vector[column] / factor };
            value + centres.get(column).copied().unwrap_or(0.0)
        })
    };
    vectors.iter().map(back).collect()
}
