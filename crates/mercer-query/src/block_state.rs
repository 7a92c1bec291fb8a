//! What is known of the queries of a block between stages: ranges of scores, costs, decisions. The rules by which it
//! changes are in `tracker.rs`.

use mercer_machine::Answer;

use crate::{Decision, Interval};

/// What is known of the queries of a block; kept and reused.
#[derive(Debug, Default)]
pub(crate) struct BlockState {
    pub scores: usize,
    pub ranges: Vec<Interval>,
    /// eps_f of each score.
    pub errors: Vec<f64>,
    pub queries: Vec<QueryStatus>,
}

/// What is known of one query beside the ranges of its scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryStatus {
    pub state: QueryState,
    pub cost: u64,
    pub decision: Option<Decision>,
    /// The last estimate, for queries whose budget ends.
    pub estimate: Option<(Answer, Interval)>,
    /// Position of the stage that settled it.
    pub settled_by: usize,
}

impl QueryStatus {
    const NEW: Self =
        Self { state: QueryState::Open, cost: 0, decision: None, estimate: None, settled_by: 0 };

    /// The decision and the stage that made it, if it is made.
    pub(crate) fn settled(&self) -> Option<SettledQuery> {
        Some(SettledQuery { decision: self.decision?, settled_by: self.settled_by })
    }
}

/// A decision, and the position of the stage that made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettledQuery {
    pub decision: Decision,
    pub settled_by: usize,
}

/// How far a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryState {
    /// Stages work on it.
    Open,
    /// The budget is spent and proof is required: the exact stage must answer.
    NeedsExact,
    /// Its decision is made.
    Settled,
}

impl BlockState {
    pub(crate) fn reset(&mut self, queries: usize, scores: usize) {
        let everything = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        self.scores = scores;
        self.ranges.clear();
        self.ranges.resize(queries * scores, everything);
        self.errors.clear();
        self.errors.resize(queries * scores, f64::INFINITY);
        self.queries.clear();
        self.queries.resize(queries, QueryStatus::NEW);
    }
}
