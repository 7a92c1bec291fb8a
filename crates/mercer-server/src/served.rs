//! A model that is loaded and ready to answer: its plan, what its queries cost and how long they take, its digest and its
//! counters. Which models there are is `repository.rs`; when a request runs is `scheduler.rs`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mercer_data::Matrix;
use mercer_machine::{Model, Output, PlanSections, file};
use mercer_query::{
    Audit, Certainty, CostTimes, Decision, KnownPlans, LoadError, Plan, PlanTrust, QueryOptions,
};

use crate::answers::LabelKind;
use crate::batch_counts::BatchCounts;
use crate::failure::{Failure, Kind};
use crate::pace::Pace;

/// Supports that stand for queries where nothing else is known of those to come.
const SAMPLE: usize = 64;

/// Why a model is not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoadFailure(pub String);

/// How models are loaded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadOptions {
    /// Whether plans are believed without verification.
    pub trust_plan: bool,
    /// Share of calibrated answers that are asked again exactly.
    pub audit: f64,
    /// Seed of the drawing of audited queries.
    pub seed: u64,
}

/// A loaded model.
#[derive(Debug)]
pub struct ServedModel {
    /// Its name in addresses.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// The model.
    pub model: Model,
    /// Its plan, as far as it is believed.
    pub plan: Plan,
    /// Without estimates: answers when the promise of the plan is broken. None if the plan does not estimate.
    pub proved_plan: Option<Plan>,
    /// The place in the plan of each stage of the proved one.
    proved_places: Vec<usize>,
    /// What its queries cost and how long they take, by its plan; measured when it is first asked for.
    speed: OnceLock<Speed>,
    /// How long rows took in recent batches.
    pub pace: Pace,
    /// The same by its proved plan, once that answers.
    proved_speed: OnceLock<Speed>,
    /// The digest of the machine and its plan.
    pub digest: String,
    /// Bytes of the packed machine and the stages.
    pub bytes: usize,
    /// Whether the promise of its calibration is broken.
    pub is_alarmed: AtomicBool,
    /// Checks calibrated answers; none if there is nothing to check, or the options ask for none.
    pub audit: Option<Mutex<Audit>>,
    /// Why calibrated answers are not checked although the options ask for it.
    pub audit_refusal: Option<String>,
    /// What it has done.
    pub counters: Counters,
    /// The batches that it has answered.
    pub batches: BatchCounts,
}

/// What the queries of a plan cost, and how long they take.
#[derive(Debug)]
pub struct Speed {
    /// Times of single queries by cost.
    pub times: CostTimes,
    /// Microseconds of a query, in the mean.
    pub mean_us: f64,
    /// Multiply-adds of a query, in the mean.
    pub mean_cost: f64,
}

/// What a model has done since it was loaded.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that were answered.
    pub requests: AtomicU64,
    /// Requests that were refused because the queue was full.
    pub rejected: AtomicU64,
    /// Requests whose callers left before they were answered.
    pub cancelled: AtomicU64,
    /// Other requests that failed.
    pub failures: AtomicU64,
    /// Nanoseconds of all requests that were refused or failed.
    pub failed_ns: AtomicU64,
    /// Requests that are being answered.
    pub pending: AtomicU64,
    /// Rows that each stage of the plan settled; the exact one is the last.
    pub settled: Vec<AtomicU64>,
    /// Rows that the audit left out because too many waited.
    pub unaudited: AtomicU64,
    /// Rows that were answered.
    pub rows: AtomicU64,
    /// Nanoseconds in the queue.
    pub queue_ns: AtomicU64,
    /// Nanoseconds in which inputs became rows.
    pub input_ns: AtomicU64,
    /// Nanoseconds of work.
    pub compute_ns: AtomicU64,
    /// Nanoseconds in which decisions became outputs.
    pub output_ns: AtomicU64,
    /// Nanoseconds of whole requests.
    pub total_ns: AtomicU64,
    /// Milliseconds since 1970 of the last request.
    pub last_ms: AtomicU64,
}

impl ServedModel {
    /// Loads a model file of any format that is read here.
    ///
    /// # Errors
    /// If the file is no model, or its plan does not fit it.
    pub fn load(
        name: &str,
        version: u64,
        path: &Path,
        options: LoadOptions,
    ) -> Result<Self, LoadFailure> {
        let wrong = |error: String| LoadFailure(format!("{}: {error}", path.display()));
        let model = file::load(path).map_err(|error| wrong(error.to_string()))?;
        let served = Self::new(name, version, model, options);
        let served = served.map_err(|error| wrong(error.to_string()))?;
        // The first query of a caller should wait for no measurement.
        served.speed();
        Ok(served)
    }

    /// A model that is in memory already.
    ///
    /// # Errors
    /// If its plan does not fit it.
    pub fn new(
        name: &str,
        version: u64,
        model: Model,
        options: LoadOptions,
    ) -> Result<Self, LoadError> {
        let plan = believed_plan(&model, options)?;
        let proved_plan = proved_plan(&model, &plan)?;
        let (audit, audit_refusal) = match plan.calibration() {
            Some(_) if options.audit > 0.0 => {
                match Audit::new(&plan, options.audit, options.seed) {
                    Ok(audit) => (Some(audit), None),
                    Err(refusal) => (None, Some(refusal.to_string())),
                }
            }
            _ => (None, None),
        };
        let digest = match &model.plan {
            Some(sections) => file::plan_digest(sections),
            None => file::digest(&model.machine),
        };
        // The first query of a caller should find the plan in memory.
        if let Some(rows) = sample(&model, 1) {
            drop(plan.decide_with(&rows, &QueryOptions::of(&model, &plan)));
        }
        let settled = (0..=plan.stages().len()).map(|_| AtomicU64::new(0)).collect();
        Ok(Self {
            name: name.to_owned(),
            version,
            bytes: plan.bytes(),
            proved_places: proved_plan
                .as_ref()
                .map_or_else(Vec::new, |proved| places(proved, &plan)),
            plan,
            proved_plan,
            speed: OnceLock::new(),
            pace: Pace::default(),
            proved_speed: OnceLock::new(),
            digest,
            is_alarmed: AtomicBool::new(false),
            audit: audit.map(Mutex::new),
            audit_refusal,
            counters: Counters { settled, ..Counters::default() },
            batches: BatchCounts::default(),
            model,
        })
    }

    /// The plan that answers: the proved one once the promise of the calibration was found to be broken.
    pub fn active_plan(&self) -> &Plan {
        match &self.proved_plan {
            Some(proved) if self.is_alarmed.load(Ordering::Acquire) => proved,
            _ => &self.plan,
        }
    }

    /// Budget and tolerance that the model was tuned for, as far as they are in force with the plan that answers.
    pub fn query_options(&self) -> QueryOptions {
        QueryOptions::of(&self.model, self.active_plan())
    }

    /// From now on the proved plan answers; whether it did not before.
    pub fn raise_alarm(&self) -> bool {
        if let Some(proved) = &self.proved_plan {
            self.proved_speed.get_or_init(|| measured(&self.model, proved));
        }
        !self.is_alarmed.swap(true, Ordering::AcqRel)
    }

    /// What its queries cost, and how long they take, by the plan that answers.
    pub fn speed(&self) -> &Speed {
        match self.proved_speed.get() {
            Some(speed) if self.is_alarmed.load(Ordering::Acquire) => speed,
            _ => self.speed.get_or_init(|| {
                stored(&self.model, &self.plan).unwrap_or_else(|| measured(&self.model, &self.plan))
            }),
        }
    }

    /// Nanoseconds that so many rows are expected to take, each alone.
    pub fn expected_ns(&self, rows: usize) -> u64 {
        (1e3 * self.speed().mean_us * rows as f64).clamp(1.0, 1e18) as u64
    }

    /// Nanoseconds of a worker that a row is expected to take in the queue: as in recent batches.
    pub fn queued_ns(&self) -> f64 {
        self.pace.mean_ns().unwrap_or(1e3 * self.speed().mean_us)
    }

    /// A batch that one worker has answered. A thread that was not given a core for a while says little of the next batch:
    /// a batch counts as four times as slow as expected, at most, and lasting slowness is known after a few.
    pub fn note_batch(&self, rows: usize, time: Duration) {
        let most = Duration::from_secs_f64((4e-9 * self.queued_ns() * rows as f64).min(1e6));
        self.pace.note(rows, time.min(most));
    }

    /// A request that was refused or failed after so much time.
    pub fn note_failure(&self, failure: &Failure, time: Duration) {
        let counters = &self.counters;
        let counter = match failure.kind {
            Kind::Overloaded { .. } => &counters.rejected,
            _ => &counters.failures,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        counters.failed_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Rows that a body of so many bytes holds, about: eight bytes for a value.
    pub fn rows_in(&self, bytes: usize) -> usize {
        bytes / (8 * self.columns().max(1))
    }

    /// Multiply-adds that so many rows are expected to cost.
    pub fn expected_cost(&self, rows: usize) -> u64 {
        (self.speed().mean_cost * rows as f64).clamp(1.0, 1e18) as u64
    }

    /// Counts rows by the stage of a plan that settled them.
    pub fn note_stages(&self, plan: &Plan, answered_by: &[usize], decisions: &[Decision]) {
        let is_proved = !std::ptr::eq(plan, &raw const self.plan);
        for (stage, decision) in answered_by.iter().zip(decisions) {
            let place = if is_proved { self.proved_places.get(*stage) } else { Some(stage) };
            if decision.certainty != Certainty::Unsettled
                && let Some(counter) = place.and_then(|place| self.counters.settled.get(*place))
            {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The datatype of its labels.
    pub fn label_kind(&self) -> LabelKind {
        LabelKind::of(&self.model.machine)
    }

    /// Columns of a row, where the model says so.
    pub fn columns(&self) -> usize {
        self.model.input.features.unwrap_or_else(|| self.model.machine.columns())
    }

    /// Names of classes; none of other machines.
    pub fn class_names(&self) -> Vec<String> {
        match self.model.machine.output() {
            Output::Classes { names, .. } => names.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }

    /// The contract that it was tuned for, else what its plan gives; what the proved plan gives once that answers.
    pub fn contract(&self) -> String {
        let tuning = self.plan.tuning(&self.model);
        let plan = self.active_plan();
        match (tuning, plan.calibration()) {
            (Some(tuning), _) if std::ptr::eq(plan, &raw const self.plan) => {
                tuning.contract.clone()
            }
            (_, Some(calibration)) => {
                format!("calibrated(eps={}, delta={})", calibration.risk, calibration.delta)
            }
            (_, None) if plan.stages().is_empty() => "exact".to_owned(),
            (_, None) => "certified".to_owned(),
        }
    }

    /// The audit of its calibrated answers, if there is one.
    pub fn audit(&self) -> Option<MutexGuard<'_, Audit>> {
        Some(self.audit.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The plan of a model, as far as it is believed; the exact one if it has none.
fn believed_plan(model: &Model, options: LoadOptions) -> Result<Plan, LoadError> {
    let Some(sections) = &model.plan else { return Ok(Plan::exact(&model.machine)) };
    let trust = if options.trust_plan {
        PlanTrust::Everything
    } else {
        KnownPlans::of_user().map_or(PlanTrust::Nothing, |known| known.trust(sections))
    };
    Plan::load(&model.machine, sections, trust)
}

/// The same plan without a calibration, and so without estimates that answer; none if it has none.
fn proved_plan(model: &Model, plan: &Plan) -> Result<Option<Plan>, LoadError> {
    match (&model.plan, plan.calibration()) {
        (Some(sections), Some(_)) => {
            let proved = PlanSections { calibration: None, ..sections.clone() };
            Plan::load(&model.machine, &proved, PlanTrust::Constants).map(Some)
        }
        _ => Ok(None),
    }
}

/// The place in `plan` of each stage of another plan with some of its stages, and of the exact one.
fn places(proved: &Plan, plan: &Plan) -> Vec<usize> {
    let specs: Vec<_> = plan.stages().iter().map(|stage| stage.spec()).collect();
    let own = proved.stages().iter().map(|stage| stage.spec());
    let place = own.map(|spec| specs.iter().position(|other| *other == spec));
    let mut places: Vec<usize> = place.map(|place| place.unwrap_or(specs.len())).collect();
    places.push(specs.len());
    places
}

/// What queries cost and take as `tune` stored it.
fn stored(model: &Model, plan: &Plan) -> Option<Speed> {
    let tuning = plan.tuning(model)?;
    let times = CostTimes::stored(tuning)?;
    let mean_us = tuning.plan.single_us;
    let mean_cost = times.limit(mean_us) as f64;
    Some(Speed { times, mean_us, mean_cost })
}

/// Some supports, which are hard queries, or a row of zeros.
fn sample(model: &Model, most: usize) -> Option<Matrix> {
    let supports = model.machine.supports();
    let columns = model.machine.columns().max(1);
    match supports.rows() {
        0 => Matrix::dense(columns, vec![0.0; columns]).ok(),
        count => Some(supports.select((0..count).step_by(count.div_ceil(most).max(1)))),
    }
}

/// What queries cost and take, measured on some supports.
fn measured(model: &Model, plan: &Plan) -> Speed {
    let (rows, options) = (sample(model, SAMPLE), QueryOptions::of(model, plan));
    let times = rows.and_then(|rows| CostTimes::by_clock(plan, &rows, &options).ok());
    let times = times.unwrap_or_default();
    let (mean_us, mean_cost) = times
        .points()
        .last()
        .map_or((1.0, 1.0), |last| (last.microseconds, last.multiply_adds as f64));
    Speed { times, mean_us, mean_cost }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A machine of two supports, as LIBSVM writes it.
    pub fn two_supports() -> ServedModel {
        let text = b"svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\n\
            label 1 -1\nnr_sv 1 1\nSV\n1 1:1 \n-1 1:-1 2:0.5 \n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.model");
        std::fs::write(&path, text).unwrap();
        let options = LoadOptions { trust_plan: false, audit: 0.0, seed: 1 };
        ServedModel::load("m", 1, &path, options).unwrap()
    }
}
