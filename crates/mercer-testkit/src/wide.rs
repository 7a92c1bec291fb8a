//! Double-double numbers with an exponent of their own: nothing overflows or underflows.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::dd::{Dd, exponent};
use crate::real::Real;

/// `mantissa 2^exponent` with `1 <= |mantissa| < 2`, or zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wide {
    mantissa: Dd,
    exponent: i64,
}

/// Exponentials stop here: far outside the range of f64, far inside that of the exponent.
const EXP_LIMIT: f64 = 1e9;

impl Wide {
    /// Zero.
    pub const ZERO: Self = Self { mantissa: Dd::ZERO, exponent: 0 };
    /// One.
    pub const ONE: Self = Self { mantissa: Dd::ONE, exponent: 0 };

    fn normal(mantissa: Dd, exponent2: i64) -> Self {
        if mantissa.hi == 0.0 {
            return Self::ZERO;
        }
        let shift = exponent(mantissa.hi);
        Self { mantissa: mantissa.scale2(-shift), exponent: exponent2 + shift }
    }

    /// As a double-double; infinite or zero where that cannot hold it.
    pub fn to_dd(self) -> Dd {
        self.mantissa.scale2(self.exponent)
    }
}

impl Real for Wide {
    fn is_zero(&self) -> bool {
        self.mantissa.hi == 0.0
    }

    fn log2_size(&self) -> f64 {
        self.exponent as f64
    }

    fn abs(self) -> Self {
        Self { mantissa: self.mantissa.abs(), ..self }
    }

    fn sqrt(self) -> Self {
        let odd = self.exponent & 1;
        Self::normal(self.mantissa.scale2(odd).sqrt(), (self.exponent - odd) / 2)
    }

    fn exp(self) -> Self {
        let x = self.to_dd();
        let x = if x.hi.abs() > EXP_LIMIT { Dd::from(EXP_LIMIT.copysign(x.hi)) } else { x };
        let (m, k) = x.reduced_exp();
        Self::normal(Dd::ONE + m, k)
    }

    fn exp_m1(self) -> Self {
        if self.exponent < -200 {
            // The next term of the series is 2^-200 times smaller.
            return self;
        }
        if self.exponent < -2 { Self::from(self.to_dd().exp_m1()) } else { self.exp() - Self::ONE }
    }

    fn ln(self) -> Self {
        if self.exponent.abs() <= 1 {
            return Self::from(self.to_dd().ln());
        }
        let twos = Dd::LN_2 * Dd::from(self.exponent as f64);
        Self::from(self.mantissa.ln() + twos)
    }

    fn ln_1p(self) -> Self {
        if self.exponent < -200 {
            // The next term of the series is 2^-200 times smaller.
            return self;
        }
        if self.exponent < 8 { Self::from(self.to_dd().ln_1p()) } else { (Self::ONE + self).ln() }
    }

    fn tanh(self) -> Self {
        if self.exponent < -200 {
            // tanh x = x (1 - x²/3 + …)
            return self;
        }
        Self::from(self.to_dd().tanh())
    }

    fn ln_2() -> Self {
        Self::from(Dd::LN_2)
    }
}

impl From<f64> for Wide {
    fn from(x: f64) -> Self {
        Self::normal(Dd::from(x), 0)
    }
}

impl From<Dd> for Wide {
    fn from(x: Dd) -> Self {
        Self::normal(x, 0)
    }
}

impl Neg for Wide {
    type Output = Self;

    fn neg(self) -> Self {
        Self { mantissa: -self.mantissa, ..self }
    }
}

impl Add for Wide {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        if self.is_zero() || other.is_zero() {
            return if self.is_zero() { other } else { self };
        }
        let (large, small) =
            if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        // Beyond 2^-400 the smaller one cannot touch the last bit of the larger one.
        let shift = (small.exponent - large.exponent).max(-400);
        Self::normal(large.mantissa + small.mantissa.scale2(shift), large.exponent)
    }
}

impl Sub for Wide {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Wide {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::normal(self.mantissa * other.mantissa, self.exponent + other.exponent)
    }
}

impl Div for Wide {
    type Output = Self;

    /// # Panics
    /// If the divisor is zero.
    fn div(self, other: Self) -> Self {
        assert!(!other.is_zero(), "division by zero");
        Self::normal(self.mantissa / other.mantissa, self.exponent - other.exponent)
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (*self - *other).mantissa.hi.partial_cmp(&0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Wide, b: Wide) -> bool {
        (a - b).abs() <= b.abs() * Wide::from(1e-27)
    }

    #[test]
    fn scales_beyond_f64_come_back() {
        let (tiny, huge) = (Wide::from(3e-310), Wide::from(7e300));
        assert!(close((tiny.powi(128).ln() / Wide::from(128.0)).exp(), tiny));
        assert!(close((huge * huge).sqrt(), huge));
        assert!(close(huge.powi(9) / huge.powi(8), huge));
        assert!(close(huge.ln().exp(), huge));
        assert_eq!(huge.powi(2).to_dd().hi, f64::INFINITY);
        assert_eq!(tiny.powi(2).to_dd(), Dd::ZERO);
    }

    #[test]
    fn subnormal_numbers_are_exact() {
        for x in [5e-324, 1.5e-310, f64::MIN_POSITIVE, -3e-320] {
            assert_eq!(Wide::from(x).to_dd(), Dd::from(x));
        }
    }

    #[test]
    fn sums_of_far_scales_keep_the_larger() {
        let sum = Wide::from(1e-300) * Wide::from(1e-300) + Wide::ONE;
        assert_eq!(sum.to_dd().hi, 1.0);
        assert!(Wide::from(1e-300) < Wide::ONE && -Wide::ONE < Wide::ZERO);
    }
}
