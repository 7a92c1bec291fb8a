//! All rows, block after block. The queries that cheap stages leave open are few in each block, and a stage
//! that reads every support does so for them alone; they are gathered from many blocks first.

use std::ops::Range;

use mercer_data::Matrix;
use rayon::prelude::*;

use crate::tracker::{Memory, Query, State};
use crate::{Decision, Interval, Plan, QueryError, QueryOptions, Worker};

/// Blocks whose open queries are gathered: many, but what is known of them must not fill the memory.
const BLOCKS: usize = 256;

/// A decision, and the position of the stage that made it.
pub(crate) type Closed = (Decision, usize);

/// Decisions for all rows, in order.
pub(crate) fn decide(
    plan: &Plan,
    rows: &Matrix,
    options: &QueryOptions,
) -> Result<Vec<Closed>, QueryError> {
    let blocks = plan.blocks(rows.rows());
    let whole = |worker: &mut Worker<'_>, range: Range<usize>| {
        worker.block(rows, range, options, None)?;
        Ok(worker.memory().queries.iter().filter_map(Query::closed).collect())
    };
    // One block stays on the caller's thread: waking others takes longer than a query.
    if blocks.len() < 2 {
        let range = blocks.into_iter().next();
        return range.map_or(Ok(Vec::new()), |range| whole(&mut plan.worker(), range));
    }
    if plan.stages().is_empty() {
        let parts = blocks.into_par_iter().map_init(|| plan.worker(), whole);
        return Ok(parts.collect::<Result<Vec<_>, QueryError>>()?.concat());
    }
    let mut closed = Vec::with_capacity(rows.rows());
    for blocks in blocks.chunks(BLOCKS) {
        gathered(plan, rows, blocks, options, &mut closed)?;
    }
    Ok(closed)
}

/// What is known of the queries that some blocks left open.
#[derive(Debug, Default)]
struct Left {
    /// Their rows.
    rows: Vec<usize>,
    queries: Vec<Query>,
    ranges: Vec<Interval>,
    errors: Vec<f64>,
}

impl Left {
    /// Those of one block.
    fn of(memory: &Memory, first: usize) -> Self {
        let mut left = Self::default();
        for (at, query) in memory.queries.iter().enumerate() {
            if query.state != State::Closed {
                let scores = at * memory.scores..(at + 1) * memory.scores;
                left.rows.push(first + at);
                left.queries.push(*query);
                left.ranges.extend_from_slice(&memory.ranges[scores.clone()]);
                left.errors.extend_from_slice(&memory.errors[scores]);
            }
        }
        left
    }

    fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
        self.queries.append(&mut other.queries);
        self.ranges.append(&mut other.ranges);
        self.errors.append(&mut other.errors);
    }

    /// Gives back what is known of some of them.
    fn restore(&self, some: Range<usize>, memory: &mut Memory) {
        let scores = some.start * memory.scores..some.end * memory.scores;
        memory.queries.copy_from_slice(&self.queries[some]);
        memory.ranges.copy_from_slice(&self.ranges[scores.clone()]);
        memory.errors.copy_from_slice(&self.errors[scores]);
    }
}

/// Appends the decisions of some blocks that lie one behind the other.
fn gathered(
    plan: &Plan,
    rows: &Matrix,
    blocks: &[Range<usize>],
    options: &QueryOptions,
    closed: &mut Vec<Closed>,
) -> Result<(), QueryError> {
    let begin = |worker: &mut Worker<'_>, range: &Range<usize>| {
        worker.begin(rows, range.clone(), options);
        let memory = worker.memory();
        let closed: Vec<Option<Closed>> = memory.queries.iter().map(Query::closed).collect();
        (closed, Left::of(memory, range.start))
    };
    let parts: Vec<_> = blocks.par_iter().map_init(|| plan.worker(), begin).collect();
    let (first, mut all, mut left) = (closed.len(), Vec::new(), Left::default());
    for (closed, open) in parts {
        all.extend(closed);
        left.append(open);
    }
    let end = |worker: &mut Worker<'_>, some: Range<usize>| {
        let numbers = &left.rows[some.clone()];
        let rows = rows.select(numbers.iter().copied());
        let done = worker.end(&rows, |memory| left.restore(some, memory), options);
        done.map_err(|error| error.moved(|row| numbers[row - 1] + 1))?;
        Ok(worker.memory().queries.iter().map(Query::closed).collect::<Vec<_>>())
    };
    let parts = plan.blocks(left.rows.len()).into_par_iter().map_init(|| plan.worker(), end);
    let parts = parts.collect::<Result<Vec<_>, QueryError>>()?;
    for (row, late) in left.rows.iter().zip(parts.into_iter().flatten()) {
        all[row - first] = late;
    }
    closed.extend(all.into_iter().flatten());
    Ok(())
}
