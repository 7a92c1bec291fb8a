use mercer_machine::{Answer, Scale};

use crate::certify::Proved;
use crate::judge::Ranges;
use crate::{Certainty, Cost, Decision, Exact, Interval};

/// What the asker allows and demands.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryOptions {
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
    /// Whether it is an estimate with its calibrated width, not a proved range.
    pub is_estimate: bool,
}

/// What a level of a stage makes of a query without proof.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimate {
    /// The score of a machine that has only one.
    Score(f64),
    /// A class, and by how much it leads.
    Class {
        /// The class.
        class: usize,
        /// Its lead.
        margin: f64,
    },
}

/// A guess, and who made it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// The level, counted over the whole plan; none if a stage stopped the query by a rule of its own.
    pub level: Option<usize>,
    /// What it made of the query.
    pub guess: Estimate,
    /// How far the stage had come, in its own steps.
    pub progress: usize,
    /// What the query had cost by then.
    pub cost: Cost,
}

/// How far guesses are trusted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trust<'a> {
    /// First level of each stage.
    pub first: &'a [usize],
    pub scales: &'a [Scale],
    /// In spreads; infinite where nothing is trusted.
    pub threshold: f64,
    /// Whether the plan as it stands was tested on a sample.
    pub is_tested: bool,
}

/// Closes queries whose answer can no longer change; knows the vote, the budget and the observer.
#[derive(Debug)]
pub struct DecisionTracker<'a> {
    exact: &'a Exact,
    options: &'a QueryOptions,
    memory: &'a mut Memory,
    steps: Option<&'a mut Vec<Step>>,
    trust: Trust<'a>,
    /// Guesses of each query, where somebody gathers them; then none closes a query.
    pub(crate) records: Option<&'a mut [Vec<Record>]>,
    pub(crate) stage: usize,
}

/// What is known of the queries of a block; kept and reused.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub scores: usize,
    pub ranges: Vec<Interval>,
    /// eps_f of each score.
    pub errors: Vec<f64>,
    pub queries: Vec<Query>,
}

/// What is known of one query beside the ranges of its scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    pub state: State,
    pub cost: u64,
    pub decision: Option<Decision>,
    /// The last estimate, for queries whose budget ends.
    pub guess: Option<(Answer, Interval)>,
    /// Position of the stage that closed it.
    pub settled_by: usize,
}

impl Query {
    const NEW: Self =
        Self { state: State::Open, cost: 0, decision: None, guess: None, settled_by: 0 };

    /// The decision and who made it, if it is made.
    pub(crate) fn closed(&self) -> Option<(Decision, usize)> {
        Some((self.decision?, self.settled_by))
    }
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
        self.queries.clear();
        self.queries.resize(queries, Query::NEW);
    }
}

impl<'a> DecisionTracker<'a> {
    pub(crate) fn new(
        exact: &'a Exact,
        options: &'a QueryOptions,
        memory: &'a mut Memory,
        steps: Option<&'a mut Vec<Step>>,
        trust: Trust<'a>,
    ) -> Self {
        Self { exact, options, memory, steps, trust, records: None, stage: 0 }
    }

    /// Whether a query still waits for its answer from a certifying stage.
    pub fn is_open(&self, query: u32) -> bool {
        self.memory.queries[query as usize].state == State::Open
    }

    /// Pays for work on a query before it is done; returns whether the query is still open. If the budget
    /// does not suffice it closes as unsettled, or goes to the exact stage if the asker requires proof.
    pub fn charge(&mut self, query: u32, multiply_adds: u64) -> bool {
        let query = query as usize;
        if self.memory.queries[query].state != State::Open {
            return false;
        }
        let cost = self.memory.queries[query].cost.saturating_add(multiply_adds);
        if self.options.budget.is_none_or(|budget| cost <= budget) {
            self.memory.queries[query].cost = cost;
            return true;
        }
        match self.options.require {
            Require::Certified => self.memory.queries[query].state = State::Exact,
            Require::Nothing => {
                let guess = self.memory.queries[query].guess;
                let (answer, score) = guess.unwrap_or_else(|| self.ranges(query).guess());
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
        self.note(query, score, range, progress, Told::Proof);
    }

    /// Tells the observer, if there is one, what is known between two proofs; changes nothing.
    pub fn observe(&mut self, query: u32, score: usize, range: Proved, progress: usize) {
        self.note(query, score, range.interval(), progress, Told::Between);
    }

    /// Whether somebody watches, so that steps in between are worth showing.
    pub fn is_observed(&self) -> bool {
        self.steps.is_some()
    }

    fn note(&mut self, query: u32, score: usize, range: Interval, progress: usize, told: Told) {
        let cost = Cost { multiply_adds: self.memory.queries[query as usize].cost };
        if let Some(steps) = &mut self.steps {
            let (is_between, is_estimate) = (told == Told::Between, told == Told::Estimate);
            let stage = self.stage;
            steps.push(Step { stage, score, progress, range, cost, is_between, is_estimate });
        }
    }

    /// Takes note of what a level of the stage makes of a query, without proof; closes the query as
    /// calibrated if that lies further from a change of label than the plan's width. Returns whether the
    /// query is open.
    pub fn estimate(&mut self, query: u32, level: usize, guess: Estimate) -> bool {
        let at = query as usize;
        if self.memory.queries[at].state != State::Open {
            return false;
        }
        let number = self.trust.first[self.stage] + level;
        if let Some(records) = &mut self.records {
            let cost = Cost { multiply_adds: self.memory.queries[at].cost };
            records[at].push(Record { level: Some(number), guess, progress: level, cost });
            return true;
        }
        let Some(scale) = self.trust.scales.get(number) else { return true };
        let (value, strength) = guess.scaled(scale);
        if !value.is_finite() {
            return true;
        }
        let answer = match guess {
            Estimate::Score(_) => self.exact.machine().verdict(&[value]).answer,
            Estimate::Class { class, .. } => Answer::Class(class),
        };
        let range = Interval::around(value, self.trust.threshold * scale.residual_rms);
        self.note(query, 0, range, level, Told::Estimate);
        self.memory.queries[at].guess = Some((answer, range));
        // Who requires proof gets none here.
        let is_open =
            strength <= self.trust.threshold || self.options.require == Require::Certified;
        if !is_open {
            self.close(at, answer, range, Certainty::Calibrated);
        }
        is_open
    }

    /// Closes a query because the stage's own rule says so, without proof: calibrated if the plan was tested
    /// as it stands, unsettled if it never was. Who requires proof, and numbers that overflowed, leave it
    /// open. Returns whether the query is open.
    pub fn stop(&mut self, query: u32, guess: Estimate, progress: usize) -> bool {
        let at = query as usize;
        if self.memory.queries[at].state != State::Open {
            return false;
        }
        let (answer, value) = match guess {
            Estimate::Score(score) => (self.exact.machine().verdict(&[score]).answer, score),
            Estimate::Class { class, margin } => (Answer::Class(class), margin),
        };
        if !value.is_finite() {
            return true;
        }
        if let Some(records) = &mut self.records {
            let cost = Cost { multiply_adds: self.memory.queries[at].cost };
            records[at].push(Record { level: None, guess, progress, cost });
            self.memory.queries[at].state = State::Closed;
            return false;
        }
        // Such a rule knows no width.
        let range = Interval { low: value, high: value };
        self.note(query, 0, range, progress, Told::Estimate);
        self.memory.queries[at].guess = Some((answer, range));
        if self.options.require == Require::Certified {
            return true;
        }
        let is_tested = self.trust.is_tested;
        let certainty = if is_tested { Certainty::Calibrated } else { Certainty::Unsettled };
        self.close(at, answer, range, certainty);
        false
    }

    /// Closes the query if no score within its ranges changes the answer; returns whether it is open.
    pub fn judge(&mut self, query: u32) -> bool {
        let query = query as usize;
        if self.memory.queries[query].state != State::Open {
            return false;
        }
        if let Some((answer, score)) = self.ranges(query).settled(self.options.tolerance) {
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
        match self.memory.queries[at].state {
            State::Closed => false,
            State::Exact => {
                self.memory.queries[at].cost += cost.multiply_adds;
                true
            }
            State::Open => {
                if self.charge(query, cost.multiply_adds) {
                    return true;
                }
                if self.memory.queries[at].state == State::Exact {
                    self.memory.queries[at].cost += cost.multiply_adds;
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
            self.note(query as u32, 0, score, 0, Told::Proof);
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
            self.note(query, score, range, 0, Told::Proof);
        }
    }

    fn ranges(&self, query: usize) -> Ranges<'_> {
        let Memory { scores, ranges, errors, .. } = &*self.memory;
        let place = query * scores..(query + 1) * scores;
        let machine = self.exact.machine();
        Ranges { machine, ranges: &ranges[place.clone()], errors: &errors[place] }
    }

    fn close(&mut self, query: usize, answer: Answer, score: Interval, certainty: Certainty) {
        let cost = Cost { multiply_adds: self.memory.queries[query].cost };
        self.memory.queries[query].decision = Some(Decision { answer, score, certainty, cost });
        self.memory.queries[query].state = State::Closed;
        self.memory.queries[query].settled_by = self.stage;
    }
}

/// What is told to an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Proof,
    Between,
    Estimate,
}

impl Estimate {
    /// The estimate, and its distance from a change of label in spreads; never a strong one if anything
    /// overflowed.
    pub fn scaled(self, scale: &Scale) -> (f64, f64) {
        let (raw, is_signed) = match self {
            Self::Score(score) => (score, true),
            Self::Class { margin, .. } => (margin, false),
        };
        let value = scale.slope * raw + scale.shift;
        let distance = if is_signed { value.abs() } else { value };
        let strength = distance / scale.residual_rms;
        (value, if strength.is_finite() { strength } else { 0.0 })
    }
}
