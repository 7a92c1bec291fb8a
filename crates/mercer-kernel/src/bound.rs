//! Rounding bounds of computed kernel values.
//!
//! Notation: `u = 2^-53`, `γ_n = n u / (1 - n u)`. A chain of `n` fused multiply-adds has
//! `|ŝ - s| <= γ_n Σ|u_j v_j| <= γ_n |u||v|`, and squared norms have relative error `γ_n`.
//!
//! **Underflow.** An operation whose result lies below the normal range is wrong by at most `2^-1075`, so a
//! sum by `n 2^-1075` more. [`error`] passes on magnitudes that are larger by `n 2^-1022`, whose relative
//! error covers that, and adds `(n + 1) 2^-1022` for what underflows afterwards. A squared norm below
//! [`HIDDEN`] says nothing but that: its squares may have underflowed, and it is raised to it.
//!
//! **Overflow** leaves infinite bounds: nothing is claimed. The functions that compare bounds treat NaN, which
//! only an overflow can make, as infinite: [`larger`], [`capped`] and their like stand in place of `f64::max` and
//! `f64::min`, which ignore it.

use crate::{Form, Kernel};

/// Unit roundoff of f64.
pub const UNIT: f64 = f64::EPSILON / 2.0;

/// `2^-1074`, the least positive number: at least what an operation below the normal range is wrong by.
pub const LEAST: f64 = f64::from_bits(1);

/// Squared norms below it may have lost squares that underflow: the true one is at most this.
pub const HIDDEN: f64 = 1e-300;

/// Squared norms above it lose nothing that matters beside their rounding, and neither do products of such rows.
const SAFE: f64 = 1e-25;

/// The larger of two bounds; infinite if either is NaN.
#[inline]
pub fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::INFINITY } else { a.max(b) }
}

/// The smaller of two lower bounds; minus infinity if either is NaN.
#[inline]
pub fn smaller(a: f64, b: f64) -> f64 {
    -larger(-a, -b)
}

/// A bound on something that is at most `limit` for other reasons; infinite if it is NaN.
#[inline]
pub fn capped(bound: f64, limit: f64) -> f64 {
    if bound.is_nan() { f64::INFINITY } else { bound.min(limit) }
}

/// A bound on something that is never negative; infinite if it is NaN or minus infinity, which only an overflow makes.
#[inline]
pub fn at_least_zero(bound: f64) -> f64 {
    if bound == f64::NEG_INFINITY { f64::INFINITY } else { larger(bound, 0.0) }
}

/// The largest of some bounds and zero; infinite if one is NaN.
pub fn largest(bounds: impl IntoIterator<Item = f64>) -> f64 {
    bounds.into_iter().fold(0.0, larger)
}

/// The length of a vector before it is rounded up, whatever its scale: the squares are taken of multiples by a power
/// of two, so that none overflows and only those underflow that do not count. `n` squares make a relative error of
/// `γ_(n+2)`.
pub fn length(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = largest(values.clone().map(f64::abs));
    if most == 0.0 || !most.is_finite() {
        return most;
    }
    // Two steps: the power of two that makes a subnormal number 1 is not finite itself.
    let (first, second) = powers_to_one(most);
    let scaled = values.map(|value| value * first * second);
    scaled.map(|value| value * value).sum::<f64>().sqrt() / first / second
}

/// Two powers of two that take a positive number to between 1 and 2.
fn powers_to_one(value: f64) -> (f64, f64) {
    let is_subnormal = value < f64::MIN_POSITIVE;
    let first = if is_subnormal { (1u64 << 54) as f64 } else { 1.0 };
    // Half of the power first where its inverse would be subnormal.
    let exponent = ((value * first).to_bits() >> 52) as i64 - 1023;
    let half = exponent / 2;
    let power = |exponent: i64| f64::from_bits(((1023 - exponent) as u64) << 52);
    (first * power(half), power(exponent - half))
}

/// `γ_n = n u / (1 - n u)`, rounded up; infinite where it has no meaning.
pub fn gamma(n: f64) -> f64 {
    let nu = n * UNIT;
    if nu < 0.5 { nu / (1.0 - nu) * (1.0 + 4.0 * UNIT) } else { f64::INFINITY }
}

/// Bound on the error of a computed value `K(u, v)` of rows with `columns` columns, given the squared norms
/// `b(u, u)` and `b(v, v)` as computed. Between two values of `vv` it is at most the
/// larger of the bounds there. Infinite if nothing is known.
///
/// `shifted` says that both rows were centred first: each coordinate then carries one rounding of its
/// own, `|δ(u - v)| <= u(|u| + |v|)`, which changes `|u - v|²` by at most `4u(uu + vv)`, that is by
/// less than two more units of relative error in each sum.
pub fn error(kernel: &dyn Kernel, columns: usize, uu: f64, vv: f64, shifted: bool) -> f64 {
    let form = kernel.form();
    let Some(finish) = form.finish() else {
        return f64::INFINITY;
    };
    let (uu, vv) = (larger(uu, HIDDEN), larger(vv, HIDDEN));
    let relative = base_error(&form, columns, shifted);
    let magnitude = magnitude(&form, uu, vv);
    let underflow = (columns as f64 + 1.0) * f64::MIN_POSITIVE;
    let error = finish.error(relative, uu, vv, magnitude + underflow);
    if error.is_nan() { f64::INFINITY } else { error * (1.0 + 8.0 * UNIT) + underflow }
}

/// A number r such that the error is at most `r sqrt(K(u, u) K(v, v))`, for all rows of `columns` columns
/// with squared norms between the two given, if the kernel has one and nothing on the way leaves the range
/// of numbers in which underflow is far below rounding.
pub fn relative_error(
    kernel: &dyn Kernel,
    columns: usize,
    squared_norms: [f64; 2],
    shifted: bool,
) -> Option<f64> {
    let form = kernel.form();
    let finish = form.finish()?;
    let holds = |squared_norm: &f64| *squared_norm > SAFE && finish.is_ordinary(*squared_norm);
    if !squared_norms.iter().all(holds) {
        return None;
    }
    finish.relative_error(base_error(&form, columns, shifted))
}

/// Relative error of the base sums of rows with `columns` columns.
pub fn base_error(form: &Form<'_>, columns: usize, shifted: bool) -> f64 {
    let per_term = if let Form::Additive(term, _) = form { term.rounding() } else { 0.0 };
    gamma(columns as f64 + per_term + if shifted { 4.0 } else { 0.0 })
}

/// Bound on `|K(u, v)|` given the squared norms, in real arithmetic and as computed.
pub fn value(kernel: &dyn Kernel, uu: f64, vv: f64) -> f64 {
    let form = kernel.form();
    let Some(finish) = form.finish() else {
        return f64::INFINITY;
    };
    let (uu, vv) = (larger(uu, HIDDEN), larger(vv, HIDDEN));
    let bound = finish.bound(uu, vv, magnitude(&form, uu, vv));
    if bound.is_nan() { f64::INFINITY } else { bound + f64::MIN_POSITIVE }
}

/// Bound on `Σ|κ(u_j, v_j)|`, widened for the rounding of the squared norms.
fn magnitude(form: &Form<'_>, uu: f64, vv: f64) -> f64 {
    let raw = match form {
        Form::Additive(term, _) => term.magnitude(uu, vv),
        _ => uu.sqrt() * vv.sqrt(),
    };
    raw * (1.0 + 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_are_no_numbers_are_infinite() {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        for (a, b) in [(nan, 1.0), (1.0, nan), (nan, nan), (infinity, nan), (-infinity, nan)] {
            assert_eq!((larger(a, b), smaller(a, b)), (infinity, -infinity));
        }
        assert_eq!((larger(1.0, 2.0), smaller(1.0, 2.0)), (2.0, 1.0));
        assert_eq!((capped(nan, 1.0), capped(3.0, 1.0), capped(0.5, 1.0)), (infinity, 1.0, 0.5));
        assert_eq!((at_least_zero(nan), at_least_zero(-1.0)), (infinity, 0.0));
        assert_eq!(at_least_zero(-infinity), infinity);
        assert_eq!((largest([1.0, nan, 2.0]), largest([])), (infinity, 0.0));
    }

    #[test]
    fn lengths_are_right_at_every_scale() {
        let values = [3.0, -4.0, 12.0, 1e-9];
        for exponent in (-1074..=1019).step_by(7) {
            let scale = 2.0f64.powi(exponent / 2) * 2.0f64.powi(exponent - exponent / 2);
            let scaled = values[..3].iter().map(|value| value * scale);
            assert_eq!(length(scaled), 13.0 * scale, "2^{exponent}");
        }
        // At ordinary scales it has the bits of the plain formula.
        let wild = (1..200).map(|n| f64::from(n).sin() * 10f64.powi(n % 17 - 8));
        let plain = wild.clone().map(|value| value * value).sum::<f64>().sqrt();
        assert_eq!(length(wild), plain);
        assert_eq!((length([0.0, -0.0].into_iter()), length([].into_iter())), (0.0, 0.0));
        assert_eq!(length([1.0, f64::NAN].into_iter()), f64::INFINITY);
        assert_eq!(length([f64::MAX; 2].into_iter()), f64::INFINITY);
        assert_eq!(length([LEAST].into_iter()), LEAST);
    }
}
