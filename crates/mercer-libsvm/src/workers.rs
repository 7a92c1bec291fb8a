//! A plan with the workers of the threads that asked it: made when none is idle, kept for the next prediction, and released
//! with the model.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use mercer::data::Matrix;
use mercer::machine::Answer;
use mercer::query::{ExactScratch, Plan, QueryOptions, Worker};

use crate::layout::svm_node;
use crate::pack::matrix;

/// Rows of models with at most so many columns are dense: nothing is allocated for a prediction.
const NARROW: usize = 64;

/// So many queries of the exact stage do not pay for packed supports.
const FREE: u64 = 4;
/// One query of so many in the exact stage, after [`FREE`] others, does: unpacked it takes some twenty times as long.
const RARE: u64 = 256;

/// A plan and its idle workers.
#[derive(Debug)]
pub(crate) struct Planned {
    plan: Arc<Plan>,
    idle: Mutex<Vec<OwnedWorker>>,
    asked: AtomicU64,
    /// Queries that the exact stage answered.
    late: AtomicU64,
}

/// A worker together with the plan that it borrows.
#[derive(Debug)]
struct OwnedWorker {
    /// Borrows from `plan` below, and is dropped before it: members are dropped in this order.
    worker: Worker<'static>,
    exact: ExactScratch,
    /// Memory of a dense row.
    row: Vec<f64>,
    plan: Arc<Plan>,
}

impl Planned {
    pub(crate) fn new(plan: Plan) -> Self {
        let (asked, late) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { plan: Arc::new(plan), idle: Mutex::default(), asked, late }
    }

    /// The class, by place, or the value of a row; `None` if it is not regular or a score overflows.
    pub(crate) fn answer(&self, query: &[svm_node]) -> Option<Answer> {
        self.with_worker(|worker| {
            let rows = worker.rows(query)?;
            let found = worker.worker.decide(&rows, 0..1, &QueryOptions::default());
            let answer = found.ok()?.first().map(|decision| decision.answer);
            self.count(worker.worker.answered_by());
            worker.take_back(rows);
            answer
        })
    }

    /// Packs the supports for the exact stage once it answers more than a few queries. No answer depends on it.
    fn count(&self, answered_by: &[usize]) {
        let asked = self.asked.fetch_add(1, Relaxed) + 1;
        if answered_by == [self.plan.stages().len()] {
            let late = self.late.fetch_add(1, Relaxed) + 1;
            if late > FREE && late * RARE > asked {
                self.plan.exact_stage().pack();
            }
        }
    }

    /// The decision values of a row; `None` as above.
    pub(crate) fn values(&self, query: &[svm_node]) -> Option<Vec<f64>> {
        self.plan.exact_stage().pack();
        self.with_worker(|worker| {
            let rows = worker.rows(query)?;
            let exact = worker.plan.exact_stage();
            let mut scores = vec![0.0; exact.machine().scores().len()];
            exact.scores(std::iter::once(rows.row(0)), &mut worker.exact, &mut scores);
            worker.take_back(rows);
            scores.iter().all(|score| score.is_finite()).then_some(scores)
        })
    }

    /// Runs work with an idle worker, or with a new one.
    fn with_worker<T>(&self, work: impl FnOnce(&mut OwnedWorker) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let mut worker = kept.unwrap_or_else(|| OwnedWorker::new(&self.plan));
        let result = work(&mut worker);
        idle().push(worker);
        result
    }
}

impl OwnedWorker {
    fn new(plan: &Arc<Plan>) -> Self {
        // SAFETY: an `Arc` does not move what it holds, and this structure keeps one as long as the worker.
        let borrowed: &'static Plan = unsafe { &*Arc::as_ptr(plan) };
        Self {
            worker: borrowed.worker(),
            exact: plan.exact_stage().scratch(),
            row: Vec::new(),
            plan: Arc::clone(plan),
        }
    }

    /// The query as a matrix of one row, which [`OwnedWorker::take_back`] takes apart again; `None` if it is not regular.
    fn rows(&mut self, query: &[svm_node]) -> Option<Matrix> {
        let columns = self.plan.exact_stage().machine().columns();
        if columns > NARROW || columns == 0 {
            return matrix(std::iter::once(query));
        }
        self.row.clear();
        self.row.resize(columns, 0.0);
        let mut next = 0;
        for node in query {
            // Also a query with more columns goes the other way.
            match self.row.get_mut(node.index as usize) {
                Some(place) if node.index >= next && node.value.is_finite() => *place = node.value,
                _ => return matrix(std::iter::once(query)),
            }
            next = node.index + 1;
        }
        Matrix::dense(columns, std::mem::take(&mut self.row)).ok()
    }

    fn take_back(&mut self, rows: Matrix) {
        self.row = rows.into_dense().unwrap_or_default();
    }
}
