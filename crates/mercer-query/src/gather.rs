//! Answers all rows, block after block, on all threads of the rayon pool. How one block is answered is in `worker.rs`.
//!
//! The first stages of a cascade are cheap and answer most queries of a block. The expensive stages after them read every
//! support, however few queries are left; so with few queries in each block they would read all supports again and again.
//! Therefore the queries that the first stages leave open are *gathered* from many blocks, packed into new blocks, and
//! only then taken through the remaining stages ([`Plan::first_gathered_stage`]). Answers do not depend on it.

use std::ops::Range;

use mercer_data::Matrix;
use rayon::prelude::*;

use crate::block_state::{AnsweredQuery, BlockState, QueryState, QueryStatus};
use crate::{Interval, Plan, QueryError, QueryOptions, Worker};

/// Blocks whose open queries are gathered: many, but their state must not fill the memory.
const BLOCKS: usize = 256;

/// Why every query has an answer once the exact stage has run.
pub(crate) const ALL_ANSWERED: &str = "the exact stage answers every query that is still open";

/// Answers of all rows, in order.
pub(crate) fn decide(
    plan: &Plan,
    rows: &Matrix,
    options: &QueryOptions,
) -> Result<Vec<AnsweredQuery>, QueryError> {
    let blocks = plan.blocks(rows.rows());
    let run_block = |worker: &mut Worker<'_>, range: Range<usize>| {
        worker.run_block(rows, range, options, None)?;
        Ok(all_answers(worker.state()))
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
    let mut answers = Vec::with_capacity(rows.rows());
    for consecutive in blocks.chunks(BLOCKS) {
        decide_gathered(plan, rows, consecutive, options, &mut answers)?;
    }
    Ok(answers)
}

/// The answers of a block that has been through the exact stage.
fn all_answers(state: &BlockState) -> Vec<AnsweredQuery> {
    state.queries.iter().map(|query| query.answered().expect(ALL_ANSWERED)).collect()
}

/// The queries that some blocks left open, with their state so far.
#[derive(Debug, Default)]
struct GatheredQueries {
    /// The row of each query in the whole matrix.
    rows: Vec<usize>,
    queries: Vec<QueryStatus>,
    ranges: Vec<Interval>,
    rounding_bounds: Vec<f64>,
}

impl GatheredQueries {
    /// The queries of one block that have no answer yet, open or left to exact. The block begins at `first_row`.
    fn of(state: &BlockState, first_row: usize) -> Self {
        let mut gathered = Self::default();
        for (number, query) in state.queries.iter().enumerate() {
            if query.state != QueryState::Answered {
                let scores = number * state.scores..(number + 1) * state.scores;
                gathered.rows.push(first_row + number);
                gathered.queries.push(*query);
                gathered.ranges.extend_from_slice(&state.ranges[scores.clone()]);
                gathered.rounding_bounds.extend_from_slice(&state.rounding_bounds[scores]);
            }
        }
        gathered
    }

    fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
        self.queries.append(&mut other.queries);
        self.ranges.append(&mut other.ranges);
        self.rounding_bounds.append(&mut other.rounding_bounds);
    }

    /// Writes the state of some of them into that of a new block.
    fn restore(&self, some: Range<usize>, state: &mut BlockState) {
        let scores = some.start * state.scores..some.end * state.scores;
        state.queries.copy_from_slice(&self.queries[some]);
        state.ranges.copy_from_slice(&self.ranges[scores.clone()]);
        state.rounding_bounds.copy_from_slice(&self.rounding_bounds[scores]);
    }
}

/// Appends the answers of some consecutive blocks, whose first row is number `answers.len()`.
fn decide_gathered(
    plan: &Plan,
    rows: &Matrix,
    blocks: &[Range<usize>],
    options: &QueryOptions,
    answers: &mut Vec<AnsweredQuery>,
) -> Result<(), QueryError> {
    let run_first_stages = |worker: &mut Worker<'_>, block: &Range<usize>| {
        worker.run_before_gathering(rows, block.clone(), options);
        let state = worker.state();
        let early: Vec<_> = state.queries.iter().map(QueryStatus::answered).collect();
        (early, GatheredQueries::of(state, block.start))
    };
    let parts: Vec<_> = blocks.par_iter().map_init(|| plan.worker(), run_first_stages).collect();
    let first_row = answers.len();
    let (mut answered, mut gathered) = (Vec::new(), GatheredQueries::default());
    for (early, open) in parts {
        answered.extend(early);
        gathered.append(open);
    }
    let run_other_stages = |worker: &mut Worker<'_>, some: Range<usize>| {
        let row_numbers = &gathered.rows[some.clone()];
        let open_rows = rows.select(row_numbers.iter().copied());
        let restore = |state: &mut BlockState| gathered.restore(some, state);
        let outcome = worker.run_after_gathering(&open_rows, restore, options);
        outcome.map_err(|error| error.renumbered(|row| row_numbers[row - 1] + 1))?;
        Ok(all_answers(worker.state()))
    };
    let new_blocks = plan.blocks(gathered.rows.len()).into_par_iter();
    let late = new_blocks.map_init(|| plan.worker(), run_other_stages);
    let late = late.collect::<Result<Vec<_>, QueryError>>()?;
    for (row, answer) in gathered.rows.iter().zip(late.into_iter().flatten()) {
        answered[row - first_row] = Some(answer);
    }
    answers.extend(answered.into_iter().map(|answer| answer.expect(ALL_ANSWERED)));
    Ok(())
}
