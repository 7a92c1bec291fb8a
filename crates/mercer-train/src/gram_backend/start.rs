//! Where the next formulation of a path starts: at the solution of the last, scaled or as it is.
//! Warm starts of a training from a machine are in [`crate::warm`].

use crate::Qp;

/// With at least this share of the supports at bound, all supports move with it. On a9a, C three times as
/// large as the last takes fewer rounds that way above a quarter, and more below
/// (`docs/benchmarks/2026-11-16-search.md`).
const LEAST_BOUNDED: f64 = 0.25;

/// A solution as the next program over the same rows sees it.
#[derive(Debug)]
pub(super) struct PathStart {
    /// Coefficients of the rows.
    pub(super) coefficients: Vec<f64>,
    /// `K` times them.
    pub(super) k_beta: Vec<f64>,
    /// The share of supports whose coefficient is at bound.
    bounded: f64,
}

impl PathStart {
    pub(super) fn new(qp: &Qp, beta: &[f64], k_beta: Vec<f64>) -> Self {
        let used = || (0..beta.len()).filter(|v| beta[*v] != 0.0);
        let is_bounded = |v: &usize| beta[*v] <= qp.lower[*v] || beta[*v] >= qp.upper[*v];
        let bounded = used().filter(is_bounded).count() as f64 / used().count().max(1) as f64;
        Self { coefficients: qp.fold(beta), k_beta, bounded }
    }

    /// By what to multiply the coefficients (\[DW00\]).
    ///
    /// Where sums are zero, any multiple within the bounds is feasible. Supports at bound usually stay
    /// there, so the largest multiple keeps them; but it moves free supports away from where they belong,
    /// and once C is so large that most are free, they stay as they are.
    pub(super) fn scale(&self, qp: &Qp) -> f64 {
        if qp.start.iter().any(|value| *value != 0.0) {
            return qp.scale_of(&self.coefficients);
        }
        let multiples = (0..qp.len()).map(|v| {
            let value = self.coefficients[v % qp.rows];
            let limit = if value > 0.0 { qp.upper[v] } else { qp.lower[v] };
            if value * limit > 0.0 { limit / value } else { f64::INFINITY }
        });
        let most = multiples.fold(f64::INFINITY, f64::min);
        if most.is_finite() && (self.bounded >= LEAST_BOUNDED || most < 1.0) { most } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quadratic_program(limit: f64) -> Qp {
        Qp {
            rows: 4,
            lower: vec![0.0, 0.0, -limit, -limit],
            upper: vec![limit, limit, 0.0, 0.0],
            linear: vec![-1.0, -1.0, 1.0, 1.0],
            start: vec![0.0; 4],
            groups: vec![0; 4],
        }
    }

    #[test]
    fn bounded_solutions_grow_with_the_limit_and_free_ones_stay() {
        let k_beta = vec![0.0; 4];
        let bounded =
            PathStart::new(&quadratic_program(1.0), &[1.0, 0.5, -1.0, -0.5], k_beta.clone());
        assert_eq!(bounded.scale(&quadratic_program(3.0)), 3.0);
        let free =
            PathStart::new(&quadratic_program(1.0), &[0.75, 0.5, -0.75, -0.5], k_beta.clone());
        assert_eq!(free.scale(&quadratic_program(3.0)), 1.0);
        assert_eq!(free.scale(&quadratic_program(0.375)), 0.5, "it must fit smaller limits");
        let nothing = PathStart::new(&quadratic_program(1.0), &[0.0; 4], k_beta);
        assert_eq!(nothing.scale(&quadratic_program(3.0)), 1.0);
    }
}
