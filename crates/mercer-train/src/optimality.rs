//! [`Optimality`]: objective, duality gap and maximal violation of a point, recomputed from f64 kernel values.
//! For quadratic programs over kernel values; low-rank and linear solutions have their own (`low_rank/duality_gap.rs`,
//! `linear/solution.rs`).

use crate::Qp;

/// How close a point of a quadratic program is to the optimum. All numbers are computed from `F = Kβ + q` in f64, not
/// from the running values of a solver.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimality {
    /// `½ β'Kβ + q'β`.
    pub objective: f64,
    /// Upper bound of the objective minus the optimal one: `Σ_v max_{lower <= x <= upper} (F_v - b)(β_v - x)`.
    pub gap: f64,
    /// What LIBSVM compares with its ε: `max{F_v : β_v > lower_v} - min{F_v : β_v < upper_v}`, the larger of the
    /// groups.
    pub violation: f64,
    /// b, the multiplier of the sum constraint, of each group.
    pub multipliers: Vec<f64>,
}

/// Bounds of the multiplier of one group, from the gradients of its variables.
#[derive(Debug, Clone, Copy)]
struct MultiplierBounds {
    free_sum: f64,
    free_count: usize,
    /// Smallest F among variables at their lower bound.
    above: f64,
    /// Largest F among variables at their upper bound.
    below: f64,
    /// Smallest F among variables that may grow.
    up: f64,
    /// Largest F among variables that may fall.
    low: f64,
}

impl Optimality {
    /// Evaluates `beta`, given `k_beta = Kβ` of each row.
    ///
    /// # Panics
    /// If the lengths do not match the quadratic program.
    pub fn of(qp: &Qp, beta: &[f64], k_beta: &[f64]) -> Self {
        assert_eq!(
            (beta.len(), k_beta.len()),
            (qp.len(), qp.rows),
            "one value per variable and row"
        );
        let gradient: Vec<f64> =
            qp.linear.iter().enumerate().map(|(v, q)| k_beta[v % qp.rows] + q).collect();
        let start = MultiplierBounds {
            free_sum: 0.0,
            free_count: 0,
            above: f64::INFINITY,
            below: f64::NEG_INFINITY,
            up: f64::INFINITY,
            low: f64::NEG_INFINITY,
        };
        let mut bounds = vec![start; qp.group_count()];
        for (v, grad) in gradient.iter().enumerate() {
            let (may_grow, may_fall) = (beta[v] < qp.upper[v], beta[v] > qp.lower[v]);
            bounds[usize::from(qp.groups[v])].add(*grad, may_grow, may_fall);
        }
        let multipliers: Vec<f64> = bounds.iter().map(MultiplierBounds::multiplier).collect();
        let mut gap = 0.0;
        let mut objective = 0.0;
        for (v, grad) in gradient.iter().enumerate() {
            let slope = grad - multipliers[usize::from(qp.groups[v])];
            let best = if slope > 0.0 { qp.lower[v] } else { qp.upper[v] };
            gap += slope * (beta[v] - best);
            objective += 0.5 * beta[v] * (grad + qp.linear[v]);
        }
        let violation = bounds.iter().map(|b| (b.low - b.up).max(0.0)).fold(0.0, f64::max);
        Self { objective, gap, violation, multipliers }
    }
}

impl MultiplierBounds {
    fn add(&mut self, grad: f64, may_grow: bool, may_fall: bool) {
        if may_grow {
            self.up = self.up.min(grad);
        }
        if may_fall {
            self.low = self.low.max(grad);
        }
        match (may_grow, may_fall) {
            (true, true) => {
                self.free_sum += grad;
                self.free_count += 1;
            }
            (true, false) => self.above = self.above.min(grad),
            (false, true) => self.below = self.below.max(grad),
            (false, false) => {}
        }
    }

    /// The mean F of the free variables; without any, the midpoint of the bounds.
    fn multiplier(&self) -> f64 {
        if self.free_count > 0 {
            return self.free_sum / self.free_count as f64;
        }
        match (self.above.is_finite(), self.below.is_finite()) {
            (true, true) => f64::midpoint(self.above, self.below),
            (true, false) => self.above,
            (false, true) => self.below,
            (false, false) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two points at ±1 with K = x z: the optimal β is (½, -½), f(x) = x.
    #[test]
    fn the_solution_of_two_points_has_no_gap() {
        let qp = Qp {
            rows: 2,
            lower: vec![0.0, -10.0],
            upper: vec![10.0, 0.0],
            linear: vec![-1.0, 1.0],
            start: vec![0.0; 2],
            groups: vec![0; 2],
        };
        let best = Optimality::of(&qp, &[0.5, -0.5], &[1.0, -1.0]);
        assert_eq!(best.objective, -0.5);
        assert_eq!((best.gap, best.violation, best.multipliers[0]), (0.0, 0.0, 0.0));
        let start = Optimality::of(&qp, &[0.0, 0.0], &[0.0, 0.0]);
        assert_eq!(start.violation, 2.0);
        assert!(start.gap >= 0.5, "{}", start.gap);
    }
}
