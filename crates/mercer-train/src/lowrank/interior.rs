//! The interior point method: Mehrotra's predictor and corrector with Gondzio's further correctors.

use mercer_kernel::factor::Store;
use mercer_simd::Real;

use super::judge::{Inside, Judged, judge, multipliers, restore_sums, wanted};
use super::systems::{Factored, Systems};
use crate::{Qp, Stop};

/// Iterations after which nothing more is expected.
const MOST: usize = 100;
/// Gondzio's correctors for each factorisation, at most.
const CORRECTORS: usize = 3;
/// Share of the largest step that is taken.
const STEP: f64 = 0.999;
/// Iterations in a row without a fall of a fifth of the complementarity after which it has stalled.
const STALL: usize = 8;
/// Below this `-q'β / β'Kβ` of the start the box is made smaller: huge features, nearly separable.
const RAY: f64 = 1e-6;

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
pub(crate) fn solve<T: Real>(qp: &Qp, store: &Store<T>, steer: &mut Steer<'_>) -> Found {
    let mut share = 100.0 * ray(qp, store);
    if share >= 100.0 * RAY {
        return solve_in(qp, store, steer);
    }
    let mut iterations = 0;
    while share < 1.0 {
        let mut small = qp.clone();
        small.lower.iter_mut().chain(&mut small.upper).for_each(|wall| *wall *= share);
        let mut found = solve_in(&small, store, steer);
        iterations += found.iterations;
        let inside = (0..qp.len()).all(|v| {
            let width = small.upper[v] - small.lower[v];
            let at_zero =
                if small.upper[v] > 0.0 { found.point.below[v] } else { found.point.above[v] };
            at_zero <= 0.99 * width
        });
        if inside || found.stop.is_some_and(|stop| stop != Stop::Stalled) {
            let own = Inside::of(qp, &found.point.beta(&small));
            (found.point, found.w, found.judged) = evaluate(qp, store, own);
            found.iterations = iterations;
            let is_good = found.judged.relative() <= steer.tolerance;
            found.stop = found.stop.filter(|stop| !is_good || *stop != Stop::Stalled);
            return found;
        }
        share *= 1000.0;
    }
    let mut found = solve_in(qp, store, steer);
    found.iterations += iterations;
    found
}

/// How far along its ray the start is best, if its sums are zero: small where features are huge.
fn ray<T: Real>(qp: &Qp, store: &Store<T>) -> f64 {
    let (beta, fixed) = start(qp);
    if wanted(qp).iter().any(|sum| *sum != 0.0) || fixed.contains(&true) {
        return 1.0;
    }
    let w = store.transposed_times(&qp.fold(&beta));
    let square: f64 = w.iter().map(|w| w * w).sum();
    let slope: f64 = -qp.linear.iter().zip(&beta).map(|(q, b)| q * b).sum::<f64>();
    if slope > 0.0 && square > 0.0 { slope / square } else { 1.0 }
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

/// A direction in all variables.
struct Direction {
    x: Vec<f64>,
    y: Vec<f64>,
    s: Vec<f64>,
    xi: Vec<f64>,
}

struct Run<'r, T> {
    qp: &'r Qp,
    store: &'r Store<T>,
    /// Variables that cannot move.
    fixed: Vec<bool>,
    wanted: Vec<f64>,
    x: Vec<f64>,
    t: Vec<f64>,
    y: Vec<f64>,
    s: Vec<f64>,
    xi: Vec<f64>,
    /// `GG'β` of each row.
    field: Vec<f64>,
    dual: Vec<f64>,
    primal: Vec<f64>,
}

impl<'r, T: Real> Run<'r, T> {
    fn new(qp: &'r Qp, store: &'r Store<T>) -> Self {
        let (beta, fixed) = start(qp);
        let inside = Inside::of(qp, &beta);
        let own = store.times(&store.transposed_times(&qp.fold(&beta)));
        let wanted = wanted(qp);
        let forces: Vec<f64> =
            qp.linear.iter().enumerate().map(|(v, q)| own[v % qp.rows] + q).collect();
        let y = multipliers(qp, &forces);
        let slopes: Vec<f64> =
            forces.iter().zip(&qp.groups).map(|(f, g)| f - y[usize::from(*g)]).collect();
        let mean = slopes.iter().map(|h| h.abs()).sum::<f64>() / slopes.len().max(1) as f64;
        let largest = qp.linear.iter().fold(0.0, |most: f64, q| most.max(q.abs()));
        let least = (0.1 * mean).max(0.01 * largest).max(f64::MIN_POSITIVE.sqrt());
        let mut run = Self {
            qp,
            store,
            wanted,
            x: inside.below,
            t: inside.above,
            y,
            s: slopes.iter().map(|h| h.max(0.0) + least).collect(),
            xi: slopes.iter().map(|h| (-h).max(0.0) + least).collect(),
            field: own,
            dual: Vec::new(),
            primal: Vec::new(),
            fixed,
        };
        for v in 0..qp.len() {
            if run.fixed[v] {
                (run.s[v], run.xi[v]) = (0.0, 0.0);
            }
        }
        run
    }

    fn beta(&self) -> Vec<f64> {
        Inside { below: self.x.clone(), above: self.t.clone() }.beta(self.qp)
    }

    /// Field and residuals of the present point.
    fn residuals(&mut self) {
        let beta = self.beta();
        self.field = self.store.times(&self.store.transposed_times(&self.qp.fold(&beta)));
        self.primal = self.wanted.clone();
        let mut dual = Vec::with_capacity(self.qp.len());
        for v in 0..self.qp.len() {
            let group = usize::from(self.qp.groups[v]);
            self.primal[group] -= beta[v];
            let slope = self.field[v % self.qp.rows] + self.qp.linear[v] - self.y[group];
            dual.push(if self.fixed[v] { 0.0 } else { slope - self.s[v] + self.xi[v] });
        }
        self.dual = dual;
    }

    fn complementarity(&self) -> f64 {
        let pairs = self.x.iter().zip(&self.s).chain(self.t.iter().zip(&self.xi));
        pairs.map(|(a, b)| a * b).sum()
    }

    fn mu(&self) -> f64 {
        self.complementarity() / (2.0 * self.qp.len().max(1) as f64)
    }

    /// Complementarity as a share of the objective, of the larger of the two.
    fn relative(&self) -> f64 {
        let (beta, gap) = (self.beta(), self.complementarity());
        let mut objective = 0.0;
        for (v, beta) in beta.iter().enumerate() {
            objective += beta * (0.5 * self.field[v % self.qp.rows] + self.qp.linear[v]);
        }
        let size = objective.abs().max((objective - gap).abs());
        if gap == 0.0 { 0.0 } else { gap / size }
    }

    fn is_feasible(&self) -> bool {
        let most = |values: &[f64]| values.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let room: f64 = self.x.iter().zip(&self.t).map(|(x, t)| x + t).sum();
        most(&self.dual) <= 1e-6 * (most(&self.qp.linear) + most(&self.field))
            && most(&self.primal) <= 1e-8 * room
    }

    fn diagonal(&self) -> Vec<f64> {
        (0..self.qp.len())
            .map(|v| {
                if self.fixed[v] {
                    return f64::INFINITY;
                }
                self.s[v] / self.x[v] + self.xi[v] / self.t[v]
            })
            .collect()
    }

    /// One predictor, corrector and step; `false` if nothing moved.
    fn step(&mut self, factored: &Factored) -> bool {
        let groups: Vec<Vec<f64>> = (0..self.wanted.len())
            .map(|group| {
                let own = self.qp.groups.iter().zip(&self.fixed);
                let indicator: Vec<f64> = own
                    .map(|(g, fixed)| if usize::from(*g) == group && !fixed { 1.0 } else { 0.0 })
                    .collect();
                factored.solve(self.store, &indicator)
            })
            .collect();
        let products =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| -a * b).collect() };
        let (mut r_s, mut r_xi) = (products(&self.x, &self.s), products(&self.t, &self.xi));
        let first = self.direction(factored, &groups, &r_s, &r_xi);
        let alpha = self.longest(&first);
        let mu = self.mu();
        let sigma = (self.mu_after(&first, alpha) / mu).powi(3).clamp(0.0, 1.0);
        let target = sigma * mu;
        for v in 0..self.qp.len() {
            if !self.fixed[v] {
                r_s[v] += target - first.x[v] * first.s[v];
                r_xi[v] += target + first.x[v] * first.xi[v];
            }
        }
        let mut chosen = self.direction(factored, &groups, &r_s, &r_xi);
        let mut alpha = self.longest(&chosen);
        for _ in 0..CORRECTORS {
            let trial = (1.5 * alpha + 0.1).min(1.0);
            self.correct(&chosen, trial, target, &mut r_s, &mut r_xi);
            let next = self.direction(factored, &groups, &r_s, &r_xi);
            let longer = self.longest(&next);
            if longer < alpha + 0.01 {
                break;
            }
            (chosen, alpha) = (next, longer);
        }
        self.walk(&chosen, STEP * alpha)
    }

    fn direction(
        &self,
        factored: &Factored,
        groups: &[Vec<f64>],
        r_s: &[f64],
        r_xi: &[f64],
    ) -> Direction {
        let count = self.qp.len();
        let g: Vec<f64> = (0..count)
            .map(|v| {
                if self.fixed[v] {
                    return 0.0;
                }
                r_s[v] / self.x[v] - r_xi[v] / self.t[v] - self.dual[v]
            })
            .collect();
        let mut x = factored.solve(self.store, &g);
        let y = self.sums_step(groups, &x);
        for (group, step) in groups.iter().zip(&y) {
            x.iter_mut().zip(group).for_each(|(x, p)| *x += step * p);
        }
        let of = |v: usize, value: f64| if self.fixed[v] { 0.0 } else { value };
        let s = (0..count).map(|v| of(v, (r_s[v] - self.s[v] * x[v]) / self.x[v])).collect();
        let xi = (0..count).map(|v| of(v, (r_xi[v] + self.xi[v] * x[v]) / self.t[v])).collect();
        Direction { x, y, s, xi }
    }

    /// Solves `A M^-1 A' dy = r_b - A q` for one or two sums.
    fn sums_step(&self, groups: &[Vec<f64>], q: &[f64]) -> Vec<f64> {
        let sum = |group: usize, values: &[f64]| -> f64 {
            let own = values.iter().zip(&self.qp.groups);
            own.filter(|(_, g)| usize::from(**g) == group).map(|(value, _)| value).sum()
        };
        let count = groups.len();
        let rest: Vec<f64> = (0..count).map(|group| self.primal[group] - sum(group, q)).collect();
        let own: Vec<f64> = (0..count).map(|group| sum(group, &groups[group])).collect();
        let alone = |group: usize| if own[group] > 0.0 { rest[group] / own[group] } else { 0.0 };
        if count < 2 || own[0] <= 0.0 || own[1] <= 0.0 {
            return (0..count).map(alone).collect();
        }
        let cross = sum(0, &groups[1]);
        let det = own[0] * own[1] - cross * cross;
        if det <= 0.0 {
            return (0..count).map(alone).collect();
        }
        vec![(own[1] * rest[0] - cross * rest[1]) / det, (own[0] * rest[1] - cross * rest[0]) / det]
    }

    /// The longest step, at most 1, that keeps everything at zero or above.
    fn longest(&self, way: &Direction) -> f64 {
        let mut alpha = 1.0f64;
        let mut limit = |value: f64, step: f64| {
            if step < 0.0 {
                alpha = alpha.min(-value / step);
            }
        };
        for v in (0..self.qp.len()).filter(|v| !self.fixed[*v]) {
            limit(self.x[v], way.x[v]);
            limit(self.t[v], -way.x[v]);
            limit(self.s[v], way.s[v]);
            limit(self.xi[v], way.xi[v]);
        }
        alpha
    }

    fn mu_after(&self, way: &Direction, alpha: f64) -> f64 {
        let mut sum = 0.0;
        for v in 0..self.qp.len() {
            let (dx, ds, dxi) = (alpha * way.x[v], alpha * way.s[v], alpha * way.xi[v]);
            sum += (self.x[v] + dx) * (self.s[v] + ds) + (self.t[v] - dx) * (self.xi[v] + dxi);
        }
        sum / (2.0 * self.qp.len().max(1) as f64)
    }

    /// Moves products that would leave the neighbourhood of the target towards it (Gondzio 1996).
    fn correct(&self, way: &Direction, alpha: f64, target: f64, r_s: &mut [f64], r_xi: &mut [f64]) {
        let towards = |product: f64| {
            (product.clamp(0.1 * target, 10.0 * target) - product).max(-10.0 * target)
        };
        for v in (0..self.qp.len()).filter(|v| !self.fixed[*v]) {
            let dx = alpha * way.x[v];
            r_s[v] += towards((self.x[v] + dx) * (self.s[v] + alpha * way.s[v]));
            r_xi[v] += towards((self.t[v] - dx) * (self.xi[v] + alpha * way.xi[v]));
        }
    }

    fn walk(&mut self, way: &Direction, alpha: f64) -> bool {
        let finite = way.x.iter().chain(&way.s).chain(&way.xi).all(|value| value.is_finite());
        if !finite || alpha <= 1e-14 {
            return false;
        }
        for v in (0..self.qp.len()).filter(|v| !self.fixed[*v]) {
            self.x[v] += alpha * way.x[v];
            self.t[v] -= alpha * way.x[v];
            self.s[v] += alpha * way.s[v];
            self.xi[v] += alpha * way.xi[v];
        }
        self.y.iter_mut().zip(&way.y).for_each(|(y, step)| *y += alpha * step);
        true
    }

    /// The point with its sums restored, judged anew; variables that the multipliers hold at a wall are put
    /// there if that costs nothing.
    fn finish(self, tolerance: f64) -> Found {
        let own = Inside { below: self.x.clone(), above: self.t.clone() };
        let (plain, w, judged) = evaluate(self.qp, self.store, own);
        let slope = {
            let all = self.s.iter().chain(&self.xi);
            all.fold(0.0, |most: f64, s| most.max(*s))
        };
        let mut snapped = plain.clone();
        for v in (0..self.qp.len()).filter(|v| !self.fixed[*v]) {
            let width = self.qp.upper[v] - self.qp.lower[v];
            if self.x[v] < 1e-4 * width && self.x[v] * slope < self.s[v] * width {
                (snapped.below[v], snapped.above[v]) = (0.0, width);
            } else if self.t[v] < 1e-4 * width && self.t[v] * slope < self.xi[v] * width {
                (snapped.below[v], snapped.above[v]) = (width, 0.0);
            }
        }
        let (snapped, snapped_w, snapped_judged) = evaluate(self.qp, self.store, snapped);
        let limit = (2.0 * judged.gap).max(0.5 * tolerance * judged.objective.abs());
        let (point, w, judged) = if snapped_judged.gap <= limit {
            (snapped, snapped_w, snapped_judged)
        } else {
            (plain, w, judged)
        };
        Found {
            point,
            w,
            judged,
            iterations: 0,
            visits: 0,
            believed: 0.0,
            fallbacks: 0,
            stop: None,
        }
    }
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

/// A point well inside the box with the sums that are wanted, and which variables cannot move: walls that
/// meet, and groups whose sum leaves them no choice.
fn start(qp: &Qp) -> (Vec<f64>, Vec<bool>) {
    let mut fixed: Vec<bool> = (0..qp.len()).map(|v| qp.upper[v] <= qp.lower[v]).collect();
    let mut beta: Vec<f64> =
        qp.lower.iter().zip(&qp.upper).map(|(l, u)| f64::midpoint(*l, *u)).collect();
    for (group, wanted) in wanted(qp).into_iter().enumerate() {
        let members: Vec<usize> =
            (0..qp.len()).filter(|v| usize::from(qp.groups[*v]) == group).collect();
        let rigid: f64 = members.iter().filter(|v| fixed[**v]).map(|v| beta[*v]).sum();
        let wanted = wanted - rigid;
        let free: Vec<usize> = members.into_iter().filter(|v| !fixed[*v]).collect();
        let (low, high): (f64, f64) =
            (free.iter().map(|v| qp.lower[*v]).sum(), free.iter().map(|v| qp.upper[*v]).sum());
        let slack = 1e-9 * (high - low);
        if wanted >= high - slack || wanted <= low + slack {
            for v in free {
                fixed[v] = true;
                beta[v] = if wanted >= high - slack { qp.upper[v] } else { qp.lower[v] };
            }
            continue;
        }
        // Half of the smaller side, as much of the other: the sum is zero; then towards what is wanted.
        let plus: f64 = free.iter().map(|v| qp.upper[*v].max(0.0)).sum();
        let minus: f64 = free.iter().map(|v| -qp.lower[*v].min(0.0)).sum();
        let smaller = if plus > 0.0 && minus > 0.0 { 0.5 * plus.min(minus) } else { 0.0 };
        for v in &free {
            let wide = if qp.upper[*v] > 0.0 { qp.upper[*v] } else { qp.lower[*v] };
            let side = if qp.upper[*v] > 0.0 { plus } else { minus };
            let is_boxed = qp.upper[*v] > 0.0 && qp.lower[*v] < 0.0;
            beta[*v] = if is_boxed { 0.0 } else { wide * (smaller / side) };
        }
        let sum: f64 = free.iter().map(|v| beta[*v]).sum();
        let missing = wanted - sum;
        let room: f64 = free
            .iter()
            .map(|v| if missing > 0.0 { qp.upper[*v] - beta[*v] } else { beta[*v] - qp.lower[*v] })
            .sum();
        if missing.abs() > 1e-15 * (high - low) && room > 0.0 {
            let share = missing / room;
            for v in &free {
                beta[*v] += if missing > 0.0 {
                    share * (qp.upper[*v] - beta[*v])
                } else {
                    share * (beta[*v] - qp.lower[*v])
                };
            }
        }
    }
    (beta, fixed)
}
