//! Shrinking: examples whose variables stay at a bound are left out until the stopping test.
//! Shrinking of linear solvers is in `linear/subproblem.rs`.

use super::SmoRun;
use super::select::Scan;

/// Round of the first attempt to shrink.
pub(super) const FIRST_SHRINK: u64 = 4;
/// Rounds between two attempts.
const PERIOD: u64 = 4;
/// Rows are repacked only if at least this share of them is left out.
const LEAST_SHARE: f64 = 0.2;
/// Smaller problems are not shrunk.
const LEAST_ROWS: usize = 1000;

impl SmoRun<'_, '_, '_> {
    /// Leaves out rows whose variables are all at a bound and could not be part of a violating pair (\[CL11\]
    /// section 5.3): at the lower bound with F larger than that of all variables that may fall, or at the upper bound
    /// with F smaller than that of all variables that may grow.
    pub(super) fn shrink(&mut self, scan: &Scan) {
        let state = &mut self.state;
        if state.rounds < state.next_shrink || state.active.len() < LEAST_ROWS {
            return;
        }
        state.next_shrink = state.rounds + PERIOD;
        let qp = self.problem.qp;
        let is_fixed_at_bound = |v: usize, k_beta: f64| {
            let (group, grad) = (usize::from(qp.groups[v]), k_beta + qp.linear[v]);
            let at_lower = state.beta[v] <= qp.lower[v];
            let at_upper = state.beta[v] >= qp.upper[v];
            (at_lower && (at_upper || grad > scan.low[group]))
                || (at_upper && grad < scan.up[group])
        };
        let kept: Vec<u32> = (0u32..)
            .zip(&state.active)
            .filter(|(at, row)| {
                let k_beta = state.k_beta[*at as usize];
                !(**row as usize..qp.len()).step_by(qp.rows).all(|v| is_fixed_at_bound(v, k_beta))
            })
            .map(|(at, _)| at)
            .collect();
        if kept.len() as f64 > (1.0 - LEAST_SHARE) * state.active.len() as f64 || kept.len() < 2 {
            return;
        }
        self.problem.gram.shrink(&self.problem.view, &kept);
        let state = &mut self.state;
        state.k_beta = kept.iter().map(|at| state.k_beta[*at as usize]).collect();
        state.active = kept.iter().map(|at| state.active[*at as usize]).collect();
        self.index_slots();
    }
}
