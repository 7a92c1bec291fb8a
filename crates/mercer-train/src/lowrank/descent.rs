//! Dual coordinate descent on the rows of a factor.

use mercer_kernel::factor::Store;
use mercer_simd::{Isa, Real, add_row, row_dot};

use super::interior::{FactorSolution, evaluate};
use super::judge::Inside;
use crate::{Qp, Stop};

/// Visits of all rows before it may give up.
const PATIENCE: u64 = 20;
/// A visit costs so many multiply-adds of an interior point method, and so many for each column: products of
/// whole matrices run that much faster.
const VISIT: (f64, f64) = (300.0, 10.0);
/// Iterations that an interior point method is expected to take.
const ITERATIONS: f64 = 25.0;
/// Visits of all rows after which nothing more is expected.
const MOST: u64 = 2000;
/// ρ as a share of the mean square of centred rows.
const SPRING: f64 = 0.1;
/// The share by which the inner tolerance falls after each look at all rows.
const TIGHTER: f64 = 0.3;

/// Steering of a descent.
pub(crate) struct DescentOptions<'s> {
    /// The relative gap at which it ends.
    pub(crate) tolerance: f64,
    pub(crate) seed: u64,
    /// Whether it may give up for the interior point method when the gap falls too slowly.
    pub(crate) may_give_up: bool,
    /// Told visits and the relative gap; says whether to stop.
    pub(crate) monitor: &'s mut dyn FnMut(u64, f64) -> Option<Stop>,
}

/// Whether a quadratic program can be descended: one sum, which is zero.
pub(crate) fn fits(qp: &Qp) -> bool {
    qp.group_count() == 1 && qp.start.iter().all(|value| *value == 0.0)
}

/// `min ½ β'GG'β + q'β` coordinate by coordinate (\[HCLKS08\] with shrinking); the sum of β is led to zero by
/// an augmented Lagrangian instead of a penalised bias: `- b Σβ + ½ ρ (Σβ)²`. After each look β takes its sum
/// back and `b -= ρ Σβ`, so that the bias the gradient sees, `b - ρ Σβ`, does not jump.
///
/// Where the sum is zero, `G'β` does not change when the mean row ḡ is taken from every row: what the rows
/// share would only hold single coordinates back. So the gradient is that of centred rows,
/// `(g - ḡ)·(w - ḡ Σβ)`, of which `g·ḡ` is known beforehand and `ḡ·w` follows w.
///
/// Returns what was found and whether it gave up.
pub(crate) fn solve<T: Real>(
    qp: &Qp,
    store: &Store<T>,
    start: Option<&[f64]>,
    options: &mut DescentOptions<'_>,
) -> (FactorSolution, bool) {
    let mut run = Run::new(qp, store, start, options.seed);
    let mut inner = 0.1;
    let rank = store.rank() as f64;
    let interior = ITERATIONS * qp.len() as f64 * rank * (0.5 * rank + 10.0);
    let budget = |passes: u64| passes * qp.len() as u64;
    let mut history = Vec::new();
    loop {
        let stop = run.passes(inner, &mut |updates| (options.monitor)(updates, f64::NAN));
        let (point, w, evaluation) = evaluate(qp, store, Inside::of(qp, &run.beta), None);
        let relative = evaluation.relative();
        let stop = stop.or_else(|| (options.monitor)(run.updates, relative));
        let is_done = relative <= options.tolerance;
        history.push((run.updates, relative));
        let is_slow = run.updates > budget(PATIENCE)
            && updates_left(&history, options.tolerance) * (VISIT.0 + VISIT.1 * rank) > interior;
        let gave_up = !is_done && stop.is_none() && is_slow && options.may_give_up;
        let is_over = run.updates > budget(MOST);
        if is_done || stop.is_some() || gave_up || is_over {
            let stop = stop.or((is_over && !is_done).then_some(Stop::Stalled));
            let found = FactorSolution {
                point,
                w,
                evaluation,
                iterations: 0,
                updates: run.updates,
                believed: relative,
                fallbacks: 0,
                stop,
            };
            return (found, gave_up);
        }
        inner = (inner * TIGHTER).max(1e-12);
        run.multiplier -= run.penalty * run.sum;
        run.beta = point.beta(qp);
        run.refresh();
    }
}

/// Visits that are left to a gap, if it goes on falling as it did since half as many; infinite if it did not
/// fall.
fn updates_left(history: &[(u64, f64)], tolerance: f64) -> f64 {
    let Some((updates, gap)) = history.last() else { return f64::INFINITY };
    let half = history.iter().rev().find(|(then, _)| 2 * then <= *updates);
    // The gap of no coefficients at all is the whole objective.
    let (then, before) = half.copied().unwrap_or((0, 1.0));
    let fall = (before / gap).ln();
    if fall > 0.0 { (gap / tolerance).ln() * (updates - then) as f64 / fall } else { f64::INFINITY }
}

struct Run<'r, T> {
    qp: &'r Qp,
    store: &'r Store<T>,
    beta: Vec<f64>,
    w: Vec<f64>,
    /// Σβ.
    sum: f64,
    /// b less `ḡ·w`.
    multiplier: f64,
    penalty: f64,
    /// `g·ḡ` of each row, `|ḡ|²`, and `ḡ·w`.
    along: Vec<f64>,
    mean_square: f64,
    mean_along: f64,
    mean_row: Vec<f64>,
    /// `|g - ḡ|²` of each row.
    squares: Vec<f64>,
    /// Variables not left out, tile by tile.
    active: Vec<Vec<u32>>,
    random: u64,
    updates: u64,
}

impl<'r, T: Real> Run<'r, T> {
    fn new(qp: &'r Qp, store: &'r Store<T>, start: Option<&[f64]>, seed: u64) -> Self {
        let beta = start.map_or_else(|| vec![0.0; qp.len()], <[f64]>::to_vec);
        let share = 1.0 / store.rows().max(1) as f64;
        let mean_row = store.transposed_times(&vec![share; store.rows()]);
        let along = store.times(&mean_row);
        let mean_square: f64 = mean_row.iter().map(|g| g * g).sum();
        let mut squares = super::systems::squares(store);
        for (square, along) in squares.iter_mut().zip(&along) {
            *square = (*square - 2.0 * along + mean_square).max(0.0);
        }
        let mean = squares.iter().sum::<f64>() * share;
        let mut run = Self {
            qp,
            store,
            beta,
            w: Vec::new(),
            sum: 0.0,
            multiplier: 0.0,
            penalty: (SPRING * mean).max(f64::MIN_POSITIVE),
            along,
            mean_square,
            mean_along: 0.0,
            mean_row,
            squares,
            active: Vec::new(),
            random: seed,
            updates: 0,
        };
        if start.is_some() {
            let (point, _, evaluation) = evaluate(qp, store, Inside::of(qp, &run.beta), None);
            run.beta = point.beta(qp);
            run.multiplier = evaluation.multipliers[0];
        }
        run.refresh();
        if start.is_some() {
            run.multiplier -= run.mean_along;
        }
        run
    }

    /// Takes all variables back and computes w and the sum anew.
    fn refresh(&mut self) {
        self.w = self.store.transposed_times(&self.qp.fold(&self.beta));
        self.sum = self.beta.iter().sum();
        self.mean_along = self.mean_row.iter().zip(&self.w).map(|(g, w)| g * w).sum();
        self.active = vec![Vec::new(); self.store.tiles()];
        let tile = |v: usize| (v % self.qp.rows) / mercer_kernel::factor::TILE;
        for v in (0..self.qp.len()).filter(|v| self.qp.upper[*v] > self.qp.lower[*v]) {
            self.active[tile(v)].push(v as u32);
        }
    }

    /// Passes over the active variables until they violate by at most `inner` of the size of q, or few are
    /// left.
    fn passes(&mut self, inner: f64, stop: &mut dyn FnMut(u64) -> Option<Stop>) -> Option<Stop> {
        let scale = self.qp.linear.iter().fold(0.0, |most: f64, q| most.max(q.abs()));
        let mut limits = (f64::INFINITY, f64::NEG_INFINITY);
        // A pass over what is left is cheap; looks at all rows are not.
        for _ in 0..10 {
            let (high, low) = self.pass(limits);
            if let Some(stop) = stop(self.updates) {
                return Some(stop);
            }
            if high - low <= inner * scale || self.active.iter().all(Vec::is_empty) {
                break;
            }
            limits = (
                if high > 0.0 { high } else { f64::INFINITY },
                if low < 0.0 { low } else { f64::NEG_INFINITY },
            );
        }
        None
    }

    /// One pass; returns the largest and smallest projected gradient. Variables at a wall that the gradient
    /// presses harder than the last pass's worst are left out.
    fn pass(&mut self, (above, below): (f64, f64)) -> (f64, f64) {
        let isa = Isa::current();
        let (mut high, mut low) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut order: Vec<usize> = (0..self.active.len()).collect();
        shuffle(&mut order, &mut self.random);
        let (store, qp) = (self.store, self.qp);
        let stride = store.stride();
        for tile in order {
            let mut own = std::mem::take(&mut self.active[tile]);
            shuffle(&mut own, &mut self.random);
            let first = tile * mercer_kernel::factor::TILE;
            store.with(tile, |values| {
                own.retain(|v| {
                    let v = *v as usize;
                    let row = v % qp.rows;
                    let start = (row - first) * stride;
                    let g = &values[start..start + self.w.len()];
                    let shared = self.mean_square + self.penalty - self.along[row];
                    let slope = row_dot(isa, g, &self.w) - self.mean_along + qp.linear[v]
                        - self.multiplier
                        + shared * self.sum;
                    self.updates += 1;
                    let projected = if self.beta[v] <= qp.lower[v] {
                        if slope > above {
                            return false;
                        }
                        slope.min(0.0)
                    } else if self.beta[v] >= qp.upper[v] {
                        if slope < below {
                            return false;
                        }
                        slope.max(0.0)
                    } else {
                        slope
                    };
                    high = high.max(projected);
                    low = low.min(projected);
                    if projected != 0.0 {
                        let curvature = self.squares[row] + self.penalty;
                        let new =
                            (self.beta[v] - slope / curvature).clamp(qp.lower[v], qp.upper[v]);
                        let step = new - self.beta[v];
                        if step != 0.0 {
                            self.beta[v] = new;
                            self.sum += step;
                            self.mean_along += step * self.along[row];
                            add_row(isa, step, g, &mut self.w);
                        }
                    }
                    true
                });
            });
            self.active[tile] = own;
        }
        if high < low { (0.0, 0.0) } else { (high.max(0.0), low.min(0.0)) }
    }
}

/// Fisher and Yates with SplitMix64.
pub(super) fn shuffle<V>(items: &mut [V], state: &mut u64) {
    for last in (1..items.len()).rev() {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = *state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        items.swap(last, ((x ^ (x >> 31)) % (last as u64 + 1)) as usize);
    }
}
