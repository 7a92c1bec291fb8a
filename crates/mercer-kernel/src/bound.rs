//! Rounding bounds of computed kernel values.
//!
//! Notation: `u = 2^-53`, `γ_n = n u / (1 - n u)`. A chain of `n` fused multiply-adds has
//! `|ŝ - s| <= γ_n Σ|u_j v_j| <= γ_n |u||v|`, and squared norms have relative error `γ_n`. Sums below the
//! normal range lose at most `n 2^-1074` more, which [`error`] adds.

use crate::{Form, Kernel};

/// Unit roundoff of f64.
pub const UNIT: f64 = f64::EPSILON / 2.0;

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
    let per_term = if let Form::Additive(term, _) = form { term.rounding() } else { 0.0 };
    let relative = gamma(columns as f64 + per_term + if shifted { 4.0 } else { 0.0 });
    let magnitude = magnitude(&form, uu, vv);
    let underflow = columns as f64 * f64::MIN_POSITIVE;
    let error = finish.error(relative, uu, vv, magnitude + underflow);
    if error.is_nan() { f64::INFINITY } else { error * (1.0 + 8.0 * UNIT) + underflow }
}

/// A number r such that the error is at most `r` times the bound on the value, for all rows of `columns`
/// columns, if the kernel has one.
pub fn relative_error(kernel: &dyn Kernel, columns: usize, shifted: bool) -> Option<f64> {
    let form = kernel.form();
    form.finish()?.relative_error(base_error(&form, columns, shifted))
}

/// Relative error of the base sums.
fn base_error(form: &Form<'_>, columns: usize, shifted: bool) -> f64 {
    let per_term = if let Form::Additive(term, _) = form { term.rounding() } else { 0.0 };
    gamma(columns as f64 + per_term + if shifted { 4.0 } else { 0.0 })
}

/// Bound on `|K(u, v)|` given the squared norms.
pub fn value(kernel: &dyn Kernel, uu: f64, vv: f64) -> f64 {
    let form = kernel.form();
    let Some(finish) = form.finish() else {
        return f64::INFINITY;
    };
    finish.bound(uu, vv, magnitude(&form, uu, vv))
}

/// Bound on `Σ|κ(u_j, v_j)|`, widened for the rounding of the squared norms.
fn magnitude(form: &Form<'_>, uu: f64, vv: f64) -> f64 {
    let raw = match form {
        Form::Additive(term, _) => term.magnitude(uu, vv),
        _ => uu.sqrt() * vv.sqrt(),
    };
    raw * (1.0 + 1e-6)
}
