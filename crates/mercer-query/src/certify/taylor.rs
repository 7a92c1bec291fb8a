//! Gaussians that are wide beside the data: the exponential to second order is a quadratic form.
//!
//! Rows are centred as the machine centres them. With a stored point `m`, `x~ = x - m`, `z~ = z - m`,
//! `g = |x~|²` and `t_i = 2γ x~·z~_i`, exactly
//!
//! `f + b = exp(-γ g) Σ b_i exp(t_i)`,  `b_i = β_i exp(-γ |z~_i|²)`,
//! `Σ b_i exp(t_i) = c + l·x~ + x~'A x~ + Σ b_i ρ(t_i)`,
//! `c = Σ b_i`,  `l = 2γ Σ b_i z~_i`,  `A = 2γ² Σ b_i z~_i z~_i'`,
//!
//! where `|ρ(t)| <= Σ_(k>=3) |t|^k / k! = t² φ(|t|)`. All coefficients of φ are positive and its lowest power
//! is the first, so `φ(a T) <= a φ(T)` for `0 <= a <= 1`; with a stored radius `R >= |x~|`
//!
//! `Σ |b_i ρ(t_i)| <= (|x~| / R) x~'M x~`,  `M = 4γ² Σ |b_i| φ(2γ R |z~_i|) z~_i z~_i'`.
//!
//! Beyond R nothing is claimed. A and M are bounded as in [`super::quadratic`] (whose notation this is), by
//! some of their eigenvectors and the extreme eigenvalues of the others: `residual >= ||A - E'ΛE||_F` and
//! `defect >= ||EE' - I||_F` hold for *all* eigenvectors in f64, of which a few are stored, in f32.
//! What was rounded offline (b, z~, c, l) is in `drift` and `bend`: the sum above is off by at most
//! `drift + bend |x~|`.
//!
//! **Rounding.** `v = 2^-24`, `γ'_n = n v / (1 - n v)`, `n` the live columns. A product `e·x` is computed in
//! f32 from a row and a query both rounded to f32, in four chains of at most `n/4 + 1` fused
//! multiply-adds and two additions: it is off by at most `γ'_(n/4 + 5) |e||x|`. The constant `e·m`, a sum of
//! n terms in f64, and centring add far less than the seven units to spare in `η = γ'_(n/4 + 12)`. With
//! `|e| <= 1.01`, and `10^-38` for whatever underflows in f32,
//!
//! `|ŷ_j - y_j| <= E = 1.03 η (X + |m|) + 10^-38`,  `X >= |x|`.
//!
//! - `g = |x|² - 2 |m| (m/|m|)·x + |m|²`: off by at most
//!   `2 |m| E + 2 γ_(n + 16) (|x|² + |m|²) + 8u (...)`, columns outside the live ones included in `|x|²`;
//! - `l·x~` by `|l| E`;
//! - `Σ_(j<=k) |ŷ_j² - y_j²| <= 2 E √(k (1 + defect) g) + k E²`, and the sums over j in f64 by
//!   `γ_(k+16)` of `N = Σ ŷ_j²`: together `noise = 1.05 (2.02 E √(k g) + k E² + γ_(k+16) (g + N))`, with
//!   which W and the error of the form are as there.
//!
//! `exp` of the library is taken to be right within 1e-12 relative, the rounding of its argument, at most
//! 745, included, and within `2^-1022` below the normal range; what follows is a few roundings of numbers no larger
//! than what is widened.
//!
//! **Underflow and overflow.** Squares of a query that underflow add less than 1e-300 to `g`. Norms beyond 1e10
//! get no range, so nothing overflows in f32; with the scales that the fit allows (supports and gamma within 1e-8 to 1e8 and
//! 1e-20 to 1e20, sums of coefficients within 1e-100 to 1e100) nothing that underflows offline counts beside `drift`.

use mercer_kernel::bound::{UNIT, at_least_zero, gamma, larger, smaller};

use super::{Proved, strip_error};

/// Largest norms for which f32 values neither overflow nor matter when they underflow.
const LARGEST: f64 = 1e10;

/// Offline constants of a quadratic form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormBound {
    pub residual: f64,
    pub defect: f64,
    /// `|λ|_max`.
    pub largest: f64,
}

/// Offline constants of one score.
#[derive(Debug, Clone)]
pub(crate) struct TaylorBound {
    /// γ of the kernel.
    pub gamma: f64,
    pub offset: f64,
    /// `c`.
    pub constant: f64,
    pub drift: f64,
    pub bend: f64,
    /// `|l|`.
    pub slope: f64,
    /// `|m|`.
    pub middle: f64,
    /// R.
    pub radius: f64,
    /// A.
    pub curve: FormBound,
    /// M.
    pub rest: FormBound,
    /// The largest eigenvalue of M whose eigenvector is not stored, or zero.
    pub rest_tail: f64,
    /// Live columns.
    pub columns: usize,
}

/// What is known of a query: `E`, and bounds on `g`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaylorQuery {
    error: f64,
    low: f64,
    high: f64,
}

/// Sums over the eigenvectors of one form: `Σ λ_j ŷ_j²`, `Σ ŷ_j²`, and how many there are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FormSums {
    pub head: f64,
    pub spent: f64,
    pub count: usize,
}

/// The smallest and the largest of some eigenvalues and zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailValues {
    pub least: f64,
    pub most: f64,
}

/// What the terms beside the quadratic form give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinearPart {
    /// The product of `x~` with `l / |l|`.
    pub along: f64,
    /// Bound on `Σ |b_i ρ(t_i)|`.
    pub remainder: f64,
}

impl FormSums {
    /// Adds coordinates with their eigenvalues.
    pub(crate) fn add(&mut self, terms: impl Iterator<Item = (f64, f64)>) {
        for (value, y) in terms {
            let square = y * y;
            self.head += value * square;
            self.spent += square;
            self.count += 1;
        }
    }
}

impl FormBound {
    /// Bounds of the form at a point, from the sums and the extreme eigenvalues of the rest.
    fn bounds(&self, known: &TaylorQuery, sums: &FormSums, tail: TailValues) -> (f64, f64) {
        let (g, k, e) = (known.high, sums.count as f64, known.error);
        let sizes = gamma(k + 16.0) * (g + sums.spent);
        let noise = 1.05 * (2.02 * e * (k * g).sqrt() + k * e * e + sizes);
        let left = at_least_zero((1.0 + self.defect) * g - sums.spent + noise);
        let error = 1.05 * (self.residual * g + self.largest * noise);
        (sums.head + tail.least * left - error, sums.head + tail.most * left + error)
    }
}

impl TaylorBound {
    /// What is known of a query whose squared norm is `squared_norm`, summed loosely over `width` columns, and whose
    /// product with `m / |m|` is `along`; `None` where nothing is claimed.
    pub(crate) fn query(&self, squared_norm: f64, width: usize, along: f64) -> Option<TaylorQuery> {
        let relative = 2.0 * gamma(width as f64 + 16.0);
        let length = squared_norm.sqrt() * (1.0 + relative) + f64::MIN_POSITIVE;
        if !(squared_norm.is_finite() && length <= LARGEST && relative < 0.01) {
            return None;
        }
        let middle = self.middle;
        let error = 1.03 * strip_error(self.columns) * (length + middle) + 1e-38;
        let g = squared_norm - 2.0 * middle * along + middle * middle;
        let off = 2.0 * middle * error
            + (relative + 16.0 * UNIT) * (squared_norm + middle * middle)
            + 1e-300;
        // A g that is NaN leaves no upper bound, and nothing is claimed.
        let (low, high) = (at_least_zero(g - off), g + off);
        let fits = high >= 0.0 && high.sqrt() * (1.0 + 4.0 * UNIT) <= self.radius;
        fits.then_some(TaylorQuery { error, low, high })
    }

    /// Bound on `Σ |b_i ρ(t_i)|` from the sums of M.
    pub(crate) fn remainder(&self, known: &TaylorQuery, sums: &FormSums) -> f64 {
        let (_, most) =
            self.rest.bounds(known, sums, TailValues { least: 0.0, most: self.rest_tail });
        at_least_zero(most) * known.high.sqrt() / self.radius * (1.0 + 8.0 * UNIT)
    }

    /// The range of the score; `tail` are the extreme eigenvalues of A whose eigenvectors are not in the sums.
    pub(crate) fn range(
        &self,
        known: &TaylorQuery,
        linear: LinearPart,
        sums: &FormSums,
        tail: TailValues,
    ) -> Option<Proved> {
        let (low, high) = self.curve.bounds(known, sums, tail);
        let line = self.slope * linear.along;
        let off = self.slope * known.error
            + self.bend * known.high.sqrt() * (1.0 + 8.0 * UNIT)
            + self.drift
            + linear.remainder;
        let sizes = self.constant.abs() + line.abs() + larger(low.abs(), high.abs()) + off;
        let off = off * (1.0 + 8.0 * UNIT) + 16.0 * UNIT * sizes + f64::MIN_POSITIVE;
        let (low, high) = (self.constant + line + low - off, self.constant + line + high + off);
        // An exponential below the normal range is off by its last digits.
        let smallest = (-self.gamma * known.high).exp() * (1.0 - 1e-12) - f64::MIN_POSITIVE;
        let smallest = at_least_zero(smallest);
        let largest = (-self.gamma * known.low).exp() * (1.0 + 1e-12) + 1e-300;
        let (low, high) =
            (smaller(low * smallest, low * largest), larger(high * smallest, high * largest));
        let size = larger(low.abs(), high.abs()) + self.offset.abs();
        let slack = 8.0 * UNIT * size + f64::MIN_POSITIVE;
        Proved::between(low - self.offset - slack, high - self.offset + slack)
    }
}

#[cfg(test)]
mod tests {
    use mercer_testkit::{Real, Wide};

    use super::super::inject;
    use super::*;

    fn range(numbers: [f64; 15]) -> Option<Proved> {
        let [
            offset,
            constant,
            drift,
            bend,
            slope,
            middle,
            radius,
            residual,
            largest,
            rest_tail,
            squared_norm,
            along,
            line,
            head,
            spent,
        ] = numbers;
        let form = FormBound { residual, defect: 1e-12, largest };
        let bound = TaylorBound {
            gamma: 0.01,
            offset,
            constant,
            drift,
            bend,
            slope,
            middle,
            radius,
            curve: form,
            rest: form,
            rest_tail,
            columns: 5,
        };
        let known = bound.query(squared_norm, 5, along)?;
        let sums = FormSums { head, spent, count: 7 };
        let linear = LinearPart { along: line, remainder: bound.remainder(&known, &sums) };
        bound.range(&known, linear, &sums, TailValues { least: -0.5, most: 0.5 })
    }

    /// The forms, the line and what is left out, times the exponential, with the rounding of the header.
    fn truth(numbers: &[Wide; 15]) -> [Wide; 2] {
        let [
            offset,
            constant,
            drift,
            bend,
            slope,
            middle,
            radius,
            residual,
            largest,
            rest_tail,
            squared_norm,
            along,
            line,
            head,
            spent,
        ] = *numbers;
        let (number, two, count) = (Wide::from, Wide::from(2.0), Wide::from(7.0));
        let middle_g = squared_norm - two * middle * along + middle * middle;
        if middle_g < Wide::ZERO || squared_norm < Wide::ZERO || radius.is_zero() {
            return inject::around(Wide::ZERO, -Wide::ONE);
        }
        let strip = inject::gamma(5.0 / 4.0 + 12.0, f64::from(f32::EPSILON) / 2.0);
        let error = strip * (squared_norm.sqrt() + middle);
        let sizes = two * inject::gamma(21.0, UNIT) * (squared_norm + middle * middle);
        let off = two * middle * error + sizes;
        let (small, g) = (inject::at_least_zero(middle_g - off), middle_g + off);
        let noise = number(2.02) * error * (count * g).sqrt()
            + count * error * error
            + inject::gamma(23.0, UNIT) * (g + spent);
        let left = (Wide::ONE + number(1e-12)) * g - spent + noise;
        let left = inject::at_least_zero(left);
        let of_form = residual * g + largest * noise;
        let rest = inject::at_least_zero(head + rest_tail * left + of_form);
        let remainder = rest * g.sqrt() / radius;
        let off = slope * error + bend * g.sqrt() + drift + remainder;
        let exponentials = [small, g].map(|g| (number(-0.01) * g).exp());
        let end = |sign: f64| {
            let sign = number(sign);
            let form = head + sign * (number(0.5) * left + of_form);
            // The ends of the exponential that make this end largest, in the direction of the sign.
            let end = sign * (constant + slope * line + form + sign * off);
            let [a, b] = exponentials.map(|exponential| end * exponential);
            sign * -inject::least(-a, -b) - offset
        };
        [end(-1.0), end(1.0)]
    }

    #[test]
    fn nothing_is_proved_from_numbers_that_are_not_finite() {
        let names = [
            "offset",
            "constant",
            "drift",
            "bend",
            "slope",
            "middle",
            "radius",
            "residual",
            "largest",
            "rest tail",
            "squared norm",
            "along",
            "line",
            "head",
            "spent",
        ];
        let ordinary =
            [0.25, 1.0, 1e-12, 1e-12, 0.5, 0.5, 10.0, 1e-12, 0.5, 0.25, 4.0, 0.25, 0.5, 0.75, 1.0];
        let radius = 6;
        // A radius that is infinite leaves no remainder: the fit never stores one, and the loader refuses it.
        let of = |numbers: [f64; 15]| {
            if numbers[radius] == f64::INFINITY { None } else { range(numbers) }
        };
        inject::nothing_is_proved(names, ordinary, of);
        inject::subnormals_keep_the_truth(ordinary, of, truth);
        // Near the centre the sums of a form count, too.
        let [middle, squared_norm, along] = [5, 10, 11];
        let mut near = ordinary;
        (near[middle], near[squared_norm], near[along]) = (1e-12, 1e-24, 0.0);
        for ordinary in [ordinary, near] {
            inject::every_term_counts(ordinary, of, truth);
        }
    }
}
