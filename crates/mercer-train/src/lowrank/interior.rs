//! The interior point method: Mehrotra's predictor and corrector with Gondzio's further correctors.

mod start;
mod state;
mod step;

use mercer_kernel::factor::Store;
use mercer_simd::Real;

use self::state::Run;
use super::judge::{GapEvaluation, Inside, evaluate_gap, gap_beside, restore_sums};
use super::systems::{Factored, Systems, squares};
use crate::{Qp, Stop};

/// Iterations after which nothing more is expected.
const MOST: usize = 100;
/// Iterations in a row without a fall of a fifth of the gap after which it has stalled.
const STALL: usize = 8;
/// The gap is computed anew where the one that is believed is at most so many tolerances.
const NEAR: f64 = 10.0;
/// Where the gap that is believed is this share of the tolerance and the true one is not, nothing helps.
const VAIN: f64 = 1e-8;
/// Complementarity, as a share of the first, at which all is at its wall: the optimum is zero.
const NOTHING: f64 = 1e-40;
/// The least objective, as a share of its diagonal part, where it is a square alone.
const LEAST: f64 = 1e-10;
/// The share of that which is zero.
const ZERO: f64 = 1e-8;

/// How an interior point method is steered.
pub(crate) struct InteriorOptions<'s> {
    pub(crate) systems: Systems,
    /// The relative gap at which it ends.
    pub(crate) tolerance: f64,
    /// Told the iteration and the relative gap; says whether to stop.
    pub(crate) monitor: &'s mut dyn FnMut(usize, f64) -> Option<Stop>,
}

/// What was found.
#[derive(Debug, Clone)]
pub(crate) struct FactorSolution {
    pub(crate) point: Inside,
    /// `G'β` but for rounding: the primal side, whose scores are the machine's.
    pub(crate) w: Vec<f64>,
    pub(crate) evaluation: GapEvaluation,
    /// Iterations of the interior point method.
    pub(crate) iterations: usize,
    /// Visits of rows by coordinate descent.
    pub(crate) updates: u64,
    /// The relative gap that the method believed.
    pub(crate) believed: f64,
    /// How often a system broke down and QR took over.
    pub(crate) fallbacks: usize,
    pub(crate) stop: Option<Stop>,
}

/// Minimises `½ β'GG'β + q'β` over the box and the sums of a quadratic program.
///
/// State: `x = β - lower`, `t = upper - β`, the multipliers `y` of the sums, `s` and `ξ` of the walls, all of
/// x, t, s, ξ above zero, and `w`, which is `G'β` in the end. `r_w = G'β - w`, `r_c = G w + q - A'y - s + ξ`,
/// `r_b = d - Aβ`, `D = s/x + ξ/t`, `M = D + GG'`; for right-hand sides `r_s`, `r_ξ` of the complementarity
///
/// `g = r_s/x - r_ξ/t - r_c`, `D dx + G dw = g + A'dy`, `G'dx - dw = -r_w`, `A dx = r_b`,
/// `ds = (r_s - s dx)/x`, `dξ = (r_ξ + ξ dx)/t`.
///
/// Differs from \[FS01\]: t is a variable of its own, not `c - x`; so is w, not `G'x`, because where C is
/// large or features huge (`C |g|²` of 1e10 and more) the rounding of that sum alone is larger than all margins:
/// its other side, `dw`, comes out of the small system without such a sum; the predictor's complementarity is
/// that of its step, in the same measure as μ; one step length for all, because Q couples them; the gap is
/// computed anew before it ends, with w as the primal side.
pub(crate) fn solve<T: Real>(
    qp: &Qp,
    store: &Store<T>,
    options: &mut InteriorOptions<'_>,
) -> FactorSolution {
    let mut run = Run::new(qp, store);
    let (mut best, mut idle, mut fallbacks) = (f64::INFINITY, 0, 0);
    let mut first = None;
    let mut stop = None;
    let mut iterations = 0;
    loop {
        run.residuals();
        let believed = run.relative();
        stop = stop.or_else(|| (options.monitor)(iterations, believed));
        if stop.is_some()
            || ((believed <= NEAR * options.tolerance || run.is_nothing())
                && run.truly() <= options.tolerance)
            || run.mu() <= NOTHING * *first.get_or_insert(run.mu())
        {
            break;
        }
        let gap = run.gap();
        if gap < 0.8 * best {
            (best, idle) = (gap, 0);
        } else {
            idle += 1;
        }
        let is_over = idle >= STALL || iterations >= MOST || !gap.is_finite();
        let factored = if is_over || believed <= VAIN * options.tolerance {
            None
        } else {
            let d = run.diagonal();
            Factored::new(options.systems, store, &d).or_else(|| {
                fallbacks += 1;
                Factored::new(Systems::Qr, store, &d)
            })
        };
        if !factored.is_some_and(|factored| run.step(&factored)) {
            stop = Some(Stop::Stalled);
            break;
        }
        iterations += 1;
    }
    let believed = run.relative();
    let mut found = run.finish(options.tolerance);
    found.iterations = iterations;
    found.believed = believed;
    found.fallbacks = fallbacks;
    let is_good = found.evaluation.relative() <= options.tolerance;
    found.stop = stop.filter(|stop| !is_good || *stop != Stop::Stalled);
    found
}

/// Restores the sums of a point and judges it by a fresh product with the factor.
///
/// Where another w is given that makes the gap smaller, it is taken: the scores are those of w. Without a linear
/// term the objective is `½ |w|²`, and zero where no margin is: the gap is then a share of at least [`LEAST`] of
/// its diagonal part `½ Σ β² |g|²`, and what is smaller than any tolerance of that is zero.
pub(crate) fn evaluate<T: Real>(
    qp: &Qp,
    store: &Store<T>,
    mut point: Inside,
    other: Option<&[f64]>,
) -> (Inside, Vec<f64>, GapEvaluation) {
    restore_sums(qp, &mut point);
    let beta = point.beta(qp);
    let mut w = store.transposed_times(&qp.fold(&beta));
    let mut evaluation = evaluate_gap(qp, &point, &store.times(&w));
    if let Some(other) = other {
        let half = 0.5 * w.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let (gap, multipliers) = gap_beside(qp, &point, &store.times(other), half);
        if gap < evaluation.gap {
            (evaluation.gap, evaluation.multipliers) = (gap, multipliers);
            w = other.to_vec();
        }
    }
    let least = least_objective(qp, store, &beta);
    evaluation.size = evaluation.size.max(least);
    if least > 0.0 && 0.5 * evaluation.square <= ZERO * least {
        w.fill(0.0);
        evaluation.multipliers.fill(0.0);
        evaluation.gap = 0.5 * evaluation.square;
    }
    (point, w, evaluation)
}

/// The least objective that a gap may be a share of.
fn least_objective<T: Real>(qp: &Qp, store: &Store<T>, beta: &[f64]) -> f64 {
    if qp.linear.iter().any(|q| *q != 0.0) {
        return 0.0;
    }
    let squares = squares(store);
    let own = beta.iter().enumerate().map(|(v, b)| b * b * squares[v % qp.rows]);
    0.5 * LEAST * own.sum::<f64>()
}
