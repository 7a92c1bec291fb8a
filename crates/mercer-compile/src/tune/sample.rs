//! The sample of queries as the search uses it: cut into parts, with exact scores where they are needed.
//!
//! How large the parts are is decided in `risk/split.rs`.

use mercer_data::Matrix;
use mercer_machine::{Machine, Verdict};
use mercer_query::{Plan, QueryError};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Contract, TunePolicy, Tuner};
use crate::CompileError;
use crate::risk::{SampleSplit, Target};

/// Rows with their exact scores.
#[derive(Debug)]
pub(super) struct ScoredRows {
    pub rows: Matrix,
    /// One row after the other.
    pub scores: Vec<f64>,
}

impl ScoredRows {
    fn new(exact: &Plan, sample: &Matrix, rows: &[usize]) -> Result<Self, QueryError> {
        let rows = sample.select(rows.iter().copied());
        let scores = exact.scores(&rows)?;
        Ok(Self { rows, scores })
    }

    /// The exact answers.
    pub(super) fn answers<'a>(
        &'a self,
        machine: &'a Machine,
    ) -> impl Iterator<Item = Verdict> + 'a {
        self.scores.chunks_exact(machine.scores().len()).map(|scores| machine.verdict(scores))
    }
}

/// A sample cut at random into disjoint parts.
#[derive(Debug)]
pub(super) struct TuneSample {
    /// Stages are fitted to these rows.
    pub fit: Matrix,
    /// Plans are compared on these rows; the scales of estimates and predicted thresholds come from them too.
    pub measure: ScoredRows,
    /// The test: only validate and choose use these rows.
    pub test: ScoredRows,
    /// Whether the contract allows estimates and there are rows enough to test them.
    pub may_estimate: bool,
    /// Rows that a calibrated contract would need, if there are fewer.
    pub needed_rows: Option<usize>,
}

impl TuneSample {
    pub(super) fn new(
        tuner: &Tuner<'_>,
        exact: &Plan,
        policy: &TunePolicy,
    ) -> Result<Self, CompileError> {
        let (sample, seed) = (tuner.sample, tuner.seed);
        let (rows, needed) = (sample.rows(), policy.sample.least_rows);
        if rows < needed {
            return Err(CompileError::FewQueries { found: rows, needed });
        }
        let has_training = tuner.training.is_some();
        let suffices = |target: &&Target| policy.split.suffices(rows, target, has_training);
        let target = match &tuner.contract {
            Contract::Calibrated(target) => Some(target),
            Contract::Exact | Contract::Certified => None,
        };
        let estimating = target.filter(suffices);
        let split = match estimating {
            Some(target) => {
                SampleSplit::for_estimating_plans(rows, &policy.split, target, has_training, seed)
            }
            None => SampleSplit::for_certified_plans(rows, &policy.split, seed),
        };
        let missing = target.filter(|_| estimating.is_none());
        Ok(Self {
            fit: sample.select(split.fit),
            measure: ScoredRows::new(exact, sample, &split.measure)?,
            test: ScoredRows::new(exact, sample, &split.test)?,
            may_estimate: estimating.is_some(),
            needed_rows: missing.map(|target| policy.split.least_sample(target, has_training)),
        })
    }
}

/// At most `most` rows, drawn at random.
pub(super) fn drawn(rows: &Matrix, most: usize, seed: u64) -> Matrix {
    let mut order: Vec<usize> = (0..rows.rows()).collect();
    order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    order.truncate(most);
    rows.select(order)
}
