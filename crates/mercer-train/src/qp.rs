//! The quadratic program that every formulation becomes.

/// `min ½ β'Kβ + q'β` with `lower <= β <= upper` and, for each group of variables, `Σ β = const`.
///
/// β are coefficients with their signs, so `K` is the plain Gram matrix; LIBSVM's α is |β| and its
/// `y_i G_i` is `F_i = (Kβ)_i + q_i` here. Variable `v` belongs to row `v mod rows`: regression has two
/// variables for each row, one for each side of the tube.
#[derive(Debug, Clone, PartialEq)]
pub struct Qp {
    /// Rows of the Gram matrix.
    pub rows: usize,
    /// Least value of each variable.
    pub lower: Vec<f64>,
    /// Largest value of each variable.
    pub upper: Vec<f64>,
    /// q.
    pub linear: Vec<f64>,
    /// A feasible point; its sums over the groups are the constants.
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

    /// How many groups there are.
    pub fn group_count(&self) -> usize {
        self.groups.iter().max().map_or(1, |group| usize::from(*group) + 1)
    }

    /// Coefficients of the rows: variables of one row added.
    pub fn fold(&self, beta: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.rows];
        for part in beta.chunks(self.rows.max(1)) {
            sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        sums
    }

    /// Variables from coefficients of the rows: each goes to the variable of its row whose side it is on.
    ///
    /// Coefficients of another quadratic program are scaled first: to the right sum where the sum of |β| is given
    /// (ν formulations), else so that those at the old limit (two or more share the largest value) are at
    /// the new one.
    pub fn unfold(&self, coefficients: &[f64]) -> Vec<f64> {
        self.unfold_scaled(coefficients, self.scale_of(coefficients))
    }

    /// Variables from coefficients of the rows times `scale`; those at a limit but for rounding are at it.
    pub(crate) fn unfold_scaled(&self, coefficients: &[f64], scale: f64) -> Vec<f64> {
        let near = |value: f64, limit: f64| (value - limit).abs() <= 1e-9 * limit.abs();
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

    pub(crate) fn scale_of(&self, coefficients: &[f64]) -> f64 {
        let sum = |values: &[f64]| values.iter().map(|value| value.abs()).sum::<f64>();
        let most =
            |values: &[f64]| values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let largest = most(coefficients);
        let at_limit = coefficients.iter().filter(|beta| beta.abs() >= largest * (1.0 - 1e-12));
        if largest == 0.0 {
            1.0
        } else if sum(&self.start) > 0.0 {
            sum(&self.start) / sum(coefficients)
        } else if at_limit.count() > 1 {
            most(&self.upper).max(most(&self.lower)) / largest
        } else {
            1.0
        }
    }

    /// The feasible point nearest in spirit to `wish`: clipped to the box, then each group's excess is
    /// taken from (or its lack given to) its variables in order.
    pub fn repaired(&self, wish: &[f64]) -> Vec<f64> {
        let bounds = self.lower.iter().zip(&self.upper);
        let mut beta: Vec<f64> =
            wish.iter().zip(bounds).map(|(w, (low, high))| w.clamp(*low, *high)).collect();
        for group in 0..self.group_count() as u8 {
            let members = || (0..self.len()).filter(|v| self.groups[*v] == group);
            let wanted: f64 = members().map(|v| self.start[v]).sum();
            for only_used in [true, false] {
                let mut missing = wanted - members().map(|v| beta[v]).sum::<f64>();
                for v in members().filter(|v| !only_used || wish[*v] != 0.0) {
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
