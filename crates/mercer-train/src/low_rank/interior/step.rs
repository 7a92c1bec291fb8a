//! One iteration of the interior point method: predictor, corrector, Gondzio's correctors, and the step.
//! The linear systems of a step are solved in `interior_systems`.

use mercer_simd::Real;

use super::Variant;
use super::state::InteriorRun;
use crate::low_rank::interior_systems::Factored;

/// Limit of Gondzio's correctors per factorisation.
const CORRECTORS: usize = 3;
/// Share of the longest feasible step that is taken, and the share that \[FS01\] takes.
const STEP_SHARE: f64 = 0.999;
const PRINTED_STEP_SHARE: f64 = 0.99;

/// A search direction in all variables.
struct Direction {
    x: Vec<f64>,
    y: Vec<f64>,
    s: Vec<f64>,
    xi: Vec<f64>,
    w: Vec<f64>,
}

/// `M^-1 A'` and the w part of it, for each group.
type GroupColumns = Vec<(Vec<f64>, Vec<f64>)>;

impl<T: Real> InteriorRun<'_, T> {
    /// One iteration; `false` if no step was possible.
    pub(super) fn step(&mut self, factored: &Factored) -> bool {
        let zeros = vec![0.0; self.w.len()];
        let groups: GroupColumns = (0..self.wanted.len())
            .map(|group| {
                let members = self.qp.groups.iter().zip(&self.fixed);
                let indicator: Vec<f64> = members
                    .map(|(g, fixed)| if usize::from(*g) == group && !fixed { 1.0 } else { 0.0 })
                    .collect();
                factored.solve(self.store, &indicator, &zeros)
            })
            .collect();
        let products =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| -a * b).collect() };
        let (mut r_s, mut r_xi) = (products(&self.x, &self.s), products(&self.t, &self.xi));
        let first = self.direction(factored, &groups, &r_s, &r_xi);
        let alpha = self.longest_step(&first);
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
        let mut alpha = self.longest_step(&chosen);
        let (correctors, step_share) = match self.variant {
            Variant::Improved => (CORRECTORS, STEP_SHARE),
            Variant::Printed => (0, PRINTED_STEP_SHARE),
        };
        for _ in 0..correctors {
            let trial = (1.5 * alpha + 0.1).min(1.0);
            self.correct(&chosen, trial, target, &mut r_s, &mut r_xi);
            let next = self.direction(factored, &groups, &r_s, &r_xi);
            let longer = self.longest_step(&next);
            if longer < alpha + 0.01 {
                break;
            }
            (chosen, alpha) = (next, longer);
        }
        self.take_step(&chosen, step_share * alpha)
    }

    fn direction(
        &self,
        factored: &Factored,
        groups: &GroupColumns,
        r_s: &[f64],
        r_xi: &[f64],
    ) -> Direction {
        let count = self.qp.len();
        let g: Vec<f64> = (0..count)
            .map(|v| {
                if self.fixed[v] {
                    return 0.0;
                }
                r_s[v] / self.x[v] - r_xi[v] / self.t[v] - self.residual_dual[v]
            })
            .collect();
        let minus_r_w: Vec<f64> = self.residual_w.iter().map(|r| -r).collect();
        let (mut x, mut w) = factored.solve(self.store, &g, &minus_r_w);
        let mut y = vec![0.0; groups.len()];
        // Twice: the second pass corrects rounding errors of the first. The paper has one.
        let passes = if self.variant == Variant::Printed { 1 } else { 2 };
        for _ in 0..passes {
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
    fn sums_step(&self, groups: &GroupColumns, q: &[f64]) -> Vec<f64> {
        let sum = |group: usize, values: &[f64]| -> f64 {
            let members = values.iter().zip(&self.qp.groups);
            members.filter(|(_, g)| usize::from(**g) == group).map(|(value, _)| value).sum()
        };
        let count = groups.len();
        let rest: Vec<f64> =
            (0..count).map(|group| self.residual_primal[group] - sum(group, q)).collect();
        let diagonal: Vec<f64> = (0..count).map(|group| sum(group, &groups[group].0)).collect();
        let alone =
            |group: usize| if diagonal[group] > 0.0 { rest[group] / diagonal[group] } else { 0.0 };
        if count < 2 || diagonal[0] <= 0.0 || diagonal[1] <= 0.0 {
            return (0..count).map(alone).collect();
        }
        let cross = sum(0, &groups[1].0);
        let det = diagonal[0] * diagonal[1] - cross * cross;
        if det <= 0.0 {
            return (0..count).map(alone).collect();
        }
        vec![
            (diagonal[1] * rest[0] - cross * rest[1]) / det,
            (diagonal[0] * rest[1] - cross * rest[0]) / det,
        ]
    }

    /// The longest step, at most 1, that keeps x, t, s and ξ at zero or above.
    fn longest_step(&self, direction: &Direction) -> f64 {
        let mut alpha = 1.0f64;
        let mut limit = |value: f64, step: f64| {
            if step < 0.0 {
                alpha = alpha.min(-value / step);
            }
        };
        for v in (0..self.qp.len()).filter(|v| !self.fixed[*v]) {
            limit(self.x[v], direction.x[v]);
            limit(self.t[v], -direction.x[v]);
            limit(self.s[v], direction.s[v]);
            limit(self.xi[v], direction.xi[v]);
        }
        alpha
    }

    fn mu_after(&self, direction: &Direction, alpha: f64) -> f64 {
        let mut sum = 0.0;
        for v in 0..self.qp.len() {
            let (dx, ds, dxi) =
                (alpha * direction.x[v], alpha * direction.s[v], alpha * direction.xi[v]);
            sum += (self.x[v] + dx) * (self.s[v] + ds) + (self.t[v] - dx) * (self.xi[v] + dxi);
        }
        sum / (2.0 * self.qp.len().max(1) as f64)
    }

    /// Moves complementarity products that leave the neighbourhood of the target towards it (Gondzio 1996).
    fn correct(
        &self,
        direction: &Direction,
        alpha: f64,
        target: f64,
        r_s: &mut [f64],
        r_xi: &mut [f64],
    ) {
        let towards = |product: f64| {
            (product.clamp(0.1 * target, 10.0 * target) - product).max(-10.0 * target)
        };
        for v in (0..self.qp.len()).filter(|v| !self.fixed[*v]) {
            let dx = alpha * direction.x[v];
            r_s[v] += towards((self.x[v] + dx) * (self.s[v] + alpha * direction.s[v]));
            r_xi[v] += towards((self.t[v] - dx) * (self.xi[v] + alpha * direction.xi[v]));
        }
    }

    /// Takes the step; `false` if it is not finite or too short.
    fn take_step(&mut self, direction: &Direction, alpha: f64) -> bool {
        let finite = direction
            .x
            .iter()
            .chain(&direction.s)
            .chain(&direction.xi)
            .chain(&direction.w)
            .all(|value| value.is_finite());
        if !finite || alpha <= 1e-14 {
            return false;
        }
        for v in (0..self.qp.len()).filter(|v| !self.fixed[*v]) {
            self.x[v] += alpha * direction.x[v];
            self.t[v] -= alpha * direction.x[v];
            self.s[v] += alpha * direction.s[v];
            self.xi[v] += alpha * direction.xi[v];
        }
        self.y.iter_mut().zip(&direction.y).for_each(|(y, step)| *y += alpha * step);
        self.w.iter_mut().zip(&direction.w).for_each(|(w, step)| *w += alpha * step);
        if self.variant == Variant::Printed {
            self.recompute_dependents();
        }
        true
    }
}
