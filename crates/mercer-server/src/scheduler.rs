//! When a request runs: at once on the caller's thread if it is small, else in one queue for all models that is bounded in
//! expected time. Batches are what waits when a worker becomes free; nothing waits to be joined by others.
//!
//! Answers do not depend on any of this: a decision is a function of the model, the row and the cost limit alone.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mercer_data::{Matrix, MatrixBuilder};
use mercer_query::{Decision, QueryError, QueryOptions};
use tokio::sync::oneshot;

use crate::failure::{Failure, Kind};
use crate::served::ServedModel;

/// Rows of a batch, at most: longer requests are cut, so that all workers share them.
const BATCH: usize = 2048;
/// Rows of several requests that are answered together, at most: a block of a plan has no more.
const JOINED: usize = 256;
/// Requests of so many rows are not joined with others: it would copy them for little.
const LARGE: usize = 64;
/// Requests that are expected to take less run on the caller's thread: handing them over takes about as long, two wake-ups of a
/// thread (65 microseconds on a busy machine of two cores, `docs/benchmarks/2026-11-18-serve.md`).
const INLINE_NS: u64 = 100_000;

/// A part of a request that waits for a worker.
struct WaitingPart {
    served: Arc<ServedModel>,
    rows: Matrix,
    options: QueryOptions,
    deadline: Option<Arc<Deadline>>,
    queued: Instant,
    expected_ns: u64,
    expected_cost: u64,
    reply: oneshot::Sender<PartResult>,
}

/// The moment by which a caller wants its answer. What is left of the time when work on the request begins becomes one limit of
/// cost for all of its rows, so that a response can state it.
#[derive(Debug)]
struct Deadline {
    moment: Instant,
    /// Rows that are answered one after another.
    rows: f64,
    limit: OnceLock<u64>,
}

impl Deadline {
    fn new(moment: Instant, rows: usize, at_once: usize) -> Self {
        let rows = (rows as f64 / at_once.max(1) as f64).max(1.0);
        Self { moment, rows, limit: OnceLock::new() }
    }

    fn limit(&self, served: &ServedModel) -> u64 {
        *self.limit.get_or_init(|| {
            let left = self.moment.saturating_duration_since(Instant::now());
            served.speed().times.limit(1e6 * left.as_secs_f64() / self.rows)
        })
    }
}

/// The answers to a part of a request, and what became of its time.
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

type PartResult = Result<Answered, QueryError>;

/// What is to be done when the queue is full.
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
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    threads: u64,
    limit_ns: u64,
    overload: Overload,
    degraded: AtomicU64,
}

struct Shared {
    queue: Mutex<VecDeque<WaitingPart>>,
    ready: Condvar,
    /// Expected time and cost of all that waits or runs.
    expected_ns: AtomicU64,
    expected_cost: AtomicU64,
    is_stopping: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("expected_ns", &self.expected_ns).finish_non_exhaustive()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, VecDeque<WaitingPart>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// Starts so many workers; `limit` is the expected time that may wait.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(threads: usize, limit: Duration, overload: Overload) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            ready: Condvar::new(),
            expected_ns: AtomicU64::new(0),
            expected_cost: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        });
        let start = |number: usize| {
            let shared = Arc::clone(&shared);
            let name = format!("mercer-worker-{number}");
            std::thread::Builder::new().name(name).spawn(move || work(&shared))
        };
        let workers = (0..threads.max(1)).map(start).collect::<std::io::Result<_>>()?;
        Ok(Self {
            shared,
            workers: Mutex::new(workers),
            threads: threads.max(1) as u64,
            limit_ns: limit.as_nanos().min(u128::from(u64::MAX)) as u64,
            overload,
            degraded: AtomicU64::new(0),
        })
    }

    /// Requests that got a smaller budget because of overload.
    pub fn degraded(&self) -> u64 {
        self.degraded.load(Ordering::Relaxed)
    }

    /// The time after which what waits now is expected to be done.
    pub fn backlog(&self) -> Duration {
        Duration::from_nanos(self.shared.expected_ns.load(Ordering::Relaxed) / self.threads)
    }

    /// Multiply-adds that what waits is expected to cost.
    pub fn expected_cost(&self) -> u64 {
        self.shared.expected_cost.load(Ordering::Relaxed)
    }

    /// Whether anything waits or runs, as a question that outlives the scheduler.
    pub fn is_busy(&self) -> impl Fn() -> bool + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.expected_ns.load(Ordering::Relaxed) > 0
    }

    /// Answers a request: at once, or when its turn comes.
    ///
    /// # Errors
    /// If the queue is full, a row cannot be answered, or the server stops.
    pub async fn answer(&self, mut work: Work) -> Result<Answered, Failure> {
        let rows = work.rows.rows();
        let expected = work.served.expected_ns(rows);
        let waiting = self.shared.expected_ns.load(Ordering::Relaxed);
        if expected <= INLINE_NS && waiting == 0 {
            return inline(&work).map_err(|error| refused(&error));
        }
        let backlog = waiting / self.threads;
        if backlog > self.limit_ns {
            self.make_room(&mut work, backlog)?;
        }
        let at_once = rows.div_ceil(BATCH).min(self.threads as usize);
        let deadline = work.deadline.map(|moment| Arc::new(Deadline::new(moment, rows, at_once)));
        // Once for all parts: the pace changes while they wait.
        let (mean_ns, mut parts) = (work.served.queued_ns(), Vec::new());
        if rows <= BATCH {
            parts.push((0, self.enqueue(work, mean_ns, deadline)?));
        } else {
            for first in (0..rows).step_by(BATCH) {
                let rows = work.rows.select(first..(first + BATCH).min(rows));
                let (served, options) = (Arc::clone(&work.served), work.options);
                let part = Work { served, rows, options, deadline: work.deadline };
                parts.push((first, self.enqueue(part, mean_ns, deadline.clone())?));
            }
        }
        let mut all: Option<Answered> = None;
        for (first, reply) in parts {
            let part = reply.await.map_err(|_| self.no_answer())?;
            let part = part.map_err(|error| refused(&error.after_rows(first)))?;
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
        if self.shared.is_stopping.load(Ordering::Acquire) {
            return Failure::new(Kind::Unavailable, "the server is stopping");
        }
        crate::panics::fault()
    }

    /// With `degrade`, a smaller budget up to twice the limit; then, and else, a refusal.
    fn make_room(&self, work: &mut Work, backlog: u64) -> Result<(), Failure> {
        let may_degrade = self.overload == Overload::Degrade
            && work.options.require == mercer_query::Require::Nothing
            && backlog <= 2 * self.limit_ns;
        if may_degrade {
            // As much less as there is too much.
            let share = self.limit_ns as f64 / backlog as f64;
            let speed = work.served.speed();
            let limit = speed.times.limit(speed.mean_us * share * 0.5);
            let budget = work.options.budget.map_or(limit, |budget| budget.min(limit));
            work.options.budget = Some(budget);
            self.degraded.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        Err(self.full(backlog))
    }

    /// Refuses what would be refused whatever it asks, before it is read.
    ///
    /// # Errors
    /// If the queue is full and requests do not get smaller budgets instead.
    pub fn check_room(&self) -> Result<(), Failure> {
        let backlog = self.shared.expected_ns.load(Ordering::Relaxed) / self.threads;
        if backlog > self.limit_ns && self.overload == Overload::Shed {
            return Err(self.full(backlog));
        }
        Ok(())
    }

    fn full(&self, backlog: u64) -> Failure {
        let retry_after = Duration::from_nanos(backlog - self.limit_ns / 2);
        let message = format!(
            "the queue is full: {:.0} ms of work wait, {:.0} are allowed",
            backlog as f64 / 1e6,
            self.limit_ns as f64 / 1e6,
        );
        Failure::new(Kind::Overloaded { retry_after }, message)
    }

    /// Puts rows into the queue; each is expected to take so many nanoseconds.
    fn enqueue(
        &self,
        work: Work,
        mean_ns: f64,
        deadline: Option<Arc<Deadline>>,
    ) -> Result<oneshot::Receiver<PartResult>, Failure> {
        let Work { served, rows, options, .. } = work;
        let (reply, receiver) = oneshot::channel();
        let expected_ns = (mean_ns * rows.rows() as f64).clamp(1.0, 1e18) as u64;
        let expected_cost = served.expected_cost(rows.rows());
        if self.shared.is_stopping.load(Ordering::Acquire) {
            return Err(Failure::new(Kind::Unavailable, "the server is stopping"));
        }
        self.shared.expected_ns.fetch_add(expected_ns, Ordering::Relaxed);
        self.shared.expected_cost.fetch_add(expected_cost, Ordering::Relaxed);
        let queued = Instant::now();
        let part = WaitingPart {
            served,
            rows,
            options,
            deadline,
            queued,
            expected_ns,
            expected_cost,
            reply,
        };
        self.shared.queue().push_back(part);
        self.shared.ready.notify_one();
        Ok(receiver)
    }

    /// Lets the workers finish what waits, and ends them.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.ready.notify_all();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in workers.drain(..) {
            // A worker that panicked has answered nobody: its callers were told.
            drop(worker.join());
        }
    }
}

fn refused(error: &QueryError) -> Failure {
    Failure::invalid(error.to_string())
}

/// The options with what the deadline leaves as a limit of cost.
fn limited(
    served: &ServedModel,
    options: QueryOptions,
    deadline: Option<&Deadline>,
) -> QueryOptions {
    let Some(deadline) = deadline else { return options };
    let limit = deadline.limit(served);
    let budget = options.budget.map_or(limit, |budget| budget.min(limit));
    QueryOptions { budget: Some(budget), ..options }
}

fn inline(work: &Work) -> PartResult {
    let start = Instant::now();
    let deadline = work.deadline.map(|moment| Deadline::new(moment, work.rows.rows(), 1));
    let options = limited(&work.served, work.options, deadline.as_ref());
    let decisions = decide(&work.served, &work.rows, &options)?;
    let (batch, compute) = (work.rows.rows(), start.elapsed());
    work.served.counters.batches.fetch_add(1, Ordering::Relaxed);
    Ok(Answered { decisions, budget: options.budget, queue: Duration::ZERO, compute, batch })
}

fn decide(
    served: &ServedModel,
    rows: &Matrix,
    options: &QueryOptions,
) -> Result<Vec<Decision>, QueryError> {
    let plan = served.active_plan();
    plan.check(rows)?;
    let mut worker = plan.worker();
    let decisions = worker.decide(rows, 0..rows.rows(), options)?.to_vec();
    served.note_stages(plan, worker.answered_by(), &decisions);
    Ok(decisions)
}

/// One worker: takes what waits, as long as there is a queue.
fn work(shared: &Shared) {
    loop {
        let batch = {
            let mut queue = shared.queue();
            loop {
                if let Some(first) = queue.pop_front() {
                    break take_alike(first, &mut queue);
                }
                if shared.is_stopping.load(Ordering::Acquire) {
                    return;
                }
                queue = shared.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let expected: u64 = batch.iter().map(|part| part.expected_ns).sum();
        let cost: u64 = batch.iter().map(|part| part.expected_cost).sum();
        // A panic is told to the callers of this batch by what they wait for; the worker stays.
        drop(catch_unwind(AssertUnwindSafe(|| run(batch))));
        shared.expected_ns.fetch_sub(expected, Ordering::Relaxed);
        shared.expected_cost.fetch_sub(cost, Ordering::Relaxed);
    }
}

/// The first part with those behind it that can be answered with it: of the same model and with the same options.
fn take_alike(first: WaitingPart, queue: &mut VecDeque<WaitingPart>) -> Vec<WaitingPart> {
    let mut rows = first.rows.rows();
    let mut batch = vec![first];
    while let Some(next) = queue.front() {
        let first = &batch[0];
        let is_alike = Arc::ptr_eq(&first.served, &next.served)
            && first.options == next.options
            && first.deadline.is_none()
            && next.deadline.is_none()
            && first.rows.is_sparse() == next.rows.is_sparse()
            && first.rows.columns() == next.rows.columns();
        let more = next.rows.rows();
        if !is_alike || first.rows.rows().max(more) >= LARGE || rows + more > JOINED {
            break;
        }
        rows += next.rows.rows();
        batch.extend(queue.pop_front());
    }
    batch
}

/// Answers the parts of a batch, all with the same options. Those whose callers have gone are left out.
fn run(mut batch: Vec<WaitingPart>) {
    batch.retain(|part| !part.reply.is_closed());
    let Some(first) = batch.first() else { return };
    let (start, served) = (Instant::now(), Arc::clone(&first.served));
    let options = limited(&served, first.options, first.deadline.as_deref());
    let joined = (batch.len() > 1).then(|| joined(&batch));
    let count: usize = batch.iter().map(|part| part.rows.rows()).sum();
    served.counters.batches.fetch_add(1, Ordering::Relaxed);
    let decisions = match &joined {
        Some(rows) => decide(&served, rows, &options),
        None => decide(&served, &first.rows, &options),
    };
    served.pace.note(count, start.elapsed());
    let reply = |part: WaitingPart, decisions: Vec<Decision>| {
        let (budget, compute) = (options.budget, start.elapsed());
        let queue = start.saturating_duration_since(part.queued);
        // A caller that has gone is no error.
        drop(part.reply.send(Ok(Answered { decisions, budget, queue, compute, batch: count })));
    };
    match decisions {
        Ok(decisions) => {
            let mut decisions = decisions.into_iter();
            for part in batch {
                let own = decisions.by_ref().take(part.rows.rows()).collect();
                reply(part, own);
            }
        }
        Err(error) if batch.len() == 1 => {
            let part = batch.pop().expect("there is one");
            drop(part.reply.send(Err(error)));
        }
        Err(_) => {
            // A bad row of one caller is no concern of the others: each on its own.
            for part in batch {
                match decide(&served, &part.rows, &options) {
                    Ok(own) => reply(part, own),
                    Err(error) => drop(part.reply.send(Err(error))),
                }
            }
        }
    }
}

fn joined(batch: &[WaitingPart]) -> Matrix {
    let (first, columns) = (&batch[0].rows, batch[0].rows.columns());
    if first.is_sparse() {
        let mut builder = MatrixBuilder::new();
        batch.iter().for_each(|part| builder.append(&part.rows, 0..part.rows.rows()));
        return builder.finish(columns);
    }
    let dense = batch.iter().filter_map(|part| part.rows.as_dense());
    let mut values =
        Vec::with_capacity(columns * batch.iter().map(|part| part.rows.rows()).sum::<usize>());
    dense.for_each(|own| values.extend_from_slice(own));
    Matrix::dense(columns, values).unwrap_or_else(|_| first.clone())
}

#[cfg(test)]
mod tests {
    use mercer_query::{Certainty, Require};

    use super::*;

    fn served() -> Arc<ServedModel> {
        Arc::new(crate::served::tests::two_supports())
    }

    #[tokio::test]
    async fn a_full_queue_is_seen_before_a_request_is_read() {
        let (served, limit) = (served(), Duration::from_nanos(1));
        let scheduler = Scheduler::start(1, limit, Overload::Shed).unwrap();
        scheduler.check_room().unwrap();
        let reply = scheduler.enqueue(work(&served), 1e3, None).unwrap();
        let refused = scheduler.check_room().unwrap_err();
        assert!(refused.message.contains("the queue is full"), "{refused}");
        reply.await.unwrap().unwrap();
        scheduler.stop();
        scheduler.check_room().unwrap();
        assert!(served.pace.mean_ns().unwrap() > 0.0, "the batch was timed");
    }

    #[test]
    fn small_requests_are_joined_and_large_ones_are_not() {
        let served = served();
        let sizes = |sizes: &[usize]| {
            let part = |rows: &usize| {
                let Work { served, options, .. } = work(&served);
                let rows = Matrix::dense(2, vec![0.5; 2 * rows]).unwrap();
                let (reply, _) = oneshot::channel();
                let (expected_ns, expected_cost) = (1, 1);
                let queued = Instant::now();
                WaitingPart {
                    served,
                    rows,
                    options,
                    deadline: None,
                    queued,
                    expected_ns,
                    expected_cost,
                    reply,
                }
            };
            let mut queue: VecDeque<_> = sizes.iter().map(part).collect();
            let first = queue.pop_front().unwrap();
            take_alike(first, &mut queue).len()
        };
        assert_eq!(sizes(&[1, 1, 60, 3]), 4);
        assert_eq!(sizes(&[60, 60, 60, 60, 60]), 4, "256 rows at most");
        assert_eq!(sizes(&[64, 1]), 1);
        assert_eq!(sizes(&[1, 64, 1]), 1);
    }

    /// So many rows that they wait for a worker.
    fn work(served: &Arc<ServedModel>) -> Work {
        let values = (0..200_000).map(|at| f64::from(at % 17) / 8.0 - 1.0).collect();
        let rows = Matrix::dense(2, values).unwrap();
        let options = QueryOptions::default();
        Work { served: Arc::clone(served), rows, options, deadline: None }
    }

    async fn two(overload: Overload) -> [Result<Answered, Failure>; 2] {
        let (served, limit) = (served(), Duration::from_nanos(1));
        let scheduler = Scheduler::start(1, limit, overload).unwrap();
        let both = tokio::join!(scheduler.answer(work(&served)), scheduler.answer(work(&served)));
        scheduler.stop();
        both.into()
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_what_runs_is_answered_in_order() {
        let served = served();
        let alone = served.plan.decide(&work(&served).rows).unwrap();
        let [first, second] = two(Overload::Shed).await;
        assert_eq!(first.unwrap().decisions, alone, "cut into batches and joined again");
        let refused = second.unwrap_err();
        assert!(matches!(refused.kind, Kind::Overloaded { .. }), "{refused}");
        assert!(refused.message.contains("the queue is full"), "{refused}");
    }

    #[tokio::test]
    async fn overload_gives_smaller_budgets_before_it_refuses_unless_proof_is_required() {
        for (require, is_answered) in [(Require::Nothing, true), (Require::Certified, false)] {
            // Nothing has been timed yet. What waits is between the limit and twice the limit when the second comes.
            let served = served();
            let expected = (1e5 * served.queued_ns()) as u64;
            let limit = Duration::from_nanos((expected * 2 / 3).max(1000));
            let scheduler = Scheduler::start(1, limit, Overload::Degrade).unwrap();
            let options = QueryOptions { require, ..QueryOptions::default() };
            let second = Work { options, ..work(&served) };
            let (first, second) =
                tokio::join!(scheduler.answer(work(&served)), scheduler.answer(second));
            assert_eq!(first.unwrap().budget, None);
            assert_eq!(scheduler.degraded(), u64::from(is_answered));
            match second {
                Ok(second) => assert!(is_answered && second.budget.is_some()),
                Err(refused) => assert!(!is_answered, "{refused}"),
            }
            scheduler.stop();
        }
    }

    #[tokio::test]
    async fn the_time_of_a_request_is_shared_by_its_rows_and_one_limit_holds_for_all() {
        let served = served();
        let scheduler = Scheduler::start(1, Duration::from_secs(9), Overload::Shed).unwrap();
        let time = Duration::from_nanos(served.expected_ns(50_000));
        let some = Work { deadline: Some(Instant::now() + time), ..work(&served) };
        let all = scheduler.answer(some).await.unwrap();
        let budget = all.budget.unwrap();
        // Half the time that 100,000 rows are expected to take is not enough for each to be exact.
        assert!(budget < served.plan.exact_stage().cost().multiply_adds, "{budget}");
        let options = QueryOptions { budget: Some(budget), ..QueryOptions::default() };
        let again = scheduler.answer(Work { options, ..work(&served) }).await.unwrap();
        assert_eq!(all.decisions, again.decisions);
        scheduler.stop();
    }

    #[tokio::test]
    async fn a_deadline_that_is_over_leaves_rows_unsettled() {
        let served = served();
        let scheduler = Scheduler::start(1, Duration::from_secs(9), Overload::Shed).unwrap();
        let late = Work { deadline: Some(Instant::now()), ..work(&served) };
        let answered = scheduler.answer(late).await.unwrap();
        assert_eq!(answered.budget, Some(0));
        let mut certainties = answered.decisions.iter().map(|decision| decision.certainty);
        assert!(certainties.all(|certainty| certainty == Certainty::Unsettled));
        scheduler.stop();
        let gone = scheduler.answer(work(&served)).await.unwrap_err();
        assert_eq!(gone.kind, Kind::Unavailable);
    }
}
