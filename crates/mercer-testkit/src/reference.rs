//! Kernels written once more, from their mathematical definitions, slowly and at any scale.
//!
//! Nothing here shares code with the kernels under test but the parser of their texts.

use mercer_spec::{Spec, Value};

use crate::{Dd, Wide};

/// `K(u, v)` of the kernel that `spec` names; the shorter row is continued with zeros.
///
/// # Panics
/// If the text names no kernel known here or lacks a parameter without default.
pub fn kernel_value(spec: &Spec, u: &[f64], v: &[f64]) -> Dd {
    kernel_wide(spec, u, v).to_dd()
}

/// `f(x) = Σ β_i K(z_i, x) − b`.
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
    supports
        .iter()
        .zip(coefficients)
        .map(|(support, beta)| Wide::from(*beta) * kernel_wide(spec, support, x))
        .fold(-Wide::from(offset), |sum, term| sum + term)
        .to_dd()
}

/// [`kernel_value`] before it is squeezed into the range of f64.
///
/// # Panics
/// As [`kernel_value`].
pub fn kernel_wide(spec: &Spec, u: &[f64], v: &[f64]) -> Wide {
    let two = Wide::from(2.0);
    match spec.name() {
        "linear" | "precomputed" => columns(u, v, |a, b| a * b),
        "polynomial" => {
            let degree = number(spec, 0, "degree", Some(3.0)) as u32;
            affine(spec, 1, u, v).powi(degree)
        }
        "sigmoid" => affine(spec, 0, u, v).tanh(),
        "rbf" => {
            let distance = columns(u, v, |a, b| (a - b) * (a - b));
            (-(parameter(spec, 0, "gamma") * distance)).exp()
        }
        "laplacian" => {
            let distance = columns(u, v, |a, b| (a - b).abs());
            (-(parameter(spec, 0, "gamma") * distance)).exp()
        }
        "normalized" => {
            let inner = inner(spec);
            let norms = kernel_wide(inner, u, u) * kernel_wide(inner, v, v);
            if norms.is_zero() { Wide::ZERO } else { kernel_wide(inner, u, v) / norms.sqrt() }
        }
        "exponential" => {
            let inner = inner(spec);
            let own = kernel_wide(inner, u, u) + kernel_wide(inner, v, v);
            let distance = own - two * kernel_wide(inner, u, v);
            (-(parameter(spec, 1, "gamma") * distance)).exp()
        }
        "intersection" => columns(u, v, |a, b| if a < b { a } else { b }),
        "chi2" => columns(u, v, |a, b| power_mean(-1.0, a, b)),
        "hellinger" => columns(u, v, |a, b| power_mean(0.0, a, b)),
        "jensen_shannon" => columns(u, v, |a, b| entropic(a, b) + entropic(b, a)),
        "power_mean" => {
            let p = number(spec, 0, "p", Some(-1.0));
            columns(u, v, |a, b| power_mean(p, a, b))
        }
        other => panic!("no reference for the kernel {other}"),
    }
}

/// `Σ_j κ(u_j, v_j)`.
fn columns(u: &[f64], v: &[f64], term: impl Fn(Wide, Wide) -> Wide) -> Wide {
    let at = |row: &[f64], column: usize| Wide::from(row.get(column).copied().unwrap_or(0.0));
    (0..u.len().max(v.len()))
        .map(|column| (at(u, column), at(v, column)))
        .filter(|(a, b)| !(a.is_zero() && b.is_zero()))
        .fold(Wide::ZERO, |sum, (a, b)| sum + term(a, b))
}

/// `gamma u·v + coef0`, `gamma` being the parameter at `position`.
fn affine(spec: &Spec, position: usize, u: &[f64], v: &[f64]) -> Wide {
    let gamma = number(spec, position, "gamma", Some(1.0));
    let coef0 = number(spec, position + 1, "coef0", Some(0.0));
    Wide::from(gamma) * columns(u, v, |a, b| a * b) + Wide::from(coef0)
}

/// `((a^p + b^p) / 2)^(1/p)` and its limits at `p = 0` and `±∞`; for `p <= 0` zero if either is.
fn power_mean(p: f64, a: Wide, b: Wide) -> Wide {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if p <= 0.0 && low.is_zero() || p == f64::NEG_INFINITY {
        return low;
    }
    if p == 0.0 {
        return (a * b).sqrt();
    }
    let power = |x: Wide| match p {
        _ if x.is_zero() => Wide::ZERO,
        -1.0 => Wide::ONE / x,
        1.0 => x,
        _ => x.powf(p),
    };
    let mean = (power(low) + power(high)) / Wide::from(2.0);
    match p {
        -1.0 => Wide::ONE / mean,
        1.0 => mean,
        _ => (mean.ln() / Wide::from(p)).exp(),
    }
}

/// `(a / 2) log2((a + b) / a)`, zero if either is zero.
fn entropic(a: Wide, b: Wide) -> Wide {
    if a.is_zero() || b.is_zero() {
        return Wide::ZERO;
    }
    a * (b / a).ln_1p() / (Wide::from(2.0) * Wide::from(Dd::LN_2))
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

fn parameter(spec: &Spec, position: usize, name: &str) -> Wide {
    Wide::from(number(spec, position, name, None))
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
