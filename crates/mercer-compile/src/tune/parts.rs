use mercer_data::Matrix;
use mercer_machine::Machine;
use mercer_query::{Plan, QueryError};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Contract;
use crate::CompileError;
use crate::risk::{SMALL_LESSON_SHARE, Target};

/// Fewer queries say nothing about how often a stage settles one.
pub(super) const LEAST_ROWS: usize = 30;
/// More rows teach the fits little.
const MOST_FITTED: usize = 8000;
/// More rows change the order of plans little.
const MOST_MEASURED: usize = 8000;
const LEAST_FITTED: usize = 100;
const LEAST_MEASURED: usize = 300;
/// Share of the sample that measures. Where the test can use the rest, this share is left, or so many rows of a large
/// sample.
const MEASURED: f64 = 0.2;
const STILL_MEASURED: f64 = 0.15;
const ENOUGH_MEASURED: usize = 4000;

/// Rows with their exact scores.
#[derive(Debug)]
pub(super) struct Judged {
    pub rows: Matrix,
    pub scores: Vec<f64>,
}

impl Judged {
    fn new(exact: &Plan, sample: &Matrix, rows: &[usize]) -> Result<Self, QueryError> {
        let rows = sample.select(rows.iter().copied());
        let scores = exact.scores(&rows)?;
        Ok(Self { rows, scores })
    }

    /// The exact answers.
    pub(super) fn answers<'a>(
        &'a self,
        machine: &'a Machine,
    ) -> impl Iterator<Item = mercer_machine::Verdict> + 'a {
        self.scores.chunks_exact(machine.scores().len()).map(|scores| machine.verdict(scores))
    }
}

/// A sample cut at random into disjoint parts.
#[derive(Debug)]
pub(super) struct Parts {
    /// Stages are fitted to these.
    pub fitted: Matrix,
    /// Plans are compared on these, and estimates get their scales and the thresholds of trials from them.
    pub measured: Judged,
    /// Nobody looks at these until the plan is chosen.
    pub verified: Judged,
    /// Whether the contract allows estimates and there are rows enough to test them.
    pub may_estimate: bool,
    /// Rows that a calibrated contract would need, if there are fewer.
    pub needed: Option<usize>,
}

impl Parts {
    pub(super) fn new(
        exact: &Plan,
        sample: &Matrix,
        contract: &Contract,
        has_training: bool,
        seed: u64,
    ) -> Result<Self, CompileError> {
        let rows = sample.rows();
        if rows < LEAST_ROWS {
            return Err(CompileError::FewQueries { found: rows, needed: LEAST_ROWS });
        }
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let (estimating, needed) = match contract {
            Contract::Calibrated(target) => {
                let sizes = Sizes::estimating(rows, target.needed(), has_training);
                let needed = sizes.is_none().then(|| Sizes::needed(target.needed(), has_training));
                (sizes.map(|sizes| sizes.with_spare(rows, target)), needed)
            }
            Contract::Exact | Contract::Certified => (None, None),
        };
        let sizes = estimating.unwrap_or_else(|| Sizes::proving(rows));
        let mut take = |count: usize| order.split_off(order.len() - count);
        let (fitted, measured) = (take(sizes.fitted), take(sizes.measured));
        let judged = |rows: &[usize]| Judged::new(exact, sample, rows);
        Ok(Self {
            fitted: sample.select(fitted),
            measured: judged(&measured)?,
            verified: judged(&order)?,
            may_estimate: estimating.is_some(),
            needed,
        })
    }
}

/// Rows of each part but the last, which gets the rest.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    fitted: usize,
    measured: usize,
}

impl Sizes {
    /// For contracts that rest on proofs.
    fn proving(rows: usize) -> Self {
        let third = rows / 3;
        Self { fitted: third.min(MOST_FITTED), measured: third.min(MOST_MEASURED) }
    }

    /// For contracts that rest on the sample: the test gets most of it. Nothing, if too little is left.
    fn estimating(rows: usize, test: usize, has_training: bool) -> Option<Self> {
        let share = |share: f64, least: usize, most: usize| {
            ((share * rows as f64) as usize).max(least).min(most)
        };
        let lesson = if has_training { SMALL_LESSON_SHARE } else { 0.25 };
        let sizes = Self {
            fitted: share(lesson, LEAST_FITTED, MOST_FITTED),
            measured: share(MEASURED, LEAST_MEASURED, MOST_MEASURED),
        };
        (sizes.fitted + sizes.measured + test <= rows).then_some(sizes)
    }

    /// The test takes rows of those that measure if it then forgives one more other label, and leaves them those that
    /// it cannot use.
    fn with_spare(self, rows: usize, target: &Target) -> Self {
        let left = rows - self.fitted;
        let least = (STILL_MEASURED * rows as f64) as usize;
        let least = least.clamp(LEAST_MEASURED, ENOUGH_MEASURED);
        let measured = left - target.useful(left - least);
        Self { measured: measured.min(MOST_MEASURED), ..self }
    }

    /// The least sample with which something may be estimated.
    fn needed(test: usize, has_training: bool) -> usize {
        let (mut low, mut high) = (test, test.saturating_mul(3).saturating_add(3000));
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            match Self::estimating(middle, test, has_training) {
                Some(_) => high = middle,
                None => low = middle,
            }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_needed_is_the_least_that_suffices() {
        for (test, has_training) in [(2995, false), (2995, true), (59, false), (29_956, true)] {
            let needed = Sizes::needed(test, has_training);
            assert!(Sizes::estimating(needed, test, has_training).is_some());
            assert!(Sizes::estimating(needed - 1, test, has_training).is_none());
        }
    }

    #[test]
    fn the_test_takes_rows_that_measure_only_where_they_buy_it_another_label() {
        let target = Target::default();
        let test = |rows: usize| {
            let sizes = Sizes::estimating(rows, target.needed(), true).unwrap();
            let spared = sizes.with_spare(rows, &target);
            (rows - spared.fitted - spared.measured, spared.measured)
        };
        // Two labels may differ among 6,294 queries, one among 4,742; 24 among 33,748.
        assert_eq!(test(8000), (6294, 1306));
        assert_eq!(test(7000), (4742, 1908));
        assert_eq!(test(40_000), (33_748, 4252));
        assert!((ENOUGH_MEASURED..MOST_MEASURED).contains(&test(200_000).1));
    }
}
