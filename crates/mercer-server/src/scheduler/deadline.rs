//! The moment by which a caller wants its answer, as a limit of cost. What is left of the time when work on a request begins
//! becomes one limit for all of its rows, so that a response can state it.

use std::sync::OnceLock;
use std::time::Instant;

use mercer_query::QueryOptions;

use crate::served::ServedModel;

/// The moment, and the limit once work has begun.
#[derive(Debug)]
pub struct Deadline {
    moment: Instant,
    /// Rows that are answered one after another.
    rows: f64,
    limit: OnceLock<u64>,
}

impl Deadline {
    /// A deadline of so many rows, some of which are answered at once by several threads.
    pub fn new(moment: Instant, rows: usize, at_once: usize) -> Self {
        let rows = (rows as f64 / at_once.max(1) as f64).max(1.0);
        Self { moment, rows, limit: OnceLock::new() }
    }

    fn limit(&self, served: &ServedModel) -> u64 {
        *self.limit.get_or_init(|| {
            let left = self.moment.saturating_duration_since(Instant::now());
            served.speed().times.limit(1e6 * left.as_secs_f64() / self.rows)
        })
    }
}

/// The options with what the deadline leaves as a limit of cost.
pub fn limited(
    served: &ServedModel,
    options: QueryOptions,
    deadline: Option<&Deadline>,
) -> QueryOptions {
    let Some(deadline) = deadline else { return options };
    let limit = deadline.limit(served);
    let budget = options.budget.map_or(limit, |budget| budget.min(limit));
    QueryOptions { budget: Some(budget), ..options }
}
