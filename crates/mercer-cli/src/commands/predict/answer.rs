//! Answers the rows of a chunk. Rows that have no answer (a scaled value or a score overflows, a kernel needs values of
//! at least 0) end the command, or are set apart on request. How answers are written is in `output.rs`.

use std::borrow::Cow;
use std::ops::Range;

use mercer::data::{DataError, Matrix};
use mercer::machine::Model;
use mercer::query::{Decision, Plan, QueryError, QueryOptions};

/// Rows that are needed to measure a rate.
const TIMED: usize = 256;

/// What to do with a row that has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadRows {
    /// Nothing is answered.
    Fail,
    /// The others are answered.
    Skip,
}

/// Answers to the rows of a chunk.
#[derive(Debug)]
pub(super) struct Answers<'r> {
    /// The rows with an answer, scaled.
    pub(super) rows: Cow<'r, Matrix>,
    /// Their positions in the chunk, increasing.
    pub(super) positions: Vec<usize>,
    /// Their answers.
    pub(super) decisions: Vec<Decision>,
    /// Why each of the others has none.
    pub(super) refused: Vec<anyhow::Error>,
}

/// Whether an error is about a single row, and others may have answers.
fn is_of_one_row(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(QueryError::NotFinite { .. } | QueryError::Negative { .. }))
        || matches!(error.downcast_ref(), Some(DataError::NotFiniteAt { .. }))
}

/// How rows are answered.
#[derive(Debug)]
pub(super) struct Answering<'a> {
    pub(super) model: &'a Model,
    pub(super) plan: &'a Plan,
    pub(super) bad_rows: BadRows,
}

impl Answering<'_> {
    /// The first of these rows that have an answer, enough to measure a rate.
    pub(super) fn first_rows(&self, rows: &Matrix) -> anyhow::Result<Matrix> {
        let first = rows.select(0..rows.rows().min(TIMED));
        Ok(self.answer(&first, &QueryOptions::default(), 0)?.rows.into_owned())
    }

    /// Answers rows before which `before` other rows of the file come.
    ///
    /// # Errors
    /// The reason of a row that has no answer, unless such rows are skipped.
    pub(super) fn answer<'r>(
        &self,
        rows: &'r Matrix,
        options: &QueryOptions,
        before: usize,
    ) -> anyhow::Result<Answers<'r>> {
        let all = 0..rows.rows();
        match self.answer_all(rows, options, before) {
            Ok((rows, decisions)) => {
                let (positions, refused) = (all.collect(), Vec::new());
                return Ok(Answers { rows, positions, decisions, refused });
            }
            Err(error) if self.bad_rows == BadRows::Fail || !is_of_one_row(&error) => {
                return Err(error);
            }
            Err(_) => {}
        }
        let (bad, refused): (Vec<usize>, Vec<anyhow::Error>) =
            self.refusals(rows, all.clone(), options, before).into_iter().unzip();
        let positions: Vec<usize> = all.filter(|row| bad.binary_search(row).is_err()).collect();
        let good = rows.select(positions.iter().copied());
        let (rows, decisions) = self.answer_all(&good, options, before)?;
        let rows = Cow::Owned(rows.into_owned());
        Ok(Answers { rows, positions, decisions, refused })
    }

    fn answer_all<'r>(
        &self,
        rows: &'r Matrix,
        options: &QueryOptions,
        before: usize,
    ) -> anyhow::Result<(Cow<'r, Matrix>, Vec<Decision>)> {
        let prepared = self.model.input.prepare(rows).map_err(|error| error.behind(before))?;
        let decided = self.plan.decide_with(&prepared, options);
        let decided = decided.map_err(|error| error.after_rows(before))?;
        Ok((prepared, decided.decisions))
    }

    /// Rows of a range without an answer, and why. A range with such a row is halved until single rows are left, so a
    /// good row is answered at most as many times as a chunk can be halved.
    fn refusals(
        &self,
        rows: &Matrix,
        range: Range<usize>,
        options: &QueryOptions,
        before: usize,
    ) -> Vec<(usize, anyhow::Error)> {
        let part = rows.select(range.clone());
        match self.answer_all(&part, options, before + range.start) {
            Ok(_) => Vec::new(),
            Err(error) if range.len() <= 1 => vec![(range.start, error)],
            Err(_) => {
                let middle = range.start + range.len() / 2;
                let mut found = self.refusals(rows, range.start..middle, options, before);
                found.extend(self.refusals(rows, middle..range.end, options, before));
                found
            }
        }
    }
}
