//! [`Qp`]: the quadratic program of a binary subproblem, with box constraints and one or two sum constraints.
//!
//! Formulations build it (`formulations/`), `smo` and the low-rank solver solve it.

/// `min ½ β'Kβ + q'β` with `lower <= β <= upper` and, for each group of variables, `Σ β = const`.
///
/// β are coefficients with their signs, so `K` is the plain Gram matrix; LIBSVM's α is |β| and its
/// `y_i G_i` is `F_i = (Kβ)_i + q_i` here. Variable `v` belongs to row `v mod rows`: regression has two
/// variables for each row, one for each side of the tube.
#[derive(Debug, Clone, PartialEq)]
pub struct Qp {
    /// Number of rows of the Gram matrix.
    pub rows: usize,
    /// Lower bound of each variable.
    pub lower: Vec<f64>,
    /// Upper bound of each variable.
    pub upper: Vec<f64>,
    /// q, the linear term.
    pub linear: Vec<f64>,
    /// A feasible point; the sums of its groups are the constants of the sum constraints.
    pub start: Vec<f64>,
    /// The group of each variable: 0, or 0 and 1 in the ν formulations (\[SSWB00\]).
    pub groups: Vec<u8>,
}

impl Qp {
    /// Number of variables.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.iter().max().map_or(1, |group| usize::from(*group) + 1)
    }

    /// Coefficients of the rows: the sum of the variables of each row.
    pub fn fold(&self, beta: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.rows];
        for side in beta.chunks(self.rows.max(1)) {
            sums.iter_mut().zip(side).for_each(|(sum, value)| *sum += value);
        }
        sums
    }

    /// Variables from coefficients of the rows: each coefficient goes to the variable of its row with the same sign.
    ///
    /// The coefficients may come from another quadratic program, so they are scaled first: to the sum of |β| where it
    /// is fixed (ν formulations), else so that coefficients at the old bound (two or more share the largest value)
    /// are at the new bound.
    pub fn unfold(&self, coefficients: &[f64]) -> Vec<f64> {
        self.unfold_scaled(coefficients, self.scale_of(coefficients))
    }

    /// Variables from coefficients of the rows times `scale`; values within rounding error of a bound are set to it.
    pub(crate) fn unfold_scaled(&self, coefficients: &[f64], scale: f64) -> Vec<f64> {
        let near = |value: f64, bound: f64| (value - bound).abs() <= 1e-9 * bound.abs();
        let fitted = |v: usize| {
            let value = scale * coefficients[v % self.rows];
            match (near(value, self.lower[v]), near(value, self.upper[v])) {
                (true, _) => self.lower[v],
                (_, true) => self.upper[v],
                _ => value.clamp(self.lower[v], self.upper[v]),
            }
        };
        (0..self.len()).map(fitted).collect()
    }

    /// The factor that [`Qp::unfold`] applies.
    pub(crate) fn scale_of(&self, coefficients: &[f64]) -> f64 {
        let sum = |values: &[f64]| values.iter().map(|value| value.abs()).sum::<f64>();
        let most =
            |values: &[f64]| values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let largest = most(coefficients);
        let is_bounded = coefficients.iter().filter(|beta| beta.abs() >= largest * (1.0 - 1e-12));
        if largest == 0.0 {
            1.0
        } else if sum(&self.start) > 0.0 {
            sum(&self.start) / sum(coefficients)
        } else if is_bounded.count() > 1 {
            most(&self.upper).max(most(&self.lower)) / largest
        } else {
            1.0
        }
    }

    /// A feasible point near `start`: clipped to the box, then the variables of each group are moved in order until
    /// their sum is right.
    pub fn repaired(&self, start: &[f64]) -> Vec<f64> {
        let bounds = self.lower.iter().zip(&self.upper);
        let mut beta: Vec<f64> =
            start.iter().zip(bounds).map(|(value, (low, high))| value.clamp(*low, *high)).collect();
        for group in 0..self.group_count() as u8 {
            let members = || (0..self.len()).filter(|v| self.groups[*v] == group);
            let target: f64 = members().map(|v| self.start[v]).sum();
            for only_used in [true, false] {
                let mut missing = target - members().map(|v| beta[v]).sum::<f64>();
                for v in members().filter(|v| !only_used || start[*v] != 0.0) {
                    if missing == 0.0 {
                        break;
                    }
                    let moved = (beta[v] + missing).clamp(self.lower[v], self.upper[v]);
                    missing -= moved - beta[v];
                    beta[v] = moved;
                }
            }
        }
        beta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repaired_points_are_feasible() {
        let qp = Qp {
            rows: 4,
            lower: vec![0.0, 0.0, -1.0, -1.0],
            upper: vec![1.0, 1.0, 0.0, 0.0],
            linear: vec![0.0; 4],
            start: vec![0.0; 4],
            groups: vec![0; 4],
        };
        let beta = qp.repaired(&[5.0, 0.5, -0.75, 0.0]);
        assert_eq!(beta.iter().sum::<f64>(), 0.0);
        assert!(beta.iter().zip(&qp.upper).all(|(b, u)| b <= u));
        assert!(beta.iter().zip(&qp.lower).all(|(b, l)| b >= l));
        assert_eq!(qp.repaired(&[0.5, 0.0, -0.25, -0.25]), [0.5, 0.0, -0.25, -0.25]);
    }
}
