//! Platt's sigmoid as LIBSVM fits it: Newton's method with backtracking (Lin, Lin and Weng, 2007). Its stopping rule and
//! start are LIBSVM's, so that the numbers of a model are.

/// Iterations at most.
const ITERATIONS: usize = 100;
/// The smallest step of the line search.
const LEAST_STEP: f64 = 1e-10;
/// Added to the diagonal of the Hessian.
const RIDGE: f64 = 1e-12;
/// Gradients below this end it.
const ENOUGH: f64 = 1e-5;

/// A and B of `1 / (1 + exp(A f + B))` for decision values f with their classes, `true` for the first.
pub(crate) fn fit(values: &[f64], is_first: &[bool]) -> (f64, f64) {
    let first = is_first.iter().filter(|one| **one).count() as f64;
    let second = is_first.len() as f64 - first;
    let (high, low) = ((first + 1.0) / (first + 2.0), 1.0 / (second + 2.0));
    let targets: Vec<f64> = is_first.iter().map(|one| if *one { high } else { low }).collect();
    let points = || values.iter().copied().zip(targets.iter().copied());
    let loss = |a: f64, b: f64| -> f64 {
        let term = |(value, target): (f64, f64)| {
            let z = value * a + b;
            if z >= 0.0 {
                target * z + (1.0 + (-z).exp()).ln()
            } else {
                (target - 1.0) * z + (1.0 + z.exp()).ln()
            }
        };
        points().map(term).sum()
    };
    let (mut a, mut b) = (0.0, ((second + 1.0) / (first + 1.0)).ln());
    let mut best = loss(a, b);
    for _ in 0..ITERATIONS {
        let (mut h11, mut h22, mut h21) = (RIDGE, RIDGE, 0.0);
        let (mut g1, mut g2) = (0.0, 0.0);
        for (value, target) in points() {
            let z = value * a + b;
            let (p, q) = if z >= 0.0 {
                let e = (-z).exp();
                (e / (1.0 + e), 1.0 / (1.0 + e))
            } else {
                let e = z.exp();
                (1.0 / (1.0 + e), e / (1.0 + e))
            };
            let weight = p * q;
            h11 += value * value * weight;
            h22 += weight;
            h21 += value * weight;
            let error = target - p;
            g1 += value * error;
            g2 += error;
        }
        if g1.abs() < ENOUGH && g2.abs() < ENOUGH {
            break;
        }
        let determinant = h11 * h22 - h21 * h21;
        let da = -(h22 * g1 - h21 * g2) / determinant;
        let db = -(-h21 * g1 + h11 * g2) / determinant;
        let slope = g1 * da + g2 * db;
        let mut step = 1.0;
        while step >= LEAST_STEP {
            let (new_a, new_b) = (a + step * da, b + step * db);
            let new = loss(new_a, new_b);
            if new < best + 0.0001 * step * slope {
                (a, b, best) = (new_a, new_b, new);
                break;
            }
            step /= 2.0;
        }
        if step < LEAST_STEP {
            crate::print::info("Line search fails in two-class probability estimates\n");
            break;
        }
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_sigmoid_falls_with_the_value_and_is_half_between_equal_classes() {
        let values: Vec<f64> = (-50..=50).map(|at| f64::from(at) / 10.0).collect();
        let is_first: Vec<bool> =
            values.iter().map(|value| *value > 0.05 || *value == -3.0).collect();
        let (a, b) = fit(&values, &is_first);
        assert!(a < 0.0 && b.abs() < 0.5, "{a} {b}");
    }
}
