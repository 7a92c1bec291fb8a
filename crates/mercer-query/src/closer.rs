use crate::certify::Proved;
use crate::judge::Ranges;
use crate::{Certainty, Cost, Decision, Exact, Interval};

/// What the asker allows and demands.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Asking {
    /// Most multiply-adds that one query may cost; none means no limit.
    pub budget: Option<u64>,
    /// Half-width at which the value of a regression is settled; without one only exact values are.
    pub tolerance: Option<f64>,
    /// What to do when the budget does not suffice.
    pub require: Require,
}

/// What to do when the budget does not suffice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Require {
    /// The best guess is good enough, marked [`Certainty::Unsettled`].
    #[default]
    Nothing,
    /// The query goes on to the exact stage, budget or not.
    Certified,
}

/// One thing learned about one query, for `explain`.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Position of the stage in the plan.
    pub stage: usize,
    /// Which score.
    pub score: usize,
    /// How far the stage had come, in its own steps; eigenvectors for `spectral`.
    pub progress: usize,
    /// The range of the score known by then.
    pub range: Interval,
    /// What the query had cost by then.
    pub cost: Cost,
    /// Whether the range was only shown between two proofs, and nothing rests on it.
    pub is_between: bool,
}

/// Closes queries whose answer can no longer change; knows the vote, the budget and the observer.
#[derive(Debug)]
pub struct Closer<'a> {
    exact: &'a Exact,
    asking: &'a Asking,
    memory: &'a mut Memory,
    steps: Option<&'a mut Vec<Step>>,
    pub(crate) stage: usize,
}

/// What is known of the queries of a block; kept and reused.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub scores: usize,
    pub ranges: Vec<Interval>,
    /// eps_f of each score.
    pub errors: Vec<f64>,
    pub states: Vec<State>,
    pub costs: Vec<u64>,
    pub decisions: Vec<Option<Decision>>,
    /// Position of the stage that closed a query.
    pub closed_by: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    /// The budget is spent, and only exact will do.
    Exact,
    Closed,
}

impl Memory {
    pub(crate) fn reset(&mut self, queries: usize, scores: usize) {
        let everything = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        self.scores = scores;
        self.ranges.clear();
        self.ranges.resize(queries * scores, everything);
        self.errors.clear();
        self.errors.resize(queries * scores, f64::INFINITY);
        self.states.clear();
        self.states.resize(queries, State::Open);
        self.costs.clear();
        self.costs.resize(queries, 0);
        self.decisions.clear();
        self.decisions.resize(queries, None);
        self.closed_by.clear();
        self.closed_by.resize(queries, 0);
    }
}

impl<'a> Closer<'a> {
    pub(crate) fn new(
        exact: &'a Exact,
        asking: &'a Asking,
        memory: &'a mut Memory,
        steps: Option<&'a mut Vec<Step>>,
    ) -> Self {
        Self { exact, asking, memory, steps, stage: 0 }
    }

    /// Whether a query still waits for its answer from a certifying stage.
    pub fn is_open(&self, query: u32) -> bool {
        self.memory.states[query as usize] == State::Open
    }

    /// Pays for work on a query before it is done; returns whether the query is still open. If the budget
    /// does not suffice it closes as unsettled, or goes to the exact stage if the asker requires proof.
    pub fn charge(&mut self, query: u32, multiply_adds: u64) -> bool {
        let query = query as usize;
        if self.memory.states[query] != State::Open {
            return false;
        }
        let cost = self.memory.costs[query].saturating_add(multiply_adds);
        if self.asking.budget.is_none_or(|budget| cost <= budget) {
            self.memory.costs[query] = cost;
            return true;
        }
        match self.asking.require {
            Require::Certified => self.memory.states[query] = State::Exact,
            Require::Nothing => {
                let (answer, score) = self.ranges(query).guess();
                self.close(query, answer, score, Certainty::Unsettled);
            }
        }
        false
    }

    /// Takes note of a proved range; what was known before is kept, so ranges never widen. `progress` is
    /// the stage's own count of steps.
    pub fn prove(&mut self, query: u32, score: usize, range: Proved, progress: usize) {
        let place = &mut self.memory.ranges[query as usize * self.memory.scores + score];
        let new = range.interval();
        let met = Interval { low: place.low.max(new.low), high: place.high.min(new.high) };
        // Two true ranges meet; a plan that lies about its constants must not make an empty one.
        if met.low <= met.high {
            *place = met;
        }
        let range = *place;
        self.note(query, score, range, progress, false);
    }

    /// Tells the observer, if there is one, what is known between two proofs; changes nothing.
    pub fn observe(&mut self, query: u32, score: usize, range: Proved, progress: usize) {
        self.note(query, score, range.interval(), progress, true);
    }

    /// Whether somebody watches, so that steps in between are worth showing.
    pub fn is_observed(&self) -> bool {
        self.steps.is_some()
    }

    fn note(
        &mut self,
        query: u32,
        score: usize,
        range: Interval,
        progress: usize,
        is_between: bool,
    ) {
        let cost = Cost { multiply_adds: self.memory.costs[query as usize] };
        if let Some(steps) = &mut self.steps {
            steps.push(Step { stage: self.stage, score, progress, range, cost, is_between });
        }
    }

    /// Closes the query if no score within its ranges changes the answer; returns whether it is open.
    pub fn judge(&mut self, query: u32) -> bool {
        let query = query as usize;
        if self.memory.states[query] != State::Open {
            return false;
        }
        if let Some((answer, score)) = self.ranges(query).settled(self.asking.tolerance) {
            self.close(query, answer, score, Certainty::Certified);
            return false;
        }
        true
    }

    /// Lists the scores of an open query that can still change its answer.
    pub fn wanted(&self, query: u32, out: &mut Vec<u32>) {
        self.ranges(query as usize).wanted(out);
    }

    /// The rounding bounds of the exact evaluation of a query; without them nothing certifies.
    pub(crate) fn set_errors(&mut self, query: u32, fill: impl FnOnce(&mut [f64])) {
        let scores = self.memory.scores;
        let start = query as usize * scores;
        fill(&mut self.memory.errors[start..start + scores]);
    }

    /// Pays for the exact evaluation of what is left; returns whether it may run.
    pub(crate) fn charge_exact(&mut self, query: u32, cost: Cost) -> bool {
        let at = query as usize;
        match self.memory.states[at] {
            State::Closed => false,
            State::Exact => {
                self.memory.costs[at] += cost.multiply_adds;
                true
            }
            State::Open => {
                if self.charge(query, cost.multiply_adds) {
                    return true;
                }
                if self.memory.states[at] == State::Exact {
                    self.memory.costs[at] += cost.multiply_adds;
                    return true;
                }
                false
            }
        }
    }

    /// Closes a query with the answer of the exact stage. Its range keeps what was proved before.
    pub(crate) fn settle(&mut self, query: u32, exact: Decision) {
        let query = query as usize;
        let mut score = exact.score;
        if self.memory.scores == 1 {
            let known = self.memory.ranges[query];
            let met = Interval { low: score.low.max(known.low), high: score.high.min(known.high) };
            if met.low <= met.high {
                score = met;
            }
            self.note(query as u32, 0, score, 0, false);
        }
        self.close(query, exact.answer, score, Certainty::Exact);
    }

    /// Tells the observer the exact range of each of several scores, met with what was proved before.
    pub(crate) fn observe_exact(&mut self, query: u32, scores: &[f64], errors: &[f64]) {
        for (score, (value, error)) in scores.iter().zip(errors).enumerate() {
            let range = Interval::around(*value, *error);
            let known = self.memory.ranges[query as usize * self.memory.scores + score];
            let met = Interval { low: range.low.max(known.low), high: range.high.min(known.high) };
            let range = if met.low <= met.high { met } else { range };
            self.note(query, score, range, 0, false);
        }
    }

    fn ranges(&self, query: usize) -> Ranges<'_> {
        let Memory { scores, ranges, errors, .. } = &*self.memory;
        let place = query * scores..(query + 1) * scores;
        let machine = self.exact.machine();
        Ranges { machine, ranges: &ranges[place.clone()], errors: &errors[place] }
    }

    fn close(
        &mut self,
        query: usize,
        answer: mercer_machine::Answer,
        score: Interval,
        certainty: Certainty,
    ) {
        let cost = Cost { multiply_adds: self.memory.costs[query] };
        self.memory.decisions[query] = Some(Decision { answer, score, certainty, cost });
        self.memory.states[query] = State::Closed;
        self.memory.closed_by[query] = self.stage;
    }
}
