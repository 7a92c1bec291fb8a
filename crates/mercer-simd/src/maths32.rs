//! The functions that certifying stages need in single precision.

use crate::isa::Isa;
use crate::vector::{Machine, Task};

/// Largest relative error of [`exp1_32`], for arguments from −87 up to where the result overflows.
///
/// The same steps as in double precision and hence the same bound, two units of `2^-24`; the fitted
/// polynomial, its coefficients rounded to singles, adds a fiftieth of a unit.
pub const EXP32_RELATIVE_ERROR: f32 = f32::EPSILON;

const EXP_LEAST: f32 = -87.0;
/// The logarithm of the largest finite number, rounded down.
const EXP_MOST: f32 = 88.722_83;
/// `1.5 * 2^23`: adding it rounds to an integer, left in the low bits.
const ROUNDER: f32 = 12_582_912.0;
/// Leading 15 bits of ln 2, so that its multiples by exponents are exact.
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;

/// `(e^r − 1 − r) / r²` on `|r| <= ln 2 / 2`: minimax relative to `e^r` (Remez), rounded.
const EXP_TAIL: [f32; 6] =
    [0.5, 0.166_666_66, 0.041_666_295, 0.008_333_497, 0.001_394_465_9, 0.000_197_903_41];

/// `e^x` in single precision; 0 below −87, +∞ where the result overflows.
#[inline(always)]
pub fn exp1_32(x: f32) -> f32 {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let k = shifted - ROUNDER;
    let r = k.mul_add(-LN2_LOW, k.mul_add(-LN2_HIGH, x));
    let square = r * r;
    let c = EXP_TAIL;
    let high = c[5].mul_add(r, c[4]);
    let low = c[3].mul_add(r, c[2]).mul_add(square, c[1].mul_add(r, c[0]));
    let tail = high.mul_add(square * square, low);
    let value = 1.0 + square.mul_add(tail, r);
    let scaled = f32::from_bits(value.to_bits().wrapping_add(shifted.to_bits() << 23));
    let floored = if x < EXP_LEAST { 0.0 } else { scaled };
    let bounded = if x > EXP_MOST { f32::INFINITY } else { floored };
    if x.is_nan() { x } else { bounded }
}

/// Squared distance from a dot product and two squared norms: `max(0, fma(−2, s, |x|² + |z|²))`.
///
/// NaN, from norms that overflow, stays NaN.
#[inline(always)]
pub fn distance1_32(dot: f32, query_norm: f32, norm: f32) -> f32 {
    let distance = dot.mul_add(-2.0, query_norm + norm);
    if distance < 0.0 { 0.0 } else { distance }
}

/// `e^{−γ d}` with the squared distance `d` of [`distance1_32`].
#[inline(always)]
pub fn gaussian1_32(dot: f32, query_norm: f32, norm: f32, gamma: f32) -> f32 {
    exp1_32(-gamma * distance1_32(dot, query_norm, norm))
}

struct Exp<'a>(&'a mut [f32]);

impl Task for Exp<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        for x in self.0 {
            *x = exp1_32(*x);
        }
    }
}

/// `e^x` of each element, as [`exp1_32`].
pub fn exp32(isa: Isa, x: &mut [f32]) {
    isa.run(Exp(x));
}

struct Distances<'a>(&'a mut [f32], f32, &'a [f32]);

impl Task for Distances<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        for (dot, &norm) in self.0.iter_mut().zip(self.2) {
            *dot = distance1_32(*dot, self.1, norm);
        }
    }
}

/// Turns dot products into squared distances, as [`distance1_32`].
///
/// # Panics
/// If the lengths differ.
pub fn distances32(isa: Isa, dots: &mut [f32], query_norm: f32, norms: &[f32]) {
    assert_eq!(dots.len(), norms.len(), "one norm per dot product");
    isa.run(Distances(dots, query_norm, norms));
}

struct Gaussian<'a>(&'a mut [f32], f32, &'a [f32], f32);

impl Task for Gaussian<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        for (dot, &norm) in self.0.iter_mut().zip(self.2) {
            *dot = gaussian1_32(*dot, self.1, norm, self.3);
        }
    }
}

/// Turns dot products into `e^{−γ distance}` in one pass, as [`gaussian1_32`].
///
/// # Panics
/// If the lengths differ.
pub fn gaussian32(isa: Isa, dots: &mut [f32], query_norm: f32, norms: &[f32], gamma: f32) {
    assert_eq!(dots.len(), norms.len(), "one norm per dot product");
    isa.run(Gaussian(dots, query_norm, norms, gamma));
}

struct Widen<'a>(&'a [f32], &'a mut [f64]);

impl Task for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        for (wide, single) in self.1.iter_mut().zip(self.0) {
            *wide = f64::from(*single);
        }
    }
}

/// Singles as doubles; nothing is rounded.
///
/// # Panics
/// If the lengths differ.
pub fn widen(isa: Isa, singles: &[f32], out: &mut [f64]) {
    assert_eq!(singles.len(), out.len(), "one place per value");
    isa.run(Widen(singles, out));
}
