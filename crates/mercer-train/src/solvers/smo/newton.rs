//! Steps over all variables between their bounds at once, for runs that start near the solution, and for rounds in which pair steps
//! did not come to an end.
//!
//! Near the solution the set of these variables hardly changes, and pair steps need many iterations to bring their gradients
//! together; one linear system does it. The same holds where kernel rows are nearly dependent: polynomials of few columns, a large C.

use mercer_kernel::cholesky::{Cholesky, dot};
use rayon::prelude::*;

use super::{SmoRun, WHOLE};
use crate::gram::GramColumns;

/// With more variables between their bounds no system is solved: its cost grows with the third power. Far from the solution the limit is
/// two working sets, so that a step costs about as much as the round before it.
const MOST_FREE: usize = 1500;
/// Variables that may reach a bound in one step.
const MOST_BLOCKED: usize = 64;
/// Added to the diagonal, relative to its largest value; kernel matrices may be singular.
const RIDGE: f64 = 1e-10;
/// Rows of the matrix that one task computes.
const TABLE_ROWS: usize = 64;

/// The quadratic program of the variables between their bounds: `min g'd + ½ d'Ad` where the sum of each group stays.
struct FreeProblem {
    /// The factor of `A`, with `A` above its diagonal.
    factor: Cholesky,
    diagonal: Vec<f64>,
    gradient: Vec<f64>,
    /// `A⁻¹` times the gradient.
    solved: Vec<f64>,
    /// Equality constraints `e'd = 0`: sums of groups, then single variables that reached a bound.
    constraints: Vec<Constraint>,
}

/// A vector `e` and `A⁻¹ e`.
struct Constraint {
    members: Vec<usize>,
    solved: Vec<f64>,
}

impl FreeProblem {
    fn constrain(&mut self, members: Vec<usize>) {
        let mut solved = vec![0.0; self.solved.len()];
        members.iter().for_each(|at| solved[*at] = 1.0);
        self.factor.solve(&mut solved);
        self.constraints.push(Constraint { members, solved });
    }

    /// How much the objective changes with this step.
    fn change(&self, step: &[f64]) -> f64 {
        let rows = self.factor.values().chunks_exact(step.len()).enumerate();
        let terms = rows.map(|(at, row)| {
            let above = dot(&row[at + 1..], &step[at + 1..]);
            step[at] * (self.gradient[at] + 0.5 * self.diagonal[at] * step[at] + above)
        });
        terms.sum()
    }

    /// The minimum under the constraints: `d = -A⁻¹ (g - Σ μ e)`. `None` if the constraints depend on each other.
    fn direction(&self) -> Option<Vec<f64>> {
        let count = self.constraints.len();
        let sum = |members: &[usize], of: &[f64]| members.iter().map(|at| of[*at]).sum::<f64>();
        let mut system = vec![0.0; count * count];
        let mut multipliers = Vec::with_capacity(count);
        for (row, constraint) in self.constraints.iter().enumerate() {
            for (column, other) in self.constraints[..=row].iter().enumerate() {
                system[row * count + column] = sum(&constraint.members, &other.solved);
            }
            multipliers.push(sum(&constraint.members, &self.solved));
        }
        Cholesky::new(system, count, &mut |_| true).ok()?.solve(&mut multipliers);
        let mut direction: Vec<f64> = self.solved.iter().map(|value| -value).collect();
        for (constraint, multiplier) in self.constraints.iter().zip(&multipliers) {
            direction.iter_mut().zip(&constraint.solved).for_each(|(d, e)| *d += multiplier * e);
        }
        direction.iter().all(|value| value.is_finite()).then_some(direction)
    }
}

impl SmoRun<'_, '_, '_> {
    /// Moves the variables between their bounds to the minimum over them; those that reach a bound on the way stay there.
    pub(super) fn newton_step(&mut self) {
        let qp = self.problem.qp;
        let free: Vec<(usize, usize)> = self
            .state
            .variables(qp.rows)
            .filter(|(v, _)| {
                self.state.beta[*v] > qp.lower[*v] && self.state.beta[*v] < qp.upper[*v]
            })
            .collect();
        let most = if self.is_near { MOST_FREE } else { WHOLE * self.size() };
        if free.len() < 2 || free.len() > most {
            return;
        }
        let Some(mut problem) = self.free_problem(&free) else { return };
        let mut beta: Vec<f64> = free.iter().map(|(v, _)| self.state.beta[*v]).collect();
        let mut is_blocked = vec![false; free.len()];
        for _ in 0..MOST_BLOCKED {
            let Some(direction) = problem.direction() else { break };
            let (mut step, mut blocking) = (1.0, None);
            for (at, (v, _)) in free.iter().enumerate().filter(|(at, _)| !is_blocked[*at]) {
                let bound = if direction[at] > 0.0 { qp.upper[*v] } else { qp.lower[*v] };
                let most = (bound - beta[at]) / direction[at];
                if most < step {
                    (step, blocking) = (most, Some((at, bound)));
                }
            }
            for (at, value) in beta.iter_mut().enumerate().filter(|(at, _)| !is_blocked[*at]) {
                let v = free[at].0;
                *value = (*value + step * direction[at]).clamp(qp.lower[v], qp.upper[v]);
            }
            let Some((at, bound)) = blocking else { break };
            (beta[at], is_blocked[at]) = (bound, true);
            problem.solved.iter_mut().zip(&direction).for_each(|(u, d)| *u += step * d);
            problem.constrain(vec![at]);
        }
        self.keep_sums(&free, &mut beta);
        let step: Vec<f64> =
            beta.iter().zip(&free).map(|(new, (v, _))| new - self.state.beta[*v]).collect();
        if problem.change(&step) < 0.0 {
            self.move_free(&free, &beta);
        }
    }

    /// The system of these variables, from kernel values in f64. `None` if it is singular.
    fn free_problem(&self, free: &[(usize, usize)]) -> Option<FreeProblem> {
        let (qp, size) = (self.problem.qp, free.len());
        let examples: Vec<u32> = free.iter().map(|(v, _)| self.examples[*v % qp.rows]).collect();
        let source = &self.problem.gram.source;
        let columns = GramColumns::new(source, examples.clone(), true);
        let mut table = vec![0.0; size * size];
        let parts = table.par_chunks_mut(TABLE_ROWS * size).zip(examples.par_chunks(TABLE_ROWS));
        parts.for_each(|(table, examples)| columns.fill(source, examples, table));
        let diagonal: Vec<f64> = (0..size).map(|at| table[at * size + at]).collect();
        let ridge = RIDGE * diagonal.iter().copied().fold(0.0, f64::max);
        (0..size).for_each(|at| table[at * size + at] += ridge);
        let factor = Cholesky::new(table, size, &mut |_| true).ok()?;
        let gradient: Vec<f64> =
            free.iter().map(|(v, at)| self.state.k_beta[*at] + qp.linear[*v]).collect();
        let mut solved = gradient.clone();
        factor.solve(&mut solved);
        let constraints = Vec::new();
        let mut problem = FreeProblem { factor, diagonal, gradient, solved, constraints };
        for group in 0..qp.group_count() {
            let is_member = |at: &usize| usize::from(qp.groups[free[*at].0]) == group;
            let members: Vec<usize> = (0..size).filter(is_member).collect();
            if !members.is_empty() {
                problem.constrain(members);
            }
        }
        Some(problem)
    }

    /// Takes rounding errors of the sum of each group from the variable that is farthest from its bounds.
    fn keep_sums(&self, free: &[(usize, usize)], beta: &mut [f64]) {
        let qp = self.problem.qp;
        for group in 0..qp.group_count() {
            let members =
                || (0..free.len()).filter(|at| usize::from(qp.groups[free[*at].0]) == group);
            let off: f64 = members().map(|at| beta[at] - self.state.beta[free[at].0]).sum();
            let slack = |at: usize| {
                let v = free[at].0;
                (qp.upper[v] - beta[at]).min(beta[at] - qp.lower[v])
            };
            if let Some(at) = members().max_by(|a, b| slack(*a).total_cmp(&slack(*b))) {
                beta[at] = (beta[at] - off).clamp(qp.lower[free[at].0], qp.upper[free[at].0]);
            }
        }
    }

    /// Stores new coefficients and adds their changes to the gradient, as many rows at a time as memory holds.
    fn move_free(&mut self, free: &[(usize, usize)], beta: &[f64]) {
        let rows = self.problem.qp.rows;
        let set: Vec<u32> = free.iter().map(|(v, _)| *v as u32).collect();
        let chosen: Vec<u32> = free.iter().map(|(v, _)| self.examples[*v % rows]).collect();
        let most = (self.problem.gram.capacity(&self.problem.view) / 2).max(1);
        let parts = set.chunks(most).zip(chosen.chunks(most)).zip(beta.chunks(most));
        for ((set, chosen), beta) in parts {
            self.fetch(chosen);
            self.apply(set, chosen, beta);
        }
        self.state.rounds += 1;
    }
}
