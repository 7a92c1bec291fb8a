//! Kernel expansions computed from products in single precision.
//!
//! Notation: `v = 2^-24`, `γ'_n = n v / (1 - n v)`; `u`, `γ_n` the same for f64; `|x|`, `|z|` norms of
//! the centred rows, `Z` the largest `|z_i|`. Each coordinate is rounded once to a single (and, where rows
//! are centred, once to a double before), a product of rows passes at most `n` roundings more
//! ([`mercer_simd::Panels::dot_error_terms`]), so the computed product has
//!
//! `|ŝ_i - x·z_i| <= γ'_(n+3) Σ_j |x_j z_ij| <= γ'_(n+3) |x| Z`.
//!
//! **Gaussian.** Squared norms come from f64 values, rounded once; `d̂² = max(0, fl(fl(|x|² + |z|²) - 2 ŝ))`.
//! All but the last rounding amount to `E = 2 γ'_(n+3) |x| Z + 2.2 v (|x|² + Z²)`; the last one, that of
//! gamma and that of the product are relative to the exponent `t <= T = min(88, γ (|x| + Z)²)`. So the
//! exponent is wrong by at most `δ = γ E + 3.2 v T` and the kernel value, `ε` being the error of the
//! exponential, by a *relative* error: `|K - K̂| <= r K̂`, `r = e^δ / (1 - ε) - 1`, as long as `δ <= 1/2`.
//! Where `K̂ = 0` the exponent exceeds 86, so `K < 5e-38`. Hence, with `A = Σ|β_i| K̂_i`,
//!
//! `|f - (Σ β_i K̂_i - b)| <= r A + 5e-38 Σ|β_i|`.
//!
//! An upper bound on A does as well: machines of many scores take one, see [`crate::coefficients::CoefficientSizes`].
//!
//! **Powers.** The product is taken to double precision before `t = scale s + shift`, which is then wrong
//! by at most `e = scale γ'_(n+3) |x| Z + 4 u (scale |x| Z + |shift|)`. So `|K - K̂| <= p e (|t̂| + e)^(p-1)`
//! and with `A = Σ|β_i| (|t̂_i| + e)^(p-1)` the score is wrong by at most `p e A`. Normalised powers carry
//! `1 / t(z, z)^(p/2)` in their coefficients and are divided by `t(x, x)^(p/2)`: both are wrong by the
//! relative error `p γ_(d+20)`, and a normalised value is at most 1 in size.
//!
//! **Sigmoid.** tanh has slope 1 at most: `|K - K̂| <= min(e, 2) + 2^-50`, and the score is wrong by at most
//! that times `Σ|β_i|`.
//!
//! **Sums** of powers and sigmoids run in f64, eight chains and a tree: at most `m / 8 + 4` roundings
//! of each term, counted with the error above. Those of Gaussians run in f32 over at most 192 terms in
//! sixteen chains, with coefficients rounded to f32: 13 roundings of each term, counted as 16; their
//! results are added in f64. Coefficients are scaled by a power of two so that the largest is about 1,
//! and each term loses at most `2^-149` of that to underflow.
//!
//! **Scales.** Queries with `|x|²` outside `{0} ∪ [1e-24, 1e30]` get no range, nor do machines with such a
//! Z: within, nothing overflows, and what is lost to underflow, at most `2^-149` for each column, is far
//! below the spare unit `v |x| Z`. A computed norm of zero may hide rows of up to 1e-150, so both norms are
//! raised by that, and a product by what it would miss. Powers in f64 may overflow: then `most` is infinite and nothing
//! is claimed. A power that underflows is off by less than `64 2^-1074`, a product with a coefficient by `2^-1075`, and so
//! is a coefficient that was divided by a norm, times a power of at most `most`: all of these are added.

use mercer_kernel::Profile;
use mercer_kernel::bound::{LEAST, UNIT, capped, gamma};

use super::Proved;

/// Unit roundoff of f32.
pub(super) const SINGLE: f64 = f32::EPSILON as f64 / 2.0;

/// Offline constants of one machine.
#[derive(Debug, Clone)]
pub(crate) struct F32Bound {
    pub profile: Profile,
    /// Roundings of a product.
    pub terms: f64,
    /// Z, rounded up.
    pub longest: f64,
    /// Supports.
    pub rows: usize,
    /// Columns, live or not.
    pub columns: usize,
}

/// Constants of one score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct F32Weights {
    /// `Σ|β_i|` of the coefficients as used, rounded up.
    pub used: f64,
    /// `Σ|β_i|` of the machine, rounded up.
    pub original: f64,
    pub offset: f64,
    /// At most as much as a term of a sum in f32 loses to underflow, for all terms together.
    pub lost: f64,
}

/// What is known of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct F32Query {
    /// `r` (Gaussian) or `e` (powers).
    pub error: f64,
    /// Bound on `|t|^p` (powers).
    most: f64,
    /// `t(x, x)^(p/2)` (normalised powers) or 1.
    divisor: f64,
    /// Relative error of the norms (normalised powers).
    norms: f64,
}

/// Length of a row whose squared norm underflows, at most.
pub(super) const HIDDEN: f64 = 1e-150;

pub(super) fn is_sane(square: f64) -> bool {
    square == 0.0 || (1e-24..=1e30).contains(&square)
}

/// `γ'_n`, rounded up.
pub(super) fn gamma_single(n: f64) -> f64 {
    let nv = n * SINGLE;
    if nv < 0.5 { nv / (1.0 - nv) * (1.0 + 4.0 * UNIT) } else { f64::INFINITY }
}

/// `t(x, x)^(p/2)` of a row with squared norm `squared_norm`, where that is far from overflow and underflow.
pub(crate) fn power_norm(scale: f64, shift: f64, degree: u32, squared_norm: f64) -> Option<f64> {
    let norm = mercer_simd::powi1(scale * squared_norm + shift, degree).sqrt();
    // What a squared norm may hide must not count beside the constant.
    let is_known = squared_norm > 1e-200 || shift > 1e-270 * scale;
    (norm > 1e-120 && norm < 1e120 && is_known).then_some(norm)
}

impl F32Query {
    /// From bounds on the error of the exponent and the relative one of the exponential function; `None`
    /// where the former is too large.
    pub(super) fn gaussian(delta: f64, exponential: f32) -> Option<Self> {
        let exponential = f64::from(exponential);
        // e^δ - 1 <= δ + δ² for δ <= 1/2.
        let error = (delta * (1.0 + delta) + 1.1 * exponential) * 1.01;
        (delta <= 0.5).then_some(Self { error, most: 1.0, divisor: 1.0, norms: 0.0 })
    }
}

impl F32Bound {
    /// What is known of a query with squared norm `squared_norm`; `None` where nothing can be claimed.
    pub(crate) fn query(&self, squared_norm: f64) -> Option<F32Query> {
        let longest = self.longest;
        if !is_sane(squared_norm) || !is_sane(longest * longest) {
            return None;
        }
        let (length, longest) = (squared_norm.sqrt() * (1.0 + 1e-9) + HIDDEN, longest + HIDDEN);
        let product =
            gamma_single(self.terms + 3.0) * length * longest + HIDDEN * (length + longest);
        let Profile::Gaussian { gamma: kernel_gamma } = self.profile else {
            return self.with_products(squared_norm, product);
        };
        if !(1e-30..=1e30).contains(&kernel_gamma) {
            return None;
        }
        let squares = (length * length + longest * longest) * 2.2 * SINGLE;
        let most = capped(kernel_gamma * 1.01 * (length + longest).powi(2), 88.0);
        let delta = kernel_gamma * (2.0 * product + squares) * 1.001 + 3.2 * SINGLE * most + 1e-40;
        F32Query::gaussian(delta, mercer_simd::EXP32_RELATIVE_ERROR)
    }

    /// What is known of a query whose products are wrong by at most `product`; not for Gaussians.
    pub(super) fn with_products(&self, squared_norm: f64, product: f64) -> Option<F32Query> {
        match self.profile {
            Profile::Identity => self.power(squared_norm, product, 1.0, 0.0, 1),
            Profile::Power { scale, shift, degree } => {
                self.power(squared_norm, product, scale, shift, degree)
            }
            Profile::NormalizedPower { scale, shift, degree } => {
                let divisor = power_norm(scale, shift, degree, squared_norm)?;
                let norms = 1.01 * f64::from(degree) * gamma(self.columns as f64 + 20.0);
                let as_power = self.power(squared_norm, product, scale, shift, degree)?;
                (norms < 1e-3).then_some(F32Query { divisor, norms, ..as_power })
            }
            Profile::Sigmoid { scale, shift } => {
                let as_power = self.power(squared_norm, product, scale.abs(), shift, 1)?;
                let error = capped(as_power.error, 2.0) + mercer_simd::TANH_RELATIVE_ERROR;
                Some(F32Query { error, most: 1.0 + 1e-9, ..as_power })
            }
            Profile::Gaussian { .. } | Profile::Other => None,
        }
    }

    fn power(
        &self,
        squared_norm: f64,
        product: f64,
        scale: f64,
        shift: f64,
        degree: u32,
    ) -> Option<F32Query> {
        let (length, longest) = (squared_norm.sqrt() + HIDDEN, self.longest + HIDDEN);
        let inside = scale * length * longest * (1.0 + 1e-8) + shift.abs();
        let error = 1.001 * scale * product + 4.0 * UNIT * inside + f64::MIN_POSITIVE;
        let most = (inside + error).powi(degree as i32) * (1.0 + 1e-9);
        most.is_finite().then_some(F32Query { error, most, divisor: 1.0, norms: 0.0 })
    }

    /// The range of a score from `sum = Σ β_i K̂_i` and `size = A`.
    pub(crate) fn range(
        &self,
        known: &F32Query,
        weights: &F32Weights,
        sum: f64,
        size: f64,
    ) -> Option<Proved> {
        let steps = (self.rows / 8) as f64 + 8.0;
        let (value, error) = if let Profile::Gaussian { .. } = self.profile {
            let relative = known.error + gamma_single(16.0) + gamma(steps);
            (sum, relative * size * (1.0 + 1e-5) + 5e-38 * weights.used + weights.lost)
        } else {
            let p = match self.profile {
                Profile::Power { degree, .. } | Profile::NormalizedPower { degree, .. } => degree,
                _ => 1,
            };
            let p = f64::from(p);
            let rows = self.rows as f64 + 1.0;
            // Each term of the size, and each coefficient as used, may have underflowed.
            let size = if p > 1.0 { size + rows * 64.0 * LEAST } else { weights.used };
            let from_products = p * known.error * size * (1.0 + 1e-6);
            let from_coefficients = rows * LEAST * known.most;
            let from_sums = gamma(steps + 2.0 * p + 8.0) * weights.used * known.most;
            // Each product with a coefficient may underflow, and is divided by the query's norm afterwards.
            let underflow = from_coefficients + f64::MIN_POSITIVE * weights.used + rows * LEAST;
            let error = from_products + from_sums + underflow;
            let scaled = error / known.divisor * (1.0 + 1e-6) + known.norms * weights.original;
            (sum / known.divisor, scaled)
        };
        let error = (error + 8.0 * UNIT * (value.abs() + weights.offset.abs())) * (1.0 + 1e-9)
            + f64::MIN_POSITIVE;
        Proved::between(value - weights.offset - error, value - weights.offset + error)
    }
}

#[cfg(test)]
mod tests {
    use mercer_testkit::{Real, Wide};

    use super::super::inject;
    use super::*;

    fn range(profile: Profile, numbers: [f64; 7]) -> Option<Proved> {
        let [longest, squared_norm, used, original, offset, sum, size] = numbers;
        let bound = F32Bound { profile, terms: 9.0, longest, rows: 3, columns: 5 };
        let weights = F32Weights { used, original, offset, lost: 1e-44 };
        bound.range(&bound.query(squared_norm)?, &weights, sum, size)
    }

    const NAMES: [&str; 7] =
        ["longest", "squared norm", "used", "original", "offset", "sum", "size"];
    const ORDINARY: [f64; 7] = [2.0, 3.0, 1.5, 1.5, 0.25, 0.75, 1.25];

    /// Every term of the header.
    fn truth(profile: Profile, numbers: &[Wide; 7]) -> [Wide; 2] {
        let [longest, squared_norm, used, original, offset, sum, size] = *numbers;
        if squared_norm < Wide::ZERO {
            return inject::around(Wide::ZERO, -Wide::ONE);
        }
        let (number, length) = (Wide::from, squared_norm.sqrt());
        let product = inject::gamma(12.0, SINGLE) * length * longest;
        // Half the width of a power of `scale s + shift`, before it is divided.
        let power = |scale: f64, shift: f64, degree: u32| {
            let inside = number(scale) * length * longest + number(shift.abs());
            let error = number(scale) * product + number(4.0 * UNIT) * inside;
            let p = f64::from(degree);
            let size = if degree > 1 { size } else { used };
            let sums = inject::gamma(4.0 + p, UNIT) * used * inside.powi(degree);
            number(p) * error * size + sums
        };
        let (value, half) = match profile {
            Profile::Gaussian { gamma } => {
                let (gamma, reach) = (number(gamma), length + longest);
                let squares = number(2.2 * SINGLE) * (squared_norm + longest * longest);
                let most = inject::least(gamma * reach * reach, number(88.0));
                let delta = gamma * (number(2.0) * product + squares) + number(3.2 * SINGLE) * most;
                let exponential = number(f64::from(mercer_simd::EXP32_RELATIVE_ERROR));
                let relative = delta.exp() / (Wide::ONE - exponential) - Wide::ONE;
                let relative = relative + inject::gamma(16.0, SINGLE) + inject::gamma(4.0, UNIT);
                (sum, relative * size + number(5e-38) * used + number(1e-44))
            }
            Profile::Identity => (sum, power(1.0, 0.0, 1)),
            Profile::Sigmoid { scale, shift } => {
                let inside = number(scale.abs()) * length * longest + number(shift.abs());
                let error = number(scale.abs()) * product + number(4.0 * UNIT) * inside;
                let error = inject::least(error, number(2.0));
                (sum, (error + inject::gamma(4.0, UNIT)) * used)
            }
            Profile::Power { scale, shift, degree } => (sum, power(scale, shift, degree)),
            Profile::NormalizedPower { scale, shift, degree } => {
                let own = number(scale) * squared_norm + number(shift);
                let divisor = own.powi(degree).sqrt();
                let norms = number(f64::from(degree)) * inject::gamma(25.0, UNIT) * original;
                (sum / divisor, power(scale, shift, degree) / divisor + norms)
            }
            Profile::Other => unreachable!("it has no range"),
        };
        inject::around(value - offset, half)
    }

    #[test]
    fn nothing_is_proved_from_numbers_that_are_not_finite() {
        let power = Profile::NormalizedPower { scale: 0.5, shift: 1.0, degree: 3 };
        inject::nothing_is_proved(NAMES, ORDINARY, |numbers| range(power, numbers));
        for profile in [
            power,
            Profile::Power { scale: 0.5, shift: -1.0, degree: 2 },
            Profile::Identity,
            Profile::Gaussian { gamma: 0.5 },
            Profile::Sigmoid { scale: -0.5, shift: 1.0 },
        ] {
            let found = |numbers| range(profile, numbers);
            inject::subnormals_keep_the_truth(ORDINARY, found, |numbers| truth(profile, numbers));
            // Without an offset what is lost to underflow counts, too.
            let [longest, squared_norm, used, original, ..] = ORDINARY;
            for ordinary in [ORDINARY, [longest, squared_norm, used, original, 0.0, 0.0, 1e-30]] {
                inject::every_term_counts(ordinary, found, |numbers| truth(profile, numbers));
            }
            // Some profiles use no size, and only normalised ones the original coefficients.
            for at in [0, 1, 2, 4, 5] {
                for poison in [f64::NAN, f64::INFINITY] {
                    let mut numbers = ORDINARY;
                    numbers[at] = poison;
                    assert_eq!(
                        range(profile, numbers),
                        None,
                        "{profile:?}: {} = {poison}",
                        NAMES[at]
                    );
                }
            }
        }
    }

    #[test]
    fn powers_that_overflow_get_no_range() {
        let profile = Profile::Power { scale: 1.0, shift: 0.0, degree: 20 };
        let numbers = [1e15, 1e30, 1.0, 1.0, 0.0, 1.0, 1.0];
        assert_eq!(range(profile, numbers), None);
        // 1e-270 (1 + 1e300 x²) with an x² that may have underflowed.
        assert_eq!(power_norm(1e30, 1e-270, 1, 0.0), None);
    }
}
