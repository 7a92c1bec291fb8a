//! Kernel expansions along a few directions of the input space, with the rest bounded by a spectral tail,
//! after a first-order correction.
//!
//! # What is stored, and what it need not be
//!
//! Rows are those of the live columns, centred where the machine centres. Stored are
//!
//! - weights `w_i > 0`, `W = diag(w)`,
//! - `r` rows `v_j` of f32 values, meant to be the first eigenvectors of `Z'W²Z`; the first `d` are the *head*
//!   `V`, the others *look ahead*,
//! - for each support a row `a_i` of `d` f32 values, meant to be `V z_i`; `A` has them as rows,
//! - `h` rows `p_k` of f64 values over the supports, meant to be orthonormal, and `h` rows `D_k` of f32 values over
//!   the columns, meant to be `T'W p_k`, where `t_i = z_i - V'a_i` are the rows of `T`,
//! - numbers `μ_j`, meant to be the eigenvalues of `Z'W²Z` after the first `d`.
//!
//! Nothing below needs any of them to be accurate; how far they are from what they mean is measured when the
//! stage is fitted, and stored as
//!
//! - `tail >= ||T'W²T - Σ_(j>d) μ_j v_j v_j'||_F`, all `n` vectors included, of which only `r` are kept,
//! - `defect >= ||Σ_j v_j v_j' - I||_F` of all `n` vectors, which bounds `||V V' - I||_2` too,
//! - `drift >= ||T'W P' - D||_F` and `skew >= ||P P' - I||_F`,
//! - `leak >= |V t_i|` and `reach_rest >= |t_i|` for all `i`, `excess` with `|a_i| <= (1 + excess)|z_i|`.
//!
//! # The identity
//!
//! `v = 2^-24`, `γ'_n` its sum of n roundings; `u`, `γ_n` the same for f64. Online the computed f32 values
//! are `ŷ` for `y = V x` (all `r` of them) and `ŝ_i` for `a_i·ŷ`. Let `e_i = z_i·x - ŝ_i`, *exactly*, so that
//! rounding is part of `e` and of nothing else. With `ε = y - ŷ` and `ζ_i = a_i·ŷ - ŝ_i`
//!
//! `e = T x + A ε + ζ`.
//!
//! - `|ε| <= η|x|`, `η = γ'_(n+3) || |V| ||_2`: `n` roundings of a product, one of the query to f32, one
//!   for centring, one spare; the norm is bounded by the root of its largest row sum times column sum.
//! - `|ζ_i| <= γ'_(k+1) |a_i||ŷ|`, `k` the roundings of a product of `d` columns.
//! - Hence `|W(e - T x)| <= τ = ||W A||_F (η|x| + γ'_(k+1)|ŷ|) + 3u ||W Z||_F |x|`, the last for the centring
//!   of the supports.
//! - `x'T'W²T x <= Σ_(d<j<=r) μ_j y_j² + μ_rest ((1 + defect)|x|² - Σ_(j<=r) y_j²) + tail |x|² =: G²`, because
//!   `Σ_(j>r) v_j v_j' = I + Δ - Σ_(j<=r) v_j v_j'`. The norm cancels: `Σ y_j² >= Σ ŷ_j² - 2|ŷ|η|x|`, and
//!   `|√μ y| <= |√μ ŷ| + √μ_max η|x|`. So `|W e| <= E = G + τ`.
//! - One by one, `t_i·x = t_i·(x - V'y) + (V t_i)·y` and `|x - V'y|² <= |x|² - |y|² + defect |y|²`, so
//!   `|e_i| <= ê = reach_rest |x - V'y| + 1.01 leak |x| + max|a_i| (η|x| + γ'_(k+1)|ŷ|) + 3u Z|x|`.
//!
//! # The score
//!
//! With `κ_i` the kernel as a function of the product, `f + b = Σ β_i κ_i(ŝ_i) + Σ c_i e_i + S`,
//! `c_i = β_i κ_i'(ŝ_i)`, and for *any* numbers `a_k`
//!
//! `Σ c_i e_i = Σ_k a_k (D_k·x) + (c/w - P'a)·(W e) + Σ_k a_k (p_k·W e - D_k·x)`.
//!
//! Taking `a ≈ P (c/w)`, the second term is at most `E` times the root of
//! `|c/w|² - |a|² + 2|a||a - P(c/w)| + skew |a|²`, the third at most `|a| (drift |x| + (1 + skew) τ)`, and the
//! computed `D_k·x` adds `|a| γ'_(n+3) ||D||_F |x|`.
//!
//! The second order, `S = Σ β_i κ_i''(ξ_i) e_i² / 2`, is at most `E²` times the largest
//! `|β_i| sup|κ_i''| / (2 w_i²)`. Where `κ'' >= 0` (Gaussian, powers of even degree) positive coefficients can
//! only raise the score and negative ones only lower it, so each end has a maximum of its own.
//!
//! - *Gaussian*: `κ' = 2γκ`, `κ'' = 4γ²κ`, and `sup κ'' <= 4γ² κ(ŝ_i) e^(2γê)`. The computed value clamps the
//!   squared distance at zero. It cannot lie below `-ϖ(|x|² + |z|²)`,
//!   `1 + ϖ = (1 + excess)(1 + defect + η)(1 + γ'_(k+1))`, and a clamped value is that of another `ŝ_i`, larger
//!   by at most half of that: `e_i` moves as much, so `τ` grows by `|w|` times it and `ê` by it. What is left
//!   is the rounding of norms, exponent and exponential, relative to the value: the `r` of
//!   [`super::single_precision`] without the product.
//! - *Powers*: `κ = (scale s + shift)^p` runs in f64 on the widened `ŝ_i`, one fused step and a power: a
//!   relative error of at most `γ_(3p+8)`. `sup|κ''| <= p(p-1) scale² (|t̂_i| + scale ê)^(p-2)`.
//!
//! Sums over supports run in f64, eight chains per tile, folded, tile after tile: at most
//! `n = 40 + tiles` roundings.
//!
//! # Underflow and overflow
//!
//! In f32 the constants `1e-36` cover underflow, and scales are restricted as in [`super::single_precision`]. In f64:
//!
//! - A value, slope or curve that underflows is off by at most `floor`.
//! - Factors of the first order, `β κ'/w` without the slope, are at most `1e100` ([`MOST_FACTOR`]), values and slopes at
//!   most `1e100` too ([`MOST_VALUE`]), else nothing is claimed. So a term of `|c/w|²`, a slope squared times a factor
//!   squared, loses at most `2^-1074 (1e200 + 1e200 + 1) < 1e-123` to underflow; `1e-100` is added to the sum
//!   ([`LEAST_SQUARES`]), whose own slack `1e-11` then covers what `a` loses. Sums above `1e200` get no range.
//! - A term of the second order loses at most `2^-1074 1e100`: `1e-200` is added ([`LEAST_PEAK`]).
//! - `E` is at least `|w| 1e-36 >= 1e-42`, so its square does not underflow. `Σ|β|` as used is rounded up by `2^-1074` for
//!   each support. What overflows elsewhere makes an end infinite or NaN.

use mercer_kernel::Profile;
use mercer_kernel::bound::{UNIT, at_least_zero, capped, gamma, larger, largest};

use super::Proved;
use super::single_precision::{HIDDEN, SINGLE, gamma_single, is_sane, power_norm};

/// Largest factors, values and sums of squares of which a range is claimed, and what is added for underflow: see above.
const MOST_FACTOR: f64 = 1e100;
const MOST_VALUE: f64 = 1e100;
const MOST_SQUARES: f64 = 1e200;
const LEAST_SQUARES: f64 = 1e-100;
const LEAST_PEAK: f64 = 1e-200;

/// Offline constants of one machine.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    pub profile: Profile,
    /// `μ_j` of the look-ahead, and that of the rest.
    pub values: Vec<f64>,
    pub rest: f64,
    /// Directions of the head.
    pub head: usize,
    /// Roundings of a product over the columns, and over the head.
    pub terms: f64,
    pub head_terms: f64,
    /// `|| |V| ||_2`, rounded up.
    pub absolute_norm: f64,
    /// `||W A||_F`, `||W Z||_F`, `|w|`, rounded up.
    pub weighted_head: f64,
    pub weighted_rows: f64,
    pub weight: f64,
    pub tail: f64,
    pub defect: f64,
    pub drift: f64,
    pub skew: f64,
    pub leak: f64,
    pub reach_rest: f64,
    pub excess: f64,
    /// Largest `|a_i|` and `|z_i|`, rounded up.
    pub reach: f64,
    pub longest: f64,
    /// `||D||_F`, rounded up.
    pub corrections: f64,
    /// Tiles that the supports are cut into.
    pub tiles: f64,
    /// Columns, live or not.
    pub columns: usize,
}

/// Constants of one score; all rounded up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailWeights {
    /// `Σ|β_i|` as used and of the machine.
    pub used: f64,
    pub original: f64,
    /// Norm of the factors of the first order, largest factor of the second.
    pub slopes: f64,
    pub peak: f64,
    /// Largest factor of the first order.
    pub steepest: f64,
    pub offset: f64,
}

/// What is known of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailQuery {
    length: f64,
    /// `E`, `τ`, and the factor of the second order.
    spectral: f64,
    noise: f64,
    growth: f64,
    /// `scale ê` (powers).
    pub reach: f64,
    /// Relative error of a computed value, and what a value computed as 0 is at most.
    error: f64,
    floor: f64,
    /// Bound on `|κ|` (powers), `t(x, x)^(p/2)` or 1, and the relative error of the norms.
    most: f64,
    divisor: f64,
    norms: f64,
}

/// What was summed over the supports, for one score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailSums<'a> {
    /// `Σ β_i κ̂_i`.
    pub value: f64,
    /// `Σ |β_i| κ̂_i` (Gaussian); powers take a bound instead.
    pub size: f64,
    /// `|c/w|²`.
    pub squares: f64,
    /// Extremes of the factors of the second order.
    pub most: f64,
    pub least: f64,
    /// `a_k` and `D_k·x`.
    pub along: &'a [f64],
    pub corrections: &'a [f32],
}

impl Tail {
    /// What is known of a query with squared norm `squared_norm` and computed coordinates `ŷ`; `None` where nothing
    /// can be claimed.
    pub(crate) fn query(&self, squared_norm: f64, coordinates: &[f32]) -> Option<TailQuery> {
        if !is_sane(squared_norm) || !is_sane(self.longest * self.longest) || self.defect > 0.01 {
            return None;
        }
        let length = squared_norm.sqrt() * (1.0 + 1e-9) + HIDDEN;
        let square = length * length * (1.0 + 1e-12);
        let eta = gamma_single(self.terms + 3.0) * self.absolute_norm * (1.0 + 1e-9);
        let epsilon = eta * length + 1e-36;
        let (mut head, mut spent, mut ahead) = (0.0, 0.0, 0.0);
        for (j, y) in coordinates.iter().enumerate() {
            let y2 = f64::from(*y) * f64::from(*y);
            spent += y2;
            if j < self.head {
                head += y2;
            } else {
                ahead += self.values[j - self.head] * y2;
            }
        }
        let spare = 1e-11 * (square + spent);
        let rest = (1.0 + self.defect) * square - spent + 2.0 * spent.sqrt() * epsilon + spare;
        let most = largest(self.values.iter().copied());
        let ahead = (ahead.sqrt() + most.sqrt() * epsilon).powi(2) * (1.0 + 1e-11);
        let tail = ahead + self.rest * at_least_zero(rest) + self.tail * square;
        let head = head.sqrt() * (1.0 + 1e-11);
        let product = gamma_single(self.head_terms + 1.0);
        let centring = 3.0 * UNIT * length;
        let slip = epsilon + product * head;
        let clamp = self.clamp(eta, product, square);
        let noise = (self.weighted_head * slip
            + self.weighted_rows * centring
            + self.weight * (clamp + 1e-36))
            * (1.0 + 1e-9);
        let spectral = tail.sqrt() * (1.0 + 1e-11) + noise;
        let away = (1.0 + 1.02 * self.defect) * square - head * head
            + 2.0 * head * epsilon
            + 1e-10 * square;
        let each = self.reach_rest * at_least_zero(away).sqrt()
            + 1.01 * self.leak * length
            + self.reach * slip
            + self.longest * centring
            + clamp
            + 1e-36;
        let known = TailQuery {
            length,
            spectral,
            noise,
            growth: 1.0,
            reach: 0.0,
            error: 0.0,
            floor: 0.0,
            most: 1.0,
            divisor: 1.0,
            norms: 0.0,
        };
        self.of_kernel(known, squared_norm, each * (1.0 + 1e-9))
    }

    /// How much a clamped distance may move a product.
    fn clamp(&self, eta: f64, product: f64, square: f64) -> f64 {
        if !matches!(self.profile, Profile::Gaussian { .. }) {
            return 0.0;
        }
        let beyond =
            (1.0 + self.excess) * (1.0 + self.defect + eta) * (1.0 + product) - 1.0 + 8.0 * UNIT;
        0.5 * beyond * (square + self.longest * self.longest) * (1.0 + 1e-9)
    }

    fn of_kernel(&self, known: TailQuery, squared_norm: f64, each: f64) -> Option<TailQuery> {
        let (scale, shift, degree) = match self.profile {
            Profile::Gaussian { gamma: kernel_gamma } => {
                if !(1e-30..=1e30).contains(&kernel_gamma) {
                    return None;
                }
                let (length, longest) = (known.length, self.longest + HIDDEN);
                let squares = (length * length + longest * longest) * 2.2 * SINGLE;
                let most = capped(kernel_gamma * 1.01 * (length + longest).powi(2), 88.0);
                let delta = kernel_gamma * squares * 1.001 + 3.2 * SINGLE * most + 1e-40;
                let exponential = f64::from(mercer_simd::EXP32_RELATIVE_ERROR);
                let error = (delta * (1.0 + delta) + 1.1 * exponential) * 1.01;
                let growth = mercer_simd::exp1(2.0 * kernel_gamma * each) * (1.0 + 1e-9);
                let is_sane = delta <= 0.5 && growth.is_finite();
                return is_sane.then_some(TailQuery { error, growth, floor: 5e-38, ..known });
            }
            Profile::Identity => (1.0, 0.0, 1),
            Profile::Power { scale, shift, degree }
            | Profile::NormalizedPower { scale, shift, degree } => (scale, shift, degree),
            Profile::Sigmoid { .. } | Profile::Other => return None,
        };
        let error = gamma(3.0 * f64::from(degree) + 8.0);
        // |ŝ_i| is at most (1 + excess)|z_i||ŷ|, and |ŷ| at most 1.02|x| with defects below 0.01.
        let inside = scale * 1.1 * (1.0 + self.excess) * known.length * self.longest + shift.abs();
        let most = (inside + 1e-30).powi(degree as i32) * (1.0 + 1e-9);
        let reach = scale * each * (1.0 + 1e-9);
        let known = TailQuery { error, most, reach, floor: 1e-290, ..known };
        let known = if let Profile::NormalizedPower { .. } = self.profile {
            let divisor = power_norm(scale, shift, degree, squared_norm)?;
            let norms = 1.01 * f64::from(degree) * gamma(self.columns as f64 + 20.0);
            TailQuery { divisor, norms, ..known }
        } else {
            known
        };
        // Slopes, curves and values of all supports are at most this.
        let largest = larger(inside + reach, 1.0).powi(degree as i32);
        (most.is_finite() && largest <= MOST_VALUE && known.norms < 1e-3).then_some(known)
    }

    /// The range of a score.
    pub(crate) fn range(
        &self,
        known: &TailQuery,
        weights: &TailWeights,
        summed: &TailSums<'_>,
    ) -> Option<Proved> {
        if !(weights.steepest <= MOST_FACTOR && summed.squares <= MOST_SQUARES) {
            return None;
        }
        let steps = gamma(self.tiles + 48.0);
        let relative = known.error + steps;
        let is_gaussian = matches!(self.profile, Profile::Gaussian { .. });
        let size = if is_gaussian { summed.size } else { weights.used * known.most };
        let rounding = relative * size * (1.0 + 1e-6) + known.floor * weights.used;
        // First order.
        let slope = (summed.squares + LEAST_SQUARES).sqrt() * (1.0 + 1.1 * relative + 1e-12)
            + known.floor * weights.slopes;
        let along2: f64 = summed.along.iter().map(|a| a * a).sum();
        let along = along2.sqrt() * (1.0 + 1e-11);
        let count = summed.along.len() as f64;
        let missed =
            1.02 * ((known.error + count.sqrt() * steps) * slope + known.floor * weights.slopes);
        let left = slope * slope - along2
            + 2.0 * along * missed
            + self.skew * along2 * 1.001
            + 1e-11 * (slope * slope + along2);
        let first = at_least_zero(left).sqrt() * known.spectral * (1.0 + 1e-11);
        let (mut correction, mut longest) = (0.0, 0.0);
        for (a, d) in summed.along.iter().zip(summed.corrections) {
            correction += a * f64::from(*d);
            longest += f64::from(*d) * f64::from(*d);
        }
        let products = gamma_single(self.terms + 3.0) * self.corrections * known.length;
        let slack = along
            * (self.drift * known.length
                + (1.0 + self.skew) * known.noise
                + products
                + gamma(count + 4.0) * longest.sqrt() * 1.001
                + 1e-36)
            * (1.0 + 1e-9);
        // Second order.
        let energy = known.spectral * known.spectral * known.growth * (1.0 + 1e-11);
        let peak = |extreme: f64| {
            let floor = known.floor * weights.peak + LEAST_PEAK;
            (extreme * (1.0 + relative) + floor) * (1.0 + 1e-9) * energy
        };
        let (raise, lower) = (peak(summed.most), peak(-summed.least));
        let is_convex = match self.profile {
            Profile::Power { degree, .. } | Profile::NormalizedPower { degree, .. } => {
                degree % 2 == 0
            }
            _ => true,
        };
        let (raise, lower) =
            if is_convex { (raise, lower) } else { (larger(raise, lower), larger(raise, lower)) };
        let middle = summed.value + correction;
        let either =
            rounding + first + slack + 4.0 * UNIT * (summed.value.abs() + correction.abs());
        let (low, high) = (middle - (either + lower), middle + (either + raise));
        let norms = known.norms * weights.original;
        let (low, high) = (low / known.divisor - norms, high / known.divisor + norms);
        let widest = larger(low.abs(), high.abs()) + weights.offset.abs();
        let last = 16.0 * UNIT * widest + f64::MIN_POSITIVE;
        Proved::between(low - weights.offset - last, high - weights.offset + last)
    }
}

#[cfg(test)]
mod tests;
