//! L-BFGS with a backtracking line search, for smooth functions whose minimum is needed only roughly.

use mercer_simd::{Isa, add_row, row_dot};

/// A smooth function to be minimised.
pub(crate) trait Objective {
    /// The value at a point, and the gradient; an infinite value forbids the point.
    fn value(&self, point: &[f64], gradient: &mut [f64]) -> f64;
}

/// Pairs of steps and changes of the gradient that are remembered.
const MEMORY: usize = 8;
/// A step must gain this share of what the slope promises.
const ARMIJO: f64 = 1e-4;
/// Progress below this share of the value ends it.
const ENOUGH: f64 = 1e-7;

/// A step and what it did to the gradient.
struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    product: f64,
}

/// Minimises from a point on, in at most `iterations` steps; returns the least value and where it was found.
pub(crate) fn minimize(
    objective: &impl Objective,
    from: Vec<f64>,
    iterations: usize,
) -> (f64, Vec<f64>) {
    let mut point = from;
    let mut gradient = vec![0.0; point.len()];
    let mut value = objective.value(&point, &mut gradient);
    if !value.is_finite() {
        return (value, point);
    }
    let mut pairs: Vec<Pair> = Vec::new();
    let mut slow = 0;
    for _ in 0..iterations {
        let direction = direction(&pairs, &gradient);
        let slope = dot(&direction, &gradient);
        if slope.is_nan() || slope >= 0.0 {
            break;
        }
        // Without memory the length of the first step is a guess: a tenth of the point.
        let guess = 0.1 * (dot(&point, &point).sqrt() + 1e-6) / dot(&direction, &direction).sqrt();
        let mut length = if pairs.is_empty() { guess } else { 1.0 };
        let mut next_gradient = vec![0.0; point.len()];
        let accepted = (0..30).find_map(|_| {
            let next: Vec<f64> =
                point.iter().zip(&direction).map(|(x, s)| x + length * s).collect();
            let new = objective.value(&next, &mut next_gradient);
            if new <= value + ARMIJO * length * slope {
                return Some((next, new));
            }
            // The minimum of the parabola through what is known, unless it is too near an end.
            let bend = new - value - length * slope;
            let minimum = if bend.is_finite() { -0.5 * slope * length / bend } else { 0.4 };
            length *= minimum.clamp(0.1, 0.5);
            None
        });
        let Some((next, new)) = accepted else { break };
        let step: Vec<f64> = next.iter().zip(&point).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        let product = dot(&step, &change);
        if product > 1e-12 * dot(&change, &change).sqrt() * dot(&step, &step).sqrt() {
            if pairs.len() == MEMORY {
                pairs.remove(0);
            }
            pairs.push(Pair { step, change, product });
        }
        slow = if value - new <= ENOUGH * value.abs() { slow + 1 } else { 0 };
        (point, gradient, value) = (next, next_gradient, new);
        if slow == 2 {
            break;
        }
    }
    (value, point)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    row_dot(Isa::current(), a, b)
}

/// Two loops over the memory: minus the inverse Hessian, as far as it is known, times the gradient.
fn direction(pairs: &[Pair], gradient: &[f64]) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut factors = Vec::new();
    for pair in pairs.iter().rev() {
        let factor = dot(&pair.step, &direction) / pair.product;
        add_row(Isa::current(), -factor, &pair.change, &mut direction);
        factors.push(factor);
    }
    if let Some(last) = pairs.last() {
        let scale = last.product / dot(&last.change, &last.change);
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for (pair, factor) in pairs.iter().zip(factors.iter().rev()) {
        let back = dot(&pair.change, &direction) / pair.product;
        add_row(Isa::current(), factor - back, &pair.step, &mut direction);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rosenbrock;

    impl Objective for Rosenbrock {
        fn value(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
            let (x, y) = (point[0], point[1]);
            gradient[0] = -2.0 * (1.0 - x) - 400.0 * x * (y - x * x);
            gradient[1] = 200.0 * (y - x * x);
            (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2)
        }
    }

    #[test]
    fn the_minimum_of_a_curved_valley_is_found() {
        let (value, point) = minimize(&Rosenbrock, vec![-1.2, 1.0], 200);
        assert!(value < 1e-8, "{value} at {point:?}");
    }

    #[test]
    fn a_forbidden_start_is_left_alone() {
        struct Nowhere;
        impl Objective for Nowhere {
            fn value(&self, _: &[f64], _: &mut [f64]) -> f64 {
                f64::INFINITY
            }
        }
        assert_eq!(minimize(&Nowhere, vec![1.0], 5), (f64::INFINITY, vec![1.0]));
    }
}
