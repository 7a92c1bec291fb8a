//! Fits the stage `landmarks`: rows drawn as landmarks, weights by ridge regression on the scores of the machine. How
//! queries are answered with them is in `mercer_query`.

use mercer_data::draw;
use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use super::{Fitter, can_estimate};
use crate::distillation_set::DistillationSet;
use crate::{CompileError, Task, ridge};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::LANDMARKS, estimates: true, stops: false, propose, fit };

/// Widths tried: `gamma` in units of one over the median squared distance.
const GAMMAS: [f64; 3] = [0.5, 1.5, 4.0];

/// Machines with fewer supports are as cheap in few dimensions themselves.
const WORTH_IT: usize = 2000;
/// Fewer rows teach a handful of landmarks: there are four rows to one.
const LEAST_ROWS: usize = 512;

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let is_large = task.exact.machine().supports().rows() >= WORTH_IT;
    let rows: usize = [task.sample, task.training].iter().flatten().map(|rows| rows.rows()).sum();
    if !can_estimate(task) || !is_large || rows < LEAST_ROWS {
        return Vec::new();
    }
    vec![Spec::new("landmarks").with(32.0).with(512.0)]
}

/// Landmarks are rows of the set, drawn at random; the width is the best of a few on rows left out.
fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let unfit =
        |reason: &str| CompileError::Unfit { stage: "landmarks", reason: reason.to_owned() };
    let (wanted, count) =
        (arguments.integer("coordinates") as usize, arguments.integer("count") as usize);
    let basis = task.basis("landmarks")?;
    let set = task.distillation_set("landmarks")?;
    let size = wanted.min(basis.rows);
    // Every feature wants several rows to be learned from.
    let count = count.min(set.rows / 4).max(1);
    let chosen = draw(set.rows, count, 1);
    let centres: Vec<f64> =
        chosen.iter().flat_map(|row| set.row(*row)[..size].iter().copied()).collect();
    let median = median_distance(set, size, &chosen);
    let features = 1 + size + count;
    let mut best: Option<(f64, f64, Vec<f64>)> = None;
    for (number, factor) in GAMMAS.iter().enumerate() {
        task.watch.step("landmarks: widths", number, GAMMAS.len())?;
        let gamma = factor / median;
        let fitted = ridge::fit_with_error(set.rows, features, &set.targets, |row, out| {
            let coordinates = &set.row(row)[..size];
            out[0] = 1.0;
            out[1..=size].copy_from_slice(coordinates);
            for (place, centre) in out[size + 1..].iter_mut().zip(centres.chunks_exact(size)) {
                *place = (-gamma * distance(coordinates, centre)).exp();
            }
        });
        if let Some((weights, error)) = fitted
            && best.as_ref().is_none_or(|(least, ..)| error < *least)
        {
            best = Some((error, gamma, weights));
        }
    }
    let (_, gamma, fitted) = best.ok_or_else(|| unfit("its scores could not be fitted"))?;
    let (mut weights, mut lines, mut constants) = (Vec::new(), Vec::new(), Vec::new());
    for fitted in fitted.chunks_exact(features) {
        constants.push(fitted[0]);
        lines.extend(fitted[1..=size].iter().map(|w| *w as f32));
        weights.extend(fitted[size + 1..].iter().map(|w| *w as f32));
    }
    Ok(Section::new(arguments.text().to_string())
        .with("basis", Array::F32(basis.to_f32(size)))
        .with("centres", Array::F32(centres.iter().map(|x| *x as f32).collect()))
        .with("gamma", Array::F32(vec![gamma as f32]))
        .with("weights", Array::F32(weights))
        .with("linear", Array::F32(lines))
        .with("constants", Array::F64(constants)))
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The median squared distance among the landmarks, of a few hundred pairs.
fn median_distance(set: &DistillationSet, size: usize, chosen: &[usize]) -> f64 {
    let row = |at: usize| &set.row(chosen[at % chosen.len()])[..size];
    let mut all: Vec<f64> =
        (0..500).map(|n| distance(row(n * 7), row(n * 13 + 1))).filter(|d| *d > 0.0).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().filter(|d| d.is_normal()).unwrap_or(1.0)
}
