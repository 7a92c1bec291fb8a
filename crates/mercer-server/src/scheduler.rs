//! When a request runs: at once on the caller's thread if it is small, else in one queue for all models that is bounded in
//! expected time. Batches are what waits when a worker becomes free; nothing waits to be joined by others.
//!
//! Answers do not depend on any of this: a decision is a function of the model, the row and the cost limit alone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mercer_data::{Matrix, MatrixBuilder};
use mercer_query::{Decision, QueryError, QueryOptions};
use tokio::sync::oneshot;

use crate::failure::{Failure, Kind};
use crate::served::ServedModel;

/// Rows of a batch, at most: longer requests are cut, so that all workers share them.
const BATCH: usize = 2048;
/// Requests that are expected to take less run on the caller's thread: handing them over takes as long.
const INLINE_NS: u64 = 50_000;

/// A part of a request that waits for a worker.
struct WaitingPart {
    served: Arc<ServedModel>,
    rows: Matrix,
    options: QueryOptions,
    /// The moment by which the caller wants its answer.
    deadline: Option<Instant>,
    queued: Instant,
    expected_ns: u64,
    reply: oneshot::Sender<PartResult>,
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
    /// Expected time of all that waits or runs.
    expected_ns: AtomicU64,
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
        let mut parts = Vec::new();
        for first in (0..rows.max(1)).step_by(BATCH) {
            let end = (first + BATCH).min(rows);
            let part = if rows <= BATCH { work.rows.clone() } else { work.rows.select(first..end) };
            parts.push((first, self.enqueue(&work, part)?));
        }
        let mut all: Option<Answered> = None;
        for (first, reply) in parts {
            let stopped = || Failure::new(Kind::Unavailable, "the server is stopping");
            let part = reply.await.map_err(|_| stopped())?;
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

    /// With `degrade`, a smaller budget up to twice the limit; then, and else, a refusal.
    fn make_room(&self, work: &mut Work, backlog: u64) -> Result<(), Failure> {
        let may_degrade = self.overload == Overload::Degrade
            && work.options.require == mercer_query::Require::Nothing
            && backlog <= 2 * self.limit_ns;
        if may_degrade {
            // As much less as there is too much.
            let share = self.limit_ns as f64 / backlog as f64;
            let limit = work.served.times.limit(work.served.mean_us * share * 0.5);
            let budget = work.options.budget.map_or(limit, |budget| budget.min(limit));
            work.options.budget = Some(budget);
            self.degraded.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let retry_after = Duration::from_nanos(backlog - self.limit_ns / 2);
        let message = format!(
            "the queue is full: {:.0} ms of work wait, {:.0} are allowed",
            backlog as f64 / 1e6,
            self.limit_ns as f64 / 1e6,
        );
        Err(Failure::new(Kind::Overloaded { retry_after }, message))
    }

    fn enqueue(&self, work: &Work, rows: Matrix) -> Result<oneshot::Receiver<PartResult>, Failure> {
        let (reply, receiver) = oneshot::channel();
        let expected_ns = work.served.expected_ns(rows.rows());
        if self.shared.is_stopping.load(Ordering::Acquire) {
            return Err(Failure::new(Kind::Unavailable, "the server is stopping"));
        }
        self.shared.expected_ns.fetch_add(expected_ns, Ordering::Relaxed);
        let served = Arc::clone(&work.served);
        let (options, deadline, queued) = (work.options, work.deadline, Instant::now());
        let part = WaitingPart { served, rows, options, deadline, queued, expected_ns, reply };
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
fn limited(served: &ServedModel, options: QueryOptions, deadline: Option<Instant>) -> QueryOptions {
    let Some(deadline) = deadline else { return options };
    let left = deadline.saturating_duration_since(Instant::now());
    let limit = served.times.limit(1e6 * left.as_secs_f64());
    let budget = options.budget.map_or(limit, |budget| budget.min(limit));
    QueryOptions { budget: Some(budget), ..options }
}

fn inline(work: &Work) -> PartResult {
    let start = Instant::now();
    let options = limited(&work.served, work.options, work.deadline);
    let decisions = decide(&work.served, &work.rows, &options)?;
    let (batch, compute) = (work.rows.rows(), start.elapsed());
    Ok(Answered { decisions, budget: options.budget, queue: Duration::ZERO, compute, batch })
}

fn decide(
    served: &ServedModel,
    rows: &Matrix,
    options: &QueryOptions,
) -> Result<Vec<Decision>, QueryError> {
    let plan = served.active_plan();
    plan.check(rows)?;
    Ok(plan.worker().decide(rows, 0..rows.rows(), options)?.to_vec())
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
        run(batch);
        shared.expected_ns.fetch_sub(expected, Ordering::Relaxed);
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
        if !is_alike || rows + next.rows.rows() > BATCH {
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
    let options = limited(&served, first.options, first.deadline);
    let joined = (batch.len() > 1).then(|| joined(&batch));
    let count: usize = batch.iter().map(|part| part.rows.rows()).sum();
    served.counters.batches.fetch_add(1, Ordering::Relaxed);
    let decisions = match &joined {
        Some(rows) => decide(&served, rows, &options),
        None => decide(&served, &first.rows, &options),
    };
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
    let values: Vec<f64> = dense.flatten().copied().collect();
    Matrix::dense(columns, values).unwrap_or_else(|_| first.clone())
}

#[cfg(test)]
mod tests {
    use mercer_query::Certainty;

    use super::*;
    use crate::served::LoadOptions;

    /// A machine of two supports, as LIBSVM writes it.
    fn served() -> Arc<ServedModel> {
        let text = b"svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\n\
            label 1 -1\nnr_sv 1 1\nSV\n1 1:1 \n-1 1:-1 2:0.5 \n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.model");
        std::fs::write(&path, text).unwrap();
        let options = LoadOptions { trust_plan: false, audit: 0.0, seed: 1 };
        Arc::new(ServedModel::load("m", 1, &path, options).unwrap())
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
