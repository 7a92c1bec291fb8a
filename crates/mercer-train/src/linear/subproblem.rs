//! One subproblem over packed examples: its state and its passes, and what follows from a pass.
//! The coordinate step is in [`super::dual`], the end in [`super::solution`]; Newton's method and the lasso have files
//! of their own.

use std::time::{Duration, Instant};

use mercer_simd::factors::{
    BiasColumn, DualCoefficients, EncodedRows, Encoding, Float, LinearFunctionMut, Order, Records,
    RowHead, Weights, sweep,
};
use mercer_simd::{Isa, large_pages};

use super::dual::{Dual, GradientRange};
use super::lasso::Lasso;
use super::newton::Newton;
use super::run::RowSelection;
use super::transposed::Transposed;
use super::{Loss, Space};
use crate::Stop;
use crate::packed::{ColumnOrder, ExampleStore};

/// The packed examples with their targets, the loss and the options: what all subproblems read.
#[derive(Debug)]
pub(crate) struct LinearProblem<M: Encoding> {
    pub(crate) store: ExampleStore,
    pub(crate) columns: ColumnOrder,
    pub(crate) encoding: M,
    /// Weight of each packed row, where they differ.
    pub(super) weights: Option<Vec<M::Real>>,
    /// Target of each packed row, for values.
    pub(super) targets: Vec<M::Real>,
    /// The fold of each packed row, in a cross-validation.
    pub(super) folds: Vec<u32>,
    pub(super) loss: Loss,
    pub(super) bias: M::Real,
    pub(super) tolerance: f64,
    /// Passes after which a subproblem is given up.
    pub(super) passes: u64,
    pub(super) seed: u64,
    /// Whether rows are read and written with the same factors. Else there is no dual objective: no gap, and no shrinking.
    pub(super) has_dual_objective: bool,
    pub(super) space: Space,
    /// The examples by columns, for the L1 penalty.
    pub(super) transposed: Option<Transposed>,
    pub(super) isa: Isa,
}

/// The state of one subproblem.
#[derive(Debug)]
pub(super) struct SubproblemState<T> {
    pub(super) number: usize,
    pub(super) selection: RowSelection,
    pub(super) coefficients: Vec<T>,
    pub(super) weights: Weights<T>,
    pub(super) bias: BiasColumn<T>,
    /// The rows of each chunk.
    pub(super) orders: Vec<Order>,
    pub(super) random: u64,
    /// Gradients of the last pass, beyond which rows are shrunk.
    pub(super) last_range: GradientRange<T>,
    pub(super) violation: f64,
    pub(super) updates: u64,
    pub(super) passes: u64,
    /// Number of passes at the end of the last one over all rows.
    pub(super) full_pass_at: u64,
    /// The smallest violation over all rows that was clearly below those before it, and the passes until then.
    pub(super) least_violation: (f64, u64),
    pub(super) newton: Option<Newton>,
    pub(super) lasso: Option<Lasso>,
    /// Whether the last pass was interrupted: what follows is not what follows a complete one.
    pub(super) is_interrupted: bool,
    /// How it ended, if it did.
    pub(super) termination: Option<Termination>,
}

/// How a subproblem ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Termination {
    Optimal,
    Stopped(Stop),
}

/// Passes after which the running sums are recomputed: sums in f32 drift.
const RECOMPUTE: u64 = 200;

/// Rows are shrunk when their gradient is beyond this share of the range of the last pass. \[HCLKS08\] waits for
/// all of it; with less of it MNIST, its gradient histograms and covtype took 17 to 30 % fewer coordinate updates to
/// the same objective, and all rows are checked again before the end in either case.
const SHRINK: f64 = 0.4;

/// The active rows go on to this share of the tolerance before all are checked again. Passes over the few that are
/// left cost little, a pass over all rows that is not the last costs two: 15 % fewer coordinate updates on MNIST, its
/// gradient histograms and Adult, and hardly any random variation in their number.
const BEYOND: f64 = 0.6;

/// Passes over a part of the rows after which all are checked again: f32 may not settle the few that are left.
const MAX_PARTIAL_PASSES: u64 = 100;

/// A violation of this share of another is clearly below it.
const CLEARLY: f64 = 0.9;

/// Passes in f32 without a violation over all rows that is clearly below those before: only rounding is left.
const PLATEAU: u64 = 1000;

/// Sweeps over a chunk of a file each time that it is read, at most.
const SWEEPS_PER_READ: usize = 5;

/// A random number below `below`; the state advances.
pub(super) fn next_below(state: &mut u64, below: u32) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((u64::from((mixed >> 32) as u32) * u64::from(below)) >> 32) as u32
}

/// Zero coefficients, on large pages: rows are read in random order.
fn zeros<T: Float>(count: usize) -> Vec<T> {
    let mut zeros = Vec::with_capacity(count);
    large_pages(zeros.as_ptr(), count);
    zeros.resize(count, T::default());
    zeros
}

impl<T: Float> SubproblemState<T> {
    pub(super) fn new<M: Encoding<Real = T>>(
        problem: &LinearProblem<M>,
        number: usize,
        selection: RowSelection,
        warm: Option<&[T]>,
    ) -> Self {
        let (rows, columns) = (problem.store.rows(), problem.store.columns());
        // A chunk that cannot be read has no rows, and the store says so.
        let mut orders = vec![ExampleStore::buffer().order(|_| true); problem.store.chunks()];
        problem.store.each(|chunk, records| {
            orders[chunk] = records.order(|row| selection.trains_on(&problem.folds, row));
        });
        let mut state = Self {
            number,
            selection,
            coefficients: warm.map_or_else(|| zeros(rows), <[T]>::to_vec),
            weights: Weights::zeroed(columns, problem.encoding.rank()),
            bias: BiasColumn { value: problem.bias, weight: T::default() },
            orders,
            random: problem.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            last_range: GradientRange::all(),
            violation: f64::INFINITY,
            updates: 0,
            passes: 0,
            full_pass_at: 0,
            least_violation: (f64::INFINITY, 0),
            newton: None,
            lasso: None,
            is_interrupted: false,
            termination: None,
        };
        if warm.is_some() {
            state.recompute(problem);
        }
        state
    }

    /// Makes complete passes for about this long.
    pub(super) fn run<M: Encoding<Real = T>>(
        &mut self,
        problem: &LinearProblem<M>,
        slice: Duration,
        stop: &(dyn Fn(u64) -> bool + Sync),
    ) {
        let (started, updates) = (Instant::now(), self.updates);
        while self.termination.is_none() {
            let made = self.updates - updates;
            self.pass(problem, &|more| stop(made + more));
            if self.is_interrupted || stop(self.updates - updates) || started.elapsed() >= slice {
                break;
            }
        }
    }

    /// One pass over all active rows; those of a chunk from a file a few times more while it is in memory.
    fn pass<M: Encoding<Real = T>>(
        &mut self,
        problem: &LinearProblem<M>,
        stop: &dyn Fn(u64) -> bool,
    ) {
        if let Some(columns) = &problem.transposed {
            return self.lasso_step(problem, columns, stop);
        }
        if problem.space == Space::Primal {
            return self.newton_step(problem);
        }
        let is_full = self.active() == self.all();
        let (mut buffer, mut range) = (ExampleStore::buffer(), GradientRange::none());
        for chunk in self.chunks() {
            if self.orders[chunk].is_empty() {
                continue;
            }
            if problem.store.is_on_disk() && stop(0) {
                self.is_interrupted = true;
                return;
            }
            let Some(records) = problem.store.chunk(chunk, &mut buffer) else { continue };
            range.join(self.sweep(problem, chunk, records));
            if problem.store.is_on_disk() {
                for _ in 1..SWEEPS_PER_READ {
                    let left = self.sweep(problem, chunk, records);
                    if left.violation().to_f64() <= problem.tolerance {
                        break;
                    }
                }
            }
        }
        self.passes += 1;
        self.after_pass(problem, range, is_full);
    }

    /// Number of active rows.
    fn active(&self) -> usize {
        self.orders.iter().map(Order::len).sum()
    }

    /// Number of rows of the subproblem.
    fn all(&self) -> usize {
        self.orders.iter().map(Order::all).sum()
    }

    /// A random permutation of the chunks.
    fn chunks(&mut self) -> Vec<usize> {
        let mut chunks: Vec<usize> = (0..self.orders.len()).collect();
        for at in 1..chunks.len() {
            let other = self.below(at as u32 + 1) as usize;
            chunks.swap(at, other);
        }
        chunks
    }

    /// A random number below `below`.
    fn below(&mut self, below: u32) -> u32 {
        next_below(&mut self.random, below)
    }

    /// One sweep over the active rows of one chunk.
    fn sweep<M: Encoding<Real = T>>(
        &mut self,
        problem: &LinearProblem<M>,
        chunk: usize,
        records: &Records,
    ) -> GradientRange<T> {
        // A pass over all rows after the active ones have settled changes few of them, so the order need not be random:
        // rows come as they lie in memory.
        let is_check = self.passes > 0
            && self.last_range == GradientRange::all()
            && problem.has_dual_objective;
        if is_check {
            let selection = &self.selection;
            records.reset_order(&mut self.orders[chunk], |row| {
                selection.trains_on(&problem.folds, row)
            });
        } else {
            let random = &mut self.random;
            self.orders[chunk].shuffle(|below| next_below(random, below));
        }
        let mut dual = Dual {
            loss: problem.loss,
            plus: self.selection.classes.plus,
            c: T::from_f64(problem.loss.c()),
            weights: problem.weights.as_deref(),
            targets: &problem.targets,
            constant: problem.bias * problem.bias,
            last_range: self.last_range,
            range: GradientRange::none(),
            changes: 0,
        };
        self.updates += self.orders[chunk].len() as u64;
        sweep(
            problem.isa,
            EncodedRows { records, encoding: &problem.encoding },
            LinearFunctionMut { weights: &mut self.weights, bias: &mut self.bias },
            DualCoefficients { order: &mut self.orders[chunk], values: &mut self.coefficients },
            &mut dual,
        );
        dual.range
    }

    /// Decides after a pass: the end, all rows again, or fewer.
    fn after_pass<M: Encoding<Real = T>>(
        &mut self,
        problem: &LinearProblem<M>,
        range: GradientRange<T>,
        is_full: bool,
    ) {
        let violation = range.violation().to_f64();
        if is_full {
            self.violation = violation;
            self.full_pass_at = self.passes;
            if violation < CLEARLY * self.least_violation.0 {
                self.least_violation = (violation, self.passes);
            }
        }
        let share = if is_full || !problem.has_dual_objective { 1.0 } else { BEYOND };
        let is_settled = violation <= share * problem.tolerance;
        if is_settled || self.passes - self.full_pass_at >= MAX_PARTIAL_PASSES {
            // Rows shrunk within this pass were within the bounds of the last.
            if is_full && violation <= problem.tolerance && self.active() == self.all() {
                self.termination = Some(Termination::Optimal);
            } else {
                self.orders.iter_mut().for_each(Order::restore);
                self.last_range = GradientRange::all();
            }
        } else {
            let is_tube = matches!(problem.loss, Loss::EpsilonInsensitive { .. });
            let zero = T::default();
            let high = if range.high > zero || is_tube { range.high } else { T::INFINITY };
            let low = if range.low < zero { range.low } else { -T::INFINITY };
            // Without a dual objective only the published rule is known to end.
            let share = T::from_f64(if problem.has_dual_objective { SHRINK } else { 1.0 });
            self.last_range = GradientRange { high: high * share, low: low * share };
        }
        self.termination =
            self.termination.or_else(|| self.gives_up(problem).map(Termination::Stopped));
        if self.termination.is_none() && self.passes.is_multiple_of(RECOMPUTE) {
            self.recompute(problem);
        }
    }

    /// Whether further passes are not worth their time. Most of them read a few rows only, so updates are limited,
    /// unless only the published rule is known to end.
    fn gives_up<M: Encoding<Real = T>>(&self, problem: &LinearProblem<M>) -> Option<Stop> {
        let most = problem.passes.saturating_mul(self.all().max(1) as u64);
        let is_f32 = T::BYTES < size_of::<f64>();
        let most_passes = if is_f32 { problem.passes.min(PLATEAU) } else { problem.passes };
        let next = self.updates + self.active() as u64;
        if next > most || (!problem.has_dual_objective && self.passes >= problem.passes) {
            Some(Stop::GivenUp)
        } else if self.passes - self.least_violation.1 >= most_passes {
            Some(if is_f32 { Stop::F32Stalled } else { Stop::Stalled })
        } else {
            None
        }
    }

    pub(super) fn row_c<M: Encoding<Real = T>>(problem: &LinearProblem<M>, row: RowHead) -> f64 {
        let c = T::from_f64(problem.loss.c());
        match &problem.weights {
            Some(weights) => (c * weights[row.row as usize]).to_f64(),
            None => c.to_f64(),
        }
    }

    pub(super) fn target<M: Encoding<Real = T>>(
        &self,
        problem: &LinearProblem<M>,
        row: RowHead,
    ) -> f64 {
        match problem.loss {
            Loss::EpsilonInsensitive { .. } => problem.targets[row.row as usize].to_f64(),
            _ => self.selection.classes.target(row.tag),
        }
    }
}
