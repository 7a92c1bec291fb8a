//! Kernels written once more, from their mathematical definitions, slowly, at any scale and in any arithmetic.
//!
//! Nothing here shares code with the kernels under test but the parser of their texts.

use mercer_spec::{Spec, Value};

use crate::real::Real;
use crate::{Dd, Wide};

/// `K(u, v)` of the kernel that `spec` names; the shorter row is continued with zeros.
///
/// # Panics
/// If the text names no kernel known here or lacks a parameter without default.
pub fn kernel_value(spec: &Spec, u: &[f64], v: &[f64]) -> Dd {
    kernel::<Wide>(spec, u, v).to_dd()
}

/// `f(x) = Σ β_i K(z_i, x) − b` in double-double arithmetic.
///
/// # Panics
/// As [`kernel_value`].
pub fn expansion(
    spec: &Spec,
    supports: &[Vec<f64>],
    coefficients: &[f64],
    offset: f64,
    x: &[f64],
) -> Dd {
    let terms = supports.iter().map(Vec::as_slice).zip(coefficients.iter().copied());
    weighted_sum::<Wide>(spec, terms, offset, x).to_dd()
}

/// `Σ β K(z, x) − b` over pairs of a support and its coefficient.
///
/// # Panics
/// As [`kernel_value`].
pub fn weighted_sum<'a, T: Real>(
    spec: &Spec,
    terms: impl Iterator<Item = (&'a [f64], f64)>,
    offset: f64,
    x: &[f64],
) -> T {
    terms
        .map(|(support, beta)| T::from(beta) * kernel::<T>(spec, support, x))
        .fold(-T::from(offset), |sum, term| sum + term)
}

/// [`kernel_value`] in the arithmetic of `T`, before it is squeezed into the range of f64.
///
/// # Panics
/// As [`kernel_value`].
pub fn kernel<T: Real>(spec: &Spec, u: &[f64], v: &[f64]) -> T {
    match spec.name() {
        "linear" | "precomputed" => columns(u, v, |a: T, b| a * b),
        "polynomial" => {
            let degree = degree(spec);
            affine::<T>(spec, 1, u, v).powi(degree)
        }
        "sigmoid" => affine::<T>(spec, 0, u, v).tanh(),
        "rbf" => {
            let square = |x: T| x.clone() * x;
            let distance = columns(u, v, |a, b| square(a - b));
            (-(parameter::<T>(spec, 0, "gamma") * distance)).exp()
        }
        "laplacian" => {
            let distance = columns(u, v, |a: T, b| (a - b).abs());
            (-(parameter::<T>(spec, 0, "gamma") * distance)).exp()
        }
        "normalized" => {
            let inner = inner(spec);
            let norms = kernel::<T>(inner, u, u) * kernel::<T>(inner, v, v);
            if norms.is_zero() { T::from(0.0) } else { kernel::<T>(inner, u, v) / norms.sqrt() }
        }
        "exponential" => {
            let inner = inner(spec);
            let own = kernel::<T>(inner, u, u) + kernel::<T>(inner, v, v);
            let distance = own - T::from(2.0) * kernel::<T>(inner, u, v);
            (-(parameter::<T>(spec, 1, "gamma") * distance)).exp()
        }
        "intersection" => columns(u, v, |a: T, b| if a < b { a } else { b }),
        "chi2" => columns(u, v, |a: T, b| power_mean(-1.0, a, b)),
        "hellinger" => columns(u, v, |a: T, b| power_mean(0.0, a, b)),
        "jensen_shannon" => {
            columns(u, v, |a: T, b| entropic(a.clone(), b.clone()) + entropic(b, a))
        }
        "power_mean" => {
            let p = number(spec, 0, "p", Some(-1.0));
            columns(u, v, |a: T, b| power_mean(p, a, b))
        }
        other => panic!("no reference for the kernel {other}"),
    }
}

/// `Σ_j κ(u_j, v_j)`.
fn columns<T: Real>(u: &[f64], v: &[f64], term: impl Fn(T, T) -> T) -> T {
    let at = |row: &[f64], column: usize| row.get(column).copied().unwrap_or(0.0);
    (0..u.len().max(v.len()))
        .map(|column| (at(u, column), at(v, column)))
        .filter(|(a, b)| *a != 0.0 || *b != 0.0)
        .fold(T::from(0.0), |sum, (a, b)| sum + term(T::from(a), T::from(b)))
}

/// The degree of a polynomial kernel.
pub(crate) fn degree(spec: &Spec) -> u32 {
    number(spec, 0, "degree", Some(3.0)) as u32
}

/// `gamma` and `coef0` of a polynomial kernel.
pub(crate) fn affine_parameters(spec: &Spec) -> [f64; 2] {
    affine_at(spec, 1)
}

/// `gamma`, the parameter at `position`, and `coef0` behind it.
fn affine_at(spec: &Spec, position: usize) -> [f64; 2] {
    let gamma = number(spec, position, "gamma", Some(1.0));
    [gamma, number(spec, position + 1, "coef0", Some(0.0))]
}

/// `gamma u·v + coef0`, `gamma` being the parameter at `position`.
fn affine<T: Real>(spec: &Spec, position: usize, u: &[f64], v: &[f64]) -> T {
    let [gamma, coef0] = affine_at(spec, position);
    T::from(gamma) * columns(u, v, |a: T, b| a * b) + T::from(coef0)
}

/// `((a^p + b^p) / 2)^(1/p)` and its limits at `p = 0` and `-∞`; for `p <= 0` zero if either is.
///
/// With `m = ln(a b) / 2` and `d = ln(b / a) / 2` it is `exp(m + ln cosh(p d) / p)`, which is accurate however
/// small p is.
fn power_mean<T: Real>(p: f64, a: T, b: T) -> T {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if p <= 0.0 && low.is_zero() || p == f64::NEG_INFINITY {
        return low;
    }
    let half = T::from(0.5);
    if p == 1.0 {
        return (low + high) * half;
    }
    if p == -1.0 {
        return T::from(2.0) * low.clone() * high.clone() / (low + high);
    }
    if p == 0.0 {
        return (low * high).sqrt();
    }
    if low.is_zero() {
        return high * (-T::ln_2() / T::from(p)).exp();
    }
    let (low, high) = (low.ln(), high.ln());
    let (middle, distance) = ((low.clone() + high.clone()) * half.clone(), (high - low) * half);
    (middle + ln_cosh(T::from(p) * distance) / T::from(p)).exp()
}

/// `ln cosh y = ln(1 + 2 sinh²(y/2))`.
fn ln_cosh<T: Real>(y: T) -> T {
    let y = y.abs();
    if y > T::from(1e5) {
        // e^(-2e5) is far below the last digit.
        return y - T::ln_2();
    }
    let half = y * T::from(0.5);
    let sinh = (half.clone().exp_m1() - (-half).exp_m1()) * T::from(0.5);
    (T::from(2.0) * sinh.clone() * sinh).ln_1p()
}

/// `(a / 2) log2((a + b) / a)`, zero if either is zero.
fn entropic<T: Real>(a: T, b: T) -> T {
    if a.is_zero() || b.is_zero() {
        return T::from(0.0);
    }
    a.clone() * (b / a).ln_1p() / (T::from(2.0) * T::ln_2())
}

fn argument<'a>(spec: &'a Spec, position: usize, name: &str) -> Option<&'a Value> {
    spec.positional().get(position).or_else(|| spec.get(name))
}

fn number(spec: &Spec, position: usize, name: &str, default: Option<f64>) -> f64 {
    match argument(spec, position, name) {
        Some(Value::Number(number)) => *number,
        _ => default.unwrap_or_else(|| panic!("{spec} needs {name}")),
    }
}

fn parameter<T: Real>(spec: &Spec, position: usize, name: &str) -> T {
    T::from(number(spec, position, name, None))
}

fn inner(spec: &Spec) -> &Spec {
    match argument(spec, 0, "inner") {
        Some(Value::Spec(inner)) => inner,
        _ => panic!("{spec} needs an inner kernel"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Precise, generate};

    fn value(text: &str, u: &[f64], v: &[f64]) -> f64 {
        kernel_value(&text.parse().unwrap(), u, v).to_f64()
    }

    #[test]
    fn values_by_hand() {
        let (u, v) = (&[1.0, 0.0, 2.0][..], &[3.0, 5.0, 2.0][..]);
        for (text, expected) in [
            ("linear", 7.0),
            ("precomputed", 7.0),
            ("polynomial(2, gamma=0.5, coef0=1)", 4.5 * 4.5),
            ("rbf(gamma=0.5)", (-14.5f64).exp()),
            ("laplacian(0.25)", (-1.75f64).exp()),
            ("sigmoid(gamma=0.5, coef0=-3)", 0.5f64.tanh()),
            ("normalized(linear)", 7.0 / 190f64.sqrt()),
            ("intersection", 3.0),
            ("chi2", 1.5 + 2.0),
            ("exponential(chi2, gamma=1)", (-6f64).exp()),
            ("hellinger", 3f64.sqrt() + 2.0),
            ("power_mean(p=1)", 2.0 + 2.5 + 2.0),
            ("power_mean(p=-2)", 1.8f64.sqrt() + 2.0),
            ("jensen_shannon", 1.0 + 1.5 * (4.0f64 / 3.0).log2() + 2.0),
        ] {
            let found = value(text, u, v);
            assert!((found - expected).abs() < 1e-14 * expected.abs(), "{text}: {found}");
        }
    }

    /// The two arithmetics share nothing but these definitions.
    #[test]
    fn double_double_and_multiple_precision_agree() {
        let rows = generate::values(&generate::dense(6, 4, 1));
        let rows: Vec<&[f64]> = rows.chunks_exact(4).collect();
        for text in generate::kernel_specs() {
            let kernel = mercer_kernel::parse(text).unwrap();
            let spec = kernel.spec();
            for scale in [1e-200, 1e-3, 1.0, 1e3, 1e200] {
                let row = |at: usize| -> Vec<f64> {
                    let fits = |x: &f64| match kernel.domain() {
                        mercer_kernel::Domain::Real => x * scale,
                        mercer_kernel::Domain::NonNegative => x.abs() * scale,
                    };
                    rows[at].iter().map(fits).collect()
                };
                for (i, j) in [(0, 1), (2, 2), (3, 4), (5, 0)] {
                    let wide = super::kernel::<Wide>(&spec, &row(i), &row(j)).to_dd();
                    let precise = super::kernel::<Precise<256>>(&spec, &row(i), &row(j)).to_f64();
                    let found = wide.to_f64();
                    // The value itself may cancel: polynomials with a negative constant, distances.
                    let size = found.abs().max(precise.abs()).min(f64::MAX);
                    let is_close =
                        (found - precise).abs() <= 1e-15 * size + 5e-324 || found == precise;
                    assert!(is_close, "{text} at {scale}: {found:e}, {precise:e}");
                }
            }
        }
    }

    #[test]
    fn means_meet_at_equal_numbers_at_any_scale() {
        for x in [5e-324, 1e-310, 1e-150, 1.0, 1e150, 1e308] {
            for text in ["chi2", "hellinger", "jensen_shannon", "power_mean(p=-7.5)"] {
                assert_eq!(value(text, &[x], &[x]), x, "{text}");
            }
        }
    }

    #[test]
    fn expansions_add_up() {
        let supports = vec![vec![1.0, 2.0], vec![0.5, -1.0]];
        let found = expansion(&Spec::new("linear"), &supports, &[2.0, -4.0], 3.0, &[1.0, 1.0]);
        assert_eq!(found.to_f64(), 2.0 * 3.0 + 4.0 * 0.5 - 3.0);
    }
}
