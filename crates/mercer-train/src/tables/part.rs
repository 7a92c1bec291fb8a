use std::time::{Duration, Instant};

use mercer_simd::Isa;
use mercer_simd::factors::{
    Constant, Entry, Factors, Order, Records, Weights, accumulate, sweep, values,
};

use super::Loss;
use super::dual::{Dual, Slopes};
use crate::Stop;

/// What all questions read.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) records: Records,
    pub(super) factors: Factors,
    /// Weight of each packed row, where they differ.
    pub(super) weights: Option<Vec<f32>>,
    pub(super) loss: Loss,
    pub(super) bias: f32,
    pub(super) tolerance: f64,
    pub(super) seed: u64,
    pub(super) is_symmetric: bool,
    pub(super) isa: Isa,
}

/// Which rows a question is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub(super) name: String,
    /// The class that is +1.
    pub(super) plus: u32,
    /// The class that is -1; all others where none is named.
    pub(super) minus: Option<u32>,
}

impl Ask {
    fn takes(&self, row: Entry) -> bool {
        self.minus.is_none_or(|minus| row.tag == minus || row.tag == self.plus)
    }
}

/// A question at work.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) number: usize,
    pub(super) ask: Ask,
    pub(super) coefficients: Vec<f32>,
    pub(super) weights: Weights,
    pub(super) constant: Constant,
    pub(super) order: Order,
    pub(super) random: u64,
    pub(super) before: Slopes,
    pub(super) violation: f64,
    pub(super) visits: u64,
    pub(super) passes: u64,
    /// Whether no better point was found, and why not if that is not the end.
    pub(super) end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Optimal,
    Stopped(Stop),
}

/// Passes after which the running sums are made anew: singles drift.
const RENEW: u64 = 200;
/// Passes after which a question is given up.
const MOST_PASSES: u64 = 4000;

/// What came of a question.
#[derive(Debug, Clone)]
pub(super) struct Learned {
    pub(super) weights: Vec<f32>,
    pub(super) offset: f64,
    pub(super) objective: f64,
    pub(super) gap: f64,
    pub(super) violation: f64,
    pub(super) supports: usize,
    pub(super) bounded: usize,
    pub(super) visits: u64,
    pub(super) end: End,
    /// Coefficients as they are stored, of all rows, for a warm start.
    pub(super) coefficients: Vec<f32>,
}

impl Part {
    pub(super) fn new(shared: &Shared, number: usize, ask: Ask, warm: Option<&[f32]>) -> Self {
        let (rows, columns) = (shared.records.rows(), shared.records.columns());
        let order = shared.records.order(|row| ask.takes(row));
        let mut part = Self {
            number,
            ask,
            coefficients: warm.map_or_else(|| vec![0.0; rows], <[f32]>::to_vec),
            weights: Weights::zeroed(columns, shared.factors.rank()),
            constant: Constant { size: shared.bias, weight: 0.0 },
            order,
            random: shared.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            before: Slopes::ALL,
            violation: f64::INFINITY,
            visits: 0,
            passes: 0,
            end: None,
        };
        if warm.is_some() {
            part.renew(shared);
        }
        part
    }

    /// Works for about this long, in whole passes.
    pub(super) fn run(
        &mut self,
        shared: &Shared,
        slice: Duration,
        stop: &(dyn Fn(u64) -> bool + Sync),
    ) {
        let (started, visits) = (Instant::now(), self.visits);
        while self.end.is_none() {
            self.pass(shared);
            if stop(self.visits - visits) || started.elapsed() >= slice {
                break;
            }
        }
    }

    fn pass(&mut self, shared: &Shared) {
        let mut state = self.random;
        self.order.shuffle(|below| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((u64::from((mixed >> 32) as u32) * u64::from(below)) >> 32) as u32
        });
        self.random = state;
        let mut dual = Dual {
            loss: shared.loss,
            plus: self.ask.plus,
            price: shared.loss.price() as f32,
            weights: shared.weights.as_deref(),
            constant: shared.bias * shared.bias,
            before: self.before,
            now: Slopes::NONE,
            changes: 0,
        };
        let whole = self.order.len() == self.order.all();
        self.visits += self.order.len() as u64;
        sweep(
            shared.isa,
            (&shared.records, &shared.factors),
            (&mut self.weights, &mut self.constant),
            (&mut self.order, &mut self.coefficients),
            &mut dual,
        );
        self.passes += 1;
        self.conclude(shared, dual.now, whole);
    }

    /// What a pass says: the end, all rows again, or fewer.
    fn conclude(&mut self, shared: &Shared, now: Slopes, whole: bool) {
        let violation = f64::from(now.violation());
        if whole {
            self.violation = violation;
        }
        if violation <= shared.tolerance {
            // Rows put to rest within this pass were within the limits of the last.
            if whole && self.order.len() == self.order.all() {
                self.end = Some(End::Optimal);
            } else {
                self.order.restore();
                self.before = Slopes::ALL;
            }
        } else {
            let is_tube = matches!(shared.loss, Loss::Tube { .. });
            let high = if now.high > 0.0 || is_tube { now.high } else { f32::INFINITY };
            let low = if now.low < 0.0 { now.low } else { f32::NEG_INFINITY };
            self.before = Slopes { high, low };
        }
        if self.passes >= MOST_PASSES && self.end.is_none() {
            self.end = Some(End::Stopped(Stop::Stalled));
        } else if self.passes.is_multiple_of(RENEW) && self.end.is_none() {
            self.renew(shared);
        }
    }

    fn price(shared: &Shared, row: Entry) -> f64 {
        let weight = shared.weights.as_ref().map_or(1.0, |weights| weights[row.row as usize]);
        f64::from(shared.loss.price() as f32 * weight)
    }

    fn target(&self, shared: &Shared, row: Entry) -> f64 {
        match shared.loss {
            Loss::Tube { .. } => f64::from(f32::from_bits(row.tag)),
            _ if row.tag == self.ask.plus => 1.0,
            _ => -1.0,
        }
    }

    /// Weights from the coefficients, summed in doubles; returns `|w|²`.
    fn renew(&mut self, shared: &Shared) -> f64 {
        let mut sums = vec![0.0f64; self.weights.values().len()];
        let beta = |row: Entry| {
            let stored = self.coefficients[row.row as usize];
            if stored == 0.0 {
                return 0.0;
            }
            let (y, c) = (self.target(shared, row), Self::price(shared, row));
            shared.loss.beta(y, c, stored)
        };
        let total = std::cell::Cell::new(0.0);
        let counted = |row: Entry| {
            let beta = beta(row);
            total.set(total.get() + beta);
            beta
        };
        accumulate(shared.isa, (&shared.records, &shared.factors), &counted, &mut sums);
        let constant = total.get() * f64::from(shared.bias);
        self.constant.weight = constant as f32;
        for (place, sum) in self.weights.values_mut().iter_mut().zip(&sums) {
            *place = *sum as f32;
        }
        sums.iter().map(|w| w * w).sum::<f64>() + constant * constant
    }

    /// Makes the weights anew and judges them: the gap is between the cost of the weights as they will be
    /// stored and the dual of the coefficients.
    pub(super) fn finish(mut self, shared: &Shared, stop: Option<Stop>) -> Learned {
        let square = self.renew(shared);
        let (mut cost, mut gain, mut supports, mut bounded) = (0.0, 0.0, 0, 0);
        let part = &self;
        let mut see = |row: Entry, value: f32| {
            if !part.ask.takes(row) {
                return;
            }
            let stored = part.coefficients[row.row as usize];
            let (y, c) = (part.target(shared, row), Self::price(shared, row));
            cost += shared.loss.cost(y, c, f64::from(value));
            gain += shared.loss.gain(y, c, stored);
            supports += usize::from(stored != 0.0);
            bounded += usize::from(f64::from(stored.abs()) >= c);
        };
        values(
            shared.isa,
            (&shared.records, &shared.factors),
            (&self.weights, &self.constant),
            &mut see,
        );
        let stored = self.weights.values().iter().map(|w| f64::from(*w).powi(2)).sum::<f64>()
            + f64::from(self.constant.weight).powi(2);
        let dual = gain - 0.5 * square;
        let gap = if shared.is_symmetric { 0.5 * stored + cost - dual } else { f64::NAN };
        Learned {
            weights: self.weights.values().to_vec(),
            offset: -f64::from(self.constant.weight) * f64::from(shared.bias),
            objective: -dual,
            gap,
            violation: self.violation,
            supports,
            bounded,
            visits: self.visits,
            end: self.end.or(stop.map(End::Stopped)).unwrap_or(End::Optimal),
            coefficients: self.coefficients,
        }
    }
}
