//! The audit of calibrated answers in the background: rows that were drawn are answered again exactly by one thread that
//! waits while requests do. Answers are never changed by it; a promise that is found to be broken changes the plan by
//! which later ones are computed. What the bounds mean is in `mercer_query::Audit`.
//!
//! Bounds stay valid at all times because of two rules. What is drawn from together is counted together, in the order in which
//! requests were answered. And where too much waits, a whole request is left out, whether or not any of its rows was drawn.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mercer_data::Matrix;
use mercer_machine::Answer;
use mercer_query::{Certainty, Decision, Drawn};

use crate::served::ServedModel;

/// Bytes of rows that wait, at most, and parts.
const BYTES: usize = 16 << 20;
const PARTS: usize = 4096;
/// Rows that are answered before looking again whether requests wait.
const SLICE: usize = 64;
/// How long a slice waits for requests: under constant load the audit goes on, slowly.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Between looks.
const LOOK: Duration = Duration::from_millis(1);

/// Rows of a request that were drawn before it was answered.
#[derive(Debug)]
pub struct Offer {
    drawn: Drawn,
    /// The rows that were drawn.
    rows: Matrix,
}

impl Offer {
    /// Draws some of the rows of a request; none if the model is not audited.
    pub fn draw(served: &ServedModel, rows: &Matrix) -> Option<Self> {
        if served.is_alarmed.load(Ordering::Acquire) {
            return None;
        }
        let drawn = served.audit()?.draw(rows);
        let rows = rows.select(drawn.positions());
        Some(Self { drawn, rows })
    }
}

/// Rows that wait to be answered again.
struct Part {
    served: Arc<ServedModel>,
    drawn: Drawn,
    rows: Matrix,
    /// What was answered.
    given: Vec<Answer>,
}

#[derive(Default)]
struct Waiting {
    parts: VecDeque<Part>,
    bytes: usize,
    /// Whether the thread works on a part.
    is_working: bool,
}

impl Waiting {
    /// Counts rows of which none is to be compared, if their turn allows it: behind rows of the same model, or where
    /// nothing waits. The thread need not wake for them.
    fn count_undrawn(&mut self, served: &Arc<ServedModel>, drawn: &Drawn) -> bool {
        match self.parts.back_mut() {
            Some(last) if Arc::ptr_eq(&last.served, served) => {
                last.drawn.extend_undrawn(drawn.rows());
                true
            }
            None if !self.is_working => {
                if let Some(mut audit) = served.audit() {
                    audit.settle(drawn, &[]);
                }
                true
            }
            _ => false,
        }
    }
}

#[derive(Default)]
struct AuditQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    is_stopping: AtomicBool,
}

impl AuditQueue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that audits, and what waits for it.
pub struct Auditor {
    shared: Arc<AuditQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Auditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auditor").finish_non_exhaustive()
    }
}

impl Auditor {
    /// Starts the thread. `is_busy` says whether requests wait; `alarm` is called when a promise is found to be broken.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        is_busy: impl Fn() -> bool + Send + 'static,
        alarm: impl Fn(&ServedModel) + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(AuditQueue::default());
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("mercer-audit".to_owned())
            .spawn(move || work(&own, &is_busy, &alarm))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Takes the rows of a request that has been answered. Where too much waits the whole request is left out.
    pub fn offer(&self, served: &Arc<ServedModel>, offer: Offer, decisions: &[Decision]) {
        let Offer { mut drawn, rows } = offer;
        let mut waiting = self.shared.waiting();
        if waiting.bytes >= BYTES || waiting.parts.len() >= PARTS {
            served.counters.unaudited.fetch_add(drawn.rows() as u64, Ordering::Relaxed);
            return;
        }
        let is_calibrated = |at: usize| decisions[at].certainty == Certainty::Calibrated;
        let kept: Vec<usize> = drawn
            .positions()
            .enumerate()
            .filter(|(_, at)| is_calibrated(*at))
            .map(|(number, _)| number)
            .collect();
        drawn.keep(is_calibrated);
        if kept.is_empty() && waiting.count_undrawn(served, &drawn) {
            return;
        }
        let rows = if kept.len() == rows.rows() { rows } else { rows.select(kept) };
        let given = drawn.positions().map(|at| decisions[at].answer).collect();
        waiting.bytes += rows.bytes();
        waiting.parts.push_back(Part { served: Arc::clone(served), drawn, rows, given });
        drop(waiting);
        self.shared.changed.notify_all();
    }

    /// Ends the thread; what waits is dropped.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has no more to say.
        drop(thread.map(JoinHandle::join));
    }

    /// Waits until nothing waits any more.
    #[cfg(test)]
    fn finish(&self) {
        let mut waiting = self.shared.waiting();
        while !waiting.parts.is_empty() || waiting.is_working {
            waiting = self.shared.changed.wait(waiting).unwrap();
        }
    }
}

fn work(shared: &AuditQueue, is_busy: &impl Fn() -> bool, alarm: &impl Fn(&ServedModel)) {
    loop {
        let part = {
            let mut waiting = shared.waiting();
            waiting.is_working = false;
            shared.changed.notify_all();
            loop {
                if shared.is_stopping.load(Ordering::Acquire) {
                    return;
                }
                if let Some(part) = waiting.parts.pop_front() {
                    waiting.bytes -= part.rows.bytes();
                    waiting.is_working = true;
                    break part;
                }
                waiting = shared.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        };
        // A part whose exact answers panic is left out as a whole; the audit goes on.
        let compared = catch_unwind(AssertUnwindSafe(|| compare(shared, &part, is_busy)));
        let are_other = match compared {
            Ok(Some(are_other)) => are_other,
            Ok(None) => return,
            Err(_) => continue,
        };
        let Some(mut audit) = part.served.audit() else { continue };
        audit.settle(&part.drawn, &are_other);
        let is_broken = audit.alarm().is_some();
        drop(audit);
        if is_broken && part.served.raise_alarm() {
            alarm(&part.served);
        }
    }
}

/// Whether the exact answer of each row is another; none if the server stops meanwhile.
fn compare(shared: &AuditQueue, part: &Part, is_busy: &impl Fn() -> bool) -> Option<Vec<bool>> {
    let mut are_other = Vec::with_capacity(part.given.len());
    for first in (0..part.rows.rows()).step_by(SLICE) {
        let start = Instant::now();
        while is_busy() && start.elapsed() < LONGEST_WAIT {
            std::thread::sleep(LOOK);
        }
        if shared.is_stopping.load(Ordering::Acquire) {
            return None;
        }
        let slice = part.rows.select(first..(first + SLICE).min(part.rows.rows()));
        let given = &part.given[first..first + slice.rows()];
        match part.served.plan.exact_answers(&slice) {
            Ok(exact) => {
                are_other
                    .extend(exact.iter().zip(given).map(|(exact, given)| exact.answer != *given));
            }
            // A score overflows: a row whose exact answer does not exist was answered all the same.
            Err(_) => are_other.extend((0..slice.rows()).map(|row| {
                let exact = part.served.plan.exact_answers(&slice.select([row]));
                exact.map_or(true, |exact| exact[0].answer != given[row])
            })),
        }
    }
    Some(are_other)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use mercer_query::Audit;

    use super::*;
    use crate::served::tests::two_supports;

    /// The model with an audit of every answer, its promise one disagreement in a thousand.
    fn audited() -> Arc<ServedModel> {
        let audit = Audit::of_promise(0.5, 1e-3, 0.05, 1).unwrap();
        let mut served = two_supports();
        served.audit = Some(Mutex::new(audit));
        Arc::new(served)
    }

    fn rows(count: usize) -> Matrix {
        Matrix::dense(2, (0..2 * count).map(|at| (at % 17) as f64 / 8.0 - 1.0).collect()).unwrap()
    }

    /// Exact answers that claim to be calibrated, some of them wrong.
    fn answers(
        served: &ServedModel,
        rows: &Matrix,
        is_wrong: impl Fn(usize) -> bool,
    ) -> Vec<Decision> {
        let mut decisions = served.plan.exact_answers(rows).unwrap();
        for (row, decision) in decisions.iter_mut().enumerate() {
            decision.certainty = Certainty::Calibrated;
            if let (true, Answer::Class(class)) = (is_wrong(row), decision.answer) {
                decision.answer = Answer::Class(1 - class);
            }
        }
        decisions
    }

    #[test]
    fn a_broken_promise_is_found_in_the_background_and_raises_one_alarm() {
        let (served, alarms) = (audited(), Arc::new(AtomicUsize::new(0)));
        let own = Arc::clone(&alarms);
        let count = move |_: &ServedModel| {
            own.fetch_add(1, Ordering::Relaxed);
        };
        let auditor = Auditor::start(|| false, count).unwrap();
        let rows = rows(200);
        let good = answers(&served, &rows, |_| false);
        for _ in 0..5 {
            auditor.offer(&served, Offer::draw(&served, &rows).unwrap(), &good);
        }
        auditor.finish();
        let report = served.audit().unwrap().report();
        assert_eq!((report.seen, report.disagreements, report.alarm), (1000, 0, None));
        assert!((400..600).contains(&report.audited), "{report:?}");
        let bad = answers(&served, &rows, |row| row % 10 == 0);
        let given = bad.clone();
        for _ in 0..5 {
            if let Some(offer) = Offer::draw(&served, &rows) {
                auditor.offer(&served, offer, &bad);
            }
            auditor.finish();
        }
        assert_eq!(bad, given, "an answer that was given stays");
        assert_eq!(alarms.load(Ordering::Relaxed), 1);
        assert!(served.is_alarmed.load(Ordering::Relaxed));
        assert!(Offer::draw(&served, &rows).is_none(), "nothing is left to find");
        auditor.stop();
    }

    #[test]
    fn beyond_its_memory_whole_requests_are_left_out_and_counted() {
        let served = audited();
        let auditor = Auditor::start(|| true, |_| {}).unwrap();
        let wide = Matrix::dense(2, vec![0.5; 2 * 400_000]).unwrap();
        let given = answers(&served, &wide.select([0]), |_| false)[0];
        let decisions = vec![given; wide.rows()];
        for _ in 0..20 {
            auditor.offer(&served, Offer::draw(&served, &wide).unwrap(), &decisions);
        }
        assert!(auditor.shared.waiting().bytes < BYTES + wide.bytes());
        let left_out = served.counters.unaudited.load(Ordering::Relaxed);
        assert!(left_out > 0 && left_out.is_multiple_of(400_000), "{left_out}");
        auditor.stop();
    }
}
