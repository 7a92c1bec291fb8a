//! Why a plan could not be made: the error type of this crate. Why a stored plan cannot be loaded is in
//! `mercer_query`.

use mercer_query::verify::{Interrupted, MeasureError};

/// Why a plan could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The text is not a plan.
    #[error("'{text}' is not a plan: {reason}")]
    NotAPlan {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no such stage.
    #[error("there is no stage '{stage}'{nearest}; known are {known}, exact")]
    Unknown {
        /// The name.
        stage: String,
        /// What was probably meant.
        nearest: String,
        /// All names.
        known: String,
    },
    /// The stage does not fit the machine.
    #[error("stage '{stage}' does not fit this machine: {reason}")]
    Unfit {
        /// The stage.
        stage: &'static str,
        /// Why.
        reason: String,
    },
    /// The method cannot compress this machine.
    #[error("{method}: {reason}")]
    Uncompressible {
        /// The method.
        method: &'static str,
        /// Why not.
        reason: String,
    },
    /// The caller interrupted it.
    #[error("interrupted")]
    Interrupted,
    /// The plan is calibrated on queries, and there are none.
    #[error("stage '{stage}' estimates, so its plan needs a sample of queries to be calibrated on")]
    NoSample {
        /// The stage.
        stage: String,
    },
    /// There are no rows to set thresholds from.
    #[error(
        "stage '{stage}' needs training rows or a sample of queries to set its thresholds from"
    )]
    NoRows {
        /// The stage.
        stage: &'static str,
    },
    /// Rows are made up for stages that the plan does not have.
    #[error(
        "{rows} rows near the boundary are asked for, but no stage uses them: stages that estimate and 'nearest' do"
    )]
    NoUseOfBoundary {
        /// Rows asked for.
        rows: usize,
    },
    /// The scores of the machine have no boundary between supports of both sides.
    #[error(
        "no row can be made up near the boundary: no way between supports of both sides crosses it"
    )]
    NoBoundary,
    /// Prediction sets are calibrated on rows with targets.
    #[error("prediction sets are calibrated on rows with targets, and the sample has none")]
    NoTargets,
    /// A target that the machine cannot answer.
    #[error("row {row} of the sample has a target that the machine does not know")]
    UnknownTarget {
        /// The row, from 1.
        row: usize,
    },
    /// Prediction sets cannot be calibrated.
    #[error("{reason}")]
    NoConformal {
        /// Why.
        reason: String,
    },
    /// Excess errors are counted on labelled queries.
    #[error("excess errors are counted on labels, and the sample has none")]
    NoLabels,
    /// Too few queries to promise that much.
    #[error(
        "the sample has {found} queries; {needed} are needed to promise eps {risk} at delta {delta}"
    )]
    SmallSample {
        /// Queries given.
        found: usize,
        /// Queries needed.
        needed: usize,
        /// The risk asked for.
        risk: f64,
        /// The delta asked for.
        delta: f64,
    },
    /// Too few queries to compare plans on.
    #[error("the sample has {found} queries; at least {needed} are needed to compare plans")]
    FewQueries {
        /// Queries given.
        found: usize,
        /// Queries needed.
        needed: usize,
    },
    /// A number that must be positive.
    #[error("{name} is {value}; it must be positive")]
    NotPositive {
        /// Which.
        name: &'static str,
        /// The value.
        value: f64,
    },
    /// No plan settles enough queries within the budget.
    #[error(
        "a budget of {microseconds} us settles {settled} % of the test queries, less than the {asked} % asked for; \
         {most} us would settle {asked} % and {all} us all of them, with the plan {plan}. Give more time, or allow \
         more queries to stay unsettled"
    )]
    BudgetNotMet {
        /// The budget.
        microseconds: f64,
        /// Per cent of the queries that are settled within it.
        settled: f64,
        /// Per cent that was asked for.
        asked: f64,
        /// The plan that needs the least time.
        plan: String,
        /// Microseconds in which it settles as many as was asked for.
        most: f64,
        /// Microseconds in which it settles all of them.
        all: f64,
    },
    /// A count that no use explains.
    #[error("{count} {what} were asked for; at most {most} are accepted")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The most.
        most: usize,
    },
    /// A risk or a probability that is not between 0 and 1.
    #[error("{name} is {value}; it must lie between 0 and 1")]
    NotAShare {
        /// Which.
        name: &'static str,
        /// The value.
        value: f64,
    },
    /// The sample holds rows the machine was trained on, which are not like queries.
    #[error(
        "{found} of {rows} rows of the sample equal supports of the machine, more than equal rows within the sample explain: it \
         holds rows of the training data; give queries that the machine was not trained on, or trust this sample \
         (--trust-sample, in Python trust_sample=True)"
    )]
    TrainingRows {
        /// Rows that equal supports.
        found: usize,
        /// Rows of the sample.
        rows: usize,
    },
    /// Not even the largest threshold keeps the promise.
    #[error(
        "even at the largest threshold {disagreements} of {queries} labels disagree with exact, so no threshold keeps the promise; use a larger eps, a larger sample, or the exact plan"
    )]
    NoThreshold {
        /// Labels that disagree with exact.
        disagreements: u64,
        /// Queries in the test.
        queries: u64,
    },
    /// The calibrated plan does not answer as in its test.
    #[error(
        "the finished plan has {found} disagreements with exact on the test part, not {expected}"
    )]
    NotReproduced {
        /// Counted with the finished plan.
        found: u64,
        /// Counted in the test.
        expected: u64,
    },
    /// A query of the sample cannot be answered.
    #[error("the sample: {0}")]
    Query(#[from] mercer_query::QueryError),
    /// The machine claims far more columns than it has values.
    #[error("{reason}")]
    TooWide {
        /// How many, and for what.
        reason: String,
    },
    /// The stage was fitted, but cannot be used.
    #[error(transparent)]
    Load(#[from] mercer_query::LoadError),
}

impl From<Interrupted> for CompileError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<mercer_data::DataError> for CompileError {
    fn from(error: mercer_data::DataError) -> Self {
        Self::TooWide { reason: error.to_string() }
    }
}

impl CompileError {
    /// What a measurement of this stage refuses.
    pub(crate) fn measuring(stage: &'static str) -> impl Fn(MeasureError) -> Self {
        move |error| match error {
            MeasureError::Unfit(reason) => Self::Unfit { stage, reason },
            MeasureError::Interrupted => Self::Interrupted,
        }
    }

    pub(crate) fn unknown(stage: &str) -> Self {
        let known: Vec<&str> = crate::FITTERS.iter().map(|fitter| fitter.stage.name).collect();
        let nearest = mercer_spec::suggestion(stage, known.iter().copied());
        Self::Unknown { stage: stage.to_owned(), nearest, known: known.join(", ") }
    }
}
