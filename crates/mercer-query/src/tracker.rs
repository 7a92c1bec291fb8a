//! The decision tracker: collects what stages prove and estimate of each query of a block, and answers a query when its
//! label can no longer change or its budget is spent. It knows the vote, the calibration, the budget and the observer of `explain`. It computes no scores.

use mercer_machine::{Answer, Scale};

use crate::block_state::{BlockState, QueryState};
use crate::certify::Proved;
use crate::label_from_ranges::ScoreRanges;
use crate::options::{Estimate, ExplanationStep, QueryOptions, Record, Require};
use crate::set_from_ranges::SetRule;
use crate::{Certainty, Cost, Decision, Exact, Interval};

/// The calibration in force: when an estimate answers a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActiveCalibration<'a> {
    /// First level of each stage.
    pub first: &'a [usize],
    pub scales: &'a [Scale],
    /// Acceptance threshold in residual RMS; infinite where no estimate is accepted.
    pub threshold: f64,
    /// Whether the whole plan was tested on a sample.
    pub is_tested: bool,
}

/// Answers queries whose label can no longer change; knows the vote, the calibration, the budget and the observer.
#[derive(Debug)]
pub struct DecisionTracker<'a> {
    exact: &'a Exact,
    options: &'a QueryOptions,
    block: &'a mut BlockState,
    steps: Option<&'a mut Vec<ExplanationStep>>,
    calibration: ActiveCalibration<'a>,
    /// Estimates of each query, where they are recorded for calibration; then no estimate answers a query.
    pub(crate) records: Option<&'a mut [Vec<Record>]>,
    /// Where prediction sets are asked for in place of answers: a query is done once its set can no longer change. It then has no
    /// decision; the set is in its ranges.
    pub(crate) sets: Option<SetRule>,
    pub(crate) stage: usize,
}

impl<'a> DecisionTracker<'a> {
    pub(crate) fn new(
        exact: &'a Exact,
        options: &'a QueryOptions,
        block: &'a mut BlockState,
        steps: Option<&'a mut Vec<ExplanationStep>>,
        calibration: ActiveCalibration<'a>,
    ) -> Self {
        Self { exact, options, block, steps, calibration, records: None, sets: None, stage: 0 }
    }

    /// Whether stages still work on a query.
    pub fn is_open(&self, query: u32) -> bool {
        self.block.queries[query as usize].state == QueryState::Open
    }

    /// Charges work on a query before it is done; returns whether the query is still open. If the budget does not
    /// suffice, the query gets an unsettled answer, or goes to the exact stage if proof is required.
    pub fn charge(&mut self, query: u32, multiply_adds: u64) -> bool {
        let query = query as usize;
        if self.block.queries[query].state != QueryState::Open {
            return false;
        }
        let cost = self.block.queries[query].cost.saturating_add(multiply_adds);
        if self.options.budget.is_none_or(|budget| cost <= budget) {
            self.block.queries[query].cost = cost;
            return true;
        }
        match self.options.require {
            Require::Certified => self.block.queries[query].state = QueryState::NeedsExact,
            Require::Nothing => {
                let estimate = self.block.queries[query].estimate;
                let (answer, range) =
                    estimate.unwrap_or_else(|| self.ranges(query).best_estimate());
                self.answer(query, answer, range, Certainty::Unsettled);
            }
        }
        false
    }

    /// Intersects the range of a score with a proved one, so that ranges never widen. `progress` is the stage's own count
    /// of steps.
    pub fn prove(&mut self, query: u32, score: usize, range: Proved, progress: usize) {
        let proved_before = &mut self.block.ranges[query as usize * self.block.scores + score];
        // Two true ranges intersect; a damaged plan must not make an empty range.
        let range = proved_before.intersection(range.interval()).unwrap_or(*proved_before);
        *proved_before = range;
        self.note(query, score, range, progress, StepKind::Proved);
    }

    /// Shows the observer, if there is one, a range between two that decisions rest on; changes nothing.
    pub fn observe(&mut self, query: u32, score: usize, range: Proved, progress: usize) {
        self.note(query, score, range.interval(), progress, StepKind::Between);
    }

    /// Whether there is an observer, so that ranges in between are worth computing.
    pub fn is_observed(&self) -> bool {
        self.steps.is_some()
    }

    /// Tells the observer the range of a score.
    fn note(&mut self, query: u32, score: usize, range: Interval, progress: usize, kind: StepKind) {
        let cost = Cost { multiply_adds: self.block.queries[query as usize].cost };
        if let Some(steps) = &mut self.steps {
            let (is_between, is_estimate) = (kind == StepKind::Between, kind == StepKind::Estimate);
            let stage = self.stage;
            steps.push(ExplanationStep {
                stage,
                score,
                progress,
                range,
                cost,
                is_between,
                is_estimate,
            });
        }
    }

    /// Takes an estimate of a level of the stage; answers the query as calibrated if the estimate is farther from a
    /// change of label than the plan's acceptance threshold. Returns whether the query is open.
    pub fn estimate(&mut self, query: u32, level: usize, estimate: Estimate) -> bool {
        let at = query as usize;
        if self.block.queries[at].state != QueryState::Open {
            return false;
        }
        let number = self.calibration.first[self.stage] + level;
        if let Some(records) = &mut self.records {
            let cost = Cost { multiply_adds: self.block.queries[at].cost };
            records[at].push(Record { level: Some(number), estimate, progress: level, cost });
            return true;
        }
        let Some(scale) = self.calibration.scales.get(number) else { return true };
        let (value, strength) = estimate.scaled(scale);
        if !value.is_finite() {
            return true;
        }
        let answer = match estimate {
            Estimate::Score(_) => self.answer_at(value),
            Estimate::Class { class, .. } => Answer::Class(class),
        };
        let range = Interval::around(value, self.calibration.threshold * scale.residual_rms);
        self.note(query, 0, range, level, StepKind::Estimate);
        self.block.queries[at].estimate = Some((answer, range));
        let is_open = strength <= self.calibration.threshold || self.needs_proof();
        if !is_open {
            self.answer(at, answer, range, Certainty::Calibrated);
        }
        is_open
    }

    /// Answers a query because a rule of the stage says so, without proof: calibrated if the whole plan was tested,
    /// unsettled if it never was. If proof is required or a number overflowed, it stays open. Returns whether it is open.
    pub fn stop_by_rule(&mut self, query: u32, estimate: Estimate, progress: usize) -> bool {
        let at = query as usize;
        if self.block.queries[at].state != QueryState::Open {
            return false;
        }
        let (answer, value) = match estimate {
            Estimate::Score(score) => (self.answer_at(score), score),
            Estimate::Class { class, margin } => (Answer::Class(class), margin),
        };
        if !value.is_finite() {
            return true;
        }
        if let Some(records) = &mut self.records {
            let cost = Cost { multiply_adds: self.block.queries[at].cost };
            records[at].push(Record { level: None, estimate, progress, cost });
            self.block.queries[at].state = QueryState::Answered;
            return false;
        }
        // Such a rule has no acceptance threshold.
        let range = Interval { low: value, high: value };
        self.note(query, 0, range, progress, StepKind::Estimate);
        self.block.queries[at].estimate = Some((answer, range));
        if self.needs_proof() {
            return true;
        }
        let is_tested = self.calibration.is_tested;
        let certainty = if is_tested { Certainty::Calibrated } else { Certainty::Unsettled };
        self.answer(at, answer, range, certainty);
        false
    }

    /// Answers the query if no score within its ranges changes the answer; returns whether it is open.
    pub fn settle_if_proved(&mut self, query: u32) -> bool {
        let query = query as usize;
        if self.block.queries[query].state != QueryState::Open {
            return false;
        }
        if let Some(rule) = self.sets {
            let is_open = self.ranges(query).members(rule).is_none();
            if !is_open {
                self.block.queries[query].state = QueryState::Answered;
            }
            return is_open;
        }
        if let Some((answer, range)) = self.ranges(query).settled(self.options.tolerance) {
            self.answer(query, answer, range, Certainty::Certified);
            return false;
        }
        true
    }

    /// Lists the scores of an open query that can still change its answer.
    pub fn undecided_scores(&self, query: u32, out: &mut Vec<u32>) {
        match self.sets {
            Some(rule) => self.ranges(query as usize).undecided_of_set(rule, out),
            None => self.ranges(query as usize).undecided(out),
        }
    }

    /// Sets the rounding bounds of the exact scores of a query; until then no range certifies its label.
    pub(crate) fn set_rounding_bounds(&mut self, query: u32, fill: impl FnOnce(&mut [f64])) {
        let scores = self.block.scores;
        let start = query as usize * scores;
        fill(&mut self.block.rounding_bounds[start..start + scores]);
    }

    /// Charges the exact evaluation of a query; returns whether it is to run.
    pub(crate) fn charge_exact(&mut self, query: u32, cost: Cost) -> bool {
        let at = query as usize;
        match self.block.queries[at].state {
            QueryState::Answered => false,
            QueryState::NeedsExact => {
                self.block.queries[at].cost += cost.multiply_adds;
                true
            }
            QueryState::Open => {
                if self.charge(query, cost.multiply_adds) {
                    return true;
                }
                if self.block.queries[at].state == QueryState::NeedsExact {
                    self.block.queries[at].cost += cost.multiply_adds;
                    return true;
                }
                false
            }
        }
    }

    /// Answers a query by the exact stage. Its range keeps what was proved before.
    pub(crate) fn answer_exactly(&mut self, query: u32, exact: Decision) {
        let query = query as usize;
        let mut range = exact.range;
        if self.block.scores == 1 {
            range = range.intersection(self.block.ranges[query]).unwrap_or(range);
            self.note(query as u32, 0, range, 0, StepKind::Proved);
        }
        self.answer(query, exact.answer, range, Certainty::Exact);
    }

    /// Shows the observer the exact range of each of several scores, intersected with what was proved before.
    pub(crate) fn observe_exact(&mut self, query: u32, scores: &[f64], rounding_bounds: &[f64]) {
        for (score, (value, rounding_bound)) in scores.iter().zip(rounding_bounds).enumerate() {
            let range = Interval::around(*value, *rounding_bound);
            let proved_before = self.block.ranges[query as usize * self.block.scores + score];
            let range = range.intersection(proved_before).unwrap_or(range);
            self.note(query, score, range, 0, StepKind::Proved);
        }
    }

    /// Whether no estimate may answer: proof is required, or the calibration was tested against another threshold.
    fn needs_proof(&self) -> bool {
        self.options.require == Require::Certified || self.options.threshold.is_some()
    }

    /// The answer of a single score.
    fn answer_at(&self, score: f64) -> Answer {
        self.exact.machine().output().answer_at(score, self.options.border())
    }

    fn ranges(&self, query: usize) -> ScoreRanges<'_> {
        self.block.score_ranges(query, self.exact.machine(), self.options.border())
    }

    fn answer(&mut self, query: usize, answer: Answer, range: Interval, certainty: Certainty) {
        let cost = Cost { multiply_adds: self.block.queries[query].cost };
        self.block.queries[query].decision = Some(Decision { answer, range, certainty, cost });
        self.block.queries[query].state = QueryState::Answered;
        self.block.queries[query].answered_by = self.stage;
    }
}

/// What a step of `explain` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Proved,
    Between,
    Estimate,
}
