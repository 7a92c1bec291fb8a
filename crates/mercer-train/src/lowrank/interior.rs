//! The interior point method: Mehrotra's predictor and corrector with Gondzio's further correctors.

mod start;
mod state;
mod step;

use mercer_kernel::factor::Store;
use mercer_simd::Real;

use self::start::start;
use self::state::Run;
use super::judge::{Inside, Judged, judge, restore_sums, wanted};
use super::systems::{Factored, Systems};
use crate::{Qp, Stop};

/// Iterations after which nothing more is expected.
const MOST: usize = 100;
/// Iterations in a row without a fall of a fifth of the complementarity after which it has stalled.
const STALL: usize = 8;
/// Below this `-q'β / β'Kβ` of the start a smaller box is tried: huge features.
const SHORT: f64 = 1e-6;

/// How an interior point method is steered.
pub(crate) struct Steer<'s> {
    pub(crate) systems: Systems,
    /// The relative gap at which it ends.
    pub(crate) tolerance: f64,
    /// Told the iteration and the relative gap; says whether to stop.
    pub(crate) look: &'s mut dyn FnMut(usize, f64) -> Option<Stop>,
}

/// What was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) point: Inside,
    /// `G'β`.
    pub(crate) w: Vec<f64>,
    pub(crate) judged: Judged,
    /// Iterations of the interior point method.
    pub(crate) iterations: usize,
    /// Visits of rows by coordinate descent.
    pub(crate) visits: u64,
    /// The relative gap that the method believed.
    pub(crate) believed: f64,
    /// How often a system broke down and QR took over.
    pub(crate) fallbacks: usize,
    pub(crate) stop: Option<Stop>,
}

/// Minimises `½ β'GG'β + q'β` over the box and the sums of a programme.
///
/// State: `x = β - lower`, `t = upper - β`, the multipliers `y` of the sums, `s` and `ξ` of the walls, all of
/// x, t, s, ξ above zero. `r_c = GG'β + q - A'y - s + ξ`, `r_b = d - Aβ`, `D = s/x + ξ/t`, `M = D + VV'`; for
/// right-hand sides `r_s`, `r_ξ` of the complementarity
///
/// `g = r_s/x - r_ξ/t - r_c`, `dx = M^-1 (g + A'dy)`, `A M^-1 A' dy = r_b - A M^-1 g`,
/// `ds = (r_s - s dx)/x`, `dξ = (r_ξ + ξ dx)/t`.
///
/// Differs from \[FS01\]: t is a variable of its own, not `c - x`; the predictor's complementarity is that of
/// its step, in the same measure as μ; one step length for all, because Q couples them; the gap is computed
/// anew at the end.
///
/// Where features are huge the best coefficients are far smaller than the box, and rounding of the far walls
/// would hide everything: the box is then made smaller first, and larger again if a coefficient meets it.
/// Examples that overlap meet any box, so that is done at once only where the start tells the sides apart, and
/// elsewhere when the whole box stalls.
pub(crate) fn solve<T: Real>(qp: &Qp, store: &Store<T>, steer: &mut Steer<'_>) -> Found {
    let ray = Ray::new(qp, store);
    if ray.best >= SHORT {
        return solve_in(qp, store, steer);
    }
    let (mut iterations, mut whole) = (0, None);
    if !ray.separates {
        let found = solve_in(qp, store, steer);
        if found.stop != Some(Stop::Stalled) {
            return found;
        }
        iterations = found.iterations;
        whole = Some(found);
    }
    let mut share = 100.0 * ray.best;
    while share < 1.0 {
        let small = solve_smaller(qp, store, share, steer);
        iterations += small.found.iterations;
        if small.is_inside || small.found.stop.is_some_and(|stop| stop != Stop::Stalled) {
            let better = |whole: &Found| whole.judged.gap < small.found.judged.gap;
            let mut found = whole.filter(better).unwrap_or(small.found);
            found.iterations = iterations;
            return found;
        }
        share *= 1000.0;
    }
    let known = whole.is_some();
    let mut found = whole.unwrap_or_else(|| solve_in(qp, store, steer));
    found.iterations = if known { iterations } else { found.iterations + iterations };
    found
}

/// The solution in a smaller box, judged in the whole one, and whether no coefficient met a wall of it.
struct Smaller {
    found: Found,
    is_inside: bool,
}

fn solve_smaller<T: Real>(qp: &Qp, store: &Store<T>, share: f64, steer: &mut Steer<'_>) -> Smaller {
    let mut small = qp.clone();
    small.lower.iter_mut().chain(&mut small.upper).for_each(|wall| *wall *= share);
    let mut found = solve_in(&small, store, steer);
    let is_inside = (0..qp.len()).all(|v| {
        let width = small.upper[v] - small.lower[v];
        let at_zero =
            if small.upper[v] > 0.0 { found.point.below[v] } else { found.point.above[v] };
        at_zero <= 0.99 * width
    });
    let own = Inside::of(qp, &found.point.beta(&small));
    (found.point, found.w, found.judged) = evaluate(qp, store, own);
    let is_good = found.judged.relative() <= steer.tolerance;
    found.stop = found.stop.filter(|stop| !is_good || *stop != Stop::Stalled);
    Smaller { found, is_inside }
}

/// What the start says of the way to the optimum.
struct Ray {
    /// How far along its ray the start is best, if its sums are zero: small where features are huge.
    best: f64,
    /// Whether its scores alone tell variables that grow from those that fall.
    separates: bool,
}

impl Ray {
    fn new<T: Real>(qp: &Qp, store: &Store<T>) -> Self {
        let (beta, fixed) = start(qp);
        if wanted(qp).iter().any(|sum| *sum != 0.0) || fixed.contains(&true) {
            return Self { best: 1.0, separates: false };
        }
        let w = store.transposed_times(&qp.fold(&beta));
        let square: f64 = w.iter().map(|w| w * w).sum();
        let slope: f64 = -qp.linear.iter().zip(&beta).map(|(q, b)| q * b).sum::<f64>();
        let best = if slope > 0.0 && square > 0.0 { slope / square } else { 1.0 };
        if best >= SHORT {
            return Self { best, separates: false };
        }
        let scores = store.times(&w);
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for (v, upper) in qp.upper.iter().enumerate() {
            let score = scores[v % qp.rows];
            if *upper > 0.0 { least = least.min(score) } else { most = most.max(score) }
        }
        Self { best, separates: least > most }
    }
}

fn solve_in<T: Real>(qp: &Qp, store: &Store<T>, steer: &mut Steer<'_>) -> Found {
    let mut run = Run::new(qp, store);
    let (mut best, mut idle, mut fallbacks) = (f64::INFINITY, 0, 0);
    let mut stop = None;
    let mut iterations = 0;
    loop {
        run.residuals();
        let relative = run.relative();
        stop = stop.or_else(|| (steer.look)(iterations, relative));
        if stop.is_some() || (relative <= steer.tolerance && run.is_feasible()) {
            break;
        }
        let mu = run.mu();
        if mu < 0.8 * best {
            (best, idle) = (mu, 0);
        } else {
            idle += 1;
        }
        if idle >= STALL || iterations >= MOST || !mu.is_finite() {
            stop = Some(Stop::Stalled);
            break;
        }
        let d = run.diagonal();
        let factored = Factored::new(steer.systems, store, &d).or_else(|| {
            fallbacks += 1;
            Factored::new(Systems::Qr, store, &d)
        });
        let Some(factored) = factored else {
            stop = Some(Stop::Stalled);
            break;
        };
        if !run.step(&factored) {
            stop = Some(Stop::Stalled);
            break;
        }
        iterations += 1;
    }
    let believed = run.relative();
    let mut found = run.finish(steer.tolerance);
    found.iterations = iterations;
    found.believed = believed;
    found.fallbacks = fallbacks;
    let is_good = found.judged.relative() <= steer.tolerance;
    found.stop = if is_good && stop == Some(Stop::Stalled) { None } else { stop };
    found
}

/// Restores the sums of a point and judges it by a fresh product with the factor.
pub(crate) fn evaluate<T: Real>(
    qp: &Qp,
    store: &Store<T>,
    mut point: Inside,
) -> (Inside, Vec<f64>, Judged) {
    restore_sums(qp, &mut point);
    let w = store.transposed_times(&qp.fold(&point.beta(qp)));
    let judged = judge(qp, &point, &store.times(&w));
    (point, w, judged)
}
