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
    /// Queries that numbers were given to.
    drawn_from: u64,
    seen: u64,
    audited: u64,
    /// Disagreements found, by the parts of the share with which their queries were audited.
    others: BTreeMap<u32, u64>,
    alarm: Option<u64>,
}

/// Which of some rows are audited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drawn {
    /// Rows that were drawn from.
    rows: usize,
    /// Positions of those drawn, increasing, with the parts of the share that they were drawn with.
    drawn: Vec<(usize, u32)>,
}

impl Drawn {
    /// Positions of the rows that were drawn, increasing.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.drawn.iter().map(|(at, _)| *at)
    }

    /// Rows that were drawn from.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Leaves out drawn rows without a calibrated answer: there is nothing to compare.
    pub fn keep(&mut self, is_calibrated: impl Fn(usize) -> bool) {
        self.drawn.retain(|(at, _)| is_calibrated(*at));
    }

    /// The same with rows behind it of which none was drawn.
    pub fn extend_undrawn(&mut self, rows: usize) {
        self.rows += rows;
    }
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
        let (drawn_from, seen, audited, others, alarm) = (0, 0, 0, BTreeMap::new(), None);
        let distances = None;
        Ok(Self { share, risk, delta, seed, distances, drawn_from, seen, audited, others, alarm })
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
        let mut drawn = self.draw(rows);
        drawn.keep(|at| decisions[at].certainty == Certainty::Calibrated);
        let positions: Vec<usize> = drawn.positions().collect();
        let exact = plan.exact_answers(&rows.select(positions.iter().copied()));
        let exact = exact.map_err(|error| error.renumbered(|row| positions[row - 1] + 1))?;
        let mut are_other = Vec::with_capacity(positions.len());
        for (at, exact) in positions.into_iter().zip(exact) {
            let decision = &mut decisions[at];
            are_other.push(decision.answer != exact.answer);
            let cost = decision.cost.multiply_adds + exact.cost.multiply_adds;
            *decision = Decision { cost: crate::Cost { multiply_adds: cost }, ..exact };
        }
        self.settle(&drawn, &are_other);
        Ok(())
    }

    /// Draws those of some rows that are to be audited. Nothing need be known of their answers yet: whether a row is drawn
    /// depends on its number and, with a reference, its distance alone.
    pub fn draw(&mut self, rows: &Matrix) -> Drawn {
        let mut drawn = Vec::new();
        for at in 0..rows.rows() {
            let number = self.drawn_from + at as u64;
            let far = self.distances.as_ref().map_or(1.0, |known| known.relative(rows.row(at)));
            if uniform(self.seed, number) < self.probability(parts(far)) {
                drawn.push((at, parts(far)));
            }
        }
        self.drawn_from += rows.rows() as u64;
        Drawn { rows: rows.rows(), drawn }
    }

    /// Counts rows that were drawn from, and whether the exact answer of each that was drawn is another. Bounds are valid
    /// at all times if rows that were not drawn are counted together with those that were: rows may be left out, or
    /// counted later, but not because of what was drawn.
    pub fn settle(&mut self, drawn: &Drawn, are_other: &[bool]) {
        let before = self.seen;
        for ((at, parts), is_other) in drawn.drawn.iter().zip(are_other) {
            self.seen = before + *at as u64 + 1;
            self.note(*parts, *is_other);
        }
        self.seen = before + drawn.rows as u64;
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

    /// The query, from 1, at which the promise was shown to be broken.
    pub fn alarm(&self) -> Option<u64> {
        self.alarm
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
mod tests;
