//! Options and results of queries beside decisions: query options, the steps of `explain`, estimates and records of them.
//! How they decide a query is in `tracker.rs`.

use mercer_machine::{Machine, Model, Output, Scale};

use crate::{Cost, Interval, Plan, QueryError};

/// What a caller allows and requires of the answers to its queries.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryOptions {
    /// Most multiply-adds that one query may cost; none means no limit.
    pub budget: Option<u64>,
    /// Half-width at which the value of a regression is settled; without one only exact values are.
    pub tolerance: Option<f64>,
    /// What to do when the budget does not suffice.
    pub require: Require,
    /// What the score is compared with in place of 0, for machines that answer by the sign of one score (two classes,
    /// novelty). A calibration was tested against 0, so only proofs and exact scores answer then.
    pub threshold: Option<f64>,
}

impl QueryOptions {
    /// Those that a model was tuned for: its tolerance, and its budget if the plan is all that was tuned
    /// ([`Plan::tuning`]). Whoever answers queries of a model begins with them.
    pub fn of(model: &Model, plan: &Plan) -> Self {
        let budget = plan.tuning(model).and_then(|tuning| tuning.budget);
        let tuning = model.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
        let tolerance = tuning.and_then(|tuning| tuning.tolerance);
        Self { budget: budget.map(|budget| budget.multiply_adds), tolerance, ..Self::default() }
    }

    /// Whether these options fit a machine.
    ///
    /// # Errors
    /// If there is a threshold, and the machine does not answer by the sign of one score or the threshold is no number.
    pub fn check(&self, machine: &Machine) -> Result<(), QueryError> {
        let Some(threshold) = self.threshold else { return Ok(()) };
        if !threshold.is_finite() {
            return Err(QueryError::BadThreshold { threshold });
        }
        if machine.scores().len() != 1 || *machine.output() == Output::Value {
            return Err(QueryError::NoThreshold);
        }
        Ok(())
    }

    /// What scores are compared with.
    pub(crate) fn border(&self) -> f64 {
        self.threshold.unwrap_or(0.0)
    }
}

/// What to do when the budget does not suffice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Require {
    /// The best estimate is good enough, marked [`crate::Certainty::Unsettled`].
    #[default]
    Nothing,
    /// The query goes on to the exact stage, budget or not.
    Certified,
}

/// One thing learned about one query, for `explain`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplanationStep {
    /// Position of the stage in the plan.
    pub stage: usize,
    /// Which score.
    pub score: usize,
    /// Progress of the stage, in its own steps; eigenvectors for `spectral`.
    pub progress: usize,
    /// The range of the score known by then.
    pub range: Interval,
    /// What the query had cost by then.
    pub cost: Cost,
    /// Whether the range was only computed for `explain`, between two ranges that decisions rest on.
    pub is_between: bool,
    /// Whether it is an estimate with its acceptance threshold, not a proved range.
    pub is_estimate: bool,
}

/// What a level of a stage estimates for a query, without proof.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimate {
    /// The score of a machine that has only one.
    Score(f64),
    /// A class and its margin.
    Class {
        /// The class.
        class: usize,
        /// Its margin.
        margin: f64,
    },
}

/// An estimate, and the level that made it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// The level, counted over the whole plan; none if a stage stopped the query by a rule of its own.
    pub level: Option<usize>,
    /// The estimate.
    pub estimate: Estimate,
    /// Progress of the stage, in its own steps.
    pub progress: usize,
    /// What the query had cost by then.
    pub cost: Cost,
}

impl Estimate {
    /// The calibrated value, and its distance from a change of label in residual RMS; zero if anything overflowed.
    pub fn scaled(self, scale: &Scale) -> (f64, f64) {
        let (raw, is_signed) = match self {
            Self::Score(score) => (score, true),
            Self::Class { margin, .. } => (margin, false),
        };
        let value = scale.slope * raw + scale.shift;
        let distance = if is_signed { value.abs() } else { value };
        let strength = distance / scale.residual_rms;
        (value, if strength.is_finite() { strength } else { 0.0 })
    }
}
