//! Least squares with a penalty that is chosen on rows left out. What the features are is the matter of the stages
//! that call it.

use mercer_kernel::cholesky::Cholesky;
use mercer_simd::gemm_nt;

/// Rows taken at a time.
const CHUNK: usize = 1024;
/// Penalties tried, relative to the mean square of a feature.
const PENALTIES: [f64; 6] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
/// Every so many rows one is left out for the choice.
const LEFT_OUT: usize = 5;

/// Products of features with features and with targets, summed over rows.
struct Moments {
    features: usize,
    outputs: usize,
    rows: usize,
    gram: Vec<f64>,
    cross: Vec<f64>,
}

impl Moments {
    fn new(features: usize, outputs: usize) -> Self {
        let (gram, cross) = (vec![0.0; features * features], vec![0.0; outputs * features]);
        Self { features, outputs, rows: 0, gram, cross }
    }

    /// Adds rows given column by column.
    fn add(&mut self, columns: &[f64], targets: &[f64], rows: usize) {
        let (features, outputs) = (self.features, self.outputs);
        let mut gram = vec![0.0; features * features];
        gemm_nt(features, features, rows, columns, columns, &mut gram);
        self.gram.iter_mut().zip(&gram).for_each(|(sum, new)| *sum += new);
        let mut cross = vec![0.0; outputs * features];
        gemm_nt(outputs, features, rows, targets, columns, &mut cross);
        self.cross.iter_mut().zip(&cross).for_each(|(sum, new)| *sum += new);
        self.rows += rows;
    }

    /// Weights of all outputs, one after the other; `None` if the system is not positive definite.
    fn solve(&self, penalty: f64) -> Option<Vec<f64>> {
        let n = self.features;
        let mean = (0..n).map(|at| self.gram[at * n + at]).sum::<f64>() / n as f64;
        let mut factor = self.gram.clone();
        (0..n).for_each(|at| factor[at * n + at] += penalty * mean.max(f64::MIN_POSITIVE));
        let factor = Cholesky::new(factor, n, &mut |_| true).ok()?;
        let mut weights = self.cross.clone();
        weights.chunks_exact_mut(n).for_each(|column| factor.solve(column));
        weights.iter().all(|weight| weight.is_finite()).then_some(weights)
    }

    /// Squared error of weights on these rows, up to a constant.
    fn error(&self, weights: &[f64]) -> f64 {
        let n = self.features;
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let of_output = |(weights_of_one, cross): (&[f64], &[f64])| {
            let square: f64 = (0..n)
                .map(|i| weights_of_one[i] * dot(&self.gram[i * n..(i + 1) * n], weights_of_one))
                .sum();
            square - 2.0 * dot(weights_of_one, cross)
        };
        weights.chunks_exact(n).zip(self.cross.chunks_exact(n)).map(of_output).sum()
    }
}

/// Weights (`features` for each output) that fit `targets` (`outputs` for each row); `fill(row, buffer)`
/// writes the features of a row. The penalty is the one that is best on every fifth row, left out.
pub(crate) fn fit(
    rows: usize,
    features: usize,
    targets: &[f64],
    fill: impl FnMut(usize, &mut [f64]),
) -> Option<Vec<f64>> {
    fit_with_error(rows, features, targets, fill).map(|(weights, _)| weights)
}

/// As [`fit`], with the squared error on the rows left out, up to a constant that depends on the targets alone.
pub(crate) fn fit_with_error(
    rows: usize,
    features: usize,
    targets: &[f64],
    mut fill: impl FnMut(usize, &mut [f64]),
) -> Option<(Vec<f64>, f64)> {
    let outputs = targets.len() / rows.max(1);
    let (mut used, mut left) = (Moments::new(features, outputs), Moments::new(features, outputs));
    let mut buffer = vec![0.0; features];
    for is_left_out in [false, true] {
        let moments = if is_left_out { &mut left } else { &mut used };
        let chosen: Vec<usize> =
            (0..rows).filter(|row| row.is_multiple_of(LEFT_OUT) == is_left_out).collect();
        for chunk in chosen.chunks(CHUNK) {
            let count = chunk.len();
            let (mut columns, mut wanted) =
                (vec![0.0; features * count], vec![0.0; outputs * count]);
            for (at, row) in chunk.iter().enumerate() {
                fill(*row, &mut buffer);
                buffer.iter().enumerate().for_each(|(f, value)| columns[f * count + at] = *value);
                let targets = &targets[row * outputs..(row + 1) * outputs];
                targets.iter().enumerate().for_each(|(k, t)| wanted[k * count + at] = *t);
            }
            moments.add(&columns, &wanted, count);
        }
    }
    let errors = PENALTIES.iter().filter_map(|penalty| {
        let error = left.error(&used.solve(*penalty)?);
        error.is_finite().then_some((*penalty, error))
    });
    let (penalty, error) = errors.min_by(|a, b| a.1.total_cmp(&b.1))?;
    used.gram.iter_mut().zip(&left.gram).for_each(|(sum, new)| *sum += new);
    used.cross.iter_mut().zip(&left.cross).for_each(|(sum, new)| *sum += new);
    used.rows += left.rows;
    used.solve(penalty).map(|weights| (weights, error))
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn two_outputs_of_a_linear_function_are_found() {
        let row = |n: usize| [1.0, (n as f64 * 0.7).sin(), (n as f64 * 1.3).cos()];
        let target = |n: usize| {
            let [one, a, b] = row(n);
            [2.0 * one - 3.0 * a + 0.5 * b, a - b]
        };
        let targets: Vec<f64> = (0..2000).flat_map(target).collect();
        let weights = fit(2000, 3, &targets, |n, out| out.copy_from_slice(&row(n))).unwrap();
        for (fitted, expected) in weights.iter().zip([2.0, -3.0, 0.5, 0.0, 1.0, -1.0]) {
            assert!((fitted - expected).abs() < 1e-4, "{weights:?}");
        }
    }
}
