//! Queries from Python: rows as the machine sees them, answered block by block without the interpreter lock. What becomes
//! of the answers is in `answers.rs`.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use mercer::data::Matrix;
use mercer::machine::{Answer, Model};
use mercer::query::{Decision, ExactScratch, Plan, QueryError, QueryOptions, Worker};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::errors::ToPyErr;
use crate::rows::View;
use crate::threads;

/// Up to so many rows are answered on the caller's thread.
const FEW: usize = 8;

/// Queries of a model under its plan.
#[derive(Clone, Copy)]
pub(crate) struct Queries<'a> {
    pub(crate) model: &'a Model,
    pub(crate) plan: &'a Plan,
}

impl Queries<'_> {
    /// The rows as the machine sees them, if their width is right.
    pub(crate) fn matrix(&self, view: View<'_>, memory: Vec<f64>) -> Result<Matrix, AnswerError> {
        let rows = view.matrix_in(memory, None).map_err(AnswerError::Data)?;
        match self.model.input.features {
            Some(expected) if expected != rows.columns() => {
                Err(AnswerError::Query(QueryError::Width { found: rows.columns(), expected }))
            }
            _ if self.model.input.scaling.is_none() => Ok(rows),
            _ => self.model.input.prepare(&rows).map(Cow::into_owned).map_err(AnswerError::Data),
        }
    }

    /// Runs work on all rows, block by block. Each thread copies a block just before it works on it, so that the rows
    /// are still in its cache.
    fn in_blocks<S, T: Clone + Send>(
        &self,
        view: View<'_>,
        make: impl Fn() -> S + Send + Sync,
        work: impl Fn(&mut S, &Matrix) -> Result<Vec<T>, QueryError> + Send + Sync,
    ) -> Result<Vec<T>, AnswerError> {
        let state = || (make(), Vec::new());
        let block = |(state, memory): &mut (S, Vec<f64>), range: Range<usize>| {
            let rows = self.matrix(view.part(range), mem::take(memory))?;
            self.plan.check(&rows).map_err(AnswerError::Query)?;
            let found = work(state, &rows);
            *memory = rows.into_dense().unwrap_or_default();
            found.map_err(AnswerError::Query)
        };
        let blocks = self.plan.blocks(view.rows());
        let answer = |state: &mut (S, Vec<f64>), range: Range<usize>| {
            let first = range.start;
            block(state, range).map_err(|error| error.behind(first))
        };
        let parts: Vec<_> = if blocks.len() < 2 {
            let mut state = state();
            blocks.into_iter().map(|range| answer(&mut state, range)).collect()
        } else {
            blocks.into_par_iter().map_init(state, answer).collect()
        };
        // In order, so that the error is always that of the first bad row.
        Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Decisions for all rows.
    pub(crate) fn decided(&self, view: View<'_>) -> Result<Vec<Decision>, AnswerError> {
        let query_options = QueryOptions::of(self.model);
        let decide = |worker: &mut Worker<'_>, rows: &Matrix| {
            worker.decide(rows, 0..rows.rows(), &query_options).map(<[_]>::to_vec)
        };
        self.in_blocks(view, || self.plan.worker(), decide)
    }

    /// Whether every query is evaluated exactly, whatever it costs: answers then need no ranges.
    pub(crate) fn are_always_exact(&self) -> bool {
        self.plan.stages().is_empty() && QueryOptions::of(self.model).budget.is_none()
    }

    /// The answers of the exact stage alone.
    pub(crate) fn answered_exactly(&self, view: View<'_>) -> Result<Vec<Answer>, AnswerError> {
        let (exact, count) = (self.plan.exact_stage(), self.model.machine.scores().len());
        let work = |(scratch, scores): &mut (ExactScratch, Vec<f64>), rows: &Matrix| {
            scores.clear();
            scores.resize(rows.rows() * count, 0.0);
            exact.scores((0..rows.rows()).map(|row| rows.row(row)), scratch, scores);
            if let Some(at) = scores.iter().position(|score| !score.is_finite()) {
                return Err(QueryError::NotFinite { row: at / count + 1, value: scores[at] });
            }
            let answer = |scores: &[f64]| self.model.machine.output().answer(scores);
            Ok(scores.chunks_exact(count).map(answer).collect())
        };
        self.in_blocks(view, || (exact.scratch(), Vec::new()), work)
    }
}

/// Why rows were not answered.
pub(crate) enum AnswerError {
    Data(mercer::data::DataError),
    Query(QueryError),
}

impl AnswerError {
    /// The same error with row numbers increased by `rows`.
    fn behind(self, rows: usize) -> Self {
        match self {
            Self::Data(error) => Self::Data(error.behind(rows)),
            Self::Query(error) => Self::Query(error.after_rows(rows)),
        }
    }

    /// The exception.
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Data(error) => error.raise(py),
            Self::Query(error) => error.raise(py),
        }
    }
}

/// Runs work on so many rows without the interpreter lock: few on the caller's thread, others on a pool.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    rows: usize,
    threads: usize,
    work: impl FnOnce() -> T + Send,
) -> T {
    py.detach(|| if rows <= FEW { work() } else { threads::run_on(threads, work) })
}
