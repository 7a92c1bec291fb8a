//! How far estimates may be trusted: one threshold, chosen by Learn-then-Test on queries that nothing was
//! fitted to.
//!
//! The sample is cut at random into three parts: students learn from the first, the scales of all levels
//! come from the second, and the third, the test part, sees the finished levels only. Widths are tried from
//! safe to bold in an order that was fixed beforehand; each is a hypothesis "more than `risk` of all
//! queries get another label", rejected when the Clopper-Pearson bound says so at level `delta`. The first
//! that cannot be rejected ends the search, and the last rejected one is taken. Testing in a fixed
//! sequence needs no correction for the number of tests, and nothing need be monotone
//! (\[LTT21\], Angelopoulos, Bates, Candès, Jordan and Lei, "Learn then Test", 2021). So, if test part and queries are exchangeable, the
//! chance that the chosen threshold has a true rate above `risk` is at most `delta`, whatever the levels
//! compute. No labels are needed: the exact machine is the judge. Where excess errors are promised the sample
//! is labelled, and the bound is that on worse labels less that on better ones, each at half of `delta`.

mod scales;

use mercer_data::Matrix;
use mercer_machine::{Answer, Calibration, Counts, Machine, Scale};
use mercer_query::{Estimate, Plan, Record};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::CompileError;

pub(crate) use scales::{fitted_scales, scales_of};

/// What a promise is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Risk {
    /// Labels other than the exact one; needs no labels.
    #[default]
    Disagreements,
    /// Errors beyond those that exact answers make: needs a labelled sample. Other labels that are better
    /// make up for others that are worse.
    ExcessErrors,
}

/// What is promised: with confidence `1 - delta`, at most the share `risk` of queries like the sample's get
/// another label than the exact one, or answers are wrong more often than exact ones by at most that share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// eps.
    pub risk: f64,
    /// The chance of being misled by the sample.
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
    /// Queries that the test part must have: with fewer, not even no disagreement at all is enough.
    pub fn needed(&self) -> usize {
        let delta = match self.of {
            Risk::Disagreements => self.delta,
            // Two bounds share it.
            Risk::ExcessErrors => self.delta / 2.0,
        };
        (delta.ln() / (-self.risk).ln_1p()).ceil().max(1.0) as usize
    }

    /// The largest number of queries up to `most` that is worth testing: the least that allows as many other
    /// labels as `most` queries do.
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

    /// The true rate of other labels that a test of so many queries passes as often as not.
    pub(crate) fn typical(&self, queries: usize) -> f64 {
        upper_bound(self.allowed(queries) as u64, queries as u64, 0.5)
    }

    /// Whether a plan that leaves shares of `delta` to so many contenders on the same queries is forgiven nearly as
    /// many other labels as with the whole, and contenders can pass at all.
    pub(crate) fn can_share(&self, queries: usize, contenders: usize) -> bool {
        let forgives = |target: &Self| target.allowed(queries) as f64;
        self.of == Risk::Disagreements
            && self.contender().needed() <= queries
            && forgives(&self.first_of(contenders)) >= KEPT_BY_SHARES * forgives(self)
    }

    /// The target of a plan that shares `delta` with so many contenders: all promises hold at once, with the
    /// confidence of the whole, so the fastest may be taken.
    pub(crate) fn first_of(&self, contenders: usize) -> Self {
        Self { delta: self.delta * (1.0 - CONTENDER_SHARE * contenders as f64), ..*self }
    }

    /// The target of each contender.
    pub(crate) fn contender(&self) -> Self {
        Self { delta: self.delta * CONTENDER_SHARE, ..*self }
    }

    /// How many other labels a test of so many queries forgives.
    fn allowed(&self, queries: usize) -> usize {
        let (mut count, mut too_many) = (0, queries);
        while count + 1 < too_many {
            let middle = count + (too_many - count) / 2;
            if self.allows(middle, queries) { count = middle } else { too_many = middle }
        }
        count
    }

    fn allows(&self, count: usize, queries: usize) -> bool {
        count < queries && at_most(count as u64, queries as u64, self.risk) <= self.delta
    }

    /// Upper bound on what is promised to be small.
    fn bound(&self, tally: &Tally, total: u64) -> f64 {
        match self.of {
            Risk::Disagreements => upper_bound(tally.others, total, self.delta),
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

/// Plans share a test if the first is forgiven so much of what it would be alone.
const KEPT_BY_SHARES: f64 = 0.85;
/// What each contender gets of `delta`: it must be a good deal faster to win with so little, but the first loses next
/// to nothing.
const CONTENDER_SHARE: f64 = 0.05;

/// The three parts of a sample: positions of rows, none in two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// For students.
    pub lesson: Vec<usize>,
    /// For scales.
    pub scales: Vec<usize>,
    /// For the test.
    pub test: Vec<usize>,
}

/// Share of the sample from which students learn.
pub const LESSON_SHARE: f64 = 0.3;
/// The same where students have training rows too: the test is worth more.
pub const SMALL_LESSON_SHARE: f64 = 0.05;
/// Share from which the scales come at least; the rest is for the test, as far as it is of use there.
const SCALES_SHARE: f64 = 0.05;
/// Fewer say little about a spread.
const LEAST_FOR_SCALES: usize = 100;
/// Fewer teach nothing.
const LEAST_FOR_LESSON: usize = 100;

impl Parts {
    /// Cuts a sample of that many rows; the seed decides which row goes where.
    ///
    /// # Errors
    /// If it is too small for the target.
    pub fn new(
        rows: usize,
        lesson_share: f64,
        target: &Target,
        seed: u64,
    ) -> Result<Self, CompileError> {
        let sizes = |rows: usize| {
            let share = |share: f64, least: usize| ((share * rows as f64) as usize).max(least);
            [share(lesson_share, LEAST_FOR_LESSON), share(SCALES_SHARE, LEAST_FOR_SCALES)]
        };
        let suffices = |rows: usize| rows >= sizes(rows).iter().sum::<usize>() + target.needed();
        if !suffices(rows) {
            // Between what does not suffice and what surely does.
            let (mut low, mut needed) =
                (rows, target.needed().saturating_add(300).saturating_mul(3));
            while low + 1 < needed {
                let middle = low + (needed - low) / 2;
                if suffices(middle) { needed = middle } else { low = middle }
            }
            let Target { risk, delta, .. } = *target;
            return Err(CompileError::SmallSample { found: rows, needed, risk, delta });
        }
        let [mut lesson, mut scales] = sizes(rows);
        // What the test cannot use goes to both others.
        let spare = rows - lesson - scales - target.useful(rows - lesson - scales);
        lesson += spare / 2;
        scales += spare - spare / 2;
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let test = order.split_off(lesson + scales);
        let scales = order.split_off(lesson);
        Ok(Self { lesson: order, scales, test })
    }

    /// For rules that have nothing to choose: half of the rows for them and half for the test, or all for
    /// the test if the rules come from other rows.
    pub(crate) fn of_rules(rows: usize, has_other_rows: bool, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let test = order.split_off(if has_other_rows { 0 } else { rows / 2 });
        Self { lesson: order, scales: Vec::new(), test }
    }
}

/// What one level makes of one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Opinion {
    /// Distance from a change of label, in spreads.
    pub strength: f64,
    /// Whether it names the exact label.
    pub is_right: bool,
    /// What is known of an opinion that names another.
    pub effect: Effect,
}

/// Whether another label than the exact one is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effect {
    /// Not known, or both are wrong.
    #[default]
    None,
    /// The exact one was right.
    Worse,
    /// The exact one was wrong, this one is right.
    Better,
}

/// What the queries of a test part got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Labels other than the exact one.
    pub others: u64,
    /// Those of them that were wrong where the exact one was right.
    pub worse: u64,
    /// Those of them that were right where the exact one was wrong.
    pub better: u64,
}

/// A threshold and what the test said of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The threshold.
    pub threshold: f64,
    /// What the queries of the test part get.
    pub tally: Tally,
    /// Upper bound on what is promised to be small.
    pub bound: f64,
}

impl Choice {
    /// What a model file says of the counts.
    fn counts(&self, target: &Target) -> Counts {
        let Tally { worse, better, .. } = self.tally;
        match target.of {
            Risk::Disagreements => Counts::Disagreements,
            Risk::ExcessErrors => Counts::ExcessErrors { worse, better },
        }
    }
}

/// The thresholds tried, from safe to bold: fixed, so that the order cannot depend on the sample.
pub fn thresholds() -> impl Iterator<Item = f64> {
    const COUNT: i32 = 320;
    (0..COUNT).map(|n| 40.0 * 0.005f64.powf(f64::from(n) / f64::from(COUNT - 1)))
}

/// What queries get at a threshold: the first level that is strong enough speaks.
pub fn tally(queries: &[Vec<Opinion>], threshold: f64) -> Tally {
    let mut tally = Tally::default();
    for levels in queries {
        let first = levels.iter().find(|level| level.strength > threshold);
        if let Some(level) = first.filter(|level| !level.is_right) {
            tally.others += 1;
            tally.worse += u64::from(level.effect == Effect::Worse);
            tally.better += u64::from(level.effect == Effect::Better);
        }
    }
    tally
}

/// What a plan with nothing to choose is worth: one test of it as it stands. Its bound is what it promises.
fn test_once(queries: &[Vec<Opinion>], target: &Target) -> Choice {
    let tally = tally(queries, f64::MAX);
    Choice { threshold: f64::INFINITY, tally, bound: target.bound(&tally, queries.len() as u64) }
}

/// The boldest threshold that the test part allows: Learn-then-Test in a fixed sequence.
///
/// # Errors
/// With the disagreements at the widest, if not even that is allowed.
pub fn choose(queries: &[Vec<Opinion>], target: &Target) -> Result<Choice, u64> {
    let mut best = None;
    for threshold in thresholds() {
        let tally = tally(queries, threshold);
        let bound = target.bound(&tally, queries.len() as u64);
        if bound > target.risk {
            return best.ok_or(tally.others);
        }
        best = Some(Choice { threshold, tally, bound });
    }
    best.ok_or(0)
}

/// The upper Clopper-Pearson bound: the share `p` at which `count` or fewer of `total` have the probability
/// `delta`.
pub fn upper_bound(count: u64, total: u64, delta: f64) -> f64 {
    if count >= total {
        return 1.0;
    }
    let (mut low, mut high) = (count as f64 / total as f64, 1.0f64);
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if at_most(count, total, middle) > delta { low = middle } else { high = middle }
    }
    high
}

/// The lower Clopper-Pearson bound: the share `p` at which `count` or more of `total` have the probability
/// `delta`.
pub fn lower_bound(count: u64, total: u64, delta: f64) -> f64 {
    if count == 0 || total == 0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, count as f64 / total as f64);
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if at_most(count - 1, total, middle) > 1.0 - delta { low = middle } else { high = middle }
    }
    low
}

/// `P(X <= count)` for a binomial X, from logarithms so that nothing underflows on the way.
fn at_most(count: u64, total: u64, p: f64) -> f64 {
    let odds = p.ln() - (-p).ln_1p();
    let mut term = total as f64 * (-p).ln_1p();
    let (mut largest, mut sum) = (term, 1.0);
    for k in 0..count {
        term += ((total - k) as f64 / (k + 1) as f64).ln() + odds;
        if term > largest {
            sum = sum * (largest - term).exp() + 1.0;
            largest = term;
        } else {
            sum += (term - largest).exp();
        }
    }
    (largest + sum.ln()).exp()
}

/// Exact scores of rows, one row after the other, and the labels that are known to be right.
pub(crate) type Known<'a> = (&'a [f64], Option<&'a [Option<Answer>]>);

/// Chooses the threshold on rows with their exact scores that neither fit nor scales have seen; `labels` are
/// what is known to be right for them. A plan with nothing to choose is tested as it stands.
pub(crate) fn test(
    plan: &Plan,
    rows: &Matrix,
    known: Known<'_>,
    scales: Vec<Scale>,
    target: &Target,
) -> Result<Calibration, CompileError> {
    let opinions = opinions_of(plan.exact_stage().machine(), &plan.records(rows)?, known, &scales);
    let queries = opinions.len() as u64;
    let (choice, risk) = if scales.is_empty() {
        let choice = test_once(&opinions, target);
        (choice, choice.bound)
    } else {
        let nothing = |disagreements| CompileError::NothingToTrust { disagreements, queries };
        (choose(&opinions, target).map_err(nothing)?, target.risk)
    };
    let (counts, disagreements) = (choice.counts(target), choice.tally.others);
    let (Choice { threshold, bound, .. }, delta) = (choice, target.delta);
    Ok(Calibration { threshold, risk, delta, queries, disagreements, counts, bound, scales })
}

/// What the levels make of queries beside what is known of them.
pub(crate) fn opinions_of(
    machine: &Machine,
    records: &[Vec<Record>],
    (scores, labels): Known<'_>,
    scales: &[Scale],
) -> Vec<Vec<Opinion>> {
    let rows = records.iter().zip(scores.chunks_exact(machine.scores().len()));
    rows.enumerate()
        .map(|(row, (records, scores))| {
            let label = labels.and_then(|labels| *labels.get(row)?);
            opinions(machine, records, (scores, label), scales)
        })
        .collect()
}

/// What the levels make of one query, in order, beside its exact scores and what is known to be right.
fn opinions(
    machine: &Machine,
    records: &[Record],
    (scores, label): (&[f64], Option<Answer>),
    scales: &[Scale],
) -> Vec<Opinion> {
    let truth = machine.verdict(scores).answer;
    let opinion = |record: &Record| {
        let (value, strength) = match (record.level, record.estimate) {
            (Some(level), guess) => guess.scaled(&scales[level]),
            // The stage has stopped: nothing is weighed.
            (None, Estimate::Score(value) | Estimate::Class { margin: value, .. }) => {
                (value, f64::INFINITY)
            }
        };
        let answer = match record.estimate {
            Estimate::Score(_) => machine.verdict(&[value]).answer,
            Estimate::Class { class, .. } => Answer::Class(class),
        };
        let effect = match label {
            Some(label) if label == truth && answer != truth => Effect::Worse,
            Some(label) if label == answer && answer != truth => Effect::Better,
            _ => Effect::None,
        };
        Opinion { strength, is_right: answer == truth, effect }
    };
    records.iter().map(opinion).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_agrees_with_tables() {
        // Known values of the one-sided 95 % Clopper-Pearson bound.
        for (count, total, expected) in
            [(0, 2995, 0.000_999_9), (0, 10, 0.258_866), (1, 10, 0.394_163), (5, 100, 0.102_253)]
        {
            let found = upper_bound(count, total, 0.05);
            assert!((found - expected).abs() < 2e-5, "{count} of {total}: {found}");
        }
        assert_eq!(upper_bound(7, 7, 0.05), 1.0);
        for (count, total, expected) in
            [(1, 10, 0.005_116), (5, 100, 0.019_910), (10, 10, 0.741_134)]
        {
            let found = lower_bound(count, total, 0.05);
            assert!((found - expected).abs() < 2e-5, "{count} of {total}: {found}");
        }
        assert_eq!(lower_bound(0, 7, 0.05), 0.0);
    }

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
    fn a_test_is_as_large_as_its_allowance_needs() {
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

    #[test]
    fn plans_share_a_test_where_little_is_lost() {
        let target = Target { risk: 0.01, ..Target::default() };
        assert!(target.can_share(3000, 4));
        let (first, other) = (target.first_of(4), target.contender());
        assert!((first.delta + 4.0 * other.delta - target.delta).abs() < 1e-15);
        assert!(other.allowed(3000) < first.allowed(3000));
        assert!(first.allowed(3000) as f64 >= 0.85 * target.allowed(3000) as f64);
        assert_eq!(target.first_of(0), target);
        // Where one or none is forgiven, or too few queries are there, one plan gets all.
        for queries in [100, 299, 473, 500, 628] {
            assert!(!target.can_share(queries, 4), "{queries}");
        }
        let excess = Target { of: Risk::ExcessErrors, ..target };
        assert!(!excess.can_share(3000, 4));
    }

    #[test]
    fn parts_are_disjoint_and_a_small_sample_is_told_the_number_needed() {
        let target = Target { risk: 0.01, delta: 0.05, ..Target::default() };
        let parts = Parts::new(1000, 0.3, &target, 3).unwrap();
        let mut all = [parts.lesson, parts.scales, parts.test].concat();
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        let Err(CompileError::SmallSample { needed, .. }) = Parts::new(400, 0.3, &target, 3) else {
            panic!("400 rows cannot do")
        };
        assert!(Parts::new(needed, 0.3, &target, 3).is_ok());
        assert!(Parts::new(needed - 1, 0.3, &target, 3).is_err());
    }
}
