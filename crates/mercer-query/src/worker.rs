use std::any::Any;
use std::ops::Range;

use mercer_data::Matrix;

use crate::exact::Scratch;
use crate::stage::Block;
use crate::stages::Coordinates;
use crate::tracker::{DecisionTracker, Memory, QueryOptions, Record, State, Step};
use crate::{Decision, Plan, QueryError};

/// One thread's hands: a plan with the working memory to run it. Kept, it allocates next to nothing; it
/// answers one query as well as a block of them, with the same bits.
#[derive(Debug)]
pub struct Worker<'a> {
    plan: &'a Plan,
    exact: Scratch,
    stages: Vec<Box<dyn Any + Send>>,
    memory: Memory,
    own: Vec<f64>,
    open: Vec<u32>,
    coordinates: Coordinates,
    /// Of the exact stage.
    answers: Vec<Decision>,
    decisions: Vec<Decision>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            exact: plan.exact_stage().scratch(),
            stages: plan.stages().iter().map(|stage| stage.scratch()).collect(),
            memory: Memory::default(),
            own: Vec::new(),
            open: Vec::new(),
            coordinates: Coordinates::default(),
            answers: Vec::new(),
            decisions: Vec::new(),
        }
    }

    /// Answers some rows, which must lie within the kernel's domain ([`Plan::check`]).
    ///
    /// # Errors
    /// If a score overflows.
    pub fn decide(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        options: &QueryOptions,
    ) -> Result<&[Decision], QueryError> {
        self.decisions.clear();
        let size = self.plan.exact_stage().block();
        for first in range.clone().step_by(size) {
            self.block(rows, first..(first + size).min(range.end), options, None)?;
            self.decisions.extend(self.memory.queries.iter().filter_map(|query| query.decision));
        }
        Ok(&self.decisions)
    }

    /// Answers one row, which must lie within the kernel's domain ([`Plan::check`]); `steps` becomes what was learned
    /// on the way. Returns the position of the stage that closed it as well.
    ///
    /// # Errors
    /// If a score overflows.
    pub fn follow(
        &mut self,
        rows: &Matrix,
        row: usize,
        options: &QueryOptions,
        steps: &mut Vec<Step>,
    ) -> Result<(Decision, usize), QueryError> {
        steps.clear();
        self.block(rows, row..row + 1, options, Some(steps))?;
        let query = self.memory.queries[0];
        Ok((query.decision.expect("the exact stage leaves nothing open"), query.settled_by))
    }

    /// One block; the decisions and who made them stay in the memory.
    pub(crate) fn block(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        options: &QueryOptions,
        mut steps: Option<&mut Vec<Step>>,
    ) -> Result<(), QueryError> {
        let (first, stages) = (range.start, 0..self.plan.stages().len());
        self.memory.reset(range.len(), self.plan.exact_stage().machine().scores().len());
        self.narrow(rows, range, stages, options, steps.as_deref_mut());
        self.close(rows, first, options, steps)
    }

    /// The stages of a block before [`Plan::gathers_at`]; what they leave open stays so in the memory.
    pub(crate) fn begin(&mut self, rows: &Matrix, range: Range<usize>, options: &QueryOptions) {
        self.memory.reset(range.len(), self.plan.exact_stage().machine().scores().len());
        self.narrow(rows, range, 0..self.plan.gathers_at(), options, None);
    }

    /// The stages from [`Plan::gathers_at`] on, for queries that other blocks left open.
    pub(crate) fn end(
        &mut self,
        rows: &Matrix,
        left: impl FnOnce(&mut Memory),
        options: &QueryOptions,
    ) -> Result<(), QueryError> {
        self.memory.reset(rows.rows(), self.plan.exact_stage().machine().scores().len());
        left(&mut self.memory);
        let stages = self.plan.gathers_at()..self.plan.stages().len();
        self.narrow(rows, 0..rows.rows(), stages, options, None);
        self.close(rows, 0, options, None)
    }

    /// Some stages, none of them the exact one, for the queries that are open in the memory.
    fn narrow(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        stages: Range<usize>,
        options: &QueryOptions,
        steps: Option<&mut Vec<Step>>,
    ) {
        let (plan, memory) = (self.plan, &mut self.memory);
        self.open.clear();
        let queries = (0..).zip(&memory.queries);
        self.open.extend(queries.filter(|(_, query)| query.state == State::Open).map(|(at, _)| at));
        if stages.is_empty() {
            return;
        }
        let mut tracker =
            DecisionTracker::new(plan.exact_stage(), options, memory, steps, plan.trust());
        let (own, open, coordinates) = (&mut self.own, &mut self.open, &mut self.coordinates);
        let mut hands = Hands { own, open, coordinates, stages: &mut self.stages };
        hands.run(plan, rows, range, stages, &mut tracker);
    }

    /// The exact stage, for all that the memory does not hold as closed.
    fn close(
        &mut self,
        rows: &Matrix,
        first: usize,
        options: &QueryOptions,
        steps: Option<&mut Vec<Step>>,
    ) -> Result<(), QueryError> {
        let exact = self.plan.exact_stage();
        let all = 0..self.memory.queries.len() as u32;
        let trust = self.plan.trust();
        let mut tracker = DecisionTracker::new(exact, options, &mut self.memory, steps, trust);
        tracker.stage = self.plan.stages().len();
        self.open.clear();
        self.open.extend(all.filter(|query| tracker.charge_exact(*query, exact.cost())));
        if self.open.is_empty() {
            return Ok(());
        }
        let left = self.open.iter().map(|query| rows.row(first + *query as usize));
        let decided = exact.decide(left, 0, &mut self.exact, &mut self.answers);
        decided.map_err(|error| error.moved(|row| first + self.open[row - 1] as usize + 1))?;
        for (query, decision) in self.open.iter().zip(&self.answers) {
            let count = exact.machine().scores().len();
            if tracker.is_observed() && count > 1 {
                let row = rows.row(first + *query as usize);
                let (mut scores, mut errors) = (vec![0.0; count], vec![0.0; count]);
                exact.scores(std::iter::once(row), &mut self.exact, &mut scores);
                exact.errors(row, exact.packed().loose_squared_norm(row), &mut errors);
                tracker.observe_exact(*query, &scores, &errors);
            }
            tracker.settle(*query, *decision);
        }
        Ok(())
    }

    /// What each level of each stage makes of the rows, if none of them stops a query; queries that are
    /// certified on the way are not asked further.
    pub(crate) fn record(&mut self, rows: &Matrix, range: Range<usize>) -> Vec<Vec<Record>> {
        let exact = self.plan.exact_stage();
        let count = range.len();
        let mut records = vec![Vec::new(); count];
        let options = QueryOptions::default();
        self.memory.reset(count, exact.machine().scores().len());
        let trust = self.plan.trust();
        let mut tracker = DecisionTracker::new(exact, &options, &mut self.memory, None, trust);
        tracker.records = Some(&mut records);
        self.open.clear();
        self.open.extend(0..count as u32);
        let (own, open) = (&mut self.own, &mut self.open);
        let coordinates = &mut self.coordinates;
        let mut hands = Hands { own, open, coordinates, stages: &mut self.stages };
        hands.run(self.plan, rows, range, 0..self.plan.stages().len(), &mut tracker);
        records
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// What the stages work with.
struct Hands<'a> {
    own: &'a mut Vec<f64>,
    open: &'a mut Vec<u32>,
    coordinates: &'a mut Coordinates,
    stages: &'a mut [Box<dyn Any + Send>],
}

impl Hands<'_> {
    /// Some stages, as long as a query is open.
    fn run(
        &mut self,
        plan: &Plan,
        rows: &Matrix,
        range: Range<usize>,
        stages: Range<usize>,
        tracker: &mut DecisionTracker<'_>,
    ) {
        let exact = plan.exact_stage();
        self.coordinates.clear();
        self.own.clear();
        self.own.resize(range.len(), 0.0);
        let mut has_norms = false;
        tracker.stage = stages.start;
        let scratches = self.stages[stages.clone()].iter_mut();
        for (stage, scratch) in plan.stages()[stages].iter().zip(scratches) {
            if self.open.is_empty() {
                break;
            }
            if stage.needs_norms() && !has_norms {
                for query in self.open.iter() {
                    let row = rows.row(range.start + *query as usize);
                    let own = exact.packed().loose_squared_norm(row);
                    self.own[*query as usize] = own;
                    tracker.set_errors(*query, |errors| exact.errors(row, own, errors));
                }
                has_norms = true;
            }
            let (first, open) = (range.start, &mut *self.open);
            let mut block = Block::new(rows, first, exact, self.own, open, self.coordinates);
            stage.run(&mut block, tracker, scratch.as_mut());
            tracker.stage += 1;
        }
    }
}
