//! Double-double arithmetic: an unevaluated sum of two f64, about 106 bits.
//!
//! The sums and products are those of Dekker and Knuth with a fused multiply-add in place of
//! splitting; each operation is right to a few units of `2^-104` as long as nothing underflows.
//! [`crate::Wide`] has the same accuracy at any scale.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::LazyLock;

use crate::real::Real;

/// `hi + lo` with `|lo| <= ulp(hi) / 2`; `lo` is zero where `hi` is not finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dd {
    /// The nearest f64.
    pub hi: f64,
    /// What it misses.
    pub lo: f64,
}

/// `1 / n`; the first is not used.
static INVERSES: LazyLock<[Dd; 30]> =
    LazyLock::new(|| std::array::from_fn(|n| Dd::ONE / Dd::from(n.max(1) as f64)));

/// `a + b` and the exact rounding error.
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// `a b` and the rounding error, exact unless it underflows.
pub fn two_prod(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

/// `x 2^exponent`, rounded once at most.
pub fn scale2(x: f64, exponent: i64) -> f64 {
    let (mut x, mut left) = (x, exponent.clamp(-3000, 3000));
    while left > 1000 {
        x *= f64::from_bits(2023 << 52);
        left -= 1000;
    }
    // Down in one step near the end, so that a subnormal result is rounded once.
    while left < -1022 {
        let step = (left + 1022).max(-900);
        x *= f64::from_bits(((1023 + step) as u64) << 52);
        left -= step;
    }
    x * f64::from_bits(((1023 + left) as u64) << 52)
}

impl Dd {
    /// Zero.
    pub const ZERO: Self = Self { hi: 0.0, lo: 0.0 };
    /// One.
    pub const ONE: Self = Self { hi: 1.0, lo: 0.0 };
    /// The natural logarithm of 2.
    pub const LN_2: Self = Self { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };

    /// `hi + lo`, brought into form; `|hi| >= |lo|` or `hi` is zero.
    pub fn new(hi: f64, lo: f64) -> Self {
        let sum = hi + lo;
        if sum.is_finite() {
            Self { hi: sum, lo: lo - (sum - hi) }
        } else {
            Self { hi: sum, lo: 0.0 }
        }
    }

    /// The exact product of two numbers, unless its last bits underflow.
    pub fn product(a: f64, b: f64) -> Self {
        let (hi, lo) = two_prod(a, b);
        Self::new(hi, lo)
    }

    /// The exact sum of two numbers.
    pub fn sum(a: f64, b: f64) -> Self {
        let (hi, lo) = two_sum(a, b);
        Self::new(hi, lo)
    }

    /// The nearest f64.
    pub fn to_f64(self) -> f64 {
        self.hi
    }

    /// Whether it is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        self.hi.is_finite()
    }

    /// The absolute value.
    pub fn abs(self) -> Self {
        if self.hi < 0.0 { -self } else { self }
    }

    /// `self 2^exponent`.
    pub fn scale2(self, exponent: i64) -> Self {
        let hi = scale2(self.hi, exponent);
        if hi.is_finite() { Self::new(hi, scale2(self.lo, exponent)) } else { Self::from(hi) }
    }

    /// The square root; NaN below zero.
    ///
    /// One step of Newton's method squares the error of the root of `hi`.
    pub fn sqrt(self) -> Self {
        if self.hi == 0.0 || !self.hi.is_finite() || self.hi < 0.0 {
            return Self::from(self.hi.sqrt());
        }
        let even = exponent(self.hi) & !1;
        let near_one = self.scale2(-even);
        let root = near_one.hi.sqrt();
        let missing = near_one - Self::product(root, root);
        (Self::from(root) + missing / Self::from(2.0 * root)).scale2(even / 2)
    }

    /// `self^n` by squaring.
    pub fn powi(self, n: u32) -> Self {
        let (mut power, mut factor, mut left) = (Self::ONE, self, n);
        while left > 0 {
            if left % 2 == 1 {
                power = power * factor;
            }
            left /= 2;
            if left > 0 {
                factor = factor * factor;
            }
        }
        power
    }

    /// `self^p = exp(p ln self)` for `self > 0`.
    pub fn powf(self, p: f64) -> Self {
        (self.ln() * Self::from(p)).exp()
    }

    /// `e^self = (1 + m) 2^k` as `(m, k)`, `|ln(1 + m)| <= ln 2 / 2`.
    ///
    /// The reduced argument is divided by 512, its Taylor series summed, and `e^x - 1` doubled nine
    /// times by `m ← 2m + m²`, which keeps small results accurate.
    pub(crate) fn reduced_exp(self) -> (Self, i64) {
        let k = (self.hi / std::f64::consts::LN_2).round();
        // The third part of ln 2 matters for large arguments.
        let third = Self::from(-5.707_708_438_416_212e-34 * k);
        let r = (self - Self::LN_2 * Self::from(k) + third).scale2(-9);
        // |r| < 6.8e-4: r^11 / 12! < 1e-43.
        let mut sum = Self::ZERO;
        for n in (1..=11).rev() {
            sum = (Self::ONE + sum) * r * INVERSES[n];
        }
        for _ in 0..9 {
            sum = sum * Self::from(2.0) + sum * sum;
        }
        (sum, k as i64)
    }

    /// The exponential function; zero below −750, infinite where it overflows.
    pub fn exp(self) -> Self {
        if self.hi.is_nan() || self.hi > 710.0 || self.hi < -750.0 {
            return Self::from(self.hi.exp());
        }
        let (m, k) = self.reduced_exp();
        (Self::ONE + m).scale2(k)
    }

    /// `e^self − 1`, accurate near zero too.
    pub fn exp_m1(self) -> Self {
        if self.hi.abs() < 0.3 { self.reduced_exp().0 } else { self.exp() - Self::ONE }
    }

    /// The natural logarithm; NaN below zero.
    ///
    /// One step of Halley's method on `e^y = x` cubes the error of the f64 logarithm.
    pub fn ln(self) -> Self {
        if self.hi <= 0.0 || !self.hi.is_finite() {
            return Self::from(self.hi.ln());
        }
        if (self.hi - 1.0).abs() < 0.1 {
            return (self - Self::ONE).ln_1p();
        }
        let k = exponent(self.hi);
        let x = self.scale2(-k);
        let y = Self::from(x.hi.ln());
        let e = y.exp();
        let step = Self::from(2.0) * (x - e) / (x + e);
        y + step + Self::LN_2 * Self::from(k as f64)
    }

    /// `ln(1 + self)`, accurate near zero: `2 artanh(s)` with `s = self / (2 + self)`.
    pub fn ln_1p(self) -> Self {
        if self.hi.abs() > 0.11 {
            return (Self::ONE + self).ln();
        }
        let s = self / (Self::from(2.0) + self);
        let square = s * s;
        // s² < 0.0034: s^28 < 1e-34.
        let mut sum = Self::ZERO;
        for n in (0..15).rev() {
            sum = sum * square + INVERSES[2 * n + 1];
        }
        Self::from(2.0) * s * sum
    }

    /// The hyperbolic tangent, `m / (m + 2)` with `m = e^{2x} − 1`.
    pub fn tanh(self) -> Self {
        if self.hi.abs() > 40.0 {
            return Self::from(self.hi.signum());
        }
        let m = (self * Self::from(2.0)).exp_m1();
        m / (m + Self::from(2.0))
    }
}

/// `floor(log2 |x|)` of a finite number that is not zero.
pub(crate) fn exponent(x: f64) -> i64 {
    let field = |x: f64| ((x.to_bits() >> 52) & 0x7ff) as i64;
    if x.is_subnormal() { field(scale2(x, 100)) - 1123 } else { field(x) - 1023 }
}

/// As long as nothing on the way leaves the range of f64, or what underflows does not count.
impl Real for Dd {
    fn is_zero(&self) -> bool {
        self.hi == 0.0
    }

    fn log2_size(&self) -> f64 {
        exponent(self.hi) as f64
    }

    fn abs(self) -> Self {
        Self::abs(self)
    }

    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    fn exp(self) -> Self {
        Self::exp(self)
    }

    fn exp_m1(self) -> Self {
        Self::exp_m1(self)
    }

    fn ln(self) -> Self {
        Self::ln(self)
    }

    fn ln_1p(self) -> Self {
        Self::ln_1p(self)
    }

    fn tanh(self) -> Self {
        Self::tanh(self)
    }

    fn ln_2() -> Self {
        Self::LN_2
    }
}

impl From<f64> for Dd {
    fn from(hi: f64) -> Self {
        Self { hi, lo: 0.0 }
    }
}

impl Neg for Dd {
    type Output = Self;

    fn neg(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }
}

impl Add for Dd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (high, error) = two_sum(self.hi, other.hi);
        if !high.is_finite() {
            return Self::from(high);
        }
        let (low, rest) = two_sum(self.lo, other.lo);
        let sum = Self::new(high, error + low);
        Self::new(sum.hi, sum.lo + rest)
    }
}

impl Sub for Dd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Dd {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let (high, error) = two_prod(self.hi, other.hi);
        if !high.is_finite() {
            return Self::from(high);
        }
        let cross = self.hi.mul_add(other.lo, self.lo.mul_add(other.hi, error));
        Self::new(high, cross)
    }
}

impl Div for Dd {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = self.hi / other.hi;
        if !first.is_finite() || !other.hi.is_finite() {
            return Self::from(first);
        }
        let rest = self - other * Self::from(first);
        let second = rest.hi / other.hi;
        let rest = rest - other * Self::from(second);
        Self::new(first, second) + Self::from(rest.hi / other.hi)
    }
}

impl PartialOrd for Dd {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.hi.partial_cmp(&other.hi) {
            Some(Ordering::Equal) => self.lo.partial_cmp(&other.lo),
            order => order,
        }
    }
}

#[cfg(test)]
#[path = "dd/tests.rs"]
mod tests;
