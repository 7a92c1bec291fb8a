use std::time::{Duration, Instant};

use super::columns::Columns;
use super::store::Store;
use mercer_simd::factors::{
    BiasColumn, DualCoefficients, EncodedRows, Encoding, Float, LinearFunction, LinearFunctionMut,
    Order, Records, RowHead, Weights, accumulate, sweep, values,
};
use mercer_simd::{Isa, large_pages};

use super::dual::{Dual, Slopes};
use super::lasso::Lasso;
use super::newton::Newton;
use super::transposed::Transposed;
use super::{Loss, Space};
use crate::Stop;

/// What all questions read.
#[derive(Debug)]
pub(super) struct Shared<M: Encoding> {
    pub(super) store: Store,
    pub(super) columns: Columns,
    pub(super) encoding: M,
    /// Weight of each packed row, where they differ.
    pub(super) weights: Option<Vec<M::Real>>,
    /// Target of each packed row, for values.
    pub(super) targets: Vec<M::Real>,
    /// The fold of each packed row, where questions leave one out.
    pub(super) folds: Vec<u32>,
    pub(super) loss: Loss,
    pub(super) bias: M::Real,
    pub(super) tolerance: f64,
    /// Passes after which a question is given up.
    pub(super) passes: u64,
    pub(super) seed: u64,
    pub(super) is_symmetric: bool,
    pub(super) space: Space,
    /// The examples by columns, where the sum of the sizes of the weights is penalised.
    pub(super) transposed: Option<Transposed>,
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
    /// The fold that is left out.
    pub(super) fold: Option<u32>,
}

impl Ask {
    pub(super) fn takes(&self, folds: &[u32], row: RowHead) -> bool {
        let is_named = self.minus.is_none_or(|minus| row.tag == minus || row.tag == self.plus);
        is_named && !self.holds_out(folds, row)
    }

    fn holds_out(&self, folds: &[u32], row: RowHead) -> bool {
        self.fold.is_some_and(|fold| folds[row.row as usize] == fold)
    }
}

/// A question at work.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub(super) number: usize,
    pub(super) ask: Ask,
    pub(super) coefficients: Vec<T>,
    pub(super) weights: Weights<T>,
    pub(super) constant: BiasColumn<T>,
    /// The rows of each chunk.
    pub(super) orders: Vec<Order>,
    pub(super) random: u64,
    pub(super) before: Slopes<T>,
    pub(super) violation: f64,
    pub(super) visits: u64,
    pub(super) passes: u64,
    /// Passes at the end of the last one over all rows.
    pub(super) whole_at: u64,
    /// The smallest violation over all rows that was clearly below those before it, and the passes until then.
    pub(super) least: (f64, u64),
    pub(super) newton: Option<Newton>,
    pub(super) lasso: Option<Lasso>,
    /// Whether the last pass was broken off: what follows is not what follows a whole one.
    pub(super) is_torn: bool,
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

/// Rows rest when they are beyond this share of the slopes of the last pass. \[HCLKS08\] waits for all of it; with
/// less of it MNIST, its gradient histograms and covtype took 17 to 30 % fewer visits to the same objective, and all
/// rows are looked at again before the end in either case.
const SHRINK: f64 = 0.4;

/// The rows at work go on to this share of the tolerance before all are looked at again. Passes over the few that are left
/// cost little, a look at all rows that ends in another one costs two: 15 % fewer visits on MNIST, its gradient
/// histograms and Adult, and hardly any chance in their number.
const BEYOND: f64 = 0.6;

/// Passes over a part of the rows after which all are looked at again: singles may not settle the few that are left.
const PATIENCE: u64 = 100;

/// A violation of this share of another is clearly below it.
const CLEARLY: f64 = 0.9;

/// Passes in singles without a violation over all rows that is clearly below those before: rounding is all that is left.
const PLATEAU: u64 = 1000;

/// Sweeps over a chunk of a file each time that it is read, at most.
const AT_HAND: usize = 5;

/// A number below `below`, of a state that steps on.
pub(super) fn next_below(state: &mut u64, below: u32) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((u64::from((mixed >> 32) as u32) * u64::from(below)) >> 32) as u32
}

/// Coefficients of rows that are visited in an order of chance.
fn zeros<T: Float>(count: usize) -> Vec<T> {
    let mut zeros = Vec::with_capacity(count);
    large_pages(zeros.as_ptr(), count);
    zeros.resize(count, T::default());
    zeros
}

/// What came of a question.
#[derive(Debug, Clone)]
pub(super) struct Learned<T> {
    pub(super) weights: Vec<T>,
    pub(super) offset: f64,
    pub(super) objective: f64,
    pub(super) gap: f64,
    pub(super) violation: f64,
    pub(super) supports: usize,
    pub(super) bounded: usize,
    pub(super) visits: u64,
    pub(super) end: End,
    /// Coefficients as they are stored, of all rows, for a warm start.
    pub(super) coefficients: Vec<T>,
    /// Scores of the rows of the fold left out.
    pub(super) held_out: Vec<(u32, f64)>,
}

impl<T: Float> Part<T> {
    pub(super) fn new<M: Encoding<Real = T>>(
        shared: &Shared<M>,
        number: usize,
        ask: Ask,
        warm: Option<&[T]>,
    ) -> Self {
        let (rows, columns) = (shared.store.rows(), shared.store.columns());
        // A chunk that cannot be read has no rows, and the store says so.
        let mut orders = vec![Store::buffer().order(|_| true); shared.store.chunks()];
        shared.store.each(|chunk, records| {
            orders[chunk] = records.order(|row| ask.takes(&shared.folds, row));
        });
        let mut part = Self {
            number,
            ask,
            coefficients: warm.map_or_else(|| zeros(rows), <[T]>::to_vec),
            weights: Weights::zeroed(columns, shared.encoding.rank()),
            constant: BiasColumn { value: shared.bias, weight: T::default() },
            orders,
            random: shared.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            before: Slopes::all(),
            violation: f64::INFINITY,
            visits: 0,
            passes: 0,
            whole_at: 0,
            least: (f64::INFINITY, 0),
            newton: None,
            lasso: None,
            is_torn: false,
            end: None,
        };
        if warm.is_some() {
            part.renew(shared);
        }
        part
    }

    /// Works for about this long, in whole passes.
    pub(super) fn run<M: Encoding<Real = T>>(
        &mut self,
        shared: &Shared<M>,
        slice: Duration,
        stop: &(dyn Fn(u64) -> bool + Sync),
    ) {
        let (started, visits) = (Instant::now(), self.visits);
        while self.end.is_none() {
            let made = self.visits - visits;
            self.pass(shared, &|more| stop(made + more));
            if self.is_torn || stop(self.visits - visits) || started.elapsed() >= slice {
                break;
            }
        }
    }

    /// All rows at work once; those of a chunk from a file a few times more while they are at hand.
    fn pass<M: Encoding<Real = T>>(&mut self, shared: &Shared<M>, stop: &dyn Fn(u64) -> bool) {
        if let Some(columns) = &shared.transposed {
            return self.lasso_step(shared, columns, stop);
        }
        if shared.space == Space::Primal {
            return self.newton_step(shared);
        }
        let whole = self.at_work() == self.all();
        let (mut buffer, mut now) = (Store::buffer(), Slopes::none());
        for chunk in self.chunks() {
            if self.orders[chunk].is_empty() {
                continue;
            }
            if shared.store.is_on_disk() && stop(0) {
                self.is_torn = true;
                return;
            }
            let Some(records) = shared.store.chunk(chunk, &mut buffer) else { continue };
            now.join(self.sweep(shared, chunk, records));
            if shared.store.is_on_disk() {
                for _ in 1..AT_HAND {
                    let left = self.sweep(shared, chunk, records);
                    if left.violation().to_f64() <= shared.tolerance {
                        break;
                    }
                }
            }
        }
        self.passes += 1;
        self.conclude(shared, now, whole);
    }

    /// Rows at work.
    fn at_work(&self) -> usize {
        self.orders.iter().map(Order::len).sum()
    }

    /// Rows of the question.
    fn all(&self) -> usize {
        self.orders.iter().map(Order::all).sum()
    }

    /// The chunks in an order of chance.
    fn chunks(&mut self) -> Vec<usize> {
        let mut chunks: Vec<usize> = (0..self.orders.len()).collect();
        for at in 1..chunks.len() {
            let other = self.below(at as u32 + 1) as usize;
            chunks.swap(at, other);
        }
        chunks
    }

    /// A number of chance.
    fn below(&mut self, below: u32) -> u32 {
        next_below(&mut self.random, below)
    }

    /// The rows at work of one chunk once.
    fn sweep<M: Encoding<Real = T>>(
        &mut self,
        shared: &Shared<M>,
        chunk: usize,
        records: &Records,
    ) -> Slopes<T> {
        // A look at all rows after those at work have settled changes few of them, so it need not be in an order of chance:
        // rows come as they lie in memory.
        let is_look = self.passes > 0 && self.before == Slopes::all() && shared.is_symmetric;
        if is_look {
            let ask = &self.ask;
            records.reset_order(&mut self.orders[chunk], |row| ask.takes(&shared.folds, row));
        } else {
            let random = &mut self.random;
            self.orders[chunk].shuffle(|below| next_below(random, below));
        }
        let mut dual = Dual {
            loss: shared.loss,
            plus: self.ask.plus,
            c: T::from_f64(shared.loss.c()),
            weights: shared.weights.as_deref(),
            targets: &shared.targets,
            constant: shared.bias * shared.bias,
            before: self.before,
            now: Slopes::none(),
            changes: 0,
        };
        self.visits += self.orders[chunk].len() as u64;
        sweep(
            shared.isa,
            EncodedRows { records, encoding: &shared.encoding },
            LinearFunctionMut { weights: &mut self.weights, bias: &mut self.constant },
            DualCoefficients { order: &mut self.orders[chunk], values: &mut self.coefficients },
            &mut dual,
        );
        dual.now
    }

    /// What a pass says: the end, all rows again, or fewer.
    fn conclude<M: Encoding<Real = T>>(&mut self, shared: &Shared<M>, now: Slopes<T>, whole: bool) {
        let violation = now.violation().to_f64();
        if whole {
            self.violation = violation;
            self.whole_at = self.passes;
            if violation < CLEARLY * self.least.0 {
                self.least = (violation, self.passes);
            }
        }
        let share = if whole || !shared.is_symmetric { 1.0 } else { BEYOND };
        let is_settled = violation <= share * shared.tolerance;
        if is_settled || self.passes - self.whole_at >= PATIENCE {
            // Rows put to rest within this pass were within the limits of the last.
            if whole && violation <= shared.tolerance && self.at_work() == self.all() {
                self.end = Some(End::Optimal);
            } else {
                self.orders.iter_mut().for_each(Order::restore);
                self.before = Slopes::all();
            }
        } else {
            let is_tube = matches!(shared.loss, Loss::Tube { .. });
            let zero = T::default();
            let high = if now.high > zero || is_tube { now.high } else { T::INFINITY };
            let low = if now.low < zero { now.low } else { -T::INFINITY };
            // Without a dual objective nothing but the printed rule is known to end.
            let share = T::from_f64(if shared.is_symmetric { SHRINK } else { 1.0 });
            self.before = Slopes { high: high * share, low: low * share };
        }
        self.end = self.end.or_else(|| self.gives_up(shared).map(End::Stopped));
        if self.end.is_none() && self.passes.is_multiple_of(RENEW) {
            self.renew(shared);
        }
    }

    /// Whether further passes are not worth their while. Most of them visit a few rows only, so visits are what is
    /// limited, unless nothing but the printed rule is known to end.
    fn gives_up<M: Encoding<Real = T>>(&self, shared: &Shared<M>) -> Option<Stop> {
        let most = shared.passes.saturating_mul(self.all().max(1) as u64);
        let is_single = T::BYTES < size_of::<f64>();
        let patience = if is_single { shared.passes.min(PLATEAU) } else { shared.passes };
        let next = self.visits + self.at_work() as u64;
        if next > most || (!shared.is_symmetric && self.passes >= shared.passes) {
            Some(Stop::GivenUp)
        } else if self.passes - self.least.1 >= patience {
            Some(if is_single { Stop::F32Stalled } else { Stop::Stalled })
        } else {
            None
        }
    }

    pub(super) fn row_c<M: Encoding<Real = T>>(shared: &Shared<M>, row: RowHead) -> f64 {
        let c = T::from_f64(shared.loss.c());
        match &shared.weights {
            Some(weights) => (c * weights[row.row as usize]).to_f64(),
            None => c.to_f64(),
        }
    }

    pub(super) fn target<M: Encoding<Real = T>>(&self, shared: &Shared<M>, row: RowHead) -> f64 {
        match shared.loss {
            Loss::Tube { .. } => shared.targets[row.row as usize].to_f64(),
            _ if row.tag == self.ask.plus => 1.0,
            _ => -1.0,
        }
    }

    /// Weights from the coefficients, summed in doubles; returns `|w|²`.
    fn renew<M: Encoding<Real = T>>(&mut self, shared: &Shared<M>) -> f64 {
        let rank = shared.encoding.rank();
        let mut sums = Weights::<f64>::zeroed(shared.store.columns(), rank);
        let sums = sums.values_mut();
        let beta = |row: RowHead| {
            let stored = self.coefficients[row.row as usize].to_f64();
            if stored == 0.0 {
                return 0.0;
            }
            let (y, c) = (self.target(shared, row), Self::row_c(shared, row));
            shared.loss.beta(y, c, stored)
        };
        let total = std::cell::Cell::new(0.0);
        let counted = |row: RowHead| {
            let beta = beta(row);
            total.set(total.get() + beta);
            beta
        };
        shared.store.each(|_, records| {
            let rows = EncodedRows { records, encoding: &shared.encoding };
            accumulate(shared.isa, rows, &counted, sums);
        });
        let constant = total.get() * shared.bias.to_f64();
        self.constant.weight = T::from_f64(constant);
        for (place, sum) in self.weights.values_mut().iter_mut().zip(&*sums) {
            *place = T::from_f64(*sum);
        }
        shared.encoding.squared_norm(sums) + constant * constant
    }

    /// `|w - slope|²`: of the weights that the coefficients make.
    fn summed(&self, slope: &[f64]) -> f64 {
        let constant = self.constant.weight.to_f64() - slope[slope.len() - 1];
        let weights = self.weights.values().iter().zip(slope).map(|(w, g)| w.to_f64() - g);
        weights.map(|w| w * w).sum::<f64>() + constant * constant
    }

    /// The penalty of the weights, and what the dual has in its place; `renewed` is `|w|²` of the coefficients.
    fn penalty<M: Encoding<Real = T>>(
        &self,
        shared: &Shared<M>,
        renewed: Option<f64>,
    ) -> (f64, f64) {
        let weights: Vec<f64> = self.weights.values().iter().map(|w| w.to_f64()).collect();
        let constant = self.constant.weight.to_f64();
        if shared.transposed.is_some() {
            return (weights.iter().map(|w| w.abs()).sum::<f64>() + constant.abs(), 0.0);
        }
        let stored = shared.encoding.squared_norm(&weights) + constant.powi(2);
        // Newton's slope is what the coefficients lack to the weights.
        let summed = match &self.newton {
            Some(newton) => self.summed(&newton.slope),
            None => renewed.unwrap_or(stored),
        };
        (0.5 * stored, 0.5 * summed)
    }

    /// Makes the weights anew and judges them: the gap is between the cost of the weights as they will be
    /// stored and the dual of the coefficients.
    pub(super) fn finish<M: Encoding<Real = T>>(
        mut self,
        shared: &Shared<M>,
        stop: Option<Stop>,
    ) -> Learned<T> {
        // Running sums in singles drift; in doubles they are as good as new ones.
        let renewed = (T::BYTES < size_of::<f64>()).then(|| self.renew(shared));
        let columns = shared.transposed.as_ref();
        let share = columns.map_or(1.0, |columns| self.feasible(shared, columns));
        let (mut cost, mut gain, mut supports, mut bounded) = (0.0, 0.0, 0, 0);
        let mut held_out = Vec::new();
        let part = &self;
        let mut see = |row: RowHead, value: T| {
            if part.ask.holds_out(&shared.folds, row) {
                held_out.push((row.row, value.to_f64()));
            }
            if !part.ask.takes(&shared.folds, row) {
                return;
            }
            let stored = part.coefficients[row.row as usize].to_f64();
            let (y, c) = (part.target(shared, row), Self::row_c(shared, row));
            cost += shared.loss.cost(y, c, value.to_f64());
            gain += shared.loss.gain(y, c, shared.loss.shrunk(y, c, stored, share));
            supports += usize::from(stored != 0.0);
            bounded += usize::from(stored.abs() >= c);
        };
        if let Some(columns) = columns {
            let scores = self.scores_by(columns, shared.store.rows());
            shared.store.heads(|row| see(row, T::from_f64(scores[row.row as usize])));
        } else {
            shared.store.each(|_, records| {
                let rows = EncodedRows { records, encoding: &shared.encoding };
                let function = LinearFunction { weights: &self.weights, bias: &self.constant };
                values(shared.isa, rows, function, &mut see);
            });
        }
        let (penalty, summed) = self.penalty(shared, renewed);
        let dual = gain - summed;
        let gap = if shared.is_symmetric { penalty + cost - dual } else { f64::NAN };
        Learned {
            weights: self.weights.values().to_vec(),
            offset: -self.constant.weight.to_f64() * shared.bias.to_f64(),
            objective: -dual,
            gap,
            violation: self.violation,
            supports,
            bounded,
            visits: self.visits,
            end: self.end.or(stop.map(End::Stopped)).unwrap_or(End::Optimal),
            coefficients: self.coefficients,
            held_out,
        }
    }
}
