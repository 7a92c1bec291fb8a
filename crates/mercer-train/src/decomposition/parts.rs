//! Optimality of a point whose rows are in several places: each part is small, and parts merge in any order that the
//! caller keeps. The same for all rows in one place is [`crate::Optimality`].

use crate::{Optimality, Qp};

/// What one part of the rows says of the multiplier, for each group. Merge the parts, then ask every part for its
/// [`OptimalityPart`] with the multipliers of all.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimalityBounds {
    groups: Vec<GroupBounds>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct GroupBounds {
    free_sum: f64,
    free_count: u64,
    /// Smallest F of a variable that may grow, and of one that may only grow.
    up: f64,
    above: f64,
    /// Largest F of a variable that may fall, and of one that may only fall.
    low: f64,
    below: f64,
}

impl GroupBounds {
    const EMPTY: Self = Self {
        free_sum: 0.0,
        free_count: 0,
        up: f64::INFINITY,
        above: f64::INFINITY,
        low: f64::NEG_INFINITY,
        below: f64::NEG_INFINITY,
    };
}

impl OptimalityBounds {
    /// Bounds without rows, for so many groups: what merging begins with.
    pub fn empty(groups: usize) -> Self {
        Self { groups: vec![GroupBounds::EMPTY; groups] }
    }

    /// Bounds of the rows of a program, given `k_beta = Kβ` of each row.
    ///
    /// # Panics
    /// If the lengths do not match the program.
    pub fn of(qp: &Qp, beta: &[f64], k_beta: &[f64]) -> Self {
        check_lengths(qp, beta, k_beta);
        let mut bounds = Self::empty(qp.group_count());
        for (v, value) in beta.iter().enumerate() {
            let grad = k_beta[v % qp.rows] + qp.linear[v];
            let group = &mut bounds.groups[usize::from(qp.groups[v])];
            let (may_grow, may_fall) = (*value < qp.upper[v], *value > qp.lower[v]);
            if may_grow {
                group.up = group.up.min(grad);
            }
            if may_fall {
                group.low = group.low.max(grad);
            }
            match (may_grow, may_fall) {
                (true, true) => {
                    group.free_sum += grad;
                    group.free_count += 1;
                }
                (true, false) => group.above = group.above.min(grad),
                (false, true) => group.below = group.below.max(grad),
                (false, false) => {}
            }
        }
        bounds
    }

    /// Takes the rows of another part in. Sums are added: the last bits of the multipliers depend on the order.
    pub fn merge(&mut self, other: &Self) {
        let groups = self.groups.len().max(other.groups.len());
        self.groups.resize(groups, GroupBounds::EMPTY);
        for (group, part) in self.groups.iter_mut().zip(&other.groups) {
            group.free_sum += part.free_sum;
            group.free_count += part.free_count;
            group.up = group.up.min(part.up);
            group.above = group.above.min(part.above);
            group.low = group.low.max(part.low);
            group.below = group.below.max(part.below);
        }
    }

    /// The multiplier of each group: the mean F of free variables, else the midpoint of what bounds it.
    pub fn multipliers(&self) -> Vec<f64> {
        let multiplier = |group: &GroupBounds| {
            if group.free_count > 0 {
                return group.free_sum / group.free_count as f64;
            }
            match (group.above.is_finite(), group.below.is_finite()) {
                (true, true) => f64::midpoint(group.above, group.below),
                (true, false) => group.above,
                (false, true) => group.below,
                (false, false) => 0.0,
            }
        };
        self.groups.iter().map(multiplier).collect()
    }

    /// The maximal violation of all rows that were merged.
    pub fn violation(&self) -> f64 {
        self.groups.iter().map(|group| (group.low - group.up).max(0.0)).fold(0.0, f64::max)
    }
}

/// Objective and gap of one part of the rows, given the multipliers of all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OptimalityPart {
    /// Its share of `½ β'Kβ + q'β`.
    pub objective: f64,
    /// Its share of the duality gap.
    pub gap: f64,
}

impl OptimalityPart {
    /// The part of the rows of a program.
    ///
    /// # Panics
    /// If the lengths do not match the program.
    pub fn of(qp: &Qp, beta: &[f64], k_beta: &[f64], multipliers: &[f64]) -> Self {
        check_lengths(qp, beta, k_beta);
        let mut part = Self::default();
        for (v, value) in beta.iter().enumerate() {
            let grad = k_beta[v % qp.rows] + qp.linear[v];
            let slope = grad - multipliers[usize::from(qp.groups[v])];
            let best = if slope > 0.0 { qp.lower[v] } else { qp.upper[v] };
            part.gap += slope * (value - best);
            part.objective += 0.5 * value * (grad + qp.linear[v]);
        }
        part
    }

    /// Adds another part.
    pub fn merge(&mut self, other: &Self) {
        self.objective += other.objective;
        self.gap += other.gap;
    }

    /// With the bounds of all rows, what [`Optimality::of`] says of them.
    pub fn finish(self, bounds: &OptimalityBounds) -> Optimality {
        Optimality {
            objective: self.objective,
            gap: self.gap,
            violation: bounds.violation(),
            multipliers: bounds.multipliers(),
        }
    }
}

fn check_lengths(qp: &Qp, beta: &[f64], k_beta: &[f64]) {
    assert_eq!((beta.len(), k_beta.len()), (qp.len(), qp.rows), "one value per variable and row");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_rows_merge_to_the_optimality_of_all() {
        let value = |at: usize| ((at * 37 + 11) % 19) as f64 / 19.0 - 0.5;
        let qp = |rows: std::ops::Range<usize>| {
            let sign = |at: usize| if at.is_multiple_of(3) { 1.0 } else { -1.0 };
            Qp {
                rows: rows.len(),
                lower: rows.clone().map(|at| if sign(at) > 0.0 { 0.0 } else { -1.0 }).collect(),
                upper: rows.clone().map(|at| if sign(at) > 0.0 { 1.0 } else { 0.0 }).collect(),
                linear: rows.clone().map(|at| -sign(at)).collect(),
                start: vec![0.0; rows.len()],
                groups: rows.map(|at| (at & 1) as u8).collect(),
            }
        };
        let beta: Vec<f64> = (0..40)
            .map(|at| (2.0 * value(at)).clamp(qp(0..40).lower[at], qp(0..40).upper[at]))
            .collect();
        let k_beta: Vec<f64> = (0..40).map(|at| value(at + 7)).collect();
        let whole = Optimality::of(&qp(0..40), &beta, &k_beta);
        let cuts = [0..13, 13..14, 14..40];
        let mut bounds = OptimalityBounds::empty(1);
        for cut in cuts.clone() {
            bounds.merge(&OptimalityBounds::of(&qp(cut.clone()), &beta[cut.clone()], &k_beta[cut]));
        }
        let multipliers = bounds.multipliers();
        let mut part = OptimalityPart::default();
        for cut in cuts {
            let (beta, k_beta) = (&beta[cut.clone()], &k_beta[cut.clone()]);
            part.merge(&OptimalityPart::of(&qp(cut), beta, k_beta, &multipliers));
        }
        let merged = part.finish(&bounds);
        assert_eq!(merged.violation, whole.violation);
        // Sums of 40 numbers below 2 in another order.
        let rounding = 40.0 * 40.0 * 2.0 * f64::EPSILON;
        assert!((merged.objective - whole.objective).abs() <= rounding);
        assert!((merged.gap - whole.gap).abs() <= rounding);
        for (a, b) in merged.multipliers.iter().zip(&whole.multipliers) {
            assert!((a - b).abs() <= rounding);
        }
    }
}
