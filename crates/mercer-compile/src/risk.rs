//! Risk calibration: one acceptance threshold for all estimates of a plan, chosen by Learn-then-Test on queries that
//! nothing was fitted to.
//!
//! The sample is cut at random into three parts (see [`SampleSplit`]): stages are fitted to the first, the scales of
//! all levels come from the second, and the third, the test part, is used once, with the finished levels.
//! Thresholds are tested from the safest to the least safe, in an order that is fixed beforehand. Each stands for the
//! hypothesis "more than `risk` of all queries disagree with exact", which is rejected when the Clopper-Pearson bound
//! at level `delta` is below `risk`. The first hypothesis that is not rejected ends the sequence, and the last rejected
//! one gives the threshold. Testing in a fixed sequence needs no correction for the number of tests, and the risk need
//! not be monotone in the threshold (\[LTT21\], Angelopoulos, Bates, Candès, Jordan and Lei, "Learn then Test",
//! 2021). So, if test part and queries are exchangeable, the probability that the chosen threshold has a true rate
//! above `risk` is at most `delta`, whatever the levels compute. No labels are needed: disagreements with the exact
//! machine are counted. Where excess errors are promised the sample is labelled, and the bound is the upper bound
//! on worse labels less the lower bound on better ones, each at half of `delta`.
//!
//! Not here: how estimates are computed (`fit/`), and how they are used for a query (`mercer-query`).

mod bounds;
mod retest;
mod scales;
mod split;

use mercer_data::Matrix;
use mercer_machine::{Answer, Calibration, Counts, Machine, Scale};
use mercer_query::{Certainty, Decision, Estimate, Plan, Record};

pub use bounds::{lower_bound, upper_bound};
pub use retest::{Retest, retest};
pub(crate) use scales::{fitted_scales, scales_of};
pub(crate) use split::FIT_SHARE_WITH_TRAINING;
pub use split::{PartSize, SampleSplit, SpareRows, SplitPolicy};

use crate::CompileError;
use bounds::binomial_cdf;

/// What a promise is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Risk {
    /// Disagreements with the exact label; needs no labels.
    #[default]
    Disagreements,
    /// Errors beyond those of exact answers: needs a labelled sample. Disagreements that are right where exact is
    /// wrong make up for those that are wrong where exact is right.
    ExcessErrors,
}

/// What is promised: with confidence `1 - delta`, at most the share `risk` of queries like the sample's
/// disagree with exact, or answers are wrong more often than exact ones by at most that share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// The largest share that is allowed (eps).
    pub risk: f64,
    /// Probability that the sample is misleading and the promise does not hold.
    pub delta: f64,
    /// What is counted.
    pub of: Risk,
}

impl Default for Target {
    fn default() -> Self {
        Self { risk: 1e-3, delta: 0.05, of: Risk::Disagreements }
    }
}

impl Target {
    /// Queries that the test part must have: with fewer, a test cannot pass even without any disagreement.
    pub fn needed(&self) -> usize {
        let delta = match self.of {
            Risk::Disagreements => self.delta,
            // Two bounds share it (union bound).
            Risk::ExcessErrors => self.delta / 2.0,
        };
        (delta.ln() / (-self.risk).ln_1p()).ceil().max(1.0) as usize
    }

    /// The smallest number of test queries that allows as many disagreements as `most` queries do.
    pub(crate) fn useful(&self, most: usize) -> usize {
        if self.of != Risk::Disagreements || most < self.needed() {
            return most;
        }
        let count = self.allowed(most);
        let (mut too_few, mut enough) = (count, most);
        while too_few + 1 < enough {
            let middle = too_few + (enough - too_few) / 2;
            if self.allows(count, middle) { enough = middle } else { too_few = middle }
        }
        enough
    }

    /// The true rate of disagreements at which a test of so many queries passes with probability one half.
    pub(crate) fn median_rate(&self, queries: usize) -> f64 {
        upper_bound(self.allowed(queries) as u64, queries as u64, 0.5)
    }

    /// How many disagreements a test of so many queries allows.
    pub(crate) fn allowed(&self, queries: usize) -> usize {
        let (mut count, mut too_many) = (0, queries);
        while count + 1 < too_many {
            let middle = count + (too_many - count) / 2;
            if self.allows(middle, queries) { count = middle } else { too_many = middle }
        }
        count
    }

    fn allows(&self, count: usize, queries: usize) -> bool {
        count < queries && binomial_cdf(count as u64, queries as u64, self.risk) <= self.delta
    }

    /// Upper bound on what is promised to be small.
    fn bound(&self, tally: &Tally, total: u64) -> f64 {
        match self.of {
            Risk::Disagreements => upper_bound(tally.disagreements, total, self.delta),
            Risk::ExcessErrors => {
                let half = self.delta / 2.0;
                let worse = upper_bound(tally.worse, total, half);
                (worse - lower_bound(tally.better, total, half)).max(0.0)
            }
        }
    }

    pub(crate) fn check(&self) -> Result<(), CompileError> {
        for (name, value) in [("eps", self.risk), ("delta", self.delta)] {
            if !(value > 0.0 && value < 1.0) {
                return Err(CompileError::NotAShare { name, value });
            }
        }
        Ok(())
    }
}

/// What one level would answer to one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelDecision {
    /// Distance of its estimate from a change of label, in residual RMS.
    pub margin: f64,
    /// Whether its label is the exact one.
    pub agrees: bool,
    /// What a disagreement does to the error rate, where labels are known.
    pub effect: LabelEffect,
}

/// Whether a label that disagrees with exact is better or worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LabelEffect {
    /// Not known, or both labels are wrong.
    #[default]
    None,
    /// The exact label was right.
    Worse,
    /// The exact label was wrong, this one is right.
    Better,
}

/// Counts over the queries of a test part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Labels that disagree with exact.
    pub disagreements: u64,
    /// Those of them that are wrong where the exact label is right.
    pub worse: u64,
    /// Those of them that are right where the exact label is wrong.
    pub better: u64,
}

/// A threshold with the result of its test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThresholdChoice {
    /// The acceptance threshold.
    pub threshold: f64,
    /// Counts on the test part.
    pub tally: Tally,
    /// Upper bound on the share that is promised to be small.
    pub bound: f64,
}

impl ThresholdChoice {
    /// The counts as a model file stores them.
    fn counts(&self, target: &Target) -> Counts {
        let Tally { worse, better, .. } = self.tally;
        match target.of {
            Risk::Disagreements => Counts::Disagreements,
            Risk::ExcessErrors => Counts::ExcessErrors { worse, better },
        }
    }
}

/// The thresholds tested, from the safest to the least safe: fixed, so that the order cannot depend on the sample.
pub fn thresholds() -> impl Iterator<Item = f64> {
    const COUNT: i32 = 320;
    (0..COUNT).map(|n| 40.0 * 0.005f64.powf(f64::from(n) / f64::from(COUNT - 1)))
}

/// Counts disagreements at a threshold: the first level whose margin is above it answers the query.
pub fn count_disagreements(queries: &[Vec<LevelDecision>], threshold: f64) -> Tally {
    let mut tally = Tally::default();
    for levels in queries {
        let first = levels.iter().find(|level| level.margin > threshold);
        if let Some(level) = first.filter(|level| !level.agrees) {
            tally.disagreements += 1;
            tally.worse += u64::from(level.effect == LabelEffect::Worse);
            tally.better += u64::from(level.effect == LabelEffect::Better);
        }
    }
    tally
}

/// Tests a plan that has no threshold to choose. It promises the bound of this one test.
fn test_without_threshold(queries: &[Vec<LevelDecision>], target: &Target) -> ThresholdChoice {
    let tally = count_disagreements(queries, f64::MAX);
    let bound = target.bound(&tally, queries.len() as u64);
    ThresholdChoice { threshold: f64::INFINITY, tally, bound }
}

/// The smallest threshold that the test part allows: Learn-then-Test in a fixed sequence.
///
/// # Errors
/// With the disagreements at the largest threshold, if not even that is allowed.
pub fn choose_threshold(
    queries: &[Vec<LevelDecision>],
    target: &Target,
) -> Result<ThresholdChoice, u64> {
    let mut best = None;
    for threshold in thresholds() {
        let tally = count_disagreements(queries, threshold);
        let bound = target.bound(&tally, queries.len() as u64);
        if bound > target.risk {
            return best.ok_or(tally.disagreements);
        }
        best = Some(ThresholdChoice { threshold, tally, bound });
    }
    best.ok_or(0)
}

/// What is known of the rows of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct References<'a> {
    /// Their exact scores, one row after the other.
    pub scores: &'a [f64],
    /// The right label of each row, where it is known.
    pub labels: Option<&'a [Option<Answer>]>,
}

/// Chooses the threshold on rows to which neither stages nor scales were fitted. A plan without a threshold to choose
/// is tested as it is.
pub(crate) fn calibrate(
    plan: &Plan,
    rows: &Matrix,
    references: References<'_>,
    scales: Vec<Scale>,
    target: &Target,
) -> Result<Calibration, CompileError> {
    let machine = plan.exact_stage().machine();
    let decisions = level_decisions(machine, &plan.records(rows)?, references, &scales);
    let queries = decisions.len() as u64;
    let (choice, risk) = if scales.is_empty() {
        let choice = test_without_threshold(&decisions, target);
        (choice, choice.bound)
    } else {
        let none = |disagreements| CompileError::NoThreshold { disagreements, queries };
        (choose_threshold(&decisions, target).map_err(none)?, target.risk)
    };
    let (counts, disagreements) = (choice.counts(target), choice.tally.disagreements);
    let (ThresholdChoice { threshold, bound, .. }, delta) = (choice, target.delta);
    Ok(Calibration { threshold, risk, delta, queries, disagreements, counts, bound, scales })
}

/// Checks that the finished plan, with its threshold, disagrees with exact on the test rows as often as was counted.
pub(crate) fn check_finished(
    plan: &Plan,
    rows: &Matrix,
    scores: &[f64],
    expected: u64,
) -> Result<(), CompileError> {
    let machine = plan.exact_stage().machine();
    let decisions = plan.decide(rows)?;
    let disagrees = |(decision, scores): &(&Decision, &[f64])| {
        decision.certainty == Certainty::Calibrated
            && decision.answer != machine.verdict(scores).answer
    };
    let pairs = decisions.iter().zip(scores.chunks_exact(machine.scores().len()));
    let disagreements = pairs.filter(disagrees).count() as u64;
    if disagreements == expected {
        Ok(())
    } else {
        Err(CompileError::NotReproduced { found: disagreements, expected })
    }
}

/// What the levels of a plan would answer to each query.
fn level_decisions(
    machine: &Machine,
    records: &[Vec<Record>],
    references: References<'_>,
    scales: &[Scale],
) -> Vec<Vec<LevelDecision>> {
    let rows = records.iter().zip(references.scores.chunks_exact(machine.scores().len()));
    rows.enumerate()
        .map(|(row, (records, scores))| {
            let exact = machine.verdict(scores).answer;
            let label = references.labels.and_then(|labels| *labels.get(row)?);
            let decide = |record: &Record| level_decision(machine, record, exact, label, scales);
            records.iter().map(decide).collect()
        })
        .collect()
}

/// What one level would answer, compared with the exact answer and with the label, where that is known.
fn level_decision(
    machine: &Machine,
    record: &Record,
    exact: Answer,
    label: Option<Answer>,
    scales: &[Scale],
) -> LevelDecision {
    let (value, margin) = match (record.level, record.estimate) {
        (Some(level), estimate) => estimate.scaled(&scales[level]),
        // The stage has stopped by its rule: no threshold applies.
        (None, Estimate::Score(value) | Estimate::Class { margin: value, .. }) => {
            (value, f64::INFINITY)
        }
    };
    let answer = match record.estimate {
        Estimate::Score(_) => machine.verdict(&[value]).answer,
        Estimate::Class { class, .. } => Answer::Class(class),
    };
    let effect = match label {
        Some(label) if label == exact && answer != exact => LabelEffect::Worse,
        Some(label) if label == answer && answer != exact => LabelEffect::Better,
        _ => LabelEffect::None,
    };
    LevelDecision { margin, agrees: answer == exact, effect }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_needed_is_the_first_that_can_pass() {
        for (risk, delta) in [(1e-3, 0.05), (1e-4, 0.05), (0.01, 0.1)] {
            let target = Target { risk, delta, ..Target::default() };
            let needed = target.needed() as u64;
            assert!(upper_bound(0, needed, delta) <= risk);
            assert!(upper_bound(0, needed - 1, delta) > risk);
        }
        assert_eq!(Target::default().needed(), 2995);
    }

    #[test]
    fn a_test_is_as_large_as_the_disagreements_it_allows_need() {
        let target = Target::default();
        for (most, expected) in
            [(2994, 2994), (2995, 2995), (4000, 2995), (4743, 4743), (7000, 6294)]
        {
            let found = target.useful(most);
            assert!(found.abs_diff(expected) <= 3, "{most}: {found}");
            if most >= 2995 {
                let allowed = |total: usize| {
                    (0..50).take_while(|k| upper_bound(*k, total as u64, 0.05) <= 1e-3).count()
                };
                assert_eq!(allowed(found), allowed(most));
                assert!(allowed(found - 1) < allowed(most));
            }
        }
        let excess = Target { of: Risk::ExcessErrors, ..target };
        assert_eq!(excess.useful(7000), 7000);
    }
}
