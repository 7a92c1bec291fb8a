//! A model that is loaded and ready to answer: its plan, what its queries cost and how long they take, its digest and its
//! counters. Which models there are is `repository.rs`; when a request runs is `scheduler.rs`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use mercer_data::Matrix;
use mercer_machine::{Model, Output, file};
use mercer_query::{Audit, CostTimes, KnownPlans, Plan, PlanTrust, QueryOptions};

use crate::answers::LabelKind;

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
    /// Budget and tolerance that it was tuned for.
    pub query_options: QueryOptions,
    /// What its queries cost, and how long they take.
    pub times: CostTimes,
    /// Microseconds of a query, in the mean.
    pub mean_us: f64,
    /// The digest of the machine and its plan.
    pub digest: String,
    /// Bytes of the packed machine and the stages.
    pub bytes: usize,
    /// Whether the promise of its calibration is broken.
    pub is_alarmed: AtomicBool,
    /// Checks calibrated answers; none if there is nothing to check.
    pub audit: Option<Mutex<Audit>>,
    /// What it has done.
    pub counters: Counters,
}

/// What a model has done since it was loaded.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that were answered.
    pub requests: AtomicU64,
    /// Requests that failed.
    pub failures: AtomicU64,
    /// Rows that were answered.
    pub rows: AtomicU64,
    /// Batches that ran.
    pub batches: AtomicU64,
    /// Nanoseconds in the queue.
    pub queue_ns: AtomicU64,
    /// Nanoseconds of work.
    pub compute_ns: AtomicU64,
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
        Self::new(name, version, model, options).map_err(|error| wrong(error.to_string()))
    }

    fn new(
        name: &str,
        version: u64,
        model: Model,
        options: LoadOptions,
    ) -> Result<Self, mercer_query::LoadError> {
        let plan = match &model.plan {
            None => Plan::exact(&model.machine),
            Some(_) if options.trust_plan => {
                let sections = model.plan.as_ref().expect("it has a plan");
                Plan::load(&model.machine, sections, PlanTrust::Everything)?
            }
            Some(sections) => {
                let known = KnownPlans::of_user();
                let trust = known.map_or(PlanTrust::Nothing, |known| known.trust(sections));
                Plan::load(&model.machine, sections, trust)?
            }
        };
        let proved_plan = match (&model.plan, plan.calibration()) {
            // Without a calibration no estimate answers a query.
            (Some(sections), Some(_)) => {
                let proved = mercer_machine::PlanSections { calibration: None, ..sections.clone() };
                Some(Plan::load(&model.machine, &proved, PlanTrust::Constants)?)
            }
            _ => None,
        };
        let audit = match plan.calibration() {
            Some(_) if options.audit > 0.0 => Audit::new(&plan, options.audit, options.seed).ok(),
            _ => None,
        };
        let digest = match &model.plan {
            Some(sections) => file::plan_digest(sections),
            None => file::digest(&model.machine),
        };
        let query_options = QueryOptions::of(&model);
        let (times, mean_us) = measured(&model, &plan, &query_options);
        Ok(Self {
            name: name.to_owned(),
            version,
            bytes: plan.bytes(),
            plan,
            proved_plan,
            query_options,
            times,
            mean_us,
            digest,
            is_alarmed: AtomicBool::new(false),
            audit: audit.map(Mutex::new),
            counters: Counters::default(),
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

    /// Nanoseconds that so many rows are expected to take.
    pub fn expected_ns(&self, rows: usize) -> u64 {
        (1e3 * self.mean_us * rows as f64).clamp(1.0, 1e18) as u64
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

    /// The contract that it was tuned for, else what its plan gives.
    pub fn contract(&self) -> String {
        let tuning = self.model.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
        match (tuning, self.plan.calibration()) {
            (Some(tuning), _) => tuning.contract.clone(),
            (None, Some(calibration)) => {
                format!("calibrated(eps={}, delta={})", calibration.risk, calibration.delta)
            }
            (None, None) if self.plan.stages().is_empty() => "exact".to_owned(),
            (None, None) => "certified".to_owned(),
        }
    }

    /// Counts a drawn share of calibrated answers that were asked again exactly; whether this raised the alarm.
    pub fn audit(&self, rows: &Matrix, decisions: &mut [mercer_query::Decision]) -> bool {
        let Some(audit) = &self.audit else { return false };
        let mut audit = audit.lock().unwrap_or_else(PoisonError::into_inner);
        if audit.check(&self.plan, rows, decisions).is_err() || audit.report().alarm.is_none() {
            return false;
        }
        !self.is_alarmed.swap(true, Ordering::AcqRel)
    }
}

/// What queries cost and take: as `tune` stored it, else measured on some supports, which are hard queries.
fn measured(model: &Model, plan: &Plan, options: &QueryOptions) -> (CostTimes, f64) {
    let tuning = model.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
    if let Some((tuning, times)) =
        tuning.and_then(|tuning| Some((tuning, CostTimes::stored(tuning)?)))
    {
        return (times, tuning.plan.single_us);
    }
    let supports = model.machine.supports();
    let rows = match supports.rows() {
        0 => {
            Matrix::dense(model.machine.columns().max(1), vec![0.0; model.machine.columns().max(1)])
        }
        count => {
            let step = count.div_ceil(SAMPLE).max(1);
            Ok(supports.select((0..count).step_by(step)))
        }
    };
    let times = rows.ok().and_then(|rows| CostTimes::by_clock(plan, &rows, options).ok());
    let times = times.unwrap_or_default();
    let mean_us = times.points().last().map_or(1.0, |last| last.microseconds);
    (times, mean_us)
}
