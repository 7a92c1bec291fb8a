//! Kernels of products as functions of a point that moves: values and gradients, and triangular systems.

use mercer_kernel::eigen::dot;
use mercer_kernel::{Form, Profile};
use mercer_machine::Machine;
use mercer_simd::{Isa, add_row};

/// How the kernel follows from products; `Other` where it has no derivative here.
pub(crate) fn profile(machine: &Machine) -> Profile {
    match machine.kernel().form() {
        Form::Dot(finish) | Form::Shift(finish) => finish.profile(),
        _ => Profile::Other,
    }
}

/// `K(u, z)` and its gradient in `z`, `across u + along z`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelGradient {
    pub value: f64,
    pub across: f64,
    pub along: f64,
}

pub(crate) fn kernel_gradient(
    profile: Profile,
    product: f64,
    square: f64,
    own_square: f64,
) -> KernelGradient {
    match profile {
        Profile::Gaussian { gamma } => {
            let value = mercer_simd::gaussian1(product, own_square, square, gamma);
            KernelGradient { value, across: 2.0 * gamma * value, along: -2.0 * gamma * value }
        }
        Profile::Power { scale, shift, degree } => {
            let inside = scale * product + shift;
            let lower = mercer_simd::powi1(inside, degree - 1);
            KernelGradient {
                value: lower * inside,
                across: f64::from(degree) * scale * lower,
                along: 0.0,
            }
        }
        Profile::NormalizedPower { scale, shift, degree } => {
            let (p, length) = (f64::from(degree), scale * own_square + shift);
            let norm = mercer_simd::powi1((scale * square + shift) * length, degree).sqrt();
            if norm.is_nan() || norm <= 0.0 {
                return KernelGradient { value: 0.0, across: 0.0, along: 0.0 };
            }
            let inside = scale * product + shift;
            let lower = mercer_simd::powi1(inside, degree - 1) / norm;
            let value = lower * inside;
            KernelGradient { value, across: p * scale * lower, along: -p * scale / length * value }
        }
        Profile::Sigmoid { scale, shift } => {
            let value = mercer_simd::tanh1(scale * product + shift);
            KernelGradient { value, across: scale * (1.0 - value * value), along: 0.0 }
        }
        Profile::Identity | Profile::Other => {
            KernelGradient { value: product, across: 1.0, along: 0.0 }
        }
    }
}

/// `K(z, z)` and its gradient `along z`.
pub(crate) fn self_gradient(profile: Profile, own_square: f64) -> KernelGradient {
    match profile {
        Profile::Gaussian { .. } | Profile::NormalizedPower { .. } => {
            KernelGradient { value: 1.0, across: 0.0, along: 0.0 }
        }
        other => {
            let gradient = kernel_gradient(other, own_square, own_square, own_square);
            KernelGradient { value: gradient.value, across: 0.0, along: 2.0 * gradient.across }
        }
    }
}

/// Rows of the inverse of a lower triangular matrix.
pub(crate) fn inverted(factor: &[&[f64]]) -> Vec<Vec<f64>> {
    let mut inverse: Vec<Vec<f64>> = Vec::with_capacity(factor.len());
    for (i, row) in factor.iter().enumerate() {
        let mut out = vec![0.0; i + 1];
        out[i] = 1.0;
        for (l, before) in row[..i].iter().zip(&inverse) {
            add_row(Isa::current(), -l, before, &mut out[..before.len()]);
        }
        out.iter_mut().for_each(|place| *place /= row[i]);
        inverse.push(out);
    }
    inverse
}

/// Solves `L y = values`.
pub(crate) fn forwards(factor: &[Vec<f64>], values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut y: Vec<f64> = Vec::with_capacity(factor.len());
    for (row, value) in factor.iter().zip(values) {
        let before = dot(&row[..row.len() - 1], &y);
        y.push((value - before) / row[row.len() - 1]);
    }
    y
}

/// Solves `L' a = w`.
pub(crate) fn backwards(factor: &[Vec<f64>], w: &[f64]) -> Vec<f64> {
    let mut a = w.to_vec();
    for k in (0..factor.len()).rev() {
        a[k] /= factor[k][k];
        let value = a[k];
        for (place, l) in a[..k].iter_mut().zip(&factor[k]) {
            *place -= l * value;
        }
    }
    a
}
