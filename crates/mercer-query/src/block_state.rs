//! The state of the queries of a block between stages: ranges of scores, costs, decisions. The rules by which it
//! changes are in `tracker.rs`.

use mercer_machine::{Answer, Machine};

use crate::label_from_ranges::ScoreRanges;
use crate::{Decision, Interval};

/// The state of the queries of a block; its memory is reused for the next block.
#[derive(Debug, Default)]
pub(crate) struct BlockState {
    /// Scores of each query.
    pub scores: usize,
    /// Range of each score, query after query.
    pub ranges: Vec<Interval>,
    /// Rounding bound of each exact score.
    pub rounding_bounds: Vec<f64>,
    pub queries: Vec<QueryStatus>,
}

/// The state of one query beside the ranges of its scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryStatus {
    pub state: QueryState,
    pub cost: u64,
    pub decision: Option<Decision>,
    /// The last estimate, for queries whose budget ends.
    pub estimate: Option<(Answer, Interval)>,
    /// Position of the stage that answered it.
    pub answered_by: usize,
}

impl QueryStatus {
    const NEW: Self =
        Self { state: QueryState::Open, cost: 0, decision: None, estimate: None, answered_by: 0 };

    /// The decision and the stage that made it, if it is made.
    pub(crate) fn answered(&self) -> Option<AnsweredQuery> {
        Some(AnsweredQuery { decision: self.decision?, answered_by: self.answered_by })
    }
}

/// A decision, and the position of the stage that made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredQuery {
    pub decision: Decision,
    pub answered_by: usize,
}

/// How far a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryState {
    /// Stages work on it.
    Open,
    /// The budget is spent and proof is required: the exact stage must answer.
    NeedsExact,
    /// Its decision is made.
    Answered,
}

impl BlockState {
    pub(crate) fn reset(&mut self, queries: usize, scores: usize) {
        let everything = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        self.scores = scores;
        self.ranges.clear();
        self.ranges.resize(queries * scores, everything);
        self.rounding_bounds.clear();
        self.rounding_bounds.resize(queries * scores, f64::INFINITY);
        self.queries.clear();
        self.queries.resize(queries, QueryStatus::NEW);
    }
    /// The ranges of the scores of one query.
    pub(crate) fn score_ranges<'a>(
        &'a self,
        query: usize,
        machine: &'a Machine,
        border: f64,
    ) -> ScoreRanges<'a> {
        let of_query = query * self.scores..(query + 1) * self.scores;
        ScoreRanges {
            machine,
            ranges: &self.ranges[of_query.clone()],
            rounding_bounds: &self.rounding_bounds[of_query],
            border,
        }
    }
}
