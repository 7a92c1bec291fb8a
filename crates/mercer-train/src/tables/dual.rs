use mercer_simd::factors::{Change, Entry, Step};

use super::Loss;

/// Dual coordinate descent on one question (\[HCLKS08\] algorithm 3; \[YHL11\] for the logistic loss;
/// \[HL12\] for the tube): a row is visited, its coefficient goes to the best point of its own, and rows
/// whose coefficient sits firmly at a limit are put to rest.
#[derive(Debug)]
pub(super) struct Dual<'a> {
    pub(super) loss: Loss,
    /// The class that is +1; unused for values.
    pub(super) plus: u32,
    /// C of +1 and of -1.
    pub(super) price: f32,
    /// Weight of each row, where they differ.
    pub(super) weights: Option<&'a [f32]>,
    /// `Φ·Φ` of the constant column.
    pub(super) constant: f32,
    /// Largest and smallest slope of the last pass; rows beyond them are put to rest.
    pub(super) before: Slopes,
    pub(super) now: Slopes,
    pub(super) changes: u64,
}

/// Extremes of the slopes that a pass met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slopes {
    pub(super) high: f32,
    pub(super) low: f32,
}

impl Slopes {
    /// Nothing met yet.
    pub(super) const NONE: Self = Self { high: f32::NEG_INFINITY, low: f32::INFINITY };
    /// Nothing is beyond.
    pub(super) const ALL: Self = Self { high: f32::INFINITY, low: f32::NEG_INFINITY };

    /// How far from optimal the pass was.
    pub(super) fn violation(self) -> f32 {
        (self.high - self.low).max(0.0)
    }

    #[inline(always)]
    fn meet(&mut self, slope: f32) {
        self.high = self.high.max(slope);
        self.low = self.low.min(slope);
    }
}

impl Step for Dual<'_> {
    #[inline(always)]
    fn step(&mut self, row: Entry, value: f32, coefficient: &mut f32) -> Change {
        let weight = self.weights.map_or(1.0, |weights| weights[row.row as usize]);
        let price = self.price * weight;
        let curve = row.own + self.constant;
        let change = match self.loss {
            Loss::Hinge { .. } => self.hinge(row, value, coefficient, (curve, 0.0, price)),
            Loss::SquaredHinge { .. } => {
                let ridge = 0.5 / price;
                self.hinge(row, value, coefficient, (curve, ridge, f32::INFINITY))
            }
            Loss::Logistic { .. } => self.logistic(row, value, coefficient, (curve, price)),
            Loss::Tube { width, .. } => {
                let limits = (curve, width as f32, price);
                self.tube(f32::from_bits(row.tag), value, coefficient, limits)
            }
        };
        self.changes += u64::from(matches!(change, Change::By(by) if by != 0.0));
        change
    }
}

impl Dual<'_> {
    #[inline(always)]
    fn side(&self, row: Entry) -> f32 {
        if row.tag == self.plus { 1.0 } else { -1.0 }
    }

    /// `½ Q α² + ...` with a ridge on the diagonal (squared hinge) or none, `0 <= α <= limit`.
    #[inline(always)]
    fn hinge(
        &mut self,
        row: Entry,
        value: f32,
        alpha: &mut f32,
        (curve, ridge, limit): (f32, f32, f32),
    ) -> Change {
        let y = self.side(row);
        let slope = y * value - 1.0 + ridge * *alpha;
        let projected = if *alpha == 0.0 {
            if slope > self.before.high {
                return Change::Rest;
            }
            slope.min(0.0)
        } else if *alpha >= limit {
            if slope < self.before.low {
                return Change::Rest;
            }
            slope.max(0.0)
        } else {
            slope
        };
        self.now.meet(projected);
        if projected.abs() <= 1e-12 {
            return Change::By(0.0);
        }
        let old = *alpha;
        *alpha = (old - slope / (curve + ridge).max(1e-12)).max(0.0).min(limit);
        Change::By((*alpha - old) * y)
    }

    /// β in `[-limit, limit]` with the price `width |β|` (\[HL12\] section 3).
    #[inline(always)]
    fn tube(
        &mut self,
        target: f32,
        value: f32,
        beta: &mut f32,
        (curve, width, limit): (f32, f32, f32),
    ) -> Change {
        let slope = value - target;
        let (up, down) = (slope + width, slope - width);
        let edge = self.before.high;
        let violation = if *beta == 0.0 {
            if up < 0.0 {
                -up
            } else if down > 0.0 {
                down
            } else if up > edge && down < -edge {
                return Change::Rest;
            } else {
                0.0
            }
        } else if *beta >= limit {
            if up < -edge {
                return Change::Rest;
            }
            up.max(0.0)
        } else if *beta <= -limit {
            if down > edge {
                return Change::Rest;
            }
            (-down).max(0.0)
        } else if *beta > 0.0 {
            up.abs()
        } else {
            down.abs()
        };
        self.now.meet(violation);
        self.now.low = 0.0;
        let curve = curve.max(1e-12);
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
    /// α, or `α - C` (negative) beyond the middle; zero means that the row was never visited.
    #[inline(never)]
    fn logistic(
        &mut self,
        row: Entry,
        value: f32,
        stored: &mut f32,
        (curve, price): (f32, f32),
    ) -> Change {
        let y = f64::from(self.side(row));
        let (c, curve) = (f64::from(price), f64::from(curve).max(1e-12));
        let first = *stored == 0.0;
        let small = f64::from(stored.abs());
        let (alpha, rest) = match () {
            () if first => (c * 1e-9, c - c * 1e-9),
            () if *stored < 0.0 => (c - small, small),
            () => (small, c - small),
        };
        let margin = y * f64::from(value);
        // The half whose variable shrinks: α where the slope at the middle is positive, else C - α.
        let on_alpha = 0.5 * curve * (rest - alpha) + margin >= 0.0;
        let (old, sign) = if on_alpha { (alpha, 1.0) } else { (rest, -1.0) };
        let mut z = old;
        if c - z < 0.5 * c {
            z *= 0.1;
        }
        let slope = |z: f64| curve * (z - old) + sign * margin + (z / (c - z)).ln();
        let mut now = slope(z);
        self.now.meet(now.abs() as f32);
        self.now.low = 0.0;
        for _ in 0..100 {
            if now.abs() < 1e-7 {
                break;
            }
            let newton = z - now / (curve + c / ((c - z) * z));
            z = if newton <= 0.0 { 0.1 * z } else { newton.min(0.999_999_9 * c) };
            now = slope(z);
        }
        let (new_alpha, new_rest) = if on_alpha { (z, c - z) } else { (c - z, z) };
        *stored = if new_alpha <= new_rest {
            (new_alpha as f32).max(f32::MIN_POSITIVE)
        } else {
            -(new_rest as f32).max(f32::MIN_POSITIVE)
        };
        let moved = if first { new_alpha } else { sign * (z - old) };
        Change::By((y * moved) as f32)
    }
}
