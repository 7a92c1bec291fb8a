//! The queue of all models and the threads that answer what waits in it. A batch is what waits for the same model with the same
//! options when a thread becomes free; nothing waits to be joined by others.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mercer_data::{Matrix, MatrixBuilder};
use mercer_query::{Decision, Plan, QueryError, QueryOptions, Worker};
use tokio::sync::oneshot;

use super::Answered;
use super::deadline::{Deadline, limited};
use super::load::Reservation;
use crate::served::ServedModel;

/// Rows of several requests that are answered together, at most: a block of a plan has no more.
const JOINED: usize = 256;
/// Expected nanoseconds of requests that are answered together, at most: whoever comes first waits for the others.
const JOINED_NS: f64 = 4e6;
/// Requests of so many rows are not joined with others: it would copy them for little.
const LARGE: usize = 64;
/// How long a thread without work keeps the memory that it has for a model, and so the model.
const KEPT: Duration = Duration::from_secs(1);

/// What a part of a request gets.
pub type PartResult = Result<Answered, QueryError>;

/// A part of a request that waits for a worker.
pub struct WaitingPart {
    pub served: Arc<ServedModel>,
    /// The rows of the whole request, and which of them are meant.
    pub rows: Arc<Matrix>,
    pub range: Range<usize>,
    pub options: QueryOptions,
    pub deadline: Option<Arc<Deadline>>,
    pub queued: Instant,
    /// Its share of the work that the server has taken on, until it is answered or given up.
    pub reservation: Reservation,
    pub reply: oneshot::Sender<PartResult>,
}

/// What waits, and for whom.
#[derive(Default)]
pub struct WorkQueue {
    waiting: Mutex<QueuedParts>,
    changed: Condvar,
    /// Parts that wait or run.
    unfinished: AtomicUsize,
}

#[derive(Default)]
struct QueuedParts {
    parts: VecDeque<WaitingPart>,
    is_stopping: bool,
}

/// The next work of a thread.
enum Next {
    Batch(Vec<WaitingPart>),
    /// Nothing came for some time.
    Idle,
    Stop,
}

impl std::fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkQueue").field("unfinished", &self.unfinished).finish_non_exhaustive()
    }
}

impl WorkQueue {
    fn waiting(&self) -> MutexGuard<'_, QueuedParts> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing waits or runs.
    pub fn is_empty(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed) == 0
    }

    /// Adds a part; whether it will be answered, which it is not once the threads end.
    pub fn push(&self, part: WaitingPart) -> bool {
        let mut waiting = self.waiting();
        if waiting.is_stopping {
            return false;
        }
        self.unfinished.fetch_add(1, Ordering::Relaxed);
        waiting.parts.push_back(part);
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// Lets threads end once nothing waits.
    pub fn stop(&self) {
        self.waiting().is_stopping = true;
        self.changed.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        self.waiting().is_stopping
    }

    /// The next batch; without one for `time`, if it is given, [`Next::Idle`].
    fn next(&self, time: Option<Duration>) -> Next {
        let mut waiting = self.waiting();
        loop {
            if let Some(first) = waiting.parts.pop_front() {
                return Next::Batch(take_alike(first, &mut waiting.parts));
            }
            if waiting.is_stopping {
                return Next::Stop;
            }
            waiting = match time {
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let woken = self.changed.wait_timeout(waiting, time);
                    let (waiting, timed) = woken.unwrap_or_else(PoisonError::into_inner);
                    if timed.timed_out() && waiting.parts.is_empty() && !waiting.is_stopping {
                        return Next::Idle;
                    }
                    waiting
                }
            };
        }
    }
}

/// One thread: takes what waits, as long as there is a queue.
pub fn work(queue: &WorkQueue) {
    let mut next = queue.next(None);
    loop {
        next = match next {
            Next::Batch(batch) => work_on_model(queue, batch),
            Next::Idle => queue.next(None),
            Next::Stop => return,
        };
    }
}

/// Answers batches of one model with the same memory, as long as such batches come; returns what comes then.
fn work_on_model(queue: &WorkQueue, first: Vec<WaitingPart>) -> Next {
    let served = Arc::clone(&first[0].served);
    let plan = served.active_plan();
    let (mut worker, mut batch) = (plan.worker(), first);
    loop {
        let count = batch.len();
        // A panic is told to the callers of this batch by what they wait for; the thread stays, with new memory.
        if catch_unwind(AssertUnwindSafe(|| run(batch, &served, plan, &mut worker))).is_err() {
            worker = plan.worker();
        }
        queue.unfinished.fetch_sub(count, Ordering::Relaxed);
        match queue.next(Some(KEPT)) {
            Next::Batch(next)
                if Arc::ptr_eq(&next[0].served, &served)
                    && std::ptr::eq(served.active_plan(), plan) =>
            {
                batch = next;
            }
            other => return other,
        }
    }
}

/// The first part with those behind it that can be answered with it: of the same model and with the same options.
fn take_alike(first: WaitingPart, queue: &mut VecDeque<WaitingPart>) -> Vec<WaitingPart> {
    let mut rows = first.range.len();
    let most = JOINED.min((JOINED_NS / first.served.queued_ns().max(1.0)) as usize);
    let mut batch = vec![first];
    while let Some(next) = queue.front() {
        let first = &batch[0];
        let is_alike = Arc::ptr_eq(&first.served, &next.served)
            && first.options == next.options
            && first.deadline.is_none()
            && next.deadline.is_none()
            && first.rows.is_sparse() == next.rows.is_sparse()
            && first.rows.columns() == next.rows.columns();
        let more = next.range.len();
        if !is_alike || first.range.len().max(more) >= LARGE || rows + more > most {
            break;
        }
        rows += more;
        batch.extend(queue.pop_front());
    }
    batch
}

/// Some rows of a matrix.
pub struct SomeRows<'a> {
    pub matrix: &'a Matrix,
    pub range: Range<usize>,
}

/// Decisions for some rows by a worker of the plan.
pub fn decide(
    served: &ServedModel,
    plan: &Plan,
    worker: &mut Worker<'_>,
    rows: SomeRows<'_>,
    options: &QueryOptions,
) -> Result<Vec<Decision>, QueryError> {
    plan.check_range(rows.matrix, rows.range.clone())?;
    let decisions = worker.decide(rows.matrix, rows.range, options)?.to_vec();
    served.note_stages(plan, worker.answered_by(), &decisions);
    Ok(decisions)
}

/// Answers the parts of a batch, all with the same options. Those whose callers have gone are left out.
fn run(mut batch: Vec<WaitingPart>, served: &ServedModel, plan: &Plan, worker: &mut Worker<'_>) {
    batch.retain(|part| !part.reply.is_closed());
    let Some(first) = batch.first() else { return };
    let start = Instant::now();
    let options = limited(served, first.options, first.deadline.as_deref());
    let joined = (batch.len() > 1).then(|| joined(&batch));
    let count: usize = batch.iter().map(|part| part.range.len()).sum();
    let rows = match &joined {
        Some(matrix) => SomeRows { matrix, range: 0..count },
        None => SomeRows { matrix: &first.rows, range: first.range.clone() },
    };
    let decisions = decide(served, plan, worker, rows, &options);
    let time = start.elapsed();
    served.note_batch(count, time);
    served.batches.note(count, time);
    let reply = |part: WaitingPart, decisions: Vec<Decision>| {
        let (budget, compute) = (options.budget, start.elapsed());
        let queue = start.saturating_duration_since(part.queued);
        drop(part.reservation);
        // A caller that has gone is no error.
        drop(part.reply.send(Ok(Answered { decisions, budget, queue, compute, batch: count })));
    };
    match decisions {
        Ok(decisions) if batch.len() == 1 => reply(batch.remove(0), decisions),
        Ok(decisions) => {
            let mut decisions = decisions.into_iter();
            for part in batch {
                let own = decisions.by_ref().take(part.range.len()).collect();
                reply(part, own);
            }
        }
        Err(error) if batch.len() == 1 => drop(batch.remove(0).reply.send(Err(error))),
        Err(_) => {
            // A bad row of one caller is no concern of the others: each on its own.
            for part in batch {
                let rows = SomeRows { matrix: &part.rows, range: part.range.clone() };
                match decide(served, plan, worker, rows, &options) {
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
        batch.iter().for_each(|part| builder.append(&part.rows, part.range.clone()));
        return builder.finish(columns);
    }
    let count: usize = batch.iter().map(|part| part.range.len()).sum();
    let mut values = Vec::with_capacity(columns * count);
    for part in batch {
        let own = part.rows.as_dense().unwrap_or_default();
        values.extend_from_slice(&own[columns * part.range.start..columns * part.range.end]);
    }
    Matrix::dense(columns, values).unwrap_or_else(|_| Matrix::clone(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::load::Load;

    fn part(
        served: &Arc<ServedModel>,
        rows: usize,
    ) -> (WaitingPart, oneshot::Receiver<PartResult>) {
        let values = (0..2 * rows).map(|at| (at % 17) as f64 / 8.0 - 1.0).collect();
        let (reply, receiver) = oneshot::channel();
        let part = WaitingPart {
            served: Arc::clone(served),
            rows: Arc::new(Matrix::dense(2, values).unwrap()),
            range: 0..rows,
            options: QueryOptions::default(),
            deadline: None,
            queued: Instant::now(),
            reservation: Arc::new(Load::default()).nothing(),
            reply,
        };
        (part, receiver)
    }

    #[test]
    fn small_requests_are_joined_and_large_ones_are_not() {
        let served = Arc::new(crate::served::tests::two_supports());
        let pace = |rows, time| (0..99).for_each(|_| served.pace.note(rows, time));
        pace(1000, Duration::from_millis(1));
        let sizes = |sizes: &[usize]| {
            let mut queue: VecDeque<_> = sizes.iter().map(|rows| part(&served, *rows).0).collect();
            let first = queue.pop_front().unwrap();
            take_alike(first, &mut queue).len()
        };
        assert_eq!(sizes(&[1, 1, 60, 3]), 4);
        assert_eq!(sizes(&[60, 60, 60, 60, 60]), 4, "256 rows at most");
        assert_eq!(sizes(&[64, 1]), 1);
        assert_eq!(sizes(&[1, 64, 1]), 1);
        // Rows of a millisecond each.
        pace(1000, Duration::from_secs(1));
        assert_eq!(sizes(&[1, 1, 1, 1, 1]), 4);
        assert_eq!(sizes(&[30, 30]), 1);
    }

    #[test]
    fn one_thread_answers_models_in_turn_and_ends_when_nothing_waits() {
        let models = [0, 1].map(|_| Arc::new(crate::served::tests::two_supports()));
        let queue = WorkQueue::default();
        let mut replies = Vec::new();
        for rows in [3, 70, 5, 80] {
            for served in &models {
                let (part, reply) = part(served, rows);
                let alone = served.plan.decide(&part.rows).unwrap();
                assert!(queue.push(part));
                replies.push((reply, alone));
            }
        }
        assert!(!queue.is_empty());
        queue.stop();
        work(&queue);
        assert!(queue.is_empty());
        for (reply, alone) in replies {
            assert_eq!(reply.blocking_recv().unwrap().unwrap().decisions, alone);
        }
        assert!(!queue.push(part(&models[0], 1).0), "nobody would answer it");
    }
}
