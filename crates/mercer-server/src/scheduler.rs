//! When a request runs: at once on the caller's thread if it is small, else in one queue for all models. What the server takes
//! on is bounded in expected time (`scheduler/load.rs`); the threads are in `scheduler/workers.rs`.
//!
//! Answers do not depend on any of this: a decision is a function of the model, the row and the cost limit alone.

mod bound;
mod deadline;
mod load;
#[cfg(test)]
mod tests;
mod workers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mercer_data::Matrix;
use mercer_query::{Decision, QueryError, QueryOptions, Require};
use tokio::sync::oneshot;

use self::bound::Bound;
use self::deadline::{Deadline, limited};
use self::load::Load;
pub use self::load::{Expected, Reservation};
use self::workers::{PartResult, SomeRows, WaitingPart, WorkQueue, decide, work};
use crate::failure::{Failure, Kind, Shed};
use crate::served::ServedModel;

/// Rows of a batch, at most: longer requests are cut, so that all workers share them.
const BATCH: usize = 2048;

/// The answers to a request, or to a part of it, and what became of its time.
#[derive(Debug)]
pub struct Answered {
    /// A decision for each row.
    pub decisions: Vec<Decision>,
    /// The limit of cost that was in force.
    pub budget: Option<u64>,
    /// Time in the queue.
    pub queue: Duration,
    /// Time of the work.
    pub compute: Duration,
    /// Rows that were answered together.
    pub batch: usize,
}

/// What is to be done when the server has taken on as much as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overload {
    /// Requests are refused.
    #[default]
    Shed,
    /// Requests get smaller budgets first.
    Degrade,
}

/// The queue and its workers.
#[derive(Debug)]
pub struct Scheduler {
    queue: Arc<WorkQueue>,
    load: Arc<Load>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    threads: u64,
    bound: Bound,
    /// Requests that are expected to take no more nanoseconds run on the caller's thread: handing them over takes about as long.
    inline: u64,
    overload: Overload,
    degraded: AtomicU64,
}

/// A request for the scheduler.
#[derive(Debug)]
pub struct Work {
    /// The model.
    pub served: Arc<ServedModel>,
    /// The rows, as the machine expects them.
    pub rows: Matrix,
    /// How they are asked.
    pub options: QueryOptions,
    /// When the request came, and the time that its caller gives it.
    pub deadline: Option<Instant>,
}

impl Scheduler {
    /// Starts so many workers; `limit` is the time within which all that is taken on is expected to be done, `inline` the expected
    /// time up to which a request runs on the caller's thread.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        threads: usize,
        limit: Duration,
        inline: Duration,
        overload: Overload,
    ) -> std::io::Result<Self> {
        let scheduler = Self::without_workers(threads, limit, inline, overload);
        scheduler.start_workers()?;
        Ok(scheduler)
    }

    /// One whose queue nobody works on yet.
    fn without_workers(
        threads: usize,
        limit: Duration,
        inline: Duration,
        overload: Overload,
    ) -> Self {
        let threads = threads.max(1) as u64;
        Self {
            queue: Arc::default(),
            load: Arc::default(),
            workers: Mutex::default(),
            threads,
            bound: Bound::new(limit, threads),
            inline: inline.as_nanos().min(u128::from(u64::MAX)) as u64,
            overload,
            degraded: AtomicU64::new(0),
        }
    }

    fn start_workers(&self) -> std::io::Result<()> {
        let start = |number: u64| {
            let queue = Arc::clone(&self.queue);
            let name = format!("mercer-worker-{number}");
            std::thread::Builder::new().name(name).spawn(move || work(&queue))
        };
        let started = (0..self.threads).map(start).collect::<std::io::Result<Vec<_>>>()?;
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).extend(started);
        Ok(())
    }

    /// Requests that got a smaller budget because of overload.
    pub fn degraded(&self) -> u64 {
        self.degraded.load(Ordering::Relaxed)
    }

    /// The time after which what was taken on is expected to be done.
    pub fn backlog(&self) -> Duration {
        Duration::from_nanos(self.load.nanoseconds() / self.threads)
    }

    /// Multiply-adds that what was taken on is expected to cost.
    pub fn expected_cost(&self) -> u64 {
        self.load.multiply_adds()
    }

    /// Whether anything is being read, waits or runs, as a question that outlives the scheduler.
    pub fn is_busy(&self) -> impl Fn() -> bool + Send + 'static {
        let load = Arc::clone(&self.load);
        move || load.nanoseconds() > 0
    }

    fn fits(&self, others: u64, expected: Expected) -> bool {
        Load::has_room(others, expected.nanoseconds, self.bound.nanoseconds())
    }

    /// Whether a request may fit whose parameters are not known yet: a smaller budget may help.
    fn may_fit(&self, others: u64, expected: Expected) -> bool {
        match self.overload {
            Overload::Shed => self.fits(others, expected),
            Overload::Degrade => others <= 2 * self.bound.nanoseconds(),
        }
    }

    /// Refuses what would be refused later, before it is read.
    ///
    /// # Errors
    /// If the server has taken on too much for this as well.
    pub fn check_room(&self, expected: Expected) -> Result<(), Failure> {
        let others = self.load.nanoseconds();
        if self.may_fit(others, expected) { Ok(()) } else { Err(self.full(others)) }
    }

    /// Takes a request on before it is decoded, by what is expected of it.
    ///
    /// # Errors
    /// If the server has taken on too much for this as well.
    pub fn admit(&self, expected: Expected) -> Result<Reservation, Failure> {
        let reserved = self.load.try_reserve(expected, |others| self.may_fit(others, expected));
        reserved.map_err(|others| self.full(others))
    }

    /// Answers a request, which may have been admitted before: at once, or when its turn comes.
    ///
    /// # Errors
    /// If the server has taken on too much, a row cannot be answered, or the server stops.
    pub async fn answer(
        &self,
        mut work: Work,
        admitted: Option<Reservation>,
    ) -> Result<Answered, Failure> {
        let mut reservation = self.confirmed(&mut work, admitted)?;
        let rows = work.rows.rows();
        let is_small = rows <= BATCH && work.served.expected_ns(rows) <= self.inline;
        if is_small && self.queue.is_empty() {
            return inline(&work).map_err(|error| refused(&error));
        }
        let at_once = rows.div_ceil(BATCH).min(self.threads as usize);
        let deadline = work.deadline.map(|moment| Arc::new(Deadline::new(moment, rows, at_once)));
        let Work { served, rows: all, options, .. } = work;
        let (all, mut replies) = (Arc::new(all), Vec::new());
        // Without rows there is one part, which has no rows.
        for first in (0..rows.max(1)).step_by(BATCH) {
            let range = first..(first + BATCH).min(rows);
            let (reply, receiver) = oneshot::channel();
            let part = WaitingPart {
                reservation: reservation.split(expected(&served, range.len())),
                served: Arc::clone(&served),
                rows: Arc::clone(&all),
                range,
                options,
                deadline: deadline.clone(),
                queued: Instant::now(),
                reply,
            };
            if !self.queue.push(part) {
                return Err(Failure::new(Kind::Unavailable, "the server is stopping"));
            }
            replies.push(receiver);
        }
        let since = reservation.since();
        drop((reservation, all));
        let answered = self.joined(replies).await?;
        self.bound.note(since.elapsed(), expected(&served, rows).nanoseconds);
        Ok(answered)
    }

    /// The answers of all parts of a request.
    async fn joined(
        &self,
        replies: Vec<oneshot::Receiver<PartResult>>,
    ) -> Result<Answered, Failure> {
        let mut all: Option<Answered> = None;
        for reply in replies {
            let part = reply.await.map_err(|_| self.no_answer())?;
            let part = part.map_err(|error| refused(&error))?;
            match &mut all {
                None => all = Some(part),
                Some(all) => {
                    all.decisions.extend(part.decisions);
                    all.queue = all.queue.max(part.queue);
                    all.compute += part.compute;
                    all.budget = all.budget.min(part.budget);
                }
            }
        }
        all.ok_or_else(|| Failure::new(Kind::Internal, "a request without parts"))
    }

    /// Why a part has no answer that was in the queue.
    fn no_answer(&self) -> Failure {
        if self.queue.is_stopping() {
            return Failure::new(Kind::Unavailable, "the server is stopping");
        }
        crate::panics::fault()
    }

    /// The share of a request in what the server takes on, now that its rows are known; with `degrade` perhaps with a
    /// smaller budget.
    fn confirmed(
        &self,
        work: &mut Work,
        admitted: Option<Reservation>,
    ) -> Result<Reservation, Failure> {
        let expected = expected(&work.served, work.rows.rows());
        let mut reservation = admitted.unwrap_or_else(|| self.load.nothing());
        let grown = reservation.try_change(expected, |others| self.fits(others, expected));
        let others = grown.err().unwrap_or(reservation.others());
        if grown.is_ok() && self.fits(others, expected) {
            return Ok(reservation);
        }
        let may_degrade = self.overload == Overload::Degrade
            && work.options.require == Require::Nothing
            && others <= 2 * self.bound.nanoseconds();
        if !may_degrade {
            return Err(self.full(others));
        }
        // As much less as there is too much.
        let share = (self.bound.nanoseconds() as f64 / others.max(1) as f64).min(1.0);
        let speed = work.served.speed();
        let limit = speed.times.limit(speed.mean_us * share * 0.5);
        let budget = work.options.budget.map_or(limit, |budget| budget.min(limit));
        work.options.budget = Some(budget);
        self.degraded.fetch_add(1, Ordering::Relaxed);
        reservation.change(expected);
        Ok(reservation)
    }

    fn full(&self, others: u64) -> Failure {
        let (backlog, limit) = (others / self.threads, self.bound.nanoseconds() / self.threads);
        let after = backlog.saturating_sub(limit / 2).max(1_000_000);
        let retry_after = Duration::from_nanos(after);
        let message = format!(
            "the queue is full: {:.0} ms of work are taken on, {:.0} are allowed",
            backlog as f64 / 1e6,
            limit as f64 / 1e6,
        );
        Failure::new(Kind::Overloaded { reason: Shed::Queue, retry_after }, message)
    }

    /// Lets the workers finish what waits, and ends them.
    pub fn stop(&self) {
        self.queue.stop();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in workers.drain(..) {
            // A worker that panicked has answered nobody: its callers were told.
            drop(worker.join());
        }
    }
}

/// What so many rows of a model are expected to take in the queue.
fn expected(served: &ServedModel, rows: usize) -> Expected {
    Expected {
        nanoseconds: (served.queued_ns() * rows as f64).clamp(1.0, 1e15) as u64,
        multiply_adds: served.expected_cost(rows),
    }
}

fn refused(error: &QueryError) -> Failure {
    Failure::invalid(error.to_string())
}

fn inline(work: &Work) -> PartResult {
    let (start, served, rows) = (Instant::now(), &work.served, work.rows.rows());
    let deadline = work.deadline.map(|moment| Deadline::new(moment, rows, 1));
    let options = limited(served, work.options, deadline.as_ref());
    let plan = served.active_plan();
    let all = SomeRows { matrix: &work.rows, range: 0..rows };
    let decisions = decide(served, plan, &mut plan.worker(), all, &options)?;
    let (compute, batch) = (start.elapsed(), rows);
    served.batches.note(rows, compute);
    Ok(Answered { decisions, budget: options.budget, queue: Duration::ZERO, compute, batch })
}
