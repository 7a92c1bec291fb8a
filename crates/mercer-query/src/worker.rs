//! A worker: one thread's session with a plan. It takes a block of queries through the stages and then to the exact one.
//! How rows are cut into blocks and spread over threads is in `gather.rs`.

use std::ops::Range;

use mercer_data::Matrix;

use crate::block::{Block, BlockRows};
use crate::block_state::{BlockState, QueryState};
use crate::exact::ExactScratch;
use crate::gather::ALL_ANSWERED;
use crate::options::{ExplanationStep, QueryOptions, Record, Require};
use crate::set_from_ranges::SetRule;
use crate::stage::StageSession;
use crate::stages::Coordinates;
use crate::tracker::DecisionTracker;
use crate::{Decision, Plan, QueryError};

/// A plan with the sessions and the memory that one thread needs to run it. Kept, it allocates next to nothing; it
/// answers one query as well as a block of them, with the same bits.
pub struct Worker<'a> {
    plan: &'a Plan,
    /// One for each stage.
    sessions: Vec<Box<dyn StageSession + 'a>>,
    exact: ExactScratch,
    state: BlockState,
    squared_norms: Vec<f64>,
    /// Numbers within the block of the queries that stages still work on.
    open: Vec<u32>,
    coordinates: Coordinates,
    /// Decisions of the exact stage for one block.
    exact_decisions: Vec<Decision>,
    /// What [`Worker::decide`] returns.
    decisions: Vec<Decision>,
    /// What [`Worker::answered_by`] returns.
    answered_by: Vec<usize>,
}

impl std::fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("plan", self.plan).finish_non_exhaustive()
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            sessions: plan.stages().iter().map(|stage| stage.session()).collect(),
            exact: plan.exact_stage().scratch(),
            state: BlockState::default(),
            squared_norms: Vec::new(),
            open: Vec::new(),
            coordinates: Coordinates::default(),
            exact_decisions: Vec::new(),
            decisions: Vec::new(),
            answered_by: Vec::new(),
        }
    }

    /// The position of the stage that answered each row of the last [`Worker::decide`]; the exact one is the last.
    pub fn answered_by(&self) -> &[usize] {
        &self.answered_by
    }

    /// Answers some rows, which must lie within the kernel's domain ([`Plan::check`]).
    ///
    /// # Errors
    /// If a score overflows, or the options do not fit the machine.
    pub fn decide(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        options: &QueryOptions,
    ) -> Result<&[Decision], QueryError> {
        options.check(self.plan.exact_stage().machine())?;
        self.decisions.clear();
        self.answered_by.clear();
        let size = self.plan.exact_stage().block();
        for first in range.clone().step_by(size) {
            self.run_block(rows, first..(first + size).min(range.end), options, None)?;
            let queries = self.state.queries.iter();
            self.decisions.extend(queries.clone().map(|query| query.decision.expect(ALL_ANSWERED)));
            self.answered_by.extend(queries.map(|query| query.answered_by));
        }
        Ok(&self.decisions)
    }

    /// Answers one row, which must lie within the kernel's domain ([`Plan::check`]); `steps` is filled with the
    /// ranges that were computed on the way. Returns the position of the stage that answered it as well.
    ///
    /// # Errors
    /// If a score overflows, or the options do not fit the machine.
    pub fn explain(
        &mut self,
        rows: &Matrix,
        row: usize,
        options: &QueryOptions,
        steps: &mut Vec<ExplanationStep>,
    ) -> Result<(Decision, usize), QueryError> {
        options.check(self.plan.exact_stage().machine())?;
        steps.clear();
        self.run_block(rows, row..row + 1, options, Some(steps))?;
        let query = self.state.queries[0];
        Ok((query.decision.expect(ALL_ANSWERED), query.answered_by))
    }

    /// All stages for one block; the decisions stay in the [`Worker::state`].
    pub(crate) fn run_block(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        options: &QueryOptions,
        mut steps: Option<&mut Vec<ExplanationStep>>,
    ) -> Result<(), QueryError> {
        let (first, stages) = (range.start, 0..self.plan.stages().len());
        self.reset(range.len());
        self.run_stages(rows, range, stages, options, steps.as_deref_mut());
        self.run_exact(rows, first, options, steps)
    }

    /// The stages of a block before [`Plan::first_gathered_stage`]; queries that they leave open stay so.
    pub(crate) fn run_before_gathering(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        options: &QueryOptions,
    ) {
        self.reset(range.len());
        self.run_stages(rows, range, 0..self.plan.first_gathered_stage(), options, None);
    }

    /// The stages from [`Plan::first_gathered_stage`] on, for queries that other blocks left open; `restore` writes
    /// their state so far.
    pub(crate) fn run_after_gathering(
        &mut self,
        rows: &Matrix,
        restore: impl FnOnce(&mut BlockState),
        options: &QueryOptions,
    ) -> Result<(), QueryError> {
        self.reset(rows.rows());
        restore(&mut self.state);
        let stages = self.plan.first_gathered_stage()..self.plan.stages().len();
        self.run_stages(rows, 0..rows.rows(), stages, options, None);
        self.run_exact(rows, 0, options, None)
    }

    /// What each level of each stage estimates for the rows if none of them answers a query; queries that are certified
    /// on the way leave the later stages out.
    pub(crate) fn record_estimates(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
    ) -> Vec<Vec<Record>> {
        let mut records = vec![Vec::new(); range.len()];
        let options = QueryOptions::default();
        self.reset(range.len());
        self.list_open_queries();
        let stages = 0..self.plan.stages().len();
        let (mut context, mut tracker) = self.split(&options, None);
        tracker.records = Some(&mut records);
        context.run(rows, range, stages, &mut tracker);
        records
    }

    /// The prediction set of each row as far as the ranges of the stages decide it, and what that cost; the exact stage does not run.
    pub(crate) fn sets_by_ranges(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        rule: SetRule,
    ) -> Vec<(Option<Vec<usize>>, u64)> {
        let options = QueryOptions { require: Require::Certified, ..QueryOptions::default() };
        self.reset(range.len());
        self.list_open_queries();
        let stages = 0..self.plan.stages().len();
        let (mut context, mut tracker) = self.split(&options, None);
        tracker.sets = Some(rule);
        context.run(rows, range, stages, &mut tracker);
        let machine = self.plan.exact_stage().machine();
        let each = self.state.queries.iter().enumerate();
        each.map(|(at, query)| {
            let is_done = query.state == QueryState::Answered;
            let ranges = || self.state.score_ranges(at, machine, options.border());
            (if is_done { ranges().members(rule) } else { None }, query.cost)
        })
        .collect()
    }

    /// The state of the queries of the last block.
    pub(crate) fn state(&self) -> &BlockState {
        &self.state
    }

    fn reset(&mut self, queries: usize) {
        self.state.reset(queries, self.plan.exact_stage().machine().scores().len());
    }

    fn list_open_queries(&mut self) {
        self.open.clear();
        let queries = (0..).zip(&self.state.queries);
        let open = queries.filter(|(_, query)| query.state == QueryState::Open);
        self.open.extend(open.map(|(number, _)| number));
    }

    /// What stages run in, and the tracker that they report to.
    fn split<'s>(
        &'s mut self,
        options: &'s QueryOptions,
        steps: Option<&'s mut Vec<ExplanationStep>>,
    ) -> (StageContext<'s, 'a>, DecisionTracker<'s>) {
        let (plan, state) = (self.plan, &mut self.state);
        let calibration = plan.active_calibration();
        let tracker = DecisionTracker::new(plan.exact_stage(), options, state, steps, calibration);
        let context = StageContext {
            plan,
            sessions: &mut self.sessions,
            squared_norms: &mut self.squared_norms,
            open: &mut self.open,
            coordinates: &mut self.coordinates,
        };
        (context, tracker)
    }

    /// Some stages, the exact one not among them, for the open queries.
    fn run_stages(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        stages: Range<usize>,
        options: &QueryOptions,
        steps: Option<&mut Vec<ExplanationStep>>,
    ) {
        self.list_open_queries();
        if stages.is_empty() {
            return;
        }
        let (mut context, mut tracker) = self.split(options, steps);
        context.run(rows, range, stages, &mut tracker);
    }

    /// The exact stage, for all queries that are not answered yet.
    fn run_exact(
        &mut self,
        rows: &Matrix,
        first: usize,
        options: &QueryOptions,
        steps: Option<&mut Vec<ExplanationStep>>,
    ) -> Result<(), QueryError> {
        let exact = self.plan.exact_stage();
        let all_queries = 0..self.state.queries.len() as u32;
        let calibration = self.plan.active_calibration();
        let mut tracker = DecisionTracker::new(exact, options, &mut self.state, steps, calibration);
        tracker.stage = self.plan.stages().len();
        self.open.clear();
        self.open.extend(all_queries.filter(|query| tracker.charge_exact(*query, exact.cost())));
        if self.open.is_empty() {
            return Ok(());
        }
        let open_rows = self.open.iter().map(|query| rows.row(first + *query as usize));
        let (scratch, decisions) = (&mut self.exact, &mut self.exact_decisions);
        let outcome = exact.decide_at(options.border(), open_rows, 0, scratch, decisions);
        outcome.map_err(|error| error.renumbered(|row| first + self.open[row - 1] as usize + 1))?;
        for (query, decision) in self.open.iter().zip(&self.exact_decisions) {
            let count = exact.machine().scores().len();
            if tracker.is_observed() && count > 1 {
                let row = rows.row(first + *query as usize);
                let (mut scores, mut bounds) = (vec![0.0; count], vec![0.0; count]);
                exact.scores(std::iter::once(row), &mut self.exact, &mut scores);
                exact.rounding_bounds(row, exact.packed().loose_squared_norm(row), &mut bounds);
                tracker.observe_exact(*query, &scores, &bounds);
            }
            tracker.answer_exactly(*query, *decision);
        }
        Ok(())
    }
}

/// The parts of a worker that stages run in.
struct StageContext<'s, 'a> {
    plan: &'a Plan,
    sessions: &'s mut [Box<dyn StageSession + 'a>],
    squared_norms: &'s mut Vec<f64>,
    open: &'s mut Vec<u32>,
    coordinates: &'s mut Coordinates,
}

impl StageContext<'_, '_> {
    /// Some stages, one after the other, as long as a query is open.
    fn run(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        stages: Range<usize>,
        tracker: &mut DecisionTracker<'_>,
    ) {
        let (plan, exact) = (self.plan, self.plan.exact_stage());
        let rows = BlockRows { matrix: rows, first: range.start };
        self.coordinates.clear();
        self.squared_norms.clear();
        self.squared_norms.resize(range.len(), 0.0);
        let mut has_rounding_bounds = false;
        tracker.stage = stages.start;
        let sessions = self.sessions[stages.clone()].iter_mut();
        for (stage, session) in plan.stages()[stages].iter().zip(sessions) {
            if self.open.is_empty() {
                break;
            }
            if stage.needs_rounding_bounds() && !has_rounding_bounds {
                for query in self.open.iter() {
                    let row = rows.row(*query);
                    let squared_norm = exact.packed().loose_squared_norm(row);
                    self.squared_norms[*query as usize] = squared_norm;
                    tracker.set_rounding_bounds(*query, |bounds| {
                        exact.rounding_bounds(row, squared_norm, bounds);
                    });
                }
                has_rounding_bounds = true;
            }
            let mut block =
                Block::new(rows, exact, self.squared_norms, self.open, self.coordinates);
            session.run(&mut block, tracker);
            tracker.stage += 1;
        }
    }
}
