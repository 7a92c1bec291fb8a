//! Dual coordinate descent on the rows of a low-rank factor; the alternative is `interior`.
//! The coordinate descent of linear solvers, over packed rows, is in [`crate::linear`].

use mercer_kernel::factor::Store;
use mercer_simd::{Isa, Real, add_row, row_dot};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::duality_gap::Inside;
use super::interior::{FactorSolution, evaluate};
use crate::{Qp, Stop};

/// Passes over all rows before descent may give up.
const LEAST_PASSES: u64 = 20;
/// Cost of one coordinate update in multiply-adds of an interior point method, whose matrix products are faster: a
/// constant, and a factor per column of the factor.
const UPDATE_COST: f64 = 300.0;
const UPDATE_COST_PER_COLUMN: f64 = 10.0;
/// Iterations that an interior point method usually needs.
const INTERIOR_ITERATIONS: f64 = 25.0;
/// Limit of passes over all rows.
const MOST_PASSES: u64 = 2000;
/// ρ of the augmented Lagrangian, relative to the mean squared norm of the centred rows.
const RELATIVE_RHO: f64 = 0.1;
/// Factor of the inner tolerance after each evaluation of the gap.
const INNER_FACTOR: f64 = 0.3;

/// Options of a descent.
pub(crate) struct DescentOptions<'s> {
    /// Relative gap at which it ends.
    pub(crate) tolerance: f64,
    pub(crate) seed: u64,
    /// Whether it may give up for the interior point method when the gap falls too slowly.
    pub(crate) may_give_up: bool,
    /// Called with the number of coordinate updates and the relative gap (NaN between evaluations); may ask to stop.
    pub(crate) monitor: &'s mut dyn FnMut(u64, f64) -> Option<Stop>,
}

/// Whether coordinate descent can solve a quadratic program: there is one sum constraint, and the sum is zero.
pub(crate) fn fits(qp: &Qp) -> bool {
    qp.group_count() == 1 && qp.start.iter().all(|value| *value == 0.0)
}

/// Minimises `½ β'GG'β + q'β` by coordinate descent with shrinking (\[HCLKS08\]). The constraint `Σβ = 0` is handled by
/// an augmented Lagrangian, `- b Σβ + ½ ρ (Σβ)²`, instead of a penalised bias. After each evaluation of the gap β is
/// made feasible again and `b -= ρ Σβ`, so that the bias in the gradient, `b - ρ Σβ`, is continuous.
///
/// For `Σβ = 0`, subtracting the mean row ḡ from every row does not change `G'β`, but it makes the steps of single
/// coordinates larger. So the gradient is that of the centred rows, `(g - ḡ)·(w - ḡ Σβ)`; `g·ḡ` is precomputed and
/// `ḡ·w` is updated together with w.
///
/// Returns the solution, and whether descent gave up because an interior point method will be faster.
pub(crate) fn solve<T: Real>(
    qp: &Qp,
    store: &Store<T>,
    start: Option<&[f64]>,
    options: &mut DescentOptions<'_>,
) -> (FactorSolution, bool) {
    let mut run = DescentRun::new(qp, store, start, options.seed);
    let mut inner = 0.1;
    let rank = store.rank() as f64;
    let interior = INTERIOR_ITERATIONS * qp.len() as f64 * rank * (0.5 * rank + 10.0);
    let updates_of = |passes: u64| passes * qp.len() as u64;
    let mut history = Vec::new();
    loop {
        let stop = run.passes(inner, &mut |updates| (options.monitor)(updates, f64::NAN));
        let (point, w, evaluation) = evaluate(qp, store, Inside::of(qp, &run.beta), None);
        let relative = evaluation.relative();
        let stop = stop.or_else(|| (options.monitor)(run.updates, relative));
        let is_done = relative <= options.tolerance;
        history.push((run.updates, relative));
        let is_slow = run.updates > updates_of(LEAST_PASSES)
            && updates_left(&history, options.tolerance)
                * (UPDATE_COST + UPDATE_COST_PER_COLUMN * rank)
                > interior;
        let gave_up = !is_done && stop.is_none() && is_slow && options.may_give_up;
        let is_over = run.updates > updates_of(MOST_PASSES);
        if is_done || stop.is_some() || gave_up || is_over {
            let stop = stop.or((is_over && !is_done).then_some(Stop::Stalled));
            let solution = FactorSolution {
                identified: point.beta(qp),
                point,
                w,
                evaluation,
                iterations: 0,
                updates: run.updates,
                running_gap: relative,
                fallbacks: 0,
                stop,
            };
            return (solution, gave_up);
        }
        inner = (inner * INNER_FACTOR).max(1e-12);
        run.multiplier -= run.rho * run.sum;
        run.beta = point.beta(qp);
        run.refresh();
    }
}

/// Estimated updates until the gap reaches the tolerance, if it keeps falling at the rate of the second half of the run;
/// infinite if it did not fall.
fn updates_left(history: &[(u64, f64)], tolerance: f64) -> f64 {
    let Some((updates, gap)) = history.last() else { return f64::INFINITY };
    let half = history.iter().rev().find(|(then, _)| 2 * then <= *updates);
    // At β = 0 the relative gap is taken as 1.
    let (then, before) = half.copied().unwrap_or((0, 1.0));
    let fall = (before / gap).ln();
    if fall > 0.0 { (gap / tolerance).ln() * (updates - then) as f64 / fall } else { f64::INFINITY }
}

/// A run of coordinate descent.
struct DescentRun<'r, T> {
    qp: &'r Qp,
    store: &'r Store<T>,
    beta: Vec<f64>,
    w: Vec<f64>,
    /// Σβ.
    sum: f64,
    /// b minus `ḡ·w`.
    multiplier: f64,
    /// ρ.
    rho: f64,
    /// `g·ḡ` of each row.
    dot_mean: Vec<f64>,
    /// `|ḡ|²`.
    mean_square: f64,
    /// `ḡ·w`.
    mean_dot_w: f64,
    mean_row: Vec<f64>,
    /// `|g - ḡ|²` of each row.
    squares: Vec<f64>,
    /// Active variables (not shrunk) of each tile.
    active: Vec<Vec<u32>>,
    random: SplitMix64,
    updates: u64,
}

/// Shrinking limits: the extreme projected gradients of the previous pass.
#[derive(Clone, Copy)]
struct Limits {
    above: f64,
    below: f64,
}

impl<'r, T: Real> DescentRun<'r, T> {
    fn new(qp: &'r Qp, store: &'r Store<T>, start: Option<&[f64]>, seed: u64) -> Self {
        let beta = start.map_or_else(|| vec![0.0; qp.len()], <[f64]>::to_vec);
        let share = 1.0 / store.rows().max(1) as f64;
        let mean_row = store.transposed_times(&vec![share; store.rows()]);
        let dot_mean = store.times(&mean_row);
        let mean_square: f64 = mean_row.iter().map(|g| g * g).sum();
        let mut squares = super::interior_systems::squared_norms(store);
        for (square, dot) in squares.iter_mut().zip(&dot_mean) {
            *square = (*square - 2.0 * dot + mean_square).max(0.0);
        }
        let mean = squares.iter().sum::<f64>() * share;
        let mut run = Self {
            qp,
            store,
            beta,
            w: Vec::new(),
            sum: 0.0,
            multiplier: 0.0,
            rho: (RELATIVE_RHO * mean).max(f64::MIN_POSITIVE),
            dot_mean,
            mean_square,
            mean_dot_w: 0.0,
            mean_row,
            squares,
            active: Vec::new(),
            random: SplitMix64::seed_from_u64(seed),
            updates: 0,
        };
        if start.is_some() {
            let (point, _, evaluation) = evaluate(qp, store, Inside::of(qp, &run.beta), None);
            run.beta = point.beta(qp);
            run.multiplier = evaluation.multipliers[0];
        }
        run.refresh();
        if start.is_some() {
            run.multiplier -= run.mean_dot_w;
        }
        run
    }

    /// Makes all variables active again and recomputes w and the sum.
    fn refresh(&mut self) {
        self.w = self.store.transposed_times(&self.qp.fold(&self.beta));
        self.sum = self.beta.iter().sum();
        self.mean_dot_w = self.mean_row.iter().zip(&self.w).map(|(g, w)| g * w).sum();
        self.active = vec![Vec::new(); self.store.tiles()];
        let tile = |v: usize| (v % self.qp.rows) / mercer_kernel::factor::TILE;
        for v in (0..self.qp.len()).filter(|v| self.qp.upper[*v] > self.qp.lower[*v]) {
            self.active[tile(v)].push(v as u32);
        }
    }

    /// At most ten passes over the active variables, until their violation is at most `inner` times the largest |q|.
    fn passes(&mut self, inner: f64, stop: &mut dyn FnMut(u64) -> Option<Stop>) -> Option<Stop> {
        let scale = self.qp.linear.iter().fold(0.0, |most: f64, q| most.max(q.abs()));
        let mut limits = Limits { above: f64::INFINITY, below: f64::NEG_INFINITY };
        // A pass over the active variables is cheap; evaluating the gap needs all rows.
        for _ in 0..10 {
            let (high, low) = self.pass(limits);
            if let Some(stop) = stop(self.updates) {
                return Some(stop);
            }
            if high - low <= inner * scale || self.active.iter().all(Vec::is_empty) {
                break;
            }
            limits = Limits {
                above: if high > 0.0 { high } else { f64::INFINITY },
                below: if low < 0.0 { low } else { f64::NEG_INFINITY },
            };
        }
        None
    }

    /// One pass; returns the largest and smallest projected gradient. Variables at a bound whose gradient is beyond the
    /// limits of the previous pass are shrunk.
    fn pass(&mut self, limits: Limits) -> (f64, f64) {
        let isa = Isa::current();
        let (mut high, mut low) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut order: Vec<usize> = (0..self.active.len()).collect();
        shuffle(&mut order, &mut self.random);
        let (store, qp) = (self.store, self.qp);
        let stride = store.stride();
        for tile in order {
            let mut active = std::mem::take(&mut self.active[tile]);
            shuffle(&mut active, &mut self.random);
            let first = tile * mercer_kernel::factor::TILE;
            store.with(tile, |values| {
                active.retain(|v| {
                    let v = *v as usize;
                    let row = v % qp.rows;
                    let start = (row - first) * stride;
                    let g = &values[start..start + self.w.len()];
                    let shared = self.mean_square + self.rho - self.dot_mean[row];
                    let slope = row_dot(isa, g, &self.w) - self.mean_dot_w + qp.linear[v]
                        - self.multiplier
                        + shared * self.sum;
                    self.updates += 1;
                    let projected = if self.beta[v] <= qp.lower[v] {
                        if slope > limits.above {
                            return false;
                        }
                        slope.min(0.0)
                    } else if self.beta[v] >= qp.upper[v] {
                        if slope < limits.below {
                            return false;
                        }
                        slope.max(0.0)
                    } else {
                        slope
                    };
                    high = high.max(projected);
                    low = low.min(projected);
                    if projected != 0.0 {
                        let curvature = self.squares[row] + self.rho;
                        let new =
                            (self.beta[v] - slope / curvature).clamp(qp.lower[v], qp.upper[v]);
                        let step = new - self.beta[v];
                        if step != 0.0 {
                            self.beta[v] = new;
                            self.sum += step;
                            self.mean_dot_w += step * self.dot_mean[row];
                            add_row(isa, step, g, &mut self.w);
                        }
                    }
                    true
                });
            });
            self.active[tile] = active;
        }
        if high < low { (0.0, 0.0) } else { (high.max(0.0), low.min(0.0)) }
    }
}

/// A random permutation in place, by Fisher and Yates.
pub(super) fn shuffle<V>(items: &mut [V], random: &mut SplitMix64) {
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trained machines are the same bits as before only if this permutation is.
    #[test]
    fn the_permutation_of_a_seed_stays_the_same() {
        let mut items: Vec<usize> = (0..10).collect();
        shuffle(&mut items, &mut SplitMix64::seed_from_u64(1));
        assert_eq!(items, [4, 2, 8, 1, 9, 3, 0, 6, 7, 5]);
    }
}
