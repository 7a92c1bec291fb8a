//! How far the plan of a model is believed, with the rule and the cache of `mercer_query`; the words are those of the command line.

use mercer::compile::{CompileError, ConformalRetest, PlanVerification, retest_conformal};
use mercer::data::Matrix;
use mercer::machine::{Answer, Conformal, Model};
use mercer::query::verify::{Outcome, StageVerification, Watch};
use mercer::query::{KnownPlans, LoadError, Plan, PlanTrust, QueryError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

use crate::errors::ToPyErr;
use crate::threads;

/// Where a plan comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanSource {
    /// This process fitted it.
    Fitted,
    /// A file or bytes; this user's cache knows that much of it.
    File(PlanTrust),
    /// A file that the caller vouches for.
    Trusted,
}

impl PlanSource {
    pub(crate) fn of_file(model: &Model, trust_plan: bool) -> Self {
        match (&model.plan, trust_plan) {
            (None, _) => Self::Fitted,
            (Some(_), true) => Self::Trusted,
            (Some(sections), false) => {
                let known = KnownPlans::of_user();
                Self::File(known.map_or(PlanTrust::Nothing, |known| known.trust(sections)))
            }
        }
    }

    pub(crate) fn load(self, model: &Model) -> Result<Plan, LoadError> {
        let trust = match self {
            Self::Fitted | Self::Trusted => PlanTrust::Everything,
            Self::File(trust) => trust,
        };
        match &model.plan {
            Some(sections) => Plan::load(&model.machine, sections, trust),
            None => Ok(Plan::exact(&model.machine)),
        }
    }

    /// Remembers a plan that was fitted here, or is known; one that the caller vouches for stays unknown. A cache that cannot be
    /// written costs a verification later, no more.
    pub(crate) fn remember(self, model: &Model) {
        let Some(known) = KnownPlans::of_user() else { return };
        if let (Self::Fitted | Self::File(PlanTrust::Everything), Some(sections)) =
            (self, &model.plan)
        {
            let _ = known.remember(sections, PlanTrust::Everything);
        }
        let _ = known.remember_sets(model);
    }

    pub(crate) fn state(self, plan: &Plan) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Trusted => "trusted",
            Self::File(PlanTrust::Everything) => "known",
            Self::File(_) if plan.left_out().is_empty() => "verified",
            Self::File(_) => "not verified",
        }
    }
}

/// A model of a file whose prediction sets are believed if the caller vouches for the file, or as far as this user's cache knows them.
pub(crate) fn with_known_sets(mut model: Model, trust_plan: bool) -> Model {
    model.conformal = match (model.conformal, KnownPlans::of_user()) {
        (Some(stored), _) if trust_plan => Some(stored.vouched()),
        (Some(_), Some(known)) => known.sets(&model),
        (stored, _) => stored,
    };
    model
}

/// Tests the prediction sets of a model on rows with targets, and remembers them if they hold; the calibration as it is believed then,
/// and a report with the keys of `mercer verify --json`.
pub(crate) fn verify_sets(
    py: Python<'_>,
    model: &Model,
    rows: &Matrix,
    targets: &[Option<Answer>],
) -> PyResult<(Option<Conformal>, Value)> {
    let Some(stored) = model.conformal else { return Ok((None, Value::Null)) };
    let test = || retest_conformal(&model.machine, rows, targets, &stored);
    let test = py.detach(test).map_err(|error: CompileError| error.raise(py))?;
    let conformal = if test.holds() { stored.of_user() } else { stored };
    if let (true, Some(known)) = (test.holds(), KnownPlans::of_user()) {
        let _ = known.remember_sets(&Model { conformal: Some(conformal), ..model.clone() });
    }
    let ConformalRetest { rows, covered, needed } = test;
    let report = json!({
        "coverage": stored.coverage(), "rows": rows, "covered": covered, "needed": needed,
        "holds": test.holds(),
    });
    Ok((Some(conformal), report))
}

/// Why prediction sets of a file are not given, and what can be done.
pub(crate) fn untested_sets(py: Python<'_>) -> PyResult<PyErr> {
    let advice = "verify(X, y) tests them on rows with targets, conformalize(X, y) calibrates them again, \
                  load(..., trust_plan=True) believes them";
    let text = format!("{}; {advice}", QueryError::UntestedSets);
    let class = py.import("mercer.errors")?.getattr(QueryError::CLASS)?;
    let value = class.call1((text, "UntestedSets", PyDict::new(py)))?;
    Ok(PyErr::from_value(value))
}

/// Warns of stages that are left out, and of a budget.
pub(crate) fn warn(py: Python<'_>, model: &Model, plan: &Plan) -> PyResult<()> {
    let stages = plan.left_out().iter().map(ToString::to_string);
    let reasons: Vec<String> = stages.chain(plan.budget_left_out(model)).collect();
    if reasons.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{}; they are left out, and the other stages and exact answer instead; verify() verifies a plan once, \
         load(..., trust_plan=True) believes it",
        reasons.join("; ")
    );
    let class = py.import("mercer.errors")?.getattr("UnverifiedPlanWarning")?;
    py.import("warnings")?.getattr("warn")?.call1((text, class, 3))?;
    Ok(())
}

/// Verifies the plan of a model and remembers it; where it comes from now, and a report.
pub(crate) fn verify(
    py: Python<'_>,
    model: &Model,
    sample: Option<&Matrix>,
    threads: usize,
) -> PyResult<(PlanSource, Value)> {
    let Some(sections) = &model.plan else {
        let report = json!({ "plan": null, "stages": [], "test": null, "verified": "everything" });
        return Ok((PlanSource::Fitted, report));
    };
    let verification = threads::interruptible(py, threads, |stop| {
        let goes_on = |_| !stop.load(Ordering::Relaxed);
        PlanVerification::new(&model.machine, sections, &Watch::new(&goes_on))
    })?;
    let mut verification = verification.map_err(|error| error.raise(py))?;
    if let Some(rows) = sample {
        let work = || verification.tested(&model.machine, sections, rows, None);
        let tested = py.detach(|| threads::run_on(threads, work));
        verification = tested.map_err(|error| error.raise(py))?;
    }
    let Some(trust) = verification.trust() else {
        let reason = verification.test.map_or(String::new(), |test| {
            format!(
                "its calibration promises {}, but {} of {} labels disagree with exact: upper bound {:.2e}",
                test.risk, test.tally.disagreements, test.queries, test.bound,
            )
        });
        return Err(LoadError::NotProved { stage: sections.spec.clone(), reason }.raise(py));
    };
    if let Some(known) = KnownPlans::of_user() {
        let _ = known.remember(sections, trust);
    }
    Ok((PlanSource::File(trust), report(&sections.spec, &verification, trust)))
}

/// The report, with the keys of `mercer verify --json`.
fn report(plan: &str, verification: &PlanVerification, trust: PlanTrust) -> Value {
    let PlanVerification { stages, test, .. } = verification;
    let stage = |stage: &StageVerification| {
        let (rests_on, work) = match stage.outcome {
            Outcome::Verified { work } => ("constants", Some(work)),
            Outcome::Calibration => ("calibration", None),
            _ => ("machine", None),
        };
        json!({ "stage": stage.stage, "rests_on": rests_on, "multiply_adds": work })
    };
    let test = test.as_ref().map(|test| {
        json!({
            "queries": test.queries, "disagreements": test.tally.disagreements,
            "bound": test.bound, "eps": test.risk, "holds": test.holds(),
        })
    });
    let verified = if trust == PlanTrust::Everything { "everything" } else { "constants" };
    let stages: Vec<Value> = stages.iter().map(stage).collect();
    json!({ "plan": plan, "stages": stages, "test": test, "verified": verified })
}
