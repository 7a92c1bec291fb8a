//! The iterate of the interior point method: the point, its residuals, its gap, and the final solution.
//! How it moves is in `step`; when the method ends is decided in [`super::solve`].

use mercer_kernel::factor::Store;
use mercer_simd::Real;

use super::start::start;
use super::{FactorSolution, Variant, evaluate, least_objective};
use crate::Qp;
use crate::low_rank::duality_gap::{Inside, multipliers, wanted};

/// The current iterate; see [`super::solve`] for the symbols.
pub(super) struct InteriorRun<'r, T> {
    pub(super) qp: &'r Qp,
    pub(super) store: &'r Store<T>,
    pub(super) variant: Variant,
    /// Which variables are fixed.
    pub(super) fixed: Vec<bool>,
    pub(super) wanted: Vec<f64>,
    pub(super) x: Vec<f64>,
    pub(super) t: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) s: Vec<f64>,
    pub(super) xi: Vec<f64>,
    pub(super) w: Vec<f64>,
    /// `½ β'GG'β + q'β`.
    objective: f64,
    /// Lower bound of the objective that the gap is compared with.
    least: f64,
    /// `r_w = G'β - w`.
    pub(super) residual_w: Vec<f64>,
    /// `r_c`.
    pub(super) residual_dual: Vec<f64>,
    /// `r_b`.
    pub(super) residual_primal: Vec<f64>,
}

impl<'r, T: Real> InteriorRun<'r, T> {
    pub(super) fn new(qp: &'r Qp, store: &'r Store<T>, variant: Variant) -> Self {
        let (beta, fixed) = start(qp);
        let inside = Inside::of(qp, &beta);
        let wanted = wanted(qp);
        // With w = 0 the slopes have the size of q, for any C and any features. Without q only G'β gives them a size.
        // As printed, w is not a variable.
        let has_size = qp.linear.iter().any(|q| *q != 0.0);
        let w = if has_size && variant == Variant::Improved {
            vec![0.0; store.rank()]
        } else {
            store.transposed_times(&qp.fold(&beta))
        };
        let g_w = store.times(&w);
        let gradient: Vec<f64> =
            qp.linear.iter().enumerate().map(|(v, q)| g_w[v % qp.rows] + q).collect();
        let y = multipliers(qp, &gradient);
        let slopes: Vec<f64> =
            gradient.iter().zip(&qp.groups).map(|(f, g)| f - y[usize::from(*g)]).collect();
        let mean = slopes.iter().map(|h| h.abs()).sum::<f64>() / slopes.len().max(1) as f64;
        let largest = qp.linear.iter().fold(0.0, |most: f64, q| most.max(q.abs()));
        let least = mean.max(0.01 * largest).max(f64::MIN_POSITIVE.sqrt());
        let mut run = Self {
            qp,
            store,
            variant,
            wanted,
            x: inside.below,
            t: inside.above,
            y,
            s: slopes.iter().map(|h| h.max(0.0) + least).collect(),
            xi: slopes.iter().map(|h| (-h).max(0.0) + least).collect(),
            w,
            objective: 0.0,
            least: least_objective(qp, store, &beta),
            residual_w: Vec::new(),
            residual_dual: Vec::new(),
            residual_primal: Vec::new(),
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

    /// Computes the objective and the residuals.
    pub(super) fn residuals(&mut self) {
        let beta = self.beta();
        let sum = self.store.transposed_times(&self.qp.fold(&beta));
        let g_w = self.store.times(&self.w);
        self.residual_w = sum.iter().zip(&self.w).map(|(sum, w)| sum - w).collect();
        self.objective = 0.5 * sum.iter().map(|sum| sum * sum).sum::<f64>();
        self.residual_primal.clone_from(&self.wanted);
        let mut dual = Vec::with_capacity(self.qp.len());
        for v in 0..self.qp.len() {
            let group = usize::from(self.qp.groups[v]);
            self.objective += beta[v] * self.qp.linear[v];
            self.residual_primal[group] -= beta[v];
            let slope = g_w[v % self.qp.rows] + self.qp.linear[v] - self.y[group];
            dual.push(if self.fixed[v] { 0.0 } else { slope - self.s[v] + self.xi[v] });
        }
        self.residual_dual = dual;
    }

    /// The residuals of the dual equations relative to their terms, and those of the sums relative to the bounds,
    /// whichever are larger: primal and dual infeasibility.
    pub(super) fn residual_size(&self) -> f64 {
        let largest = |values: &[f64]| values.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let terms = largest(&self.s).max(largest(&self.xi)).max(largest(&self.qp.linear));
        let bounds: f64 = self.x.iter().zip(&self.t).map(|(x, t)| x + t).sum();
        let over = |part: f64, whole: f64| if part == 0.0 { 0.0 } else { part / whole };
        let dual = over(largest(&self.residual_dual), terms);
        dual.max(over(largest(&self.residual_primal), bounds))
    }

    /// As printed, the variable is the distance from the bound at zero; the distance from the other bound and w follow from
    /// it, and their own steps are forgotten.
    pub(super) fn recompute_dependents(&mut self) {
        let mut beta = Vec::with_capacity(self.qp.len());
        for v in 0..self.qp.len() {
            let (lower, upper) = (self.qp.lower[v], self.qp.upper[v]);
            let is_from_above = upper.abs() < lower.abs();
            if !self.fixed[v] && is_from_above {
                self.x[v] = (upper - lower) - self.t[v];
            } else if !self.fixed[v] {
                self.t[v] = (upper - lower) - self.x[v];
            }
            beta.push(if is_from_above { upper - self.t[v] } else { lower + self.x[v] });
        }
        self.w = self.store.transposed_times(&self.qp.fold(&beta));
    }

    fn complementarity(&self) -> f64 {
        let pairs = self.x.iter().zip(&self.s).chain(self.t.iter().zip(&self.xi));
        pairs.map(|(a, b)| a * b).sum()
    }

    pub(super) fn mu(&self) -> f64 {
        self.complementarity() / (2.0 * self.qp.len().max(1) as f64)
    }

    /// The running gap: complementarity, `½ |r_w|²`, and the residuals of the sums times their multipliers.
    pub(super) fn gap(&self) -> f64 {
        let square: f64 = self.residual_w.iter().map(|r| r * r).sum();
        let sums: f64 = self.residual_primal.iter().zip(&self.y).map(|(r, y)| (r * y).abs()).sum();
        self.complementarity() + 0.5 * square + sums
    }

    /// The running gap relative to the primal or the dual objective, whichever is larger.
    pub(super) fn relative(&self) -> f64 {
        let gap = self.gap();
        let size = self.objective.abs().max((self.objective - gap).abs()).max(self.least);
        if gap == 0.0 { 0.0 } else { gap / size }
    }

    /// Whether the objective is too small to compare a gap with.
    pub(super) fn is_objective_negligible(&self) -> bool {
        self.objective < self.least
    }

    /// The relative gap, recomputed from the factor.
    pub(super) fn recomputed_gap(&self) -> f64 {
        let point = Inside { below: self.x.clone(), above: self.t.clone() };
        evaluate(self.qp, self.store, point, Some(&self.w)).2.relative()
    }

    /// D of the linear systems; infinite for fixed variables.
    pub(super) fn diagonal(&self) -> Vec<f64> {
        (0..self.qp.len())
            .map(|v| {
                if self.fixed[v] {
                    return f64::INFINITY;
                }
                self.s[v] / self.x[v] + self.xi[v] / self.t[v]
            })
            .collect()
    }

    /// Which variables belong at their lower bound (-1), at their upper one (1), or at neither (0).
    ///
    /// The distance from a bound times the multiplier of that bound is the variable's share of the gap, so near the optimum
    /// one of both is small. A variable is at the bound if the distance, relative to the largest distance from both bounds
    /// that any variable has, is below the multiplier, relative to the mean multiplier: for an equal share of the gap,
    /// if its distance is below the square root of that share.
    fn bound_sides(&self) -> Vec<i8> {
        let free = || (0..self.qp.len()).filter(|v| !self.fixed[*v]);
        let farthest = free().fold(0.0, |most: f64, v| most.max(self.x[v].min(self.t[v])));
        let multipliers: f64 = free().map(|v| self.s[v].max(self.xi[v])).sum();
        let multiplier = multipliers / free().count().max(1) as f64;
        let side = |v: usize| {
            if self.fixed[v] {
                return 0;
            }
            let scale = farthest.min(0.5 * (self.qp.upper[v] - self.qp.lower[v]));
            let is_at = |distance: f64, own: f64| distance * multiplier < own * scale;
            if self.x[v] <= self.t[v] {
                -i8::from(is_at(self.x[v], self.s[v]))
            } else {
                i8::from(is_at(self.t[v], self.xi[v]))
            }
        };
        (0..self.qp.len()).map(side).collect()
    }

    /// The final solution: sums restored, gap recomputed. Variables that belong at a bound are set to it if the gap stays
    /// within the tolerance.
    pub(super) fn finish(self, tolerance: f64) -> FactorSolution {
        let qp = self.qp;
        let point = Inside { below: self.x.clone(), above: self.t.clone() };
        let (plain, w, evaluation) = evaluate(qp, self.store, point, Some(&self.w));
        let sides = self.bound_sides();
        let mut snapped = plain.clone();
        for (v, side) in sides.iter().enumerate().filter(|(_, side)| **side != 0) {
            let width = qp.upper[v] - qp.lower[v];
            (snapped.below[v], snapped.above[v]) =
                if *side < 0 { (0.0, width) } else { (width, 0.0) };
        }
        let identified = snapped.beta(qp);
        let (snapped, snapped_w, snapped_evaluation) =
            evaluate(qp, self.store, snapped, Some(&self.w));
        let limit = evaluation.gap.max(tolerance * evaluation.size);
        let (point, w, evaluation) = if snapped_evaluation.gap <= limit {
            (snapped, snapped_w, snapped_evaluation)
        } else {
            (plain, w, evaluation)
        };
        FactorSolution {
            point,
            identified,
            w,
            evaluation,
            iterations: 0,
            updates: 0,
            running_gap: 0.0,
            fallbacks: 0,
            stop: None,
        }
    }
}
