//! A primal-dual interior point method: Mehrotra's predictor-corrector with Gondzio's multiple centrality correctors.
//!
//! `start` is the initial point, `state` the iterate and its residuals, `step` one iteration; the linear systems are in
//! `interior_systems`. The alternative is coordinate descent (`descent`).

mod start;
mod state;
mod step;

use mercer_kernel::factor::Store;
use mercer_simd::Real;

use self::state::InteriorRun;
use super::duality_gap::{GapEvaluation, Inside, evaluate_gap, gap_beside, restore_sums};
use super::interior_systems::{Factored, Systems, squared_norms};
use crate::{Qp, Stop};

/// Limit of iterations.
const MOST_ITERATIONS: usize = 100;
/// The method has stalled after this many iterations in a row in which the gap did not fall by a fifth.
const STALL_ITERATIONS: usize = 8;
/// The gap is recomputed once the running gap is at most this many tolerances.
const RECOMPUTE_FACTOR: f64 = 10.0;
/// If the running gap is this share of the tolerance but the recomputed one is above it, the method has stalled.
const STALL_SHARE: f64 = 1e-8;
/// Complementarity, relative to the first iteration, at which every variable is at a bound and the optimum is zero.
const ZERO_COMPLEMENTARITY: f64 = 1e-40;
/// Without a linear term: lower bound of the objective that a gap is compared with, relative to its diagonal part.
const LEAST_OBJECTIVE: f64 = 1e-10;
/// Objectives up to this share of that bound count as zero.
const ZERO_OBJECTIVE: f64 = 1e-8;

/// Options of the interior point method.
pub(crate) struct InteriorOptions<'s> {
    pub(crate) systems: Systems,
    pub(crate) variant: Variant,
    /// Relative gap at which it ends.
    pub(crate) tolerance: f64,
    /// Called with the iteration and the running relative gap; may ask to stop.
    pub(crate) monitor: &'s mut dyn FnMut(usize, f64) -> Option<Stop>,
}

/// Which interior point method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// With all that [`solve`] lists as different from the paper.
    Improved,
    /// As \[FS01\] section 2 prints it: one corrector, 99 % of the longest step, `t = c - x` and `w = G'β` computed from
    /// x, no second pass for the sums, no fallback when a system breaks down, and the end by the running gap and the
    /// residuals. The paper prints `μ̂` for the full step and without the factor of μ; here it is measured like μ, after
    /// the longest feasible step, because σ would exceed 1 otherwise. It does not say where it starts: as we do, with
    /// multipliers that satisfy the dual equations.
    Printed,
}

/// A solution of a quadratic program over a factor, by either method.
#[derive(Debug, Clone)]
pub(crate) struct FactorSolution {
    pub(crate) point: Inside,
    /// β with the variables that belong at a bound set to it: tells which examples are active. Its sums may be off.
    pub(crate) identified: Vec<f64>,
    /// The primal solution, equal to `G'β` up to rounding errors; the scores of the machine are computed from it.
    pub(crate) w: Vec<f64>,
    pub(crate) evaluation: GapEvaluation,
    /// Iterations of the interior point method.
    pub(crate) iterations: usize,
    /// Coordinate updates of descent.
    pub(crate) updates: u64,
    /// The running relative gap of the method, before it was recomputed.
    pub(crate) running_gap: f64,
    /// How often a linear system broke down and was solved by QR instead.
    pub(crate) fallbacks: usize,
    pub(crate) stop: Option<Stop>,
}

/// Minimises `½ β'GG'β + q'β` over the box and the sum constraints of a quadratic program.
///
/// Variables: `x = β - lower`, `t = upper - β`, the multipliers `y` of the sums, `s` and `ξ` of the bounds (x, t, s and
/// ξ are positive), and `w`, which converges to `G'β`. `r_w = G'β - w`, `r_c = G w + q - A'y - s + ξ`,
/// `r_b = d - Aβ`, `D = s/x + ξ/t`, `M = D + GG'`; for right-hand sides `r_s`, `r_ξ` of the complementarity
///
/// `g = r_s/x - r_ξ/t - r_c`, `D dx + G dw = g + A'dy`, `G'dx - dw = -r_w`, `A dx = r_b`,
/// `ds = (r_s - s dx)/x`, `dξ = (r_ξ + ξ dx)/t`.
///
/// Differs from \[FS01\]: t is a separate variable, not `c - x`. So is w, not `G'x`: for large C or huge features
/// (`C |g|²` of 1e10 and more) the rounding error of that sum alone is larger than all margins, and `dw` comes out of
/// the small system without such a sum. The complementarity after the predictor step is measured like μ. All variables
/// have one step length, because Q couples them. The gap is recomputed before the method ends, with w as the primal
/// solution.
pub(crate) fn solve<T: Real>(
    qp: &Qp,
    store: &Store<T>,
    options: &mut InteriorOptions<'_>,
) -> FactorSolution {
    let is_printed = options.variant == Variant::Printed;
    let mut run = InteriorRun::new(qp, store, options.variant);
    let (mut best, mut idle, mut fallbacks) = (f64::INFINITY, 0, 0);
    let mut first = None;
    let mut stop = None;
    let mut iterations = 0;
    loop {
        run.residuals();
        let running_gap = run.relative();
        stop = stop.or_else(|| (options.monitor)(iterations, running_gap));
        let has_converged = if is_printed {
            running_gap <= options.tolerance && run.residual_size() <= options.tolerance
        } else {
            (running_gap <= RECOMPUTE_FACTOR * options.tolerance || run.is_objective_negligible())
                && run.recomputed_gap() <= options.tolerance
        };
        if stop.is_some()
            || has_converged
            || run.mu() <= ZERO_COMPLEMENTARITY * *first.get_or_insert(run.mu())
        {
            break;
        }
        let gap = run.gap();
        if gap < 0.8 * best {
            (best, idle) = (gap, 0);
        } else {
            idle += 1;
        }
        let is_over = idle >= STALL_ITERATIONS || iterations >= MOST_ITERATIONS || !gap.is_finite();
        let factored = if is_over || running_gap <= STALL_SHARE * options.tolerance {
            None
        } else {
            let d = run.diagonal();
            let factored = Factored::new(options.systems, store, &d);
            let needs_fallback = factored.is_none() && !is_printed;
            fallbacks += usize::from(needs_fallback);
            if needs_fallback { Factored::new(Systems::Qr, store, &d) } else { factored }
        };
        if !factored.is_some_and(|factored| run.step(&factored)) {
            stop = Some(Stop::Stalled);
            break;
        }
        iterations += 1;
    }
    let running_gap = run.relative();
    let mut solution = run.finish(options.tolerance);
    solution.iterations = iterations;
    solution.running_gap = running_gap;
    solution.fallbacks = fallbacks;
    let is_good = solution.evaluation.relative() <= options.tolerance;
    solution.stop = stop.filter(|stop| !is_good || *stop != Stop::Stalled);
    solution
}

/// Restores the sums of a point and evaluates it with a new product with the factor.
///
/// If another w is given that makes the gap smaller, it replaces `G'β` as the primal solution. Without a linear term the
/// objective is `½ |w|²`, which is zero if there is no margin. The gap is then relative to at least [`LEAST_OBJECTIVE`]
/// times the diagonal part `½ Σ β² |g|²`, and smaller objectives are set to zero.
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
    if least > 0.0 && 0.5 * evaluation.square <= ZERO_OBJECTIVE * least {
        w.fill(0.0);
        evaluation.multipliers.fill(0.0);
        evaluation.gap = 0.5 * evaluation.square;
    }
    (point, w, evaluation)
}

/// Lower bound of the objective that a gap is compared with; zero if there is a linear term.
fn least_objective<T: Real>(qp: &Qp, store: &Store<T>, beta: &[f64]) -> f64 {
    if qp.linear.iter().any(|q| *q != 0.0) {
        return 0.0;
    }
    let squares = squared_norms(store);
    let diagonal = beta.iter().enumerate().map(|(v, b)| b * b * squares[v % qp.rows]);
    0.5 * LEAST_OBJECTIVE * diagonal.sum::<f64>()
}
