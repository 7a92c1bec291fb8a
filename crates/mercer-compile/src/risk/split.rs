//! How a sample of queries is cut at random into disjoint parts: one to fit stages, one to measure, one to test.
//!
//! `compile` and `tune` both cut here; they differ in their [`SplitPolicy`] only. What is done with the parts is in
//! `compiler.rs` and in `tune/`.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Target;
use crate::CompileError;

/// The parts of a sample: positions of rows, none in two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleSplit {
    /// Stages are fitted to these rows.
    pub fit: Vec<usize>,
    /// The scales of estimates come from these rows; `tune` compares plans on them too.
    pub measure: Vec<usize>,
    /// The final test. Nothing else looks at these rows.
    pub test: Vec<usize>,
}

/// The size of a part: a share of the sample, within limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartSize {
    /// Share of all rows.
    pub share: f64,
    /// Not fewer rows than this.
    pub least: usize,
    /// Not more rows than this.
    pub most: usize,
}

impl PartSize {
    fn of(&self, rows: usize) -> usize {
        ((self.share * rows as f64) as usize).max(self.least).min(self.most)
    }
}

/// Which part gets the rows that would not allow the test one more disagreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpareRows {
    /// Half of them to each of the other parts.
    FitAndMeasure,
    /// All of them to the rows that measure.
    Measure,
}

/// How a sample is cut for plans that estimate. The test part gets what the others leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitPolicy {
    /// Rows for fitting.
    pub fit: PartSize,
    /// Rows for fitting where stages are fitted to training rows too.
    pub fit_with_training: PartSize,
    /// Rows for measuring that a sample must allow beside the least test.
    pub measure: PartSize,
    /// Rows for measuring that are kept at least where the test can use the others.
    pub kept_measure: PartSize,
    /// Not more rows than this measure; the test gets those beyond.
    pub most_measure: usize,
    /// Where rows go that the test cannot use.
    pub spare: SpareRows,
}

/// Fitting needs little of the sample where there are training rows: the test is worth more.
pub(crate) const FIT_SHARE_WITH_TRAINING: f64 = 0.05;

const NO_LIMIT: usize = usize::MAX;
/// Fewer rows say little about a residual RMS.
const COMPILE_MEASURE: PartSize = PartSize { share: 0.05, least: 100, most: NO_LIMIT };

impl SplitPolicy {
    /// For hand-written plans, which have nothing to compare: five per cent give the scales.
    pub const COMPILE: Self = Self {
        fit: PartSize { share: 0.3, least: 100, most: NO_LIMIT },
        fit_with_training: PartSize { share: FIT_SHARE_WITH_TRAINING, least: 100, most: NO_LIMIT },
        measure: COMPILE_MEASURE,
        kept_measure: COMPILE_MEASURE,
        most_measure: NO_LIMIT,
        spare: SpareRows::FitAndMeasure,
    };

    fn fit_rows(&self, rows: usize, has_training: bool) -> usize {
        if has_training { self.fit_with_training.of(rows) } else { self.fit.of(rows) }
    }

    /// Whether a sample of so many rows leaves a test that can pass.
    pub(crate) fn suffices(&self, rows: usize, target: &Target, has_training: bool) -> bool {
        let others = self.fit_rows(rows, has_training) + self.measure.of(rows);
        rows >= others + target.needed()
    }

    /// The size of the smallest sample that suffices.
    pub(crate) fn least_sample(&self, target: &Target, has_training: bool) -> usize {
        // Between what does not suffice and what surely does.
        let test = target.needed();
        let (mut low, mut high) = (test, test.saturating_mul(3).saturating_add(3000));
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.suffices(middle, target, has_training) { high = middle } else { low = middle }
        }
        high
    }

    /// Rows to fit and rows to measure, for a sample that suffices.
    fn sizes(&self, rows: usize, target: &Target, has_training: bool) -> [usize; 2] {
        let (fit, measure) = (self.fit_rows(rows, has_training), self.kept_measure.of(rows));
        let left = rows - fit - measure;
        let spare = left - target.useful(left);
        let to_fit = match self.spare {
            SpareRows::FitAndMeasure => spare / 2,
            SpareRows::Measure => 0,
        };
        [fit + to_fit, (measure + spare - to_fit).min(self.most_measure)]
    }
}

/// Cuts the rows `0..n` at random into three lists of these sizes.
fn cut(sizes: [usize; 3], seed: u64) -> [Vec<usize>; 3] {
    let mut first: Vec<usize> = (0..sizes.iter().sum()).collect();
    first.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    let last = first.split_off(sizes[0] + sizes[1]);
    let second = first.split_off(sizes[0]);
    [first, second, last]
}

impl SampleSplit {
    /// Cuts a sample of that many rows for a hand-written plan that estimates; the seed decides which row goes where.
    ///
    /// # Errors
    /// If it is too small for the target.
    pub fn new(
        rows: usize,
        has_training: bool,
        target: &Target,
        seed: u64,
    ) -> Result<Self, CompileError> {
        let policy = SplitPolicy::COMPILE;
        if !policy.suffices(rows, target, has_training) {
            let needed = policy.least_sample(target, has_training);
            let Target { risk, delta, .. } = *target;
            return Err(CompileError::SmallSample { found: rows, needed, risk, delta });
        }
        let [fit, measure] = policy.sizes(rows, target, has_training);
        let [fit, measure, test] = cut([fit, measure, rows - fit - measure], seed);
        Ok(Self { fit, measure, test })
    }

    /// For plans that only stop by rules and have no threshold to choose: half of the rows to fit and half to test, or
    /// all to test if the rules come from other rows.
    pub(crate) fn for_rules(rows: usize, has_other_rows: bool, seed: u64) -> Self {
        let fit = if has_other_rows { 0 } else { rows / 2 };
        let [fit, measure, test] = cut([fit, 0, rows - fit], seed);
        Self { fit, measure, test }
    }

    /// For `tune` under a calibrated contract; the sample suffices.
    pub(crate) fn for_estimating_plans(
        rows: usize,
        policy: &SplitPolicy,
        target: &Target,
        has_training: bool,
        seed: u64,
    ) -> Self {
        let [fit, measure] = policy.sizes(rows, target, has_training);
        Self::test_first(rows, fit, measure, seed)
    }

    /// For `tune` under a contract that rests on proofs: a third each, within limits.
    pub(crate) fn for_certified_plans(rows: usize, policy: &SplitPolicy, seed: u64) -> Self {
        let third = rows / 3;
        let (fit, measure) = (third.min(policy.fit.most), third.min(policy.most_measure));
        Self::test_first(rows, fit, measure, seed)
    }

    /// `tune` takes the test rows from the front of the permutation and `compile` from its end: either order is as
    /// good, and keeping both keeps the parts that published seeds give.
    fn test_first(rows: usize, fit: usize, measure: usize, seed: u64) -> Self {
        let [test, measure, fit] = cut([rows - fit - measure, measure, fit], seed);
        Self { fit, measure, test }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::TunePolicy;

    #[test]
    fn parts_are_disjoint_and_a_small_sample_is_told_the_number_needed() {
        let target = Target { risk: 0.01, delta: 0.05, ..Target::default() };
        let split = SampleSplit::new(1000, false, &target, 3).unwrap();
        let mut all = [split.fit, split.measure, split.test].concat();
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        let error = SampleSplit::new(400, false, &target, 3);
        let Err(CompileError::SmallSample { needed, .. }) = error else {
            panic!("400 rows cannot do")
        };
        assert!(SampleSplit::new(needed, false, &target, 3).is_ok());
        assert!(SampleSplit::new(needed - 1, false, &target, 3).is_err());
    }

    #[test]
    fn the_number_needed_is_the_least_that_suffices() {
        let policy = TunePolicy::DEFAULT.split;
        for (risk, has_training) in [(1e-3, false), (1e-3, true), (0.05, false), (1e-4, true)] {
            let target = Target { risk, ..Target::default() };
            let needed = policy.least_sample(&target, has_training);
            assert!(policy.suffices(needed, &target, has_training));
            assert!(!policy.suffices(needed - 1, &target, has_training));
        }
    }

    #[test]
    fn the_test_takes_rows_that_measure_only_where_they_allow_one_more_disagreement() {
        let (policy, target) = (TunePolicy::DEFAULT.split, Target::default());
        let test = |rows: usize| {
            assert!(policy.suffices(rows, &target, true));
            let [fit, measure] = policy.sizes(rows, &target, true);
            (rows - fit - measure, measure)
        };
        // Two labels may differ among 6,294 queries, one among 4,742; 24 among 33,748.
        assert_eq!(test(8000), (6294, 1306));
        assert_eq!(test(7000), (4742, 1908));
        assert_eq!(test(40_000), (33_748, 4252));
        assert!((policy.kept_measure.most..policy.most_measure).contains(&test(200_000).1));
    }
}
