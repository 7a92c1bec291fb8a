//! Queries from Python: rows as the machine sees them, answered block by block without the interpreter lock. What becomes
//! of the answers is in `answers.rs`.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use mercer::data::{Matrix, Row};
use mercer::kernel::Domain;
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

    /// Runs work on a block of rows. The caller's thread has copied them just before, so they are still in its cache.
    fn on_matrix<T>(
        &self,
        view: View<'_>,
        memory: &mut Vec<f64>,
        work: impl FnOnce(&Matrix) -> Result<Vec<T>, QueryError>,
    ) -> Result<Vec<T>, AnswerError> {
        let rows = self.matrix(view, mem::take(memory))?;
        self.plan.check(&rows).map_err(AnswerError::Query)?;
        let found = work(&rows);
        *memory = rows.into_dense().unwrap_or_default();
        found.map_err(AnswerError::Query)
    }

    /// Answers all rows, block by block, on the threads of the pool.
    fn in_blocks<S, T: Clone + Send>(
        &self,
        rows: usize,
        make: impl Fn() -> S + Send + Sync,
        work: impl Fn(&mut S, Range<usize>) -> Result<Vec<T>, AnswerError> + Send + Sync,
    ) -> Result<Vec<T>, AnswerError> {
        let answer = |state: &mut S, range: Range<usize>| {
            let first = range.start;
            work(state, range).map_err(|error| error.behind(first))
        };
        let blocks = self.plan.blocks(rows);
        let parts: Vec<_> = if blocks.len() < 2 {
            let mut state = make();
            blocks.into_iter().map(|range| answer(&mut state, range)).collect()
        } else {
            blocks.into_par_iter().map_init(make, answer).collect()
        };
        // In order, so that the error is always that of the first bad row.
        Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Decisions for all rows.
    pub(crate) fn decided(&self, view: View<'_>) -> Result<Vec<Decision>, AnswerError> {
        let query_options = QueryOptions::of(self.model, self.plan);
        let decide = |(worker, memory): &mut (Worker<'_>, Vec<f64>), range: Range<usize>| {
            self.on_matrix(view.part(range), memory, |rows| {
                worker.decide(rows, 0..rows.rows(), &query_options).map(<[_]>::to_vec)
            })
        };
        self.in_blocks(view.rows(), || (self.plan.worker(), Vec::new()), decide)
    }

    /// Whether every query is evaluated exactly, whatever it costs: answers then need no ranges.
    pub(crate) fn are_always_exact(&self) -> bool {
        self.plan.stages().is_empty() && QueryOptions::of(self.model, self.plan).budget.is_none()
    }

    /// The answers of the exact stage alone. Sparse rows that can be read where they are are not copied.
    pub(crate) fn answered_exactly(&self, view: View<'_>) -> Result<Vec<Answer>, AnswerError> {
        let exact = self.plan.exact_stage();
        let state = || (exact.scratch(), Vec::new(), Vec::new());
        self.in_blocks(view.rows(), state, |(scratch, scores, memory), range| {
            let part = view.part(range);
            match self.rows_in_place(&part) {
                Some(rows) => self
                    .exact_answers(rows.iter().copied(), scratch, scores)
                    .map_err(AnswerError::Query),
                None => self.on_matrix(part, memory, |rows| {
                    let rows = (0..rows.rows()).map(|row| rows.row(row));
                    self.exact_answers(rows, scratch, scores)
                }),
            }
        })
    }

    /// Compressed rows as they are, if the machine takes them so and nothing is wrong with them.
    fn rows_in_place<'v>(&self, view: &View<'v>) -> Option<Vec<Row<'v>>> {
        let input = &self.model.input;
        let is_plain = input.scaling.is_none() && self.model.machine.domain() == Domain::Real;
        let expected = input.features.filter(|_| is_plain)?;
        view.in_place(expected)
    }

    fn exact_answers<'v>(
        &self,
        rows: impl ExactSizeIterator<Item = Row<'v>> + Clone,
        scratch: &mut ExactScratch,
        scores: &mut Vec<f64>,
    ) -> Result<Vec<Answer>, QueryError> {
        let count = self.model.machine.scores().len();
        scores.clear();
        scores.resize(rows.len() * count, 0.0);
        self.plan.exact_stage().scores(rows, scratch, scores);
        if let Some(at) = scores.iter().position(|score| !score.is_finite()) {
            return Err(QueryError::NotFinite { row: at / count + 1, value: scores[at] });
        }
        let answer = |scores: &[f64]| self.model.machine.output().answer(scores);
        Ok(scores.chunks_exact(count).map(answer).collect())
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
