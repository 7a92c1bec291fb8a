//! The quadratic program of one working set, solved by pair steps with second-order selection.
//!
//! Everything here is dense and small; kernel rows and the full gradient are in `smo.rs`.

use mercer_simd::{BoxVariables, Extremes, Isa, PairCurvature, add_difference, best_partner};

/// Lower bound of the curvature (\[CL11\] section 4.1.2, LIBSVM's TAU).
const LEAST_CURVATURE: f64 = 1e-12;
/// Limit of pair steps per variable of the working set.
const STEPS_PER_VARIABLE: u64 = 100;

/// The quadratic program of a working set, its variables sorted by groups.
#[derive(Debug)]
pub(super) struct WorkingSetProblem<'a> {
    pub(super) isa: Isa,
    /// Kernel values among the variables.
    pub(super) table: &'a [f64],
    pub(super) diagonal: Vec<f64>,
    /// F = Kβ + q.
    pub(super) gradient: Vec<f64>,
    pub(super) beta: Vec<f64>,
    pub(super) lower: Vec<f64>,
    pub(super) upper: Vec<f64>,
    /// End of each group in the arrays.
    pub(super) ends: [usize; 2],
}

/// Work done and progress made.
#[derive(Debug, Clone, Copy)]
pub(super) struct InnerResult {
    pub(super) steps: u64,
    /// Decrease of the objective.
    pub(super) gain: f64,
    /// Whether it ended because each variable had as many steps as it may have: pair steps gain little here.
    pub(super) is_cut: bool,
}

/// The variable of a group with the smallest gradient that may grow, and the violation of the group.
#[derive(Debug, Clone, Copy)]
struct GroupViolation {
    up: usize,
    violation: f64,
}

impl WorkingSetProblem<'_> {
    /// Makes pair steps until the violation falls to this share of the initial one, or to `floor`.
    pub(super) fn solve(&mut self, share: f64, floor: f64, limit: u64) -> InnerResult {
        let most = STEPS_PER_VARIABLE * self.beta.len() as u64;
        let limit = limit.min(most);
        let mut result = InnerResult { steps: 0, gain: 0.0, is_cut: false };
        let mut goal = None;
        while result.steps < limit {
            let worst = [self.group_violation(0), self.group_violation(1)];
            let violation = worst[0].violation.max(worst[1].violation);
            let goal = *goal.get_or_insert((share * violation).max(floor));
            // NaN must end the loop as well.
            if violation <= goal || violation.is_nan() {
                break;
            }
            let Some((up, low)) = self.partner(worst, goal) else { break };
            let gain = self.step(up, low);
            result.steps += 1;
            result.gain += gain;
            if gain <= 0.0 {
                break;
            }
        }
        result.is_cut = result.steps >= most;
        result
    }

    fn range(&self, group: usize) -> std::ops::Range<usize> {
        if group == 0 { 0..self.ends[0] } else { self.ends[0]..self.ends[1] }
    }

    /// The variables of a group.
    fn variables(&self, group: usize) -> BoxVariables<'_> {
        let range = self.range(group);
        BoxVariables {
            gradient: &self.gradient[range.clone()],
            beta: &self.beta[range.clone()],
            lower: &self.lower[range.clone()],
            upper: &self.upper[range],
        }
    }

    fn group_violation(&self, group: usize) -> GroupViolation {
        let start = self.range(group).start;
        let Extremes { up, least, most } = self.variables(group).extremes(self.isa);
        match up {
            Some(up) => GroupViolation { up: start + up, violation: most - least },
            None => GroupViolation { up: usize::MAX, violation: 0.0 },
        }
    }

    /// The pair within one group with the largest estimated decrease of the objective: `max (F_t - F_i)² / (K_ii + K_tt - 2 K_it)`
    /// (\[FCL05\] WSS 2).
    fn partner(&self, worst: [GroupViolation; 2], goal: f64) -> Option<(usize, usize)> {
        let size = self.beta.len();
        let (mut best, mut pair) = (0.0, None);
        for group in 0..2 {
            let up = worst[group].up;
            if worst[group].violation <= goal {
                continue;
            }
            let range = self.range(group);
            let curvature = PairCurvature {
                own: self.diagonal[up],
                diagonal: &self.diagonal[range.clone()],
                row: &self.table[up * size..(up + 1) * size][range.clone()],
                least: LEAST_CURVATURE,
            };
            let variables = self.variables(group);
            let partner = best_partner(self.isa, self.gradient[up], variables, curvature);
            if let Some((partner, gain)) = partner
                && gain > best
            {
                (best, pair) = (gain, Some((up, range.start + partner)));
            }
        }
        pair
    }

    /// Moves from `low` to `up` as far as the box allows; returns the decrease of the objective.
    fn step(&mut self, up: usize, low: usize) -> f64 {
        let size = self.beta.len();
        let (up_row, low_row) =
            (&self.table[up * size..][..size], &self.table[low * size..][..size]);
        let difference = self.gradient[low] - self.gradient[up];
        let curvature =
            (self.diagonal[up] + self.diagonal[low] - 2.0 * up_row[low]).max(LEAST_CURVATURE);
        let (slack_up, slack_low) =
            (self.upper[up] - self.beta[up], self.beta[low] - self.lower[low]);
        let move_by = (difference / curvature).min(slack_up).min(slack_low);
        self.beta[up] = if move_by == slack_up { self.upper[up] } else { self.beta[up] + move_by };
        self.beta[low] =
            if move_by == slack_low { self.lower[low] } else { self.beta[low] - move_by };
        add_difference(self.isa, move_by, up_row, low_row, &mut self.gradient);
        move_by * (difference - 0.5 * curvature * move_by)
    }
}
