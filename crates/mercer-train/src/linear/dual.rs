//! The coordinate step of dual coordinate descent, for each loss.
//! Passes, shrinking and the end of a subproblem are in `subproblem`.

use mercer_simd::factors::{Change, Float, RowHead, Step};

use super::Loss;

/// Dual coordinate descent on one subproblem (\[HCLKS08\] algorithm 3; \[YHL11\] for the logistic loss;
/// \[HL12\] for the tube): the coefficient of a row moves to its
/// optimum with all others fixed, and rows whose coefficient stays at a bound are shrunk.
#[derive(Debug)]
pub(super) struct Dual<'a, T> {
    pub(super) loss: Loss,
    /// The class that is +1; unused for values.
    pub(super) plus: u32,
    /// C of +1 and of -1.
    pub(super) c: T,
    /// Weight of each row, where they differ.
    pub(super) weights: Option<&'a [T]>,
    /// Target of each row, for values.
    pub(super) targets: &'a [T],
    /// `Φ·Φ` of the constant column.
    pub(super) constant: T,
    /// Largest and smallest gradient of the last pass; rows beyond them are shrunk.
    pub(super) last_range: GradientRange<T>,
    /// The same of this pass.
    pub(super) range: GradientRange<T>,
    pub(super) changes: u64,
}

/// The second derivative of the dual in one coefficient, and the bound of its absolute value.
#[derive(Debug, Clone, Copy)]
struct Coordinate<T> {
    curve: T,
    bound: T,
}

/// Largest and smallest projected gradient of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GradientRange<T> {
    pub(super) high: T,
    pub(super) low: T,
}

impl<T: Float> GradientRange<T> {
    /// Of no rows.
    pub(super) fn none() -> Self {
        Self { high: -T::INFINITY, low: T::INFINITY }
    }

    /// Unbounded: no gradient is beyond.
    pub(super) fn all() -> Self {
        Self { high: T::INFINITY, low: -T::INFINITY }
    }

    /// The largest violation of the optimality conditions.
    pub(super) fn violation(self) -> T {
        (self.high - self.low).max(T::default())
    }

    /// The range of both.
    pub(super) fn join(&mut self, other: Self) {
        self.high = self.high.max(other.high);
        self.low = self.low.min(other.low);
    }

    #[inline(always)]
    fn include(&mut self, gradient: T) {
        self.high = self.high.max(gradient);
        self.low = self.low.min(gradient);
    }
}

impl<T: Float> Step<T> for Dual<'_, T> {
    #[inline(always)]
    fn step(&mut self, row: RowHead, value: T, coefficient: &mut T) -> Change<T> {
        let c = match self.weights {
            Some(weights) => self.c * weights[row.row as usize],
            None => self.c,
        };
        let curve = T::from_f64(f64::from(row.squared_norm)) + self.constant;
        let change = match self.loss {
            Loss::Hinge { .. } => {
                self.hinge(row, value, coefficient, Coordinate { curve, bound: c }, T::default())
            }
            Loss::SquaredHinge { .. } => {
                let ridge = T::from_f64(0.5) / c;
                self.hinge(row, value, coefficient, Coordinate { curve, bound: T::INFINITY }, ridge)
            }
            Loss::Logistic { .. } => {
                self.logistic(row, value, coefficient, Coordinate { curve, bound: c })
            }
            Loss::EpsilonInsensitive { epsilon, .. } => {
                let target = self.targets[row.row as usize];
                let coordinate = Coordinate { curve, bound: c };
                let epsilon = T::from_f64(epsilon);
                self.epsilon_insensitive(target, value, coefficient, coordinate, epsilon)
            }
        };
        self.changes += u64::from(matches!(change, Change::By(by) if by != T::default()));
        change
    }
}

impl<T: Float> Dual<'_, T> {
    #[inline(always)]
    fn side(&self, row: RowHead) -> T {
        T::from_f64(if row.tag == self.plus { 1.0 } else { -1.0 })
    }

    /// `½ Q α² + ...` with a ridge on the diagonal (squared hinge) or none, `0 <= α <= limit`.
    #[inline(always)]
    fn hinge(
        &mut self,
        row: RowHead,
        value: T,
        alpha: &mut T,
        coordinate: Coordinate<T>,
        ridge: T,
    ) -> Change<T> {
        let Coordinate { curve, bound: limit } = coordinate;
        let zero = T::default();
        let y = self.side(row);
        let gradient = y * value - T::from_f64(1.0) + ridge * *alpha;
        let projected = if *alpha == zero {
            if gradient > self.last_range.high {
                return Change::Shrink;
            }
            gradient.min(zero)
        } else if *alpha >= limit {
            if gradient < self.last_range.low {
                return Change::Shrink;
            }
            gradient.max(zero)
        } else {
            gradient
        };
        self.range.include(projected);
        if projected.abs() <= T::from_f64(1e-12) {
            return Change::By(zero);
        }
        let old = *alpha;
        *alpha = (old - gradient / (curve + ridge).max(T::from_f64(1e-12))).max(zero).min(limit);
        Change::By((*alpha - old) * y)
    }

    /// β in `[-limit, limit]` with the cost `epsilon |β|` (\[HL12\] section 3).
    #[inline(always)]
    fn epsilon_insensitive(
        &mut self,
        target: T,
        value: T,
        beta: &mut T,
        coordinate: Coordinate<T>,
        epsilon: T,
    ) -> Change<T> {
        let Coordinate { curve, bound: limit } = coordinate;
        let zero = T::default();
        let gradient = value - target;
        let (up, down) = (gradient + epsilon, gradient - epsilon);
        let edge = self.last_range.high;
        let violation = if *beta == zero {
            if up < zero {
                -up
            } else if down > zero {
                down
            } else if up > edge && down < -edge {
                return Change::Shrink;
            } else {
                zero
            }
        } else if *beta >= limit {
            if up < -edge {
                return Change::Shrink;
            }
            up.max(zero)
        } else if *beta <= -limit {
            if down > edge {
                return Change::Shrink;
            }
            (-down).max(zero)
        } else if *beta > zero {
            up.abs()
        } else {
            down.abs()
        };
        self.range.include(violation);
        self.range.low = zero;
        let curve = curve.max(T::from_f64(1e-12));
        let step = if up < curve * *beta {
            -up / curve
        } else if down > curve * *beta {
            -down / curve
        } else {
            -*beta
        };
        let old = *beta;
        *beta = (old + step).max(-limit).min(limit);
        Change::By(*beta - old)
    }

    /// One row of \[YHL11\] algorithm 5: Newton on the half of `[0, C]` that holds the solution. Stored is
    /// α, or `α - C` (negative) beyond the middle; zero means that the row was never updated.
    #[inline(never)]
    fn logistic(
        &mut self,
        row: RowHead,
        value: T,
        stored: &mut T,
        coordinate: Coordinate<T>,
    ) -> Change<T> {
        let Coordinate { curve, bound: c } = coordinate;
        let y = self.side(row).to_f64();
        let (c, curve) = (c.to_f64(), curve.to_f64().max(1e-12));
        let first = *stored == T::default();
        let small = stored.abs().to_f64();
        let (alpha, rest) = match () {
            () if first => (c * 1e-9, c - c * 1e-9),
            () if *stored < T::default() => (c - small, small),
            () => (small, c - small),
        };
        let margin = y * value.to_f64();
        // The half whose variable shrinks: α where the gradient at the middle is positive, else C - α.
        let on_alpha = 0.5 * curve * (rest - alpha) + margin >= 0.0;
        let (old, sign) = if on_alpha { (alpha, 1.0) } else { (rest, -1.0) };
        let mut z = old;
        if c - z < 0.5 * c {
            z *= 0.1;
        }
        let gradient = |z: f64| curve * (z - old) + sign * margin + (z / (c - z)).ln();
        let mut slope = gradient(z);
        self.range.include(T::from_f64(slope.abs()));
        self.range.low = T::default();
        for _ in 0..100 {
            if slope.abs() < 1e-7 {
                break;
            }
            let newton = z - slope / (curve + c / ((c - z) * z));
            z = if newton <= 0.0 { 0.1 * z } else { newton.min(0.999_999_9 * c) };
            slope = gradient(z);
        }
        let (new_alpha, new_rest) = if on_alpha { (z, c - z) } else { (c - z, z) };
        *stored = if new_alpha <= new_rest {
            T::from_f64(new_alpha).max(T::MIN_POSITIVE)
        } else {
            -T::from_f64(new_rest).max(T::MIN_POSITIVE)
        };
        let moved = if first { new_alpha } else { sign * (z - old) };
        Change::By(T::from_f64(y * moved))
    }
}
