//! One iteration: predictor, corrector, Gondzio's further correctors, and the step.

use mercer_simd::Real;

use super::state::Run;
use crate::lowrank::systems::Factored;

/// Gondzio's correctors for each factorisation, at most.
const CORRECTORS: usize = 3;
/// Share of the largest step that is taken.
const STEP: f64 = 0.999;

/// A direction in all variables.
struct Direction {
    x: Vec<f64>,
    y: Vec<f64>,
    s: Vec<f64>,
    xi: Vec<f64>,
    w: Vec<f64>,
}

/// What the sums weigh: `M^-1 A'` and the w of it, one for each group.
type Groups = Vec<(Vec<f64>, Vec<f64>)>;

impl<T: Real> Run<'_, T> {
    /// One predictor, corrector and step; `false` if nothing moved.
    pub(super) fn step(&mut self, factored: &Factored) -> bool {
        let nothing = vec![0.0; self.w.len()];
        let groups: Groups = (0..self.wanted.len())
            .map(|group| {
                let own = self.qp.groups.iter().zip(&self.fixed);
                let indicator: Vec<f64> = own
                    .map(|(g, fixed)| if usize::from(*g) == group && !fixed { 1.0 } else { 0.0 })
                    .collect();
                factored.solve(self.store, &indicator, &nothing)
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
        groups: &Groups,
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
        let behind: Vec<f64> = self.apart.iter().map(|r| -r).collect();
        let (mut x, mut w) = factored.solve(self.store, &g, &behind);
        let mut y = vec![0.0; groups.len()];
        // Twice: the second takes what rounding left of the sums.
        for _ in 0..2 {
            let more = self.sums_step(groups, &x);
            for ((group, along), step) in groups.iter().zip(&more) {
                x.iter_mut().zip(group).for_each(|(x, p)| *x += step * p);
                w.iter_mut().zip(along).for_each(|(w, p)| *w += step * p);
            }
            y.iter_mut().zip(more).for_each(|(y, more)| *y += more);
        }
        let of = |v: usize, value: f64| if self.fixed[v] { 0.0 } else { value };
        let s = (0..count).map(|v| of(v, (r_s[v] - self.s[v] * x[v]) / self.x[v])).collect();
        let xi = (0..count).map(|v| of(v, (r_xi[v] + self.xi[v] * x[v]) / self.t[v])).collect();
        Direction { x, y, s, xi, w }
    }

    /// Solves `A M^-1 A' dy = r_b - A q` for one or two sums.
    fn sums_step(&self, groups: &Groups, q: &[f64]) -> Vec<f64> {
        let sum = |group: usize, values: &[f64]| -> f64 {
            let own = values.iter().zip(&self.qp.groups);
            own.filter(|(_, g)| usize::from(**g) == group).map(|(value, _)| value).sum()
        };
        let count = groups.len();
        let rest: Vec<f64> = (0..count).map(|group| self.primal[group] - sum(group, q)).collect();
        let own: Vec<f64> = (0..count).map(|group| sum(group, &groups[group].0)).collect();
        let alone = |group: usize| if own[group] > 0.0 { rest[group] / own[group] } else { 0.0 };
        if count < 2 || own[0] <= 0.0 || own[1] <= 0.0 {
            return (0..count).map(alone).collect();
        }
        let cross = sum(0, &groups[1].0);
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
        let finite =
            way.x.iter().chain(&way.s).chain(&way.xi).chain(&way.w).all(|value| value.is_finite());
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
        self.w.iter_mut().zip(&way.w).for_each(|(w, step)| *w += alpha * step);
        true
    }
}
