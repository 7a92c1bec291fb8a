//! How plans are timed: in turns, the best of several runs, so that other load on the computer hits all alike.
//!
//! Times come from a [`Clock`]; which plans are worth timing is decided in the phases.

use std::time::Duration;

use mercer_data::Matrix;
use mercer_query::{Plan, QueryError, QueryOptions};

use super::policy::{ScreenPolicy, TimingPolicy};
use super::{Aim, Clock, Stopwatch, TimedQueries};
use crate::CompileError;

/// A plan, how it is queried, and the queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runner<'a> {
    pub plan: &'a Plan,
    pub options: &'a QueryOptions,
    pub rows: &'a Matrix,
}

/// Seconds a query, in the best and the second best run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunTimes {
    pub best: f64,
    second: f64,
}

impl RunTimes {
    const NONE: Self = Self { best: f64::INFINITY, second: f64::INFINITY };

    fn add(&mut self, seconds: f64) {
        if seconds < self.best {
            *self = Self { best: seconds, second: self.best };
        } else {
            self.second = self.second.min(seconds);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.add(other.best);
        self.add(other.second);
    }

    /// By how much, as a share, two runs of the same plan differ.
    pub(super) fn noise(&self) -> f64 {
        if self.second.is_finite() { self.second / self.best - 1.0 } else { 0.0 }
    }

    pub(super) fn microseconds(&self) -> f64 {
        1e6 * self.best
    }
}

/// The times of several plans.
#[derive(Debug)]
pub(super) struct Comparison {
    pub times: Vec<RunTimes>,
    /// Which of them were dropped early for being slow.
    pub dropped: Vec<bool>,
}

/// Times plans by a clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timer<'a> {
    pub clock: &'a dyn Clock,
    pub policy: &'a TimingPolicy,
    pub aim: Aim,
    /// From then on each comparison ends after its first round.
    pub deadline: Duration,
}

impl Timer<'_> {
    pub(super) fn until(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    fn is_late(&self) -> bool {
        self.clock.now() >= self.deadline
    }

    pub(super) fn with_aim(self, aim: Aim) -> Self {
        Self { aim, ..self }
    }

    /// Times one plan.
    pub(super) fn time(&self, runner: Runner<'_>, rounds: usize) -> Result<RunTimes, QueryError> {
        Ok(self.compare(&[runner], rounds)?[0])
    }

    /// Times all plans in turns.
    pub(super) fn compare(
        &self,
        runners: &[Runner<'_>],
        rounds: usize,
    ) -> Result<Vec<RunTimes>, QueryError> {
        Ok(self.compare_and_drop(runners, rounds, f64::INFINITY)?.times)
    }

    /// Times all plans in turns. Those that need more than `give_up` times as long as the first are dropped after some
    /// runs.
    pub(super) fn compare_and_drop(
        &self,
        runners: &[Runner<'_>],
        rounds: usize,
        give_up: f64,
    ) -> Result<Comparison, QueryError> {
        let policy = self.policy;
        let mut times = vec![RunTimes::NONE; runners.len()];
        let mut dropped = vec![false; runners.len()];
        let mut stopwatches: Vec<Box<dyn Stopwatch + '_>> = Vec::new();
        let mut repeats = Vec::new();
        for Runner { plan, options, rows } in runners.iter().copied() {
            let queries = TimedQueries { plan, options, rows, aim: self.aim };
            let mut stopwatch = self.clock.stopwatch(queries)?;
            // To warm up, and to know how long a run is.
            let seconds = stopwatch.seconds(1)?;
            let fitting = policy.least_run / seconds.max(1e-9);
            repeats.push(fitting.clamp(1.0, policy.most_repeats) as usize);
            stopwatches.push(stopwatch);
        }
        let start = self.clock.now();
        let rows = |number: usize| runners[number].rows.rows().max(1) as f64;
        for round in 1..=rounds {
            for (number, stopwatch) in stopwatches.iter_mut().enumerate() {
                if dropped[number] {
                    continue;
                }
                let seconds = stopwatch.seconds(repeats[number])?;
                times[number].add(seconds / (repeats[number] as f64 * rows(number)));
            }
            for number in 1..runners.len() {
                let length = times[number].best * repeats[number] as f64 * rows(number);
                let is_sure = round >= policy.least_rounds || length > policy.sure_run;
                dropped[number] |= is_sure && times[number].best > give_up * times[0].best;
            }
            let is_decided = runners.len() > 1 && dropped[1..].iter().all(|dropped| *dropped);
            let spent = self.clock.now().saturating_sub(start).as_secs_f64();
            let is_long = round >= policy.least_rounds && spent > policy.long_comparison;
            if is_decided || is_long || self.is_late() {
                break;
            }
        }
        Ok(Comparison { times, dropped })
    }

    /// Compares a candidate with the best plan; it is dropped early if it is `give_up` times as slow. If it seems to win
    /// narrowly, both run on: among so many plans some are lucky in a few runs.
    pub(super) fn challenge(
        &self,
        runners: [Runner<'_>; 2],
        policy: &ScreenPolicy,
        give_up: f64,
    ) -> Result<Challenge, QueryError> {
        let Comparison { times, dropped } =
            self.compare_and_drop(&runners, policy.rounds, give_up)?;
        let [mut best, mut candidate] = [times[0], times[1]];
        if (policy.narrow..1.0).contains(&(candidate.best / best.best)) && !self.is_late() {
            let more = self.compare(&runners, policy.more_rounds)?;
            best.merge(&more[0]);
            candidate.merge(&more[1]);
        }
        Ok(Challenge { ratio: candidate.best / best.best, is_dropped: dropped[1] })
    }

    /// Mean seconds of plans over several memory layouts, all in turns. `load` loads plan number n anew, for reload
    /// number m; `queried` says how it is queried.
    pub(super) fn compare_over_reloads(
        &self,
        queried: &[(&QueryOptions, &Matrix)],
        mut load: impl FnMut(usize, usize) -> Result<Plan, CompileError>,
    ) -> Result<Vec<f64>, CompileError> {
        let (count, reloads) = (queried.len(), self.policy.reloads);
        let (mut seconds, mut made) = (vec![0.0; count], 0.0);
        for reload in 0..reloads {
            // In another order each time: memory that is freed is handed out again in the same pieces.
            let mut order: Vec<usize> = (0..count).collect();
            order.rotate_left(reload % count.max(1));
            let plans: Vec<Plan> =
                order.iter().map(|at| load(*at, reload)).collect::<Result<_, CompileError>>()?;
            let runners = order.iter().zip(&plans).map(|(at, plan)| {
                let (options, rows) = queried[*at];
                Runner { plan, options, rows }
            });
            let times = self.compare(&runners.collect::<Vec<_>>(), self.policy.reload_rounds)?;
            for (at, times) in order.iter().zip(&times) {
                seconds[*at] += times.best;
            }
            made += 1.0;
            if self.is_late() {
                break;
            }
        }
        Ok(seconds.into_iter().map(|seconds| seconds / made).collect())
    }

    /// A batch that is long for this plan, of rows repeated if they are few: queries that cheap stages leave open are
    /// gathered over a batch, and cost a query of a short batch far more. Nothing, if the rows that the runner has are
    /// as many.
    pub(super) fn long_batch(
        &self,
        runner: Runner<'_>,
        rows: &Matrix,
    ) -> Result<Option<Matrix>, QueryError> {
        let (few, many) = (runner.rows.rows(), rows.rows());
        if few == 0 || many == 0 {
            return Ok(None);
        }
        let policy = self.policy;
        let times = self.with_aim(Aim::Throughput).time(runner, policy.least_rounds)?;
        let fitting = (policy.long_batch / times.best.max(1e-12)) as usize;
        let bytes = (rows.bytes() / many).max(1);
        let count = fitting.min(policy.most_batch_rows).min(policy.most_batch_bytes / bytes);
        Ok((count > few).then(|| rows.select((0..count).map(|at| at % many))))
    }
}

/// A candidate beside the best plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Challenge {
    /// Its time over that of the best plan.
    pub ratio: f64,
    /// Whether it was dropped early.
    pub is_dropped: bool,
}

/// Rounds to six digits: a measurement has no more.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}
