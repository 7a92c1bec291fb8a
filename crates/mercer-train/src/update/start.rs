//! The starting point of an update: coefficients of the machine of the original rows, moved to the rows of the new problem.
//! Starts from a machine of the same rows are in [`crate::warm`].

use mercer_data::Matrix;
use mercer_machine::{ClassName, Machine, Output, Scheme, Score};

use super::rows::RowIndex;
use crate::reduce::ClassPair;
use crate::solvers::StartPoint;
use crate::{Qp, TrainError};

/// Missing sums take at most this share of the room of variables between their bounds; the rest goes to others.
const MOST_ROOM: f64 = 0.5;

/// The machine of the original rows, by the rows of the new problem.
#[derive(Debug)]
pub(crate) struct EarlierMachine<'a> {
    machine: &'a Machine,
    output: Output,
    /// Support of each new example, if it is one. Equal examples have the same.
    support_of: Vec<Option<u32>>,
    /// Weight of the original rows of a subproblem over that of the new ones, for each new subproblem.
    weight_ratios: Vec<f64>,
}

impl<'a> EarlierMachine<'a> {
    /// # Errors
    /// If a support of the machine is none of the original rows.
    pub(super) fn new(
        machine: &'a Machine,
        original: &Matrix,
        examples: &Matrix,
        output: &Output,
        weight_ratios: Vec<f64>,
    ) -> Result<Self, TrainError> {
        let supports = machine.supports();
        let index = RowIndex::new(supports);
        let mut is_found = vec![false; supports.rows()];
        for row in original.iter() {
            if let Some(support) = index.find(row) {
                is_found[support as usize] = true;
            }
        }
        let missing = is_found.iter().filter(|found| !**found).count();
        if missing > 0 {
            let (all, rows) = (supports.rows(), original.rows());
            let reason = format!("{missing} of its {all} supports are none of these {rows} rows");
            return Err(TrainError::NotTheRows { reason });
        }
        let support_of = examples.iter().map(|row| index.find(row)).collect();
        Ok(Self { machine, output: output.clone(), support_of, weight_ratios })
    }

    /// Where a subproblem over these examples starts: at the coefficients of the earlier machine with sums repaired and
    /// their `Kβ`, or at the formulation's own start if that machine has no such subproblem. `sums` is `K` times coefficients.
    pub(crate) fn start(
        &self,
        number: usize,
        examples: &[u32],
        qp: &Qp,
        sums: &mut dyn FnMut(&[f64]) -> Vec<f64>,
    ) -> StartPoint {
        let Some(coefficients) = self.coefficients(number, examples, qp) else {
            return StartPoint::Point(qp.start.clone());
        };
        let mut beta = qp.unfold_scaled(&coefficients, 1.0);
        let missing = spread_over_free(qp, &mut beta);
        let mut k_beta = sums(&qp.fold(&beta));
        if missing.iter().any(|sum| *sum != 0.0) {
            let before = qp.fold(&beta);
            fill_by_gradient(qp, &mut beta, &k_beta, &missing);
            let changes: Vec<f64> =
                qp.fold(&beta).iter().zip(&before).map(|(new, old)| new - old).collect();
            let moved = sums(&changes);
            k_beta.iter_mut().zip(moved).for_each(|(sum, change)| *sum += change);
        }
        StartPoint::Known { beta, k_beta }
    }

    /// Coefficients of the examples, in the scale of the quadratic program.
    fn coefficients(&self, number: usize, examples: &[u32], qp: &Qp) -> Option<Vec<f64>> {
        let (score, sign) = score_of(self.machine.output(), &self.output, number)?;
        let Score::Expansion { supports, coefficients, .. } = &self.machine.scores()[score] else {
            return None;
        };
        let all: f64 = coefficients.iter().map(|beta| beta.abs()).sum();
        let fixed: f64 = qp.start.iter().map(|value| value.abs()).sum();
        // In formulations with nu the sum of |β| is fixed by the weight of the rows, and the machine holds β / rho.
        let scale = match (fixed > 0.0, all > 0.0) {
            (true, true) => fixed * self.weight_ratios[number] / all,
            (true, false) => return None,
            (false, _) => 1.0,
        };
        let mut by_support = vec![0.0; self.machine.supports().rows()];
        for (support, beta) in supports.iter().zip(coefficients) {
            by_support[*support as usize] = sign * scale * beta;
        }
        let support = |row: usize| self.support_of[examples[row] as usize];
        // Equal examples are one support: its coefficient is shared in proportion to what each may hold.
        let mut capacity = vec![0.0; by_support.len()];
        for row in 0..examples.len() {
            if let Some(at) = support(row) {
                capacity[at as usize] += room(qp, row, by_support[at as usize]);
            }
        }
        let share = |row: usize| {
            let Some(at) = support(row) else { return 0.0 };
            let (beta, capacity) = (by_support[at as usize], capacity[at as usize]);
            if capacity > 0.0 { beta * (room(qp, row, beta) / capacity) } else { 0.0 }
        };
        Some((0..examples.len()).map(share).collect())
    }
}

/// The largest |coefficient| of a row with the sign of `beta`.
fn room(qp: &Qp, row: usize, beta: f64) -> f64 {
    let variables = (row..qp.len()).step_by(qp.rows);
    if beta > 0.0 {
        variables.map(|v| qp.upper[v].max(0.0)).sum()
    } else {
        variables.map(|v| (-qp.lower[v]).max(0.0)).sum()
    }
}

/// The score of the earlier machine that separates what a new subproblem separates, and its sign there.
fn score_of(earlier: &Output, new: &Output, number: usize) -> Option<(usize, f64)> {
    let (Output::Classes { names: old, scheme }, Output::Classes { names, .. }) = (earlier, new)
    else {
        return (earlier == new).then_some((0, 1.0));
    };
    let place = |class: u32| {
        let name = names[class as usize].to_string();
        old.iter().position(|other: &ClassName| other.to_string() == name)
    };
    let pair = ClassPair::of(new, number);
    let plus = place(pair.plus)?;
    if *scheme == Scheme::OneVsRest {
        return match old.len() {
            2 => Some((0, if plus == 0 { 1.0 } else { -1.0 })),
            _ => Some((plus, 1.0)),
        };
    }
    let minus = place(pair.minus?)?;
    let (first, second) = (plus.min(minus), plus.max(minus));
    let score = mercer_machine::pairs(old.len()).position(|other| other == (first, second))?;
    Some((score, if plus < minus { 1.0 } else { -1.0 }))
}

/// What is missing in the sum of each group.
fn missing_sums(qp: &Qp, beta: &[f64]) -> Vec<f64> {
    let mut missing = vec![0.0; qp.group_count()];
    for (v, group) in qp.groups.iter().enumerate() {
        missing[usize::from(*group)] += qp.start[v] - beta[v];
    }
    missing
}

/// How far a variable may go in the direction of `missing`.
fn way(qp: &Qp, beta: f64, v: usize, missing: f64) -> f64 {
    if missing > 0.0 { qp.upper[v] - beta } else { beta - qp.lower[v] }
}

/// Spreads missing sums over the variables between their bounds, in proportion to their room: their gradients are about equal,
/// so that the objective hardly changes. Returns what is left for each group.
fn spread_over_free(qp: &Qp, beta: &mut [f64]) -> Vec<f64> {
    let mut missing = missing_sums(qp, beta);
    for (group, missing) in missing.iter_mut().enumerate() {
        let is_free = |v: &usize| {
            usize::from(qp.groups[*v]) == group
                && beta[*v] > qp.lower[*v]
                && beta[*v] < qp.upper[*v]
        };
        let free: Vec<usize> = (0..qp.len()).filter(is_free).collect();
        let room: f64 = free.iter().map(|v| way(qp, beta[*v], *v, *missing)).sum();
        let part = missing.abs().min(MOST_ROOM * room);
        if part == 0.0 {
            continue;
        }
        let signed = part.copysign(*missing);
        let mut given = 0.0;
        for v in free {
            let change = signed * (way(qp, beta[v], v, *missing) / room);
            let moved = (beta[v] + change).clamp(qp.lower[v], qp.upper[v]);
            given += moved - beta[v];
            beta[v] = moved;
        }
        // Rounding errors of the parts are not worth another variable.
        *missing = if part == missing.abs() { 0.0 } else { *missing - given };
    }
    missing
}

/// Gives what is left of the sums to the variables whose gradients ask for it most, each as much as it may hold.
fn fill_by_gradient(qp: &Qp, beta: &mut [f64], k_beta: &[f64], missing: &[f64]) {
    for (group, missing) in missing.iter().enumerate() {
        let mut missing = *missing;
        let gradient = |v: usize| k_beta[v % qp.rows] + qp.linear[v];
        let mut order: Vec<usize> = (0..qp.len())
            .filter(|v| usize::from(qp.groups[*v]) == group)
            .filter(|v| way(qp, beta[*v], *v, missing) > 0.0)
            .collect();
        order.sort_by(|a, b| {
            let (a, b) = if missing > 0.0 { (a, b) } else { (b, a) };
            gradient(*a).total_cmp(&gradient(*b))
        });
        for v in order {
            if missing == 0.0 {
                break;
            }
            let moved = (beta[v] + missing).clamp(qp.lower[v], qp.upper[v]);
            missing -= moved - beta[v];
            beta[v] = moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Qp {
        Qp {
            rows: 4,
            lower: vec![0.0, 0.0, -1.0, -1.0],
            upper: vec![1.0, 1.0, 0.0, 0.0],
            linear: vec![-1.0, -1.0, 1.0, 1.0],
            start: vec![0.0; 4],
            groups: vec![0; 4],
        }
    }

    #[test]
    fn missing_sums_go_to_variables_between_their_bounds_first() {
        let mut beta = vec![1.0, 0.5, -0.75, -0.5];
        let missing = spread_over_free(&program(), &mut beta);
        assert_eq!(missing, [0.0]);
        assert_eq!(beta[0], 1.0);
        assert!(beta.iter().sum::<f64>().abs() < 1e-15, "{beta:?}");
    }

    #[test]
    fn what_is_left_goes_where_the_gradient_asks_for_it() {
        let mut beta = vec![1.0, 1.0, 0.0, 0.0];
        let qp = program();
        let missing = spread_over_free(&qp, &mut beta);
        assert_eq!(missing, [-2.0]);
        let mut one = vec![0.0, 1.0, 0.0, 0.0];
        fill_by_gradient(&qp, &mut one, &[0.0, 0.0, 0.0, 3.0], &[-1.0]);
        assert_eq!(one, [0.0, 1.0, 0.0, -1.0]);
        fill_by_gradient(&qp, &mut beta, &[0.0, 0.0, 1.0, 0.0], &missing);
        assert_eq!(beta, [1.0, 1.0, -1.0, -1.0]);
    }

    #[test]
    fn scores_are_found_by_the_names_of_their_classes() {
        let classes = |names: &[&str], scheme| Output::Classes {
            names: names.iter().map(|name| ClassName::Text((*name).to_owned())).collect(),
            scheme,
        };
        let (pairs, rest) = (Scheme::OneVsOne, Scheme::OneVsRest);
        let old = classes(&["a", "b", "c"], pairs);
        let new = classes(&["b", "a", "d", "c"], pairs);
        let found: Vec<_> = (0..6).map(|number| score_of(&old, &new, number)).collect();
        let expected = [Some((0, -1.0)), None, Some((2, 1.0)), None, Some((1, 1.0)), None];
        assert_eq!(found, expected);
        let (two, three) = (classes(&["a", "b"], rest), classes(&["b", "c", "a"], rest));
        let found: Vec<_> = (0..3).map(|number| score_of(&two, &three, number)).collect();
        assert_eq!(found, [Some((0, -1.0)), None, Some((0, 1.0))]);
        assert_eq!(score_of(&three, &classes(&["c", "a"], rest), 0), Some((1, 1.0)));
        assert_eq!(score_of(&Output::Value, &Output::Novelty, 0), None);
    }
}
