//! Kernels with parameters of any size, nested ones among them: one arm for each entry of the registry.

use mercer_spec::{Spec, Value};
use rand::RngExt;

use super::{Draw, Scale, domain_row};
use crate::real::Real;
use crate::{Wide, reference};

/// Kernels nest at most so deep.
const DEEPEST: u32 = 3;

/// A kernel of that name for rows like these.
///
/// # Panics
/// If it is not known how to draw one: every entry of the registry must be.
pub(super) fn draw(draw: &mut Draw, name: &str, rows: &[Vec<f64>]) -> Spec {
    nested(draw, name, rows, DEEPEST)
}

fn nested(draw: &mut Draw, name: &str, rows: &[Vec<f64>], depth: u32) -> Spec {
    let row = draw.row;
    match name {
        "polynomial" => {
            let gamma = factor(draw, -2.0 * row);
            let coef0 = constant(draw, gamma.log10() + 2.0 * row);
            Spec::new(name)
                .set("degree", f64::from(draw.degree.max(1)))
                .set("gamma", gamma)
                .set("coef0", coef0)
        }
        "rbf" => Spec::new(name).set("gamma", factor(draw, -2.0 * row)),
        "laplacian" => Spec::new(name).set("gamma", factor(draw, -row)),
        "sigmoid" => {
            let gamma = factor(draw, -2.0 * row);
            let coef0 = constant(draw, gamma.log10() + 2.0 * row);
            Spec::new(name)
                .set("gamma", if draw.chance(0.3) { -gamma } else { gamma })
                .set("coef0", coef0)
        }
        "normalized" => Spec::new(name).with(semidefinite(draw, rows, depth)),
        "exponential" => {
            let inner = semidefinite(draw, rows, depth);
            let at = domain_row(&inner, rows[0].clone());
            let own = reference::kernel::<Wide>(&inner, &at, &at);
            let size = if own.is_zero() { 0.0 } else { own.log2_size() };
            let gamma = factor(draw, -size * std::f64::consts::LOG10_2);
            Spec::new(name).with(inner).set("gamma", gamma)
        }
        "power_mean" => {
            let p = exponent_of_mean(draw);
            Spec::new(name).set("p", p)
        }
        "linear" | "intersection" | "chi2" | "jensen_shannon" | "hellinger" | "precomputed" => {
            Spec::new(name)
        }
        other => panic!("say how to draw the kernel '{other}'"),
    }
}

/// Whether a value takes logarithms in every column.
pub(super) fn is_slow(spec: &Spec) -> bool {
    let inner = |value: &Value| matches!(value, Value::Spec(inner) if is_slow(inner));
    matches!(spec.name(), "jensen_shannon" | "power_mean") || spec.positional().iter().any(inner)
}

/// A kernel that may stand inside another one.
fn semidefinite(draw: &mut Draw, rows: &[Vec<f64>], depth: u32) -> Spec {
    const PLAIN: [&str; 10] = [
        "linear",
        "polynomial",
        "polynomial",
        "polynomial",
        "polynomial",
        "rbf",
        "laplacian",
        "chi2",
        "intersection",
        "jensen_shannon",
    ];
    if depth > 1 && draw.chance(0.25) {
        let name = if draw.chance(0.5) { "normalized" } else { "exponential" };
        return nested(draw, name, rows, depth - 1);
    }
    let name = PLAIN[draw.rng.random_range(0..PLAIN.len())];
    let spec = nested(draw, name, rows, depth);
    // Polynomials are semidefinite if the constant is not negative.
    match (spec.get("degree").cloned(), spec.get("gamma").cloned(), spec.get("coef0").cloned()) {
        (Some(degree), Some(gamma), Some(Value::Number(coef0))) => {
            let spec = Spec::new("polynomial").set("degree", degree).set("gamma", gamma);
            spec.set("coef0", coef0.abs())
        }
        _ => spec,
    }
}

/// A positive parameter; `natural` is the decimal exponent that undoes the size of rows.
fn factor(draw: &mut Draw, natural: f64) -> f64 {
    let natural = natural.clamp(-300.0, 300.0);
    let exponent = match draw.scale {
        Scale::Ordinary | Scale::Trained | Scale::SmallScores | Scale::LargeScores => {
            natural + draw.within(-2.0, 0.5) - (draw.columns as f64).log10()
        }
        Scale::Undone => natural + draw.within(-1.0, 1.0),
        Scale::WideRange => draw.within(-30.0, 30.0),
        Scale::HighPowers => draw.within(-0.3, 0.3),
        _ => match draw.rng.random_range(0..6) {
            0 => 0.0,
            1 => draw.within(-3.0, 3.0),
            2 => draw.within(-300.0, 300.0),
            _ => natural + draw.within(-2.0, 2.0),
        },
    };
    Draw::power(exponent)
}

/// The constant that is added to a product of decimal exponent `size`.
fn constant(draw: &mut Draw, size: f64) -> f64 {
    let constant = match draw.rng.random_range(0..6) {
        0..2 => 0.0,
        2 => 1.0,
        3 if !draw.scale.is_ordinary() => Draw::power(draw.within(-320.0, 300.0)),
        _ => Draw::power((size + draw.within(-2.0, 1.0)).clamp(-320.0, 300.0)),
    };
    if draw.chance(0.2) { -constant } else { constant }
}

/// The p of a power mean: the named ones, ordinary ones, and such that nothing but rounding is left.
fn exponent_of_mean(draw: &mut Draw) -> f64 {
    let size = match draw.rng.random_range(0..6) {
        0 => return f64::NEG_INFINITY,
        1 => return [-1.0, 0.0, 1.0, 64.0, -5e-324][draw.rng.random_range(0..5)],
        2 => draw.within(-323.0, -3.0),
        3 => draw.within(1.0, 300.0),
        _ => draw.within(-2.0, 1.5),
    };
    let p = Draw::power(size);
    if p > 64.0 || draw.chance(0.8) { -p } else { p }
}
