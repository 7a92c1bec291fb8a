//! Leaving out examples that seem settled at a bound.

use super::Run;
use super::select::Scan;

/// Rounds before the first attempt.
pub(super) const FIRST_SHRINK: u64 = 4;
/// Rounds from one attempt to the next.
const PERIOD: u64 = 4;
/// Rows must fall by this share to be worth repacking.
const WORTH: f64 = 0.2;
/// Problems smaller than this are not worth it.
const LEAST_ROWS: usize = 1000;

impl Run<'_, '_, '_> {
    /// Leaves out rows all of whose variables sit at a bound and would be the last to be chosen
    /// (\[CL11\] section 5.3): at the lower bound with F above all that may fall, or at the upper bound with
    /// F below all that may grow.
    pub(super) fn shrink(&mut self, scan: &Scan) {
        let state = &mut self.state;
        if state.rounds < state.next_shrink || state.active.len() < LEAST_ROWS {
            return;
        }
        state.next_shrink = state.rounds + PERIOD;
        let qp = self.problem.qp;
        let is_settled = |v: usize, k_beta: f64| {
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
                !(**row as usize..qp.len()).step_by(qp.rows).all(|v| is_settled(v, k_beta))
            })
            .map(|(at, _)| at)
            .collect();
        if kept.len() as f64 > (1.0 - WORTH) * state.active.len() as f64 || kept.len() < 2 {
            return;
        }
        self.problem.gram.shrink(&self.problem.view, &kept);
        let state = &mut self.state;
        state.k_beta = kept.iter().map(|at| state.k_beta[*at as usize]).collect();
        state.active = kept.iter().map(|at| state.active[*at as usize]).collect();
        self.index_slots();
    }
}
