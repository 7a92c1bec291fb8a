//! Where times come from: the real clock, or a simulated one for tests.
//!
//! Which plans are timed, how often and what follows from it is in `timing.rs`.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mercer_data::Matrix;
use mercer_query::{Plan, QueryError, QueryOptions};

use super::Aim;

/// A plan with the queries that it is timed on.
#[derive(Debug, Clone, Copy)]
pub struct TimedQueries<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// How it is queried.
    pub options: &'a QueryOptions,
    /// The queries.
    pub rows: &'a Matrix,
    /// All at once, or one after the other.
    pub aim: Aim,
}

/// A source of time: all decisions of `tune` that depend on time go through it.
pub trait Clock: Debug {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;

    /// Gets ready to time a plan on its queries.
    ///
    /// # Errors
    /// If a query cannot be answered.
    fn stopwatch<'a>(
        &'a self,
        queries: TimedQueries<'a>,
    ) -> Result<Box<dyn Stopwatch + 'a>, QueryError>;

    /// Called whenever the fitting of a stage reports progress.
    fn fit_progressed(&self) {}
}

/// Times one plan on its queries.
pub trait Stopwatch {
    /// Seconds that it takes to answer all queries so many times.
    ///
    /// # Errors
    /// If a query cannot be answered.
    fn seconds(&mut self, repeats: usize) -> Result<f64, QueryError>;
}

/// The computer's own clock: plans run, and their time is taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn stopwatch<'a>(
        &'a self,
        queries: TimedQueries<'a>,
    ) -> Result<Box<dyn Stopwatch + 'a>, QueryError> {
        Ok(Box::new(WallStopwatch { queries }))
    }
}

struct WallStopwatch<'a> {
    queries: TimedQueries<'a>,
}

impl Stopwatch for WallStopwatch<'_> {
    fn seconds(&mut self, repeats: usize) -> Result<f64, QueryError> {
        let TimedQueries { plan, options, rows, aim } = self.queries;
        let mut worker = plan.worker();
        let start = Instant::now();
        for _ in 0..repeats {
            match aim {
                Aim::Latency => {
                    for row in 0..rows.rows() {
                        std::hint::black_box(worker.decide(rows, row..row + 1, options)?);
                    }
                }
                Aim::Throughput => {
                    std::hint::black_box(plan.decide_with(rows, options)?);
                }
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

/// What takes how long on a [`SimulatedClock`], in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedCosts {
    /// A call, which answers one query or a whole batch.
    pub call: f64,
    /// A query.
    pub query: f64,
    /// Each stage that a query reaches, the exact one included.
    pub stage: f64,
    /// A multiply-add.
    pub multiply_add: f64,
    /// Each progress report of a fit.
    pub fit_progress: f64,
}

impl Default for SimulatedCosts {
    /// A slow computer: batches stay short, so that tests are fast.
    fn default() -> Self {
        Self { call: 1e-5, query: 2e-6, stage: 1e-6, multiply_add: 1e-7, fit_progress: 1e-3 }
    }
}

/// A clock that computes times from costs, so that a search is the same on every computer and waits for nothing.
///
/// A run takes `calls · call + queries · query + stages reached · stage + multiply-adds · multiply_add`. Time passes by
/// timing runs and by progress of fits only.
#[derive(Debug, Clone, Default)]
pub struct SimulatedClock {
    costs: SimulatedCosts,
    seconds: Cell<f64>,
}

impl SimulatedClock {
    /// A clock with these costs, at time zero.
    pub fn new(costs: SimulatedCosts) -> Self {
        Self { costs, seconds: Cell::new(0.0) }
    }

    fn advance(&self, seconds: f64) {
        self.seconds.set(self.seconds.get() + seconds);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.get())
    }

    fn stopwatch<'a>(
        &'a self,
        queries: TimedQueries<'a>,
    ) -> Result<Box<dyn Stopwatch + 'a>, QueryError> {
        let TimedQueries { plan, options, rows, aim } = queries;
        let answers = plan.decide_with(rows, options)?;
        let each = answers.decisions.iter().map(|decision| decision.cost.multiply_adds as f64);
        let multiply_adds: f64 = each.sum();
        let reached: f64 = answers.answered_by.iter().map(|stage| (stage + 1) as f64).sum();
        let count = rows.rows() as f64;
        let calls = if aim == Aim::Latency { count } else { 1.0 };
        let costs = &self.costs;
        let pass = calls * costs.call
            + count * costs.query
            + reached * costs.stage
            + multiply_adds * costs.multiply_add;
        Ok(Box::new(SimulatedStopwatch { clock: self, pass }))
    }

    fn fit_progressed(&self) {
        self.advance(self.costs.fit_progress);
    }
}

struct SimulatedStopwatch<'a> {
    clock: &'a SimulatedClock,
    pass: f64,
}

impl Stopwatch for SimulatedStopwatch<'_> {
    fn seconds(&mut self, repeats: usize) -> Result<f64, QueryError> {
        let seconds = repeats as f64 * self.pass;
        self.clock.advance(seconds);
        Ok(seconds)
    }
}
