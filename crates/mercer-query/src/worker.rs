use std::any::Any;
use std::ops::Range;

use mercer_data::Matrix;

use crate::closer::{Asking, Closer, Memory, Record, State, Step};
use crate::exact::Scratch;
use crate::stage::Block;
use crate::stages::Coordinates;
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
            exact: plan.closing().scratch(),
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
        asking: &Asking,
    ) -> Result<&[Decision], QueryError> {
        self.decisions.clear();
        let size = self.plan.closing().block();
        for first in range.clone().step_by(size) {
            self.block(rows, first..(first + size).min(range.end), asking, None)?;
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
        asking: &Asking,
        steps: &mut Vec<Step>,
    ) -> Result<(Decision, usize), QueryError> {
        steps.clear();
        self.block(rows, row..row + 1, asking, Some(steps))?;
        let query = self.memory.queries[0];
        Ok((query.decision.expect("the exact stage leaves nothing open"), query.closed_by))
    }

    /// One block; the decisions and who made them stay in the memory.
    pub(crate) fn block(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        asking: &Asking,
        mut steps: Option<&mut Vec<Step>>,
    ) -> Result<(), QueryError> {
        let (first, stages) = (range.start, 0..self.plan.stages().len());
        self.memory.reset(range.len(), self.plan.closing().machine().scores().len());
        self.narrow(rows, range, stages, asking, steps.as_deref_mut());
        self.close(rows, first, asking, steps)
    }

    /// The stages of a block before [`Plan::gathers_at`]; what they leave open stays so in the memory.
    pub(crate) fn begin(&mut self, rows: &Matrix, range: Range<usize>, asking: &Asking) {
        self.memory.reset(range.len(), self.plan.closing().machine().scores().len());
        self.narrow(rows, range, 0..self.plan.gathers_at(), asking, None);
    }

    /// The stages from [`Plan::gathers_at`] on, for queries that other blocks left open.
    pub(crate) fn end(
        &mut self,
        rows: &Matrix,
        left: impl FnOnce(&mut Memory),
        asking: &Asking,
    ) -> Result<(), QueryError> {
        self.memory.reset(rows.rows(), self.plan.closing().machine().scores().len());
        left(&mut self.memory);
        let stages = self.plan.gathers_at()..self.plan.stages().len();
        self.narrow(rows, 0..rows.rows(), stages, asking, None);
        self.close(rows, 0, asking, None)
    }

    /// Some stages, none of them the exact one, for the queries that are open in the memory.
    fn narrow(
        &mut self,
        rows: &Matrix,
        range: Range<usize>,
        stages: Range<usize>,
        asking: &Asking,
        steps: Option<&mut Vec<Step>>,
    ) {
        let (plan, memory) = (self.plan, &mut self.memory);
        self.open.clear();
        let queries = (0..).zip(&memory.queries);
        self.open.extend(queries.filter(|(_, query)| query.state == State::Open).map(|(at, _)| at));
        if stages.is_empty() {
            return;
        }
        let mut closer = Closer::new(plan.closing(), asking, memory, steps, plan.trust());
        let (own, open, coordinates) = (&mut self.own, &mut self.open, &mut self.coordinates);
        let mut hands = Hands { own, open, coordinates, stages: &mut self.stages };
        hands.run(plan, rows, range, stages, &mut closer);
    }

    /// The exact stage, for all that the memory does not hold as closed.
    fn close(
        &mut self,
        rows: &Matrix,
        first: usize,
        asking: &Asking,
        steps: Option<&mut Vec<Step>>,
    ) -> Result<(), QueryError> {
        let exact = self.plan.closing();
        let all = 0..self.memory.queries.len() as u32;
        let trust = self.plan.trust();
        let mut closer = Closer::new(exact, asking, &mut self.memory, steps, trust);
        closer.stage = self.plan.stages().len();
        self.open.clear();
        self.open.extend(all.filter(|query| closer.charge_exact(*query, exact.cost())));
        if self.open.is_empty() {
            return Ok(());
        }
        let left = self.open.iter().map(|query| rows.row(first + *query as usize));
        let decided = exact.decide(left, 0, &mut self.exact, &mut self.answers);
        decided.map_err(|error| error.moved(|row| first + self.open[row - 1] as usize + 1))?;
        for (query, decision) in self.open.iter().zip(&self.answers) {
            let count = exact.machine().scores().len();
            if closer.is_observed() && count > 1 {
                let row = rows.row(first + *query as usize);
                let (mut scores, mut errors) = (vec![0.0; count], vec![0.0; count]);
                exact.scores(std::iter::once(row), &mut self.exact, &mut scores);
                exact.errors(row, exact.packed().loose_self_sum(row), &mut errors);
                closer.observe_exact(*query, &scores, &errors);
            }
            closer.settle(*query, *decision);
        }
        Ok(())
    }

    /// What each level of each stage makes of the rows, if none of them stops a query; queries that are
    /// certified on the way are not asked further.
    pub(crate) fn record(&mut self, rows: &Matrix, range: Range<usize>) -> Vec<Vec<Record>> {
        let exact = self.plan.closing();
        let count = range.len();
        let mut records = vec![Vec::new(); count];
        let asking = Asking::default();
        self.memory.reset(count, exact.machine().scores().len());
        let trust = self.plan.trust();
        let mut closer = Closer::new(exact, &asking, &mut self.memory, None, trust);
        closer.records = Some(&mut records);
        self.open.clear();
        self.open.extend(0..count as u32);
        let (own, open) = (&mut self.own, &mut self.open);
        let coordinates = &mut self.coordinates;
        let mut hands = Hands { own, open, coordinates, stages: &mut self.stages };
        hands.run(self.plan, rows, range, 0..self.plan.stages().len(), &mut closer);
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
        closer: &mut Closer<'_>,
    ) {
        let exact = plan.closing();
        self.coordinates.clear();
        self.own.clear();
        self.own.resize(range.len(), 0.0);
        let mut has_norms = false;
        closer.stage = stages.start;
        let scratches = self.stages[stages.clone()].iter_mut();
        for (stage, scratch) in plan.stages()[stages].iter().zip(scratches) {
            if self.open.is_empty() {
                break;
            }
            if stage.needs_norms() && !has_norms {
                for query in self.open.iter() {
                    let row = rows.row(range.start + *query as usize);
                    let own = exact.packed().loose_self_sum(row);
                    self.own[*query as usize] = own;
                    closer.set_errors(*query, |errors| exact.errors(row, own, errors));
                }
                has_norms = true;
            }
            let (first, open) = (range.start, &mut *self.open);
            let mut block = Block::new(rows, first, exact, self.own, open, self.coordinates);
            stage.run(&mut block, closer, scratch.as_mut());
            closer.stage += 1;
        }
    }
}
