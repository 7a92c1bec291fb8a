//! Elementary functions in f32, for the stages that compute in low precision; `maths.rs` has the f64 ones.

use crate::isa::Isa;
use crate::vector::{SimdBackend, Task};

/// Largest relative error of [`exp1_32`], for arguments from −87 up to where the result overflows.
///
/// The same steps as in f64 and hence the same bound, two units of `2^-24`; the fitted
/// polynomial, its coefficients rounded to f32, adds a fiftieth of a unit.
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

/// `e^x` in f32; 0 below −87, +∞ where the result overflows.
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

/// Largest relative error of [`exp2_1_32`] for arguments from −126 to 0.
///
/// The polynomial is off by 1e-7 and its evaluation by less than two units of `2^-24`; a test checks
/// every argument with a different remainder.
pub const EXP2_32_RELATIVE_ERROR: f32 = 3e-7;

/// `(2^f − 1) / f` on `|f| <= 1/2`: minimax relative to `2^f`, rounded.
#[expect(clippy::approx_constant, reason = "a fitted coefficient near ln 2, not ln 2")]
const EXP2_TAIL: [f32; 5] =
    [0.693_147, 0.240_222_42, 0.055_507_336, 0.009_671_513, 0.001_326_472_6];

/// `2^x` for `x <= 0`, with `2^-126` for all smaller arguments and NaN: what a sum of Gaussians needs.
#[inline(always)]
pub fn exp2_1_32(x: f32) -> f32 {
    let x = if x > -126.0 { x } else { -126.0 };
    let shifted = x + ROUNDER;
    let f = x - (shifted - ROUNDER);
    let c = EXP2_TAIL;
    let tail = c[4].mul_add(f, c[3]).mul_add(f, c[2]).mul_add(f, c[1]).mul_add(f, c[0]);
    let value = tail.mul_add(f, 1.0);
    f32::from_bits(value.to_bits().wrapping_add(shifted.to_bits() << 23))
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

struct Exp32<'a>(&'a mut [f32]);

impl Task for Exp32<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        for x in self.0 {
            *x = exp1_32(*x);
        }
    }
}

/// `e^x` of each element, as [`exp1_32`].
pub fn exp32(isa: Isa, x: &mut [f32]) {
    isa.run(Exp32(x));
}

struct Distances32<'a>(&'a mut [f32], f32, &'a [f32]);

impl Task for Distances32<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
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
    isa.run(Distances32(dots, query_norm, norms));
}

struct Gaussian32<'a>(&'a mut [f32], f32, &'a [f32], f32);

impl Task for Gaussian32<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
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
    isa.run(Gaussian32(dots, query_norm, norms, gamma));
}

struct GaussianSteps32<'a> {
    dots: &'a [i32],
    query_norm: i32,
    norms: &'a [i32],
    scale: f32,
    shift: f32,
    out: &'a mut [f32],
}

impl Task for GaussianSteps32<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Self { scale, shift, .. } = self;
        for ((value, &dot), &norm) in self.out.iter_mut().zip(self.dots).zip(self.norms) {
            let steps = self.query_norm.wrapping_add(norm).wrapping_sub(dot.wrapping_mul(2));
            *value = exp2_1_32((steps as f32).mul_add(-scale, -shift));
        }
    }
}

/// `2^{−(scale d + shift)}`, as [`exp2_1_32`], of the squared distances `d = query_norm + norm − 2 dot` of integer rows.
///
/// `d` is exact where it fits 31 bits; it is rounded once to f32, and so is the exponent.
///
/// # Panics
/// If the lengths differ.
pub fn gaussian_steps32(
    isa: Isa,
    dots: &[i32],
    query_norm: i32,
    norms: &[i32],
    scale: f32,
    shift: f32,
    out: &mut [f32],
) {
    assert!(
        dots.len() == norms.len() && dots.len() == out.len(),
        "one norm and element per product"
    );
    isa.run(GaussianSteps32 { dots, query_norm, norms, scale, shift, out });
}

struct Widen<'a>(&'a [f32], &'a mut [f64]);

impl Task for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        for (out, value) in self.1.iter_mut().zip(self.0) {
            *out = f64::from(*value);
        }
    }
}

/// Converts f32 to f64, exactly.
///
/// # Panics
/// If the lengths differ.
pub fn widen(isa: Isa, values: &[f32], out: &mut [f64]) {
    assert_eq!(values.len(), out.len(), "one element per value");
    isa.run(Widen(values, out));
}

struct Codes<'a> {
    values: &'a [f64],
    step: f64,
    base: f64,
    out: &'a mut [u8],
}

/// `1.5 * 2^52`: adding it rounds to an integer, left in the low bits.
const ROUNDER_F64: f64 = 6_755_399_441_055_744.0;

impl Task for Codes<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> f64 {
        let inverse = 1.0 / self.step;
        let mut worst = [0.0f64; 8];
        for (places, values) in self.out.chunks_mut(8).zip(self.values.chunks(8)) {
            for (worst, (place, &x)) in worst.iter_mut().zip(places.iter_mut().zip(values)) {
                let shifted = (x - self.base) * inverse + ROUNDER_F64;
                let code = (shifted - ROUNDER_F64).clamp(0.0, 255.0);
                let residual = (x - (self.base + self.step * code)).abs();
                *worst = if residual > *worst { residual } else { *worst };
                *place = (code + ROUNDER_F64).to_bits() as u8;
            }
        }
        worst.into_iter().fold(0.0, f64::max)
    }
}

/// Nearest codes q from 0 to 255 of finite values near `base + step q`; returns the largest size of a
/// residual `x − (base + step q)`, each computed with three roundings.
///
/// # Panics
/// If the lengths differ.
pub fn codes(isa: Isa, values: &[f64], step: f64, base: f64, out: &mut [u8]) -> f64 {
    assert_eq!(values.len(), out.len(), "one element per value");
    isa.run(Codes { values, step, base, out })
}
