//! The thresholds of \[DM03\]: what a sample shows of scores that change their sign late. How queries are stopped by
//! them is in `mercer_query`.

mod embedding;
mod filter;
mod settings;
mod thresholds;
mod traces;
mod walked;

use mercer_data::Matrix;
use mercer_machine::{Array, Output, Scheme, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use super::Fitter;
use crate::compiler::joined;
use crate::{CompileError, Task};
use settings::{NearestSettings, ThresholdRows};
use thresholds::Thresholds;
use traces::{NearestCandidate, Traces};
use walked::WalkedVectors;

pub(super) static FITTER: Fitter = Fitter {
    stage: &entries::NEAREST,
    estimates: false,
    stops: true,
    // Without a width to choose it cannot be asked to keep a promise.
    propose: |_| Vec::new(),
    fit,
};

/// Folds of the cross-validation.
const FOLDS: usize = 5;

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "nearest", reason: reason.into() }
}

/// Whether the thresholds of a stage come from the sample even if there are training rows.
pub(super) fn takes_sample(spec: &Spec) -> bool {
    let arguments = entries::NEAREST.check(spec);
    arguments.is_ok_and(|arguments| {
        let rows = NearestSettings::new(&arguments).rows;
        matches!(rows, ThresholdRows::Sample | ThresholdRows::Both)
    })
}

/// Thresholds from the training rows if there are some, as the paper takes them, else from the part of the
/// sample that is not for the test, unless the text names the rows; from generated rows too, if there are some
/// (section 5.2). What the text leaves open (dimensions of the ordering, half-width of the smoothing, tug of war) is
/// chosen by cross-validation on the same rows.
fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let settings = NearestSettings::new(arguments);
    let machine = task.exact.machine();
    match machine.output() {
        Output::Value => return Err(unfit("it takes machines with classes or novelty")),
        Output::Classes { scheme: Scheme::OneVsRest, .. } if machine.scores().len() > 1 => {
            return Err(unfit(
                "with one-vs-rest the largest score decides, not a sign; it takes one-vs-one",
            ));
        }
        _ => {}
    }
    let (rows, labelled) = threshold_rows(settings.rows, task)?;
    let walked = WalkedVectors::new(&settings, task)?;
    let traces = Traces::new(task, &walked, &rows, settings.ordering)?;
    let chosen = choose(&settings, &traces, task)?;
    let mut all = traces.thresholds();
    traces.visit(&chosen, None, task, |score, _, truth, trace| all[score].add(truth, trace))?;
    let all: Vec<Thresholds> = all.iter().map(|ends| ends.smoothed(chosen.smoothing)).collect();
    let ends = |of: fn(&Thresholds) -> &[f64]| {
        Array::F64(all.iter().flat_map(|ends| of(ends).iter().copied()).collect())
    };
    let mut section = traces
        .ordering_arrays(&chosen, Section::new(arguments.text().to_string()))
        .with("tug_of_war", Array::U32(vec![u32::from(chosen.has_tug_of_war)]))
        .with("smoothing", Array::U32(vec![chosen.smoothing as u32]))
        .with("low", ends(|ends| &ends.low))
        .with("high", ends(|ends| &ends.high));
    section = walked.arrays(section);
    if settings.has_filter {
        task.watch.step("nearest: the linear filter", 0, machine.scores().len())?;
        section = filter::arrays(&traces, task, labelled, section)?;
    }
    Ok(section)
}

/// The rows that thresholds come from, and how many of the first are training rows, whose labels may be known;
/// generated ones come last.
fn threshold_rows(from: ThresholdRows, task: &Task<'_>) -> Result<(Matrix, usize), CompileError> {
    let there = |rows: Option<&'_ Matrix>| rows.filter(|rows| rows.rows() > 0).cloned();
    let training = there(task.training).filter(|_| from != ThresholdRows::Sample);
    let takes_sample = match from {
        ThresholdRows::Auto => training.is_none(),
        ThresholdRows::Training => false,
        ThresholdRows::Sample | ThresholdRows::Both => true,
    };
    let sample = there(task.sample).filter(|_| takes_sample);
    let labelled = training.as_ref().map_or(0, Matrix::rows);
    let rows = match (training, sample) {
        (Some(training), Some(sample)) => joined(&training, &sample),
        (training, sample) => {
            training.or(sample).ok_or(CompileError::NoRows { stage: "nearest" })?
        }
    };
    match task.generated {
        Some(generated) => Ok((joined(&rows, generated), labelled)),
        None => Ok((rows, labelled)),
    }
}

/// What the cross-validation found of one candidate.
struct Evaluated {
    candidate: NearestCandidate,
    disagreements: usize,
    cost: f64,
}

/// The cheapest candidate among those with about the fewest disagreements on the folds left out: no more than
/// one standard error above the fewest.
fn choose(
    settings: &NearestSettings,
    traces: &Traces<'_>,
    task: &Task<'_>,
) -> Result<NearestCandidate, CompileError> {
    let candidates = settings.candidates(traces.directions());
    if let [only] = candidates.as_slice() {
        return Ok(*only);
    }
    let mut evaluated: Vec<Evaluated> = Vec::new();
    for same in candidates.chunk_by(NearestCandidate::walks_like) {
        task.watch.step("nearest: cross-validation", evaluated.len(), candidates.len())?;
        evaluate(same, traces, task, &mut evaluated)?;
    }
    let fewest = evaluated.iter().map(|one| one.disagreements).min().unwrap_or(0);
    let allowed = fewest + (fewest as f64).sqrt().ceil() as usize;
    let good = evaluated.into_iter().filter(|one| one.disagreements <= allowed);
    let best = good.min_by(|a, b| a.cost.total_cmp(&b.cost));
    Ok(best.map_or(candidates[0], |one| one.candidate))
}

/// Cross-validates candidates that walk alike.
fn evaluate(
    same: &[NearestCandidate],
    traces: &Traces<'_>,
    task: &Task<'_>,
    evaluated: &mut Vec<Evaluated>,
) -> Result<(), CompileError> {
    let columns = task.exact.machine().columns() as f64;
    let mut folds: Vec<Vec<Thresholds>> = (0..FOLDS).map(|_| traces.thresholds()).collect();
    let mut kept: Vec<(usize, usize, f64, Vec<f32>)> = Vec::new();
    traces.visit(&same[0], Some(traces.few()), task, |score, number, truth, trace| {
        folds[number % FOLDS][score].add(truth, trace);
        let trace = trace.iter().map(|g| *g as f32).collect();
        kept.push((score, number % FOLDS, truth, trace));
    })?;
    for candidate in same {
        let ends: Vec<Vec<Thresholds>> =
            (0..FOLDS).map(|out| Thresholds::without(&folds, out, candidate.smoothing)).collect();
        let (mut disagreements, mut steps) = (0, 0);
        for (score, fold, truth, trace) in &kept {
            let stop = ends[*fold][*score].stop(trace);
            let (sign, visited) = match stop {
                Some((score, visited)) => (score > 0.0, visited),
                None => (*truth > 0.0, trace.len() + traces.cost_of_rest()),
            };
            disagreements += usize::from(sign != (*truth > 0.0));
            steps += visited;
        }
        let ordering = candidate.dimensions as f64 * (columns + traces.vectors() as f64);
        let cost = steps as f64 / kept.len().max(1) as f64 * columns + ordering;
        evaluated.push(Evaluated { candidate: *candidate, disagreements, cost });
    }
    Ok(())
}
