//! Compiling, tuning and compressing. Each is done by `mercer_compile`; here are only the options, Ctrl-C and the
//! reports.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mercer::compile::compress::{CurvePoint, SampleAgreement, Tube};
use mercer::compile::{
    CompileError, Compressed, Compression, FittingData, Goal, Watch, compile_with, compressor,
};
use mercer::data::Matrix;
use mercer::machine::{Answer, Machine, Model, Parent, PlanSections, Provenance, file};
use mercer::spec::SpecError;
use mercer::tune::{Aim, Contract, Tuner};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::ToPyErr;
use crate::rows::Rows;
use crate::threads;

/// Options of `tune`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TuneOptions<'py> {
    /// Targets of the sample: positions of classes, or values.
    pub(crate) targets: Option<Vec<f64>>,
    /// `certified`, `calibrated(eps=0.001, delta=0.05)` or `exact`.
    contract: String,
    /// `latency` or `throughput`.
    aim: String,
    budget_us: Option<f64>,
    unsettled: f64,
    tolerance: Option<f64>,
    training: Option<Rows<'py>>,
    seconds: f64,
    seed: u64,
    trust_sample: bool,
}

/// Options of `compress`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CompressOptions<'py> {
    /// `greedy`, `moved(iterations=80)`, ...
    method: String,
    size: Option<usize>,
    error: Option<f64>,
    disagreement: Option<f64>,
    certified: Option<f64>,
    sample: Option<Rows<'py>>,
    training: Option<Rows<'py>>,
    tolerance: Option<f64>,
    keep_vectors: bool,
}

/// Converts input rows to rows of the machine.
type Prepare<'a> = &'a dyn Fn(&Rows<'_>) -> PyResult<Matrix>;

/// Limits of the fitting of a plan.
#[derive(Clone, Copy)]
pub(crate) struct CompileLimits {
    pub(crate) threads: usize,
    pub(crate) seconds: Option<f64>,
}

/// Compiles a plan from its text; fitting fails after `seconds`, where given.
pub(crate) fn compile_plan(
    py: Python<'_>,
    machine: &Machine,
    text: &str,
    sample: Option<&Matrix>,
    limits: CompileLimits,
) -> PyResult<PlanSections> {
    let CompileLimits { threads, seconds } = limits;
    let text = text.parse().map_err(|error: SpecError| error.raise(py))?;
    let started = Instant::now();
    let goes_on = |_| seconds.is_none_or(|limit| started.elapsed().as_secs_f64() < limit);
    let work = || {
        let fitting_data = FittingData { sample, ..FittingData::default() };
        compile_with(machine, &text, fitting_data, Watch::new(&goes_on))
    };
    py.detach(|| threads::run_on(threads, work)).map_err(|error| error.raise(py))
}

/// A sample of queries, and what is known to be right for each row.
pub(crate) struct Sample<'s, 'py> {
    pub(crate) rows: &'s Rows<'py>,
    pub(crate) labels: Option<Vec<Option<Answer>>>,
}

/// Finds the fastest plan that satisfies the contract.
pub(crate) fn tune_plan(
    py: Python<'_>,
    machine: &Machine,
    sample: &Sample<'_, '_>,
    options: &TuneOptions<'_>,
    prepare: Prepare<'_>,
    threads: usize,
) -> PyResult<PlanSections> {
    let contract: Contract = options.contract.parse().map_err(|e: SpecError| e.raise(py))?;
    let aims = [Aim::Latency, Aim::Throughput];
    let aim = aims.into_iter().find(|aim| aim.name() == options.aim);
    let aim = aim.ok_or_else(|| {
        let names = aims.map(Aim::name).join(" or ");
        PyValueError::new_err(format!("aim is {:?}; it must be {names}", options.aim))
    })?;
    let limit = Duration::try_from_secs_f64(options.seconds).map_err(|error| {
        PyValueError::new_err(format!("seconds is {}: {error}", options.seconds))
    })?;
    let labels = sample.labels.as_deref();
    let (sample, training) =
        (prepare(sample.rows)?, options.training.as_ref().map(prepare).transpose()?);
    if let Some(targets) = labels.map(<[_]>::len).filter(|count| *count != sample.rows()) {
        return Err(PyValueError::new_err(format!(
            "y_sample has {targets} targets, X_sample {} rows",
            sample.rows()
        )));
    }
    let (budget, tolerance, seed) = (options.budget_us, options.tolerance, options.seed);
    let (unsettled, is_trusted) = (options.unsettled, options.trust_sample);
    let tuned = threads::interruptible(py, threads, |stop| {
        let goes_on = |_| !stop.load(Ordering::Relaxed);
        Tuner::new(machine, &sample)
            .contract(contract)
            .aim(aim)
            .training(training.as_ref())
            .sample_labels(labels)
            .budget_us(budget)
            .unsettled(unsettled)
            .tolerance(tolerance)
            .time_limit(limit)
            .seed(seed)
            .trust_sample(is_trusted)
            .watch(Watch::new(&goes_on))
            .run()
    })?;
    Ok(tuned.map_err(|error| error.raise(py))?.sections)
}

/// A smaller machine that approximates this one, and the report as JSON.
pub(crate) fn compress(
    py: Python<'_>,
    model: &Model,
    options: &CompressOptions<'_>,
    prepare: Prepare<'_>,
    threads: usize,
) -> PyResult<(Model, String)> {
    let method = compressor(&options.method).map_err(|error| error.raise(py))?;
    let goal = options.goal()?;
    let sample = options.sample.as_ref().map(prepare).transpose()?;
    let training = options.training.as_ref().map(prepare).transpose()?;
    let (tolerance, keep_vectors) = (options.tolerance, options.keep_vectors);
    let (started, machine) = (Instant::now(), &model.machine);
    let compressed = threads::interruptible(py, threads, |stop| {
        let goes_on = |_| !stop.load(Ordering::Relaxed);
        let (sample, training) = (sample.as_ref(), training.as_ref());
        Compression::new(machine, method)
            .goal(goal)
            .fitting_data(FittingData { sample, training, ..FittingData::default() })
            .tolerance(tolerance)
            .keep_vectors(keep_vectors)
            .watch(Watch::new(&goes_on))
            .run()
    })?;
    let compressed = compressed.map_err(|error: CompileError| error.raise(py))?;
    let report = report(&compressed, started.elapsed()).to_string();
    let parent = Parent {
        machine: file::digest(machine),
        supports: compressed.report.before,
        method: compressed.report.method.clone(),
        error: compressed.report.error.relative,
    };
    let provenance = Provenance {
        parent: Some(parent),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        source_supports: None,
        ..model.provenance.clone()
    };
    let (machine, plan, conformal) = (compressed.machine, None, None);
    Ok((Model { machine, plan, conformal, provenance, ..model.clone() }, report))
}

impl CompressOptions<'_> {
    /// The only goal there is.
    fn goal(&self) -> PyResult<Goal> {
        let goals = [
            self.size.map(Goal::Size),
            self.error.map(Goal::Error),
            self.disagreement.map(Goal::Disagreement),
            self.certified.map(Goal::Certified),
        ];
        let mut goals = goals.into_iter().flatten();
        match (goals.next(), goals.next()) {
            (Some(_), Some(_)) => Err(PyValueError::new_err(
                "give only one of size, error, disagreement and certified",
            )),
            (goal, _) => Ok(goal.unwrap_or(Goal::ByParameters)),
        }
    }
}

/// The report with the keys of `mercer compress --json`.
fn report(compressed: &Compressed, elapsed: Duration) -> Value {
    let report = &compressed.report;
    let agreement = |agreement: &SampleAgreement| {
        json!({
            "queries": agreement.queries, "disagreements": agreement.disagreements,
            "disagreement_rate": agreement.disagreement(), "largest_difference": agreement.largest_difference,
            "certified_share": agreement.certified_share(),
        })
    };
    let point = |point: &CurvePoint| {
        let agreement = point.agreement.as_ref().map(agreement);
        json!({ "size": point.size, "relative_error": point.error, "agreement": agreement })
    };
    let tube = |tube: &Tube| {
        json!({
            "eps": tube.eps, "largest_error": tube.achieved, "rows": tube.rows, "reason": tube.reason,
        })
    };
    json!({
        "method": report.method, "before": report.before, "after": report.after,
        "seconds": elapsed.as_secs_f64(),
        "weight_error": {
            "absolute": report.error.absolute, "relative": report.error.relative,
            "rounding_of_square": report.error.rounding, "offset": report.error.offset,
        },
        "agreement": report.agreement.as_ref().map(agreement), "tube": report.tube.as_ref().map(tube),
        "curve": report.curve.iter().map(point).collect::<Vec<_>>(),
    })
}
