//! Answers all rows, block after block, on all threads of the rayon pool.
//!
//! The first stages of a cascade are cheap and settle most queries of a block. The expensive stages after them read every
//! support, however few queries are left; so with few queries in each block they would read all supports again and again.
//! Therefore the queries that the first stages leave open are *gathered* from many blocks, packed into new blocks, and
//! only then taken through the remaining stages ([`Plan::first_gathered_stage`]). Answers do not depend on it.

use std::ops::Range;

use mercer_data::Matrix;
use rayon::prelude::*;

use crate::block_state::{BlockState, QueryState, QueryStatus, SettledQuery};
use crate::{Interval, Plan, QueryError, QueryOptions, Worker};

/// Blocks whose open queries are gathered: many, but what is known of them must not fill the memory.
const BLOCKS: usize = 256;

/// Decisions for all rows, in order.
pub(crate) fn decide(
    plan: &Plan,
    rows: &Matrix,
    options: &QueryOptions,
) -> Result<Vec<SettledQuery>, QueryError> {
    let blocks = plan.blocks(rows.rows());
    let run_block = |worker: &mut Worker<'_>, range: Range<usize>| {
        worker.run_block(rows, range, options, None)?;
        Ok(worker.state().queries.iter().filter_map(QueryStatus::settled).collect())
    };
    // One block stays on the caller's thread: waking others takes longer than a query.
    if blocks.len() < 2 {
        let range = blocks.into_iter().next();
        return range.map_or(Ok(Vec::new()), |range| run_block(&mut plan.worker(), range));
    }
    if plan.stages().is_empty() {
        let parts = blocks.into_par_iter().map_init(|| plan.worker(), run_block);
        return Ok(parts.collect::<Result<Vec<_>, QueryError>>()?.concat());
    }
    let mut settled = Vec::with_capacity(rows.rows());
    for blocks in blocks.chunks(BLOCKS) {
        decide_gathered(plan, rows, blocks, options, &mut settled)?;
    }
    Ok(settled)
}

/// What is known of the queries that some blocks left open.
#[derive(Debug, Default)]
struct GatheredQueries {
    /// Their rows.
    rows: Vec<usize>,
    queries: Vec<QueryStatus>,
    ranges: Vec<Interval>,
    errors: Vec<f64>,
}

impl GatheredQueries {
    /// Those of one block.
    fn of(state: &BlockState, first: usize) -> Self {
        let mut gathered = Self::default();
        for (at, query) in state.queries.iter().enumerate() {
            if query.state != QueryState::Settled {
                let scores = at * state.scores..(at + 1) * state.scores;
                gathered.rows.push(first + at);
                gathered.queries.push(*query);
                gathered.ranges.extend_from_slice(&state.ranges[scores.clone()]);
                gathered.errors.extend_from_slice(&state.errors[scores]);
            }
        }
        gathered
    }

    fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
        self.queries.append(&mut other.queries);
        self.ranges.append(&mut other.ranges);
        self.errors.append(&mut other.errors);
    }

    /// Writes what is known of some of them into the state of a new block.
    fn restore(&self, some: Range<usize>, state: &mut BlockState) {
        let scores = some.start * state.scores..some.end * state.scores;
        state.queries.copy_from_slice(&self.queries[some]);
        state.ranges.copy_from_slice(&self.ranges[scores.clone()]);
        state.errors.copy_from_slice(&self.errors[scores]);
    }
}

/// Appends the decisions of some consecutive blocks.
fn decide_gathered(
    plan: &Plan,
    rows: &Matrix,
    blocks: &[Range<usize>],
    options: &QueryOptions,
    settled: &mut Vec<SettledQuery>,
) -> Result<(), QueryError> {
    let before = |worker: &mut Worker<'_>, range: &Range<usize>| {
        worker.run_before_gathering(rows, range.clone(), options);
        let state = worker.state();
        let settled: Vec<_> = state.queries.iter().map(QueryStatus::settled).collect();
        (settled, GatheredQueries::of(state, range.start))
    };
    let parts: Vec<_> = blocks.par_iter().map_init(|| plan.worker(), before).collect();
    let (first, mut all, mut gathered) = (settled.len(), Vec::new(), GatheredQueries::default());
    for (settled, open) in parts {
        all.extend(settled);
        gathered.append(open);
    }
    let after = |worker: &mut Worker<'_>, some: Range<usize>| {
        let numbers = &gathered.rows[some.clone()];
        let rows = rows.select(numbers.iter().copied());
        let restore = |state: &mut BlockState| gathered.restore(some, state);
        let done = worker.run_after_gathering(&rows, restore, options);
        done.map_err(|error| error.renumbered(|row| numbers[row - 1] + 1))?;
        Ok(worker.state().queries.iter().map(QueryStatus::settled).collect::<Vec<_>>())
    };
    let parts = plan.blocks(gathered.rows.len()).into_par_iter().map_init(|| plan.worker(), after);
    let parts = parts.collect::<Result<Vec<_>, QueryError>>()?;
    for (row, late) in gathered.rows.iter().zip(parts.into_iter().flatten()) {
        all[row - first] = late;
    }
    settled.extend(all.into_iter().flatten());
    Ok(())
}
