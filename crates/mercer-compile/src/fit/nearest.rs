//! The thresholds of \[DM03\]: what a sample shows of scores that change their sign late. How queries are stopped by
//! them is in `mercer_query`.

mod filter;
mod settings;
mod thresholds;
mod traces;

use mercer_machine::{Array, Output, Section};
use mercer_query::entries;
use mercer_spec::Checked;

use super::Fitter;
use crate::{CompileError, Task};
use settings::NearestSettings;
use thresholds::Thresholds;
use traces::{NearestCandidate, Traces};

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

/// Thresholds from the training rows if there are some, as the paper takes them, else from the part of the
/// sample that is not for the test. What the text leaves open (dimensions of the ordering, half-width of the
/// smoothing, tug of war) is chosen by cross-validation on the same rows.
fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let settings = NearestSettings::new(arguments);
    let machine = task.exact.machine();
    if machine.scores().len() != 1 || matches!(machine.output(), Output::Value) {
        let reason = "it takes machines with two classes or novelty".to_owned();
        return Err(CompileError::Unfit { stage: "nearest", reason });
    }
    let no_rows = || CompileError::NoRows { stage: "nearest" };
    let rows = task.training.or(task.sample).filter(|rows| rows.rows() > 0).ok_or_else(no_rows)?;
    let basis = task.basis("nearest")?;
    let traces = Traces::new(task, basis, rows)?;
    let chosen = choose(&settings, &traces, task)?;
    let mut all = Thresholds::new(machine.supports().rows());
    traces.visit(&chosen, None, task, |_, truth, trace| all.add(truth, trace))?;
    let all = all.smoothed(chosen.smoothing);
    let mut section = Section::new(arguments.text().to_string())
        .with("basis", Array::F32(basis.to_f32(chosen.dimensions.min(basis.rows))))
        .with("tug_of_war", Array::U32(vec![u32::from(chosen.has_tug_of_war)]))
        .with("smoothing", Array::U32(vec![chosen.smoothing as u32]))
        .with("low", Array::F64(all.low))
        .with("high", Array::F64(all.high));
    if settings.has_filter {
        task.watch.step("nearest: the linear filter", 0, 1)?;
        let labels = task.training.and(task.training_labels);
        let filter = filter::FittedFilter::fit(machine, rows, traces.truths(), labels)?;
        section = section
            .with("filter", Array::F64(filter.weights))
            .with("filter_ends", Array::F64(vec![filter.constant, filter.low, filter.high]));
    }
    Ok(section)
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
    let supports = task.exact.machine().supports().rows();
    let columns = task.exact.machine().columns() as f64;
    let mut evaluated: Vec<(NearestCandidate, usize, f64)> = Vec::new();
    for same in candidates.chunk_by(NearestCandidate::walks_like) {
        task.watch.step("nearest: cross-validation", evaluated.len(), candidates.len())?;
        let mut folds: Vec<Thresholds> = (0..FOLDS).map(|_| Thresholds::new(supports)).collect();
        let mut kept: Vec<(usize, f64, Vec<f32>)> = Vec::new();
        traces.visit(&same[0], Some(traces.few()), task, |number, truth, trace| {
            folds[number % FOLDS].add(truth, trace);
            kept.push((number % FOLDS, truth, trace.iter().map(|g| *g as f32).collect()));
        })?;
        for candidate in same {
            let (mut wrong, mut steps) = (0, 0);
            let ends: Vec<Thresholds> = (0..FOLDS)
                .map(|out| Thresholds::without(&folds, out).smoothed(candidate.smoothing))
                .collect();
            for (fold, truth, trace) in &kept {
                let (score, visited) = ends[*fold].stop(trace);
                wrong += usize::from((score > 0.0) != (*truth > 0.0));
                steps += visited;
            }
            let ordering = candidate.dimensions as f64 * (columns + supports as f64);
            let cost = steps as f64 / kept.len().max(1) as f64 * columns + ordering;
            evaluated.push((*candidate, wrong, cost));
        }
    }
    let fewest = evaluated.iter().map(|(_, wrong, _)| *wrong).min().unwrap_or(0);
    let allowed = fewest + (fewest as f64).sqrt().ceil() as usize;
    let good = evaluated.into_iter().filter(|(_, wrong, _)| *wrong <= allowed);
    let best = good.min_by(|a, b| a.2.total_cmp(&b.2));
    Ok(best.map_or(candidates[0], |(candidate, ..)| candidate))
}
