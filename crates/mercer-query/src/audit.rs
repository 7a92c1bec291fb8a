//! An audit of calibrated answers: a random share of the queries is answered exactly as well, and a bound that holds at
//! all times says how often labels differ.
//!
//! Query t is audited with probability `p_t`, known before its answer is; `X_t = S_t D_t / p_t`, with S
//! whether it was audited and D whether the labels differ, has the mean of D. If the share of disagreements is at
//! most m, then `Π (1 + λ (X_t - m))` is a non-negative supermartingale for every bet `0 <= λ <= 1/m`, whatever
//! depends on the past; so is the mean over fixed bets, and by Ville's inequality it ever exceeds `1/δ` with
//! probability at most δ. The lower bound is the largest m that is refuted so, the upper bound the smallest
//! refuted by `Π (1 - λ (X_t - m))`. Both hold at every query at once: the report may be read at any time.
//! (\[WSR24\], Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024.)

use std::collections::BTreeMap;

use mercer_data::{LiveColumns, Matrix, Row};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::{Certainty, Decision, Plan, QueryError};

/// Steps of probability in one share: distances are rounded down to so many parts of the mean distance.
const PARTS: u32 = 64;
/// Queries near the middle of the reference are audited with at least so many parts of the share, half of it: a query
/// that is never audited would leave nothing to bound.
const LEAST: u32 = 32;
/// Bets, in shares of the largest that is allowed.
const BETS: [f64; 12] = [0.001, 0.003, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8, 0.95];

/// Audits the calibrated answers of a plan.
#[derive(Debug, Clone)]
pub struct Audit {
    share: f64,
    risk: f64,
    delta: f64,
    seed: u64,
    distances: Option<Distances>,
    seen: u64,
    audited: u64,
    /// Disagreements found, by the parts of the share with which their queries were audited.
    others: BTreeMap<u32, u64>,
    alarm: Option<u64>,
}

/// What an audit has found so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AuditReport {
    /// Queries answered.
    pub seen: u64,
    /// Queries that were answered exactly as well.
    pub audited: u64,
    /// Those whose label differed.
    pub disagreements: u64,
    /// The share of disagreements lies between these, at all times together, with probability `1 - delta`
    /// on either side.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The query, from 1, at which the share was first shown to be above what the plan promises.
    pub alarm: Option<u64>,
}

/// Why there is nothing to audit, or no way to.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A share that is not one.
    #[error("the share to audit is {0}; it must lie above 0 and be at most 1")]
    Share(f64),
    /// The plan promises nothing.
    #[error("the plan gives no calibrated answers: there is nothing to audit")]
    NotCalibrated,
    /// The plan promises something that labels alone can show.
    #[error(
        "the plan promises few excess errors, not few disagreements: an audit cannot see those"
    )]
    OtherPromise,
    /// Nothing to measure distances from.
    #[error("the sample that distances are measured from has no rows")]
    NoRows,
}

impl Audit {
    /// Audits this share of the queries; the seed decides which.
    ///
    /// # Errors
    /// If the plan was not calibrated to give few disagreements, or the share is not one.
    pub fn new(plan: &Plan, share: f64, seed: u64) -> Result<Self, AuditError> {
        let known = plan.calibration().ok_or(AuditError::NotCalibrated)?;
        if known.counts != mercer_machine::Counts::Disagreements {
            return Err(AuditError::OtherPromise);
        }
        Self::of_promise(share, known.risk, known.delta, seed)
    }

    /// As [`Audit::new`] for a promise in numbers.
    ///
    /// # Errors
    /// If the share is not one.
    pub fn of_promise(share: f64, risk: f64, delta: f64, seed: u64) -> Result<Self, AuditError> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(AuditError::Share(share));
        }
        let (seen, audited, others, alarm) = (0, 0, BTreeMap::new(), None);
        Ok(Self { share, risk, delta, seed, distances: None, seen, audited, others, alarm })
    }

    /// Queries are audited with a probability proportional to their distance from these rows as a whole, but at least with
    /// half of the share (\[DM03\], section 5.2); the share is that of a row at the mean distance.
    ///
    /// # Errors
    /// If there are no rows.
    pub fn reference(mut self, rows: &Matrix) -> Result<Self, AuditError> {
        self.distances = Some(Distances::new(rows).ok_or(AuditError::NoRows)?);
        Ok(self)
    }

    /// Audits the answers to some rows, in the order in which they were given. Calibrated ones that are drawn are replaced
    /// by the exact answer.
    ///
    /// # Errors
    /// If an exact score overflows.
    pub fn check(
        &mut self,
        plan: &Plan,
        rows: &Matrix,
        decisions: &mut [Decision],
    ) -> Result<(), QueryError> {
        let (mut drawn, mut parts_of_drawn) = (Vec::new(), Vec::new());
        for (at, decision) in decisions.iter().enumerate() {
            let number = self.seen + at as u64;
            let far = self.distances.as_ref().map_or(1.0, |known| known.relative(rows.row(at)));
            let is_drawn = uniform(self.seed, number) < self.probability(parts(far));
            if is_drawn && decision.certainty == Certainty::Calibrated {
                drawn.push(at);
                parts_of_drawn.push(parts(far));
            }
        }
        let exact = plan.exact_answers(&rows.select(drawn.iter().copied()));
        let exact = exact.map_err(|error| error.renumbered(|row| drawn[row - 1] + 1))?;
        let before = self.seen;
        for ((at, parts), exact) in drawn.iter().zip(parts_of_drawn).zip(exact) {
            let decision = &mut decisions[*at];
            let is_other = decision.answer != exact.answer;
            let cost = decision.cost.multiply_adds + exact.cost.multiply_adds;
            *decision = Decision { cost: crate::Cost { multiply_adds: cost }, ..exact };
            self.seen = before + *at as u64 + 1;
            self.note(parts, is_other);
        }
        self.seen = before + decisions.len() as u64;
        Ok(())
    }

    /// Counts one query that was audited with so many parts of the share, as the last one seen.
    fn note(&mut self, parts: u32, is_other: bool) {
        self.audited += 1;
        if is_other {
            *self.others.entry(parts).or_default() += 1;
            // Nothing else makes the evidence grow.
            if self.alarm.is_none() && self.evidence_above(self.risk) >= -self.delta.ln() {
                self.alarm = Some(self.seen);
            }
        }
    }

    /// What is known by now.
    pub fn report(&self) -> AuditReport {
        let needed = -self.delta.ln();
        // Evidence above falls with m, evidence below grows with it.
        let low = edge(|m| self.evidence_above(m) >= needed, true);
        let high = edge(|m| self.evidence_below(m) >= needed, false);
        let disagreements = self.others.values().sum();
        let Self { seen, audited, alarm, .. } = *self;
        AuditReport { seen, audited, disagreements, low, high, alarm }
    }

    /// How likely a query is audited that gets so many parts of the share.
    fn probability(&self, parts: u32) -> f64 {
        (self.share * f64::from(parts) / f64::from(PARTS)).min(1.0)
    }

    /// The least probability of any query.
    fn least_probability(&self) -> f64 {
        self.probability(if self.distances.is_some() { LEAST } else { PARTS })
    }

    /// Logarithm of the evidence against "the share is at most m".
    fn evidence_above(&self, m: f64) -> f64 {
        if m >= 1.0 {
            return f64::NEG_INFINITY;
        }
        // Bets beyond this lose everything at a query with the same label.
        let most = if m > 0.0 { 1.0 / m } else { f64::INFINITY };
        self.mixture(|bet| {
            // In units of what one disagreement is worth: the same bets for every share.
            let bet = (bet * self.share * 50.0).min(0.95 * most);
            (bet, -m)
        })
    }

    /// Logarithm of the evidence against "the share is at least m".
    fn evidence_below(&self, m: f64) -> f64 {
        let worth = 1.0 / self.least_probability();
        let most = 1.0 / (worth - m).max(f64::MIN_POSITIVE);
        self.mixture(|bet| (-bet * most, -m))
    }

    /// Logarithm of the mean over all bets of `Π (1 + λ (X_t - m))`.
    fn mixture(&self, bet: impl Fn(f64) -> (f64, f64)) -> f64 {
        let others: u64 = self.others.values().sum();
        let same = (self.seen - others.min(self.seen)) as f64;
        let one = |share: &f64| {
            let (bet, shift) = bet(*share);
            let mut sum = same * (bet * shift).ln_1p();
            for (parts, count) in &self.others {
                let worth = 1.0 / self.probability(*parts);
                sum += *count as f64 * (bet * (worth + shift)).ln_1p();
            }
            sum
        };
        let sums: Vec<f64> = BETS.iter().map(one).filter(|sum| !sum.is_nan()).collect();
        let largest = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return largest;
        }
        let total: f64 = sums.iter().map(|sum| (sum - largest).exp()).sum();
        largest + (total / BETS.len() as f64).ln()
    }
}

/// Where a property of m changes between 0 and 1: up to the last m that has it (`is_below`), or from the first.
fn edge(has: impl Fn(f64) -> bool, is_below: bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = low + (high - low) / 2.0;
        if has(middle) == is_below { low = middle } else { high = middle }
    }
    // Outwards: what was not refuted stays inside.
    if is_below { low } else { high }
}

/// Parts of the share with which a query is audited that lies so many mean distances away.
fn parts(far: f64) -> u32 {
    ((far.min(1e6) * f64::from(PARTS)) as u32).max(LEAST)
}

/// A number in [0, 1) for a query: the same however queries come in batches.
fn uniform(seed: u64, number: u64) -> f64 {
    // The golden ratio spreads consecutive numbers over all seeds.
    let mut random = SplitMix64::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// How far a row lies from a sample: distance from its mean, columns in units of their spread.
#[derive(Debug, Clone)]
struct Distances {
    /// Columns in which the sample is not zero; the others do not count.
    live: LiveColumns,
    mean: Vec<f64>,
    /// One over the variance; 0 where a column is constant.
    weights: Vec<f64>,
    /// Squared distance of a row of zeros.
    zero: f64,
    /// Mean distance of the rows of the sample.
    usual: f64,
}

impl Distances {
    fn new(rows: &Matrix) -> Option<Self> {
        let count = rows.rows();
        if count == 0 {
            return None;
        }
        let live = LiveColumns::of(rows);
        let mut mean = vec![0.0; live.len()];
        let mut square = vec![0.0; live.len()];
        for (column, x) in rows.iter().flat_map(Row::nonzeros) {
            let slot = live.slot_or_dead(column) as usize;
            mean[slot] += x / count as f64;
            square[slot] += x * x / count as f64;
        }
        let weight = |(mean, square): (&f64, &f64)| {
            let variance = square - mean * mean;
            if variance > 1e-12 * square { 1.0 / variance } else { 0.0 }
        };
        let weights: Vec<f64> = mean.iter().zip(&square).map(weight).collect();
        let zero = mean.iter().zip(&weights).map(|(mean, weight)| weight * mean * mean).sum();
        let mut found = Self { live, mean, weights, zero, usual: 1.0 };
        let distances = rows.iter().map(|row| found.square(row).max(0.0).sqrt());
        found.usual = distances.sum::<f64>() / count as f64;
        Some(found)
    }

    /// The squared distance of a row; may fall below zero by rounding.
    fn square(&self, row: Row<'_>) -> f64 {
        let known = |(column, x): (u32, f64)| {
            let slot = self.live.slot(column)? as usize;
            let (mean, weight) = (self.mean[slot], self.weights[slot]);
            Some(weight * x * (x - 2.0 * mean))
        };
        self.zero + row.nonzeros().filter_map(known).sum::<f64>()
    }

    /// The distance of a row in mean distances; infinitely far if it overflows, 1 where all rows are alike.
    fn relative(&self, row: Row<'_>) -> f64 {
        let far = self.square(row).max(0.0).sqrt() / self.usual;
        match far {
            _ if self.usual == 0.0 => 1.0,
            far if far.is_nan() => f64::INFINITY,
            far => far,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_random_number_of_a_query_stays_the_same() {
        let drawn = [0, 1, 12345].map(|number| uniform(7, number));
        assert_eq!(drawn, [0.3898297483912715, 0.9237001069304558, 0.4299290985364814]);
    }

    /// Runs an audit over made-up labels; the share of disagreements may change on the way.
    fn simulate(audit: &mut Audit, queries: u64, seed: u64, other: impl Fn(u64) -> f64) {
        for number in 0..queries {
            audit.seen += 1;
            let parts = parts(if audit.share < 0.05 && number % 7 == 0 { 2.0 } else { 1.0 });
            if uniform(audit.seed, number) < audit.probability(parts) {
                let is_other = uniform(seed.wrapping_mul(77), number) < other(number);
                audit.note(parts, is_other);
            }
        }
    }

    #[test]
    fn bounds_hold_at_all_times_together_as_often_as_they_say() {
        let (rounds, delta) = (300u64, 0.1);
        let (mut alarms, mut missed_low, mut missed_high) = (0, 0, 0);
        for round in 0..rounds {
            // As bad as is allowed: an alarm is a mistake.
            let mut audit = Audit::of_promise(0.2, 0.02, delta, 1000 + round).unwrap();
            let (mut is_low, mut is_high) = (false, false);
            for part in 0..20u64 {
                let first = 500 * part;
                let seen = audit.seen;
                assert_eq!(seen, first);
                for number in first..first + 500 {
                    audit.seen += 1;
                    if uniform(audit.seed, number) < 0.2 {
                        audit.note(PARTS, uniform(round * 31 + 7, number) < 0.02);
                    }
                }
                let AuditReport { low, high, .. } = audit.report();
                (is_low, is_high) = (is_low || low > 0.02, is_high || high < 0.02);
            }
            alarms += u32::from(audit.alarm.is_some());
            missed_low += u32::from(is_low);
            missed_high += u32::from(is_high);
        }
        let rounds = rounds as f64;
        let allowed = delta + 3.0 * (delta * (1.0 - delta) / rounds).sqrt();
        for (what, count) in [("alarm", alarms), ("low", missed_low), ("high", missed_high)] {
            assert!(f64::from(count) / rounds <= allowed, "{what}: {count}");
        }
    }

    #[test]
    fn drift_rings_the_alarm_and_the_upper_bound_falls_without_it() {
        for share in [0.01, 0.2] {
            let mut quiet = Audit::of_promise(share, 1e-3, 0.05, 5).unwrap();
            simulate(&mut quiet, 60_000, 9, |_| 2e-4);
            assert_eq!(quiet.report().alarm, None);
            assert!(quiet.report().high < 0.02, "{:?}", quiet.report());
            let mut drifting = Audit::of_promise(share, 1e-3, 0.05, 5).unwrap();
            simulate(&mut drifting, 60_000, 9, |at| if at < 30_000 { 2e-4 } else { 0.05 });
            let report = drifting.report();
            assert!(report.alarm.is_some_and(|at| at > 30_000), "{report:?}");
            assert!(report.low > 1e-3 && report.low < report.high, "{report:?}");
        }
    }

    #[test]
    fn every_query_audited_bounds_as_tightly_as_counting_can() {
        let mut audit = Audit::of_promise(1.0, 1e-3, 0.05, 1).unwrap();
        for _ in 0..10_000 {
            audit.seen += 1;
            audit.note(PARTS, false);
        }
        // Clopper-Pearson, which holds at one time only, gives 3.0e-4.
        let AuditReport { high, low, .. } = audit.report();
        assert!(high < 7e-4 && low == 0.0, "{high}");
        assert_eq!(Audit::of_promise(0.0, 1e-3, 0.05, 1).unwrap_err(), AuditError::Share(0.0));
    }

    #[test]
    fn the_probability_is_proportional_to_the_distance() {
        let values = (0..400).map(|n| f64::from(n % 20) - 9.5).collect();
        let rows = Matrix::dense(2, values).unwrap();
        let known = Distances::new(&rows).unwrap();
        let audit = Audit::of_promise(0.01, 1e-3, 0.05, 1).unwrap();
        let audit = audit.reference(&rows).unwrap();
        let at = |x: f64| {
            let far = Matrix::dense(2, vec![x, x]).unwrap();
            audit.probability(parts(known.relative(far.row(0))))
        };
        // Twice as far, twice as likely; the mean distance gives the share, the middle half of it.
        assert!((at(40.0) / at(20.0) - 2.0).abs() < 0.02, "{} {}", at(40.0), at(20.0));
        let mean: f64 =
            rows.iter().map(|row| known.relative(row)).sum::<f64>() / rows.rows() as f64;
        assert!((mean - 1.0).abs() < 1e-12, "{mean}");
        assert_eq!((at(0.0), at(1e300), audit.least_probability()), (0.005, 1.0, 0.005));
        assert!(Distances::new(&Matrix::dense(2, vec![]).unwrap()).is_none());
        let alike = Distances::new(&Matrix::dense(1, vec![3.0; 4]).unwrap()).unwrap();
        assert_eq!(alike.relative(rows.row(0)), 1.0);
    }

    /// Bounds hold although every query has a probability of its own.
    #[test]
    fn the_upper_bound_allows_for_the_least_probability() {
        let values = (0..400).map(|n| f64::from(n % 20) - 9.5).collect();
        let rows = Matrix::dense(2, values).unwrap();
        let (rounds, delta) = (200u64, 0.1);
        let mut missed = 0;
        for round in 0..rounds {
            let audit = Audit::of_promise(0.2, 0.02, delta, 500 + round).unwrap();
            let mut audit = audit.reference(&rows).unwrap();
            for number in 0..4000 {
                audit.seen += 1;
                let far = 2.5 * uniform(round + 9000, number);
                // What is far disagrees more often: 0.02 on average.
                let is_other = uniform(round * 31 + 7, number) < 0.016 * far;
                if uniform(audit.seed, number) < audit.probability(parts(far)) {
                    audit.note(parts(far), is_other);
                }
            }
            let AuditReport { low, high, .. } = audit.report();
            missed += u32::from(low > 0.02 || high < 0.02);
        }
        let allowed = 2.0 * delta + 3.0 * (2.0 * delta / rounds as f64).sqrt();
        assert!(f64::from(missed) / rounds as f64 <= allowed, "{missed}");
    }
}
