//! Degree-2 kernels as a quadratic form, with the tail of its spectrum as the bound.
//!
//! With `x~ = (x, s)`, `s² = shift / scale` and `g = |x~|²` the kernel `(scale u·v + shift)²` is
//! `scale² (u~·v~)²`, and the normalised one `(u~·v~)² / (g_u g_v)`. So `f + b = scale² x~'A x~`, or
//! `x~'A x~ / g`, with `A = Σ β_i z~_i z~_i'`, or `Σ β_i z~_i z~_i' / g_i`.
//!
//! Stored are `r` rows `e_j` (meant to be eigenvectors of A) and numbers `λ_j` (meant to be eigenvalues);
//! nothing below needs them to be accurate. Offline constants: `residual >= ||A - E'ΛE||_F` and
//! `defect >= ||EE' - I||_F`. With `y_j = e_j·x~` exactly
//!
//! `x~'A x~ = Σ_(j<=k) λ_j y_j² + Σ_(k<j<=r) λ_j y_j² + x~'(A - E'ΛE) x~`,
//!
//! the last term is at most `residual g`, and because `Σ_(j<=r) y_j² <= ||EE'||_2 g <= (1 + defect) g`,
//! the second lies in `[tmin, tmax] W`, `0 <= W <= (1 + defect) g - Σ_(j<=k) y_j²`, `tmin <= 0 <= tmax`
//! being the extreme `λ_j` of the tail and zero.
//!
//! Rounding. `u = 2^-53`, `γ_n = n u / (1 - n u)`, `n` the live columns. The computed `ŷ_j` is a chain of
//! `n` fused multiply-adds plus a constant `fl(e_j,last ŝ)` whose `ŝ` carries three roundings, so
//! `|ŷ_j - y_j| <= γ_(n+6) |e_j||x~| <= η √g` with `η = γ_(n+6) (1 + defect)`. Hence
//!
//! `Σ_(j<=k) |ŷ_j² - y_j²| <= 2 η √g √k √(Σ y_j²) + k η² g <= g (2 η √k (1 + defect) + k η²)`,
//!
//! and the sums `H = Σ λ_j ŷ_j²` and `N = Σ ŷ_j²`, `k` plain additions of products, add `γ_(k+3)` times
//! `|λ|_max Σ ŷ_j²` and `Σ ŷ_j²`. The few operations that follow round numbers of at most
//! `2 (|λ|_max g)` and add less than `γ_12`. With `defect <= 0.01`, everything is covered by
//!
//! `noise_k = 1.05 (2 η √k + k η² + γ_(k+16))`:
//!
//! - `W <= (1 + defect) g - N + noise_k g`, not less than zero,
//! - `x~'A x~` lies within `H + [tmin W - e, tmax W + e]`, `e = 1.05 (residual + |λ|_max noise_k) g`.
//!
//! `g` is computed from a loose sum of squares, whose relative error is below `γ_(n+16)` for rows of `n`
//! columns in all (n/8 + 6 additions and one product each, then `s²`): `g` above is that sum times
//! `1 + 2 γ_(n+16)`, an upper bound, in which everything is increasing; the division of normalised kernels
//! takes both ends. Columns outside the live ones enlarge `g` and nothing else.
//!
//! **In f32.** The first eigenvectors are first taken in f32: `v = 2^-24`, row and query are rounded to
//! f32 and multiplied in four chains of at most `n/4 + 1` fused multiply-adds and two additions, the constant
//! is added in f64. So `η` becomes `γ'_(n/4 + 5) (1 + defect)` and a little for the constant; taken is
//! `γ'_(n/4 + 12) (1 + defect)`. All that follows is in f64 and as above. Queries with `g` outside 1e-20 to
//! 1e20 do not run so: within, no product overflows, and what underflows, at most `n 2^-148`, is far below
//! the units to spare.
//!
//! Underflow. A product below the normal range is wrong by at most `2^-1074`. Queries with `g < 1e-200`
//! or `|λ|_max g < 1e-250` get no range; above, `n 2^-1074` is far below `u √g`, and `2^-1074` far below
//! `u |λ|_max g`: the spare units of `γ` cover it. Beyond `g = 1e250` nothing is claimed, and what overflows with
//! large `λ` makes an end infinite or NaN.

use mercer_kernel::bound::{UNIT, at_least_zero, gamma, larger, largest, smaller};

use super::{Proved, strip_error};

/// Offline constants of one score.
#[derive(Debug, Clone)]
pub(crate) struct Quadratic {
    /// Factor of the form: `scale²`, or 1 for normalised kernels.
    pub factor: f64,
    pub is_normalized: bool,
    pub offset: f64,
    /// `s²`.
    pub constant: f64,
    pub residual: f64,
    pub defect: f64,
    /// `|λ|_max`.
    pub largest: f64,
    /// Live columns.
    pub columns: usize,
}

/// Constants of one point at which the range is computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checkpoint {
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) noise: f64,
}

/// What is known of a query: bounds on `g`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Energy {
    low: f64,
    high: f64,
}

impl Energy {
    /// Whether products in f32 neither overflow nor suffer from what underflows.
    pub(crate) fn suits_f32(&self) -> bool {
        self.low >= 1e-20 && self.high <= 1e20
    }
}

impl Quadratic {
    /// Constants after `used` eigenvectors, `tail` being the eigenvalues left.
    pub(crate) fn checkpoint(&self, used: usize, tail: &[f64]) -> Checkpoint {
        self.checkpoint_with(gamma(self.columns as f64 + 6.0), used, tail)
    }

    /// The same for products in f32.
    pub(crate) fn checkpoint_f32(&self, used: usize, tail: &[f64]) -> Checkpoint {
        self.checkpoint_with(strip_error(self.columns), used, tail)
    }

    fn checkpoint_with(&self, eta: f64, used: usize, tail: &[f64]) -> Checkpoint {
        let eta = eta * (1.0 + self.defect);
        let k = used as f64;
        let noise = 1.05 * (2.0 * eta * k.sqrt() + k * eta * eta + gamma(k + 16.0));
        let least = tail.iter().copied().fold(0.0, smaller);
        let most = largest(tail.iter().copied());
        Checkpoint { least, most, noise }
    }

    /// Bounds on `g` of a query whose squared norm is `squared_norm`, summed loosely over `width` columns; `None`
    /// where the scale is such that nothing is claimed.
    pub(crate) fn energy(&self, squared_norm: f64, width: usize) -> Option<Energy> {
        let sum = squared_norm + self.constant;
        let relative = 2.0 * gamma(width as f64 + 16.0);
        let (low, high) = (sum * (1.0 - relative), sum * (1.0 + relative));
        let is_sane = (1e-200..=1e250).contains(&high) && high * self.largest >= 1e-250;
        (is_sane && relative < 0.01).then_some(Energy { low, high })
    }

    /// The range of the score from `head = Σ λ_j ŷ_j²` and `spent = Σ ŷ_j²`.
    pub(crate) fn range(
        &self,
        at: &Checkpoint,
        energy: Energy,
        head: f64,
        spent: f64,
    ) -> Option<Proved> {
        let g = energy.high;
        let rest = at_least_zero((1.0 + self.defect) * g - spent + at.noise * g);
        let error = 1.05 * (self.residual + self.largest * at.noise) * g;
        let low = head + at.least * rest - error;
        let high = head + at.most * rest + error;
        let (low, high) = if self.is_normalized {
            (smaller(low / energy.low, low / g), larger(high / energy.low, high / g))
        } else {
            (self.factor * low, self.factor * high)
        };
        // Three roundings of each end, two of the offset's difference.
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

    fn range(numbers: [f64; 9], is_normalized: bool) -> Option<Proved> {
        let [factor, offset, constant, residual, defect, tail, squared_norm, head, spent] = numbers;
        let (largest, columns) = (2.0, 5);
        let bound = Quadratic {
            factor,
            is_normalized,
            offset,
            constant,
            residual,
            defect,
            largest,
            columns,
        };
        let checkpoint = bound.checkpoint(3, &[0.5, tail, -0.25]);
        bound.range(&checkpoint, bound.energy(squared_norm, 5)?, head, spent)
    }

    const NAMES: [&str; 9] = [
        "factor",
        "offset",
        "constant",
        "residual",
        "defect",
        "tail",
        "squared norm",
        "head",
        "spent",
    ];
    const ORDINARY: [f64; 9] = [1.0, 0.5, 1.0, 1e-12, 1e-12, 0.75, 4.0, 3.0, 2.0];

    /// The head, the extreme eigenvalues times what it leaves of `g`, the residual times `g`, and the noise of the header.
    fn truth(numbers: &[Wide; 9], is_normalized: bool) -> [Wide; 2] {
        let [factor, offset, constant, residual, defect, tail, squared_norm, head, spent] =
            *numbers;
        let (number, sum) = (Wide::from, squared_norm + constant);
        if sum.is_zero() {
            return inject::around(Wide::ZERO, -Wide::ONE);
        }
        let relative = inject::gamma(21.0, UNIT);
        let (small, g) = (sum * (Wide::ONE - relative), sum * (Wide::ONE + relative));
        let eta = inject::gamma(11.0, UNIT) * (Wide::ONE + defect);
        let noise = number(2.0) * eta * number(3.0).sqrt()
            + number(3.0) * eta * eta
            + inject::gamma(19.0, UNIT);
        let rest = inject::at_least_zero((Wide::ONE + defect) * g - spent + noise * g);
        let (least, most) = (number(-0.25), -inject::least(-tail, number(-0.5)));
        let error = (residual + number(2.0) * noise) * g;
        let (low, high) = (head + least * rest - error, head + most * rest + error);
        let [low, high] = if is_normalized {
            [inject::least(low / small, low / g), -inject::least(-high / small, -high / g)]
        } else {
            [factor * low, factor * high]
        };
        [low - offset, high - offset]
    }

    #[test]
    fn nothing_is_proved_from_numbers_that_are_not_finite() {
        inject::nothing_is_proved(NAMES, ORDINARY, |numbers| range(numbers, false));
        for is_normalized in [false, true] {
            let found = |numbers| range(numbers, is_normalized);
            inject::subnormals_keep_the_truth(ORDINARY, found, |numbers| {
                truth(numbers, is_normalized)
            });
            inject::every_term_counts(ORDINARY, found, |numbers| truth(numbers, is_normalized));
        }
        // A normalised form has no factor.
        for at in 1..NAMES.len() {
            for poison in [f64::NAN, f64::INFINITY] {
                let mut numbers = ORDINARY;
                numbers[at] = poison;
                assert_eq!(range(numbers, true), None, "{} = {poison}", NAMES[at]);
            }
        }
    }

    #[test]
    fn queries_whose_squares_underflow_get_no_range() {
        let mut numbers = ORDINARY;
        (numbers[2], numbers[6]) = (0.0, 1e-210);
        assert_eq!(range(numbers, false), None);
    }
}
