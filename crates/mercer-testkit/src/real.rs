//! What the reference kernels ask of a number, so that their definitions are written once.
//! [`crate::Wide`] and [`crate::Precise`] are such numbers, which share no arithmetic; [`crate::Dd`] is one at ordinary scales.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A real number of some precision; its exponent cannot overflow or underflow, but for [`crate::Dd`].
pub trait Real:
    Clone
    + PartialOrd
    + From<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Whether it is zero.
    fn is_zero(&self) -> bool;

    /// About `log2 |self|` of a number that is not zero.
    fn log2_size(&self) -> f64;

    /// The absolute value.
    fn abs(self) -> Self;

    /// The square root of a number that is not negative.
    fn sqrt(self) -> Self;

    /// The exponential function.
    fn exp(self) -> Self;

    /// `e^self - 1`, accurate near zero too.
    fn exp_m1(self) -> Self;

    /// The natural logarithm of a positive number.
    fn ln(self) -> Self;

    /// `ln(1 + self)` of a number that is not negative, accurate near zero too.
    fn ln_1p(self) -> Self;

    /// The hyperbolic tangent.
    fn tanh(self) -> Self;

    /// The natural logarithm of 2.
    fn ln_2() -> Self;

    /// `self^n` by squaring.
    fn powi(self, n: u32) -> Self {
        let (mut power, mut factor, mut left) = (Self::from(1.0), self, n);
        while left > 0 {
            if left % 2 == 1 {
                power = power * factor.clone();
            }
            left /= 2;
            if left > 0 {
                factor = factor.clone() * factor;
            }
        }
        power
    }
}
