//! Steps in the dual of linear machines, for rows in blocks: what one block does on its own between two sums of weights.
//! Additive machines are linear in encoded rows ([`encode_rows`]). The solver for all rows in one process is in `linear/`.

use mercer_data::{Matrix, MatrixBuilder, Row};
use mercer_machine::Bins;

/// Settings of [`dual_step`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DualStepOptions {
    /// Passes over the rows of the block.
    pub passes: u32,
    /// The order of the rows depends on it.
    pub seed: u64,
    /// Value of the constant column, whose weight is the last one; 0 for none.
    pub constant: f64,
}

/// What a block changes: all coefficients moved with the weights of the block's own copy.
#[derive(Debug, Clone, PartialEq)]
pub struct DualStep {
    /// Change of the coefficient α of each row.
    pub alpha_changes: Vec<f64>,
    /// `Σ y Δα x` of the rows of the block, the constant column last.
    pub weight_changes: Vec<f64>,
    /// `Σ Δα`.
    pub alpha_sum: f64,
    /// `Σ c max(0, 1 - y w·x)` at the weights that were given.
    pub loss: f64,
}

/// Dual coordinate descent (\[HCLKS08\] algorithm 3, hinge loss) on one block of
/// `min ½|w|² + Σ c max(0, 1 - y w·x)`, with `w = Σ y α x` and `0 <= α <= c`, all other blocks fixed.
///
/// `costs` holds c of each row, `weights` w with the weight of the constant column last. Changes of several blocks that
/// were made side by side are added after they are multiplied by [`common_step`].
///
/// # Panics
/// If lengths do not fit.
///
/// ```
/// use mercer_data::Matrix;
/// use mercer_train::{DualStepOptions, common_step, dual_step};
/// let rows = Matrix::dense(1, vec![1.0, -1.0]).unwrap();
/// let options = DualStepOptions { passes: 5, seed: 1, constant: 0.0 };
/// let step = dual_step(&rows, &[1.0, -1.0], &[1.0; 2], &[0.0; 2], &[0.0, 0.0], &options);
/// assert!((step.weight_changes[0] - 1.0).abs() < 1e-12);
/// assert_eq!(step.loss, 2.0);
/// assert_eq!(common_step(&[0.0, 0.0], &step.weight_changes, step.alpha_sum), 1.0);
/// ```
pub fn dual_step(
    rows: &Matrix,
    targets: &[f64],
    costs: &[f64],
    alpha: &[f64],
    weights: &[f64],
    options: &DualStepOptions,
) -> DualStep {
    let count = rows.rows();
    assert_eq!([targets.len(), costs.len(), alpha.len()], [count; 3], "one of each for each row");
    assert_eq!(weights.len(), rows.columns() + 1, "one weight for each column and the constant");
    let constant = options.constant;
    let score = |weights: &[f64], row: Row<'_>| {
        let sum: f64 = row.nonzeros().map(|(column, x)| x * weights[column as usize]).sum();
        sum + constant * weights[weights.len() - 1]
    };
    let curves: Vec<f64> = rows
        .iter()
        .map(|row| row.nonzeros().map(|(_, x)| x * x).sum::<f64>() + constant * constant)
        .collect();
    let loss =
        |row: usize| costs[row] * (1.0 - targets[row] * score(weights, rows.row(row))).max(0.0);
    let loss = (0..count).map(loss).sum();
    let (mut own, mut now) = (weights.to_vec(), alpha.to_vec());
    for pass in 0..options.passes {
        for row in order(count, options.seed.wrapping_add(u64::from(pass))) {
            if curves[row] == 0.0 {
                continue;
            }
            let gradient = targets[row] * score(&own, rows.row(row)) - 1.0;
            let moved = (now[row] - gradient / curves[row]).clamp(0.0, costs[row]);
            let change = targets[row] * (moved - now[row]);
            if change != 0.0 {
                now[row] = moved;
                for (column, x) in rows.row(row).nonzeros() {
                    own[column as usize] += change * x;
                }
                *own.last_mut().expect("the constant has a weight") += change * constant;
            }
        }
    }
    let alpha_changes: Vec<f64> = now.iter().zip(alpha).map(|(new, old)| new - old).collect();
    let weight_changes = own.iter().zip(weights).map(|(new, old)| new - old).collect();
    let alpha_sum = alpha_changes.iter().sum();
    DualStep { alpha_changes, weight_changes, alpha_sum, loss }
}

/// The step between 0 and 1 along summed changes that raises the dual most: `(Σ Δα - w·Δw) / |Δw|²`.
///
/// With it blocks may move as if they were alone; the dual never falls.
pub fn common_step(weights: &[f64], weight_changes: &[f64], alpha_sum: f64) -> f64 {
    let product: f64 = weights.iter().zip(weight_changes).map(|(w, change)| w * change).sum();
    let curvature: f64 = weight_changes.iter().map(|change| change * change).sum();
    let slope = alpha_sum - product;
    if slope <= 0.0 {
        0.0
    } else if slope >= curvature {
        1.0
    } else {
        slope / curvature
    }
}

/// Rows of an additive machine as rows of a linear one: the encoding of each value's bin, column after column.
pub fn encode_rows(rows: &Matrix, bins: &Bins) -> Matrix {
    let rank = bins.rank();
    let mut builder = MatrixBuilder::with_capacity(rows.rows(), rows.nonzeros() * rank);
    for row in rows.iter() {
        for (column, value) in row.nonzeros() {
            let bin = bins.bin(column as usize, value);
            let encoding = &bins.encoding()[bin * rank..(bin + 1) * rank];
            for (place, number) in encoding.iter().enumerate().filter(|(_, number)| **number != 0.0)
            {
                builder.push(column * rank as u32 + place as u32, f64::from(*number));
            }
        }
        builder.end_row();
    }
    builder.finish(rows.columns() * rank)
}

/// The rows in an order that depends on the seed alone.
fn order(count: usize, seed: u64) -> Vec<usize> {
    let key = |row: usize| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(row as u64);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ (state >> 31)
    };
    let mut rows: Vec<usize> = (0..count).collect();
    rows.sort_by_cached_key(|row| (key(*row), *row));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> (Matrix, Vec<f64>) {
        let value = |at: usize| ((at * 37 + 11) % 101) as f64 / 50.0 - 1.0;
        let rows: Vec<f64> = (0..600).map(value).collect();
        let target = |row: &[f64]| if row[0] + 0.3 * row[1] > 0.1 { 1.0 } else { -1.0 };
        let targets = rows.chunks(2).map(target).collect();
        (Matrix::dense(2, rows).unwrap(), targets)
    }

    /// Steps of three blocks, added with the common step: the duality gap closes, and the dual never falls.
    #[test]
    fn blocks_that_step_side_by_side_reach_the_optimum() {
        let (rows, targets) = data();
        let costs = vec![2.0; 300];
        let (mut alpha, mut weights) = (vec![0.0; 300], vec![0.0; 3]);
        let mut last = 0.0;
        let mut gaps = Vec::new();
        for round in 0..60 {
            let options = DualStepOptions { passes: 2, seed: round, constant: 1.0 };
            let (mut changes, mut moved) = (Vec::new(), vec![0.0; 3]);
            let (mut sum, mut loss) = (0.0, 0.0);
            for cut in [0..50, 50..220, 220..300] {
                let block = rows.select(cut.clone());
                let part = |values: &[f64]| values[cut.clone()].to_vec();
                let (y, c, a) = (part(&targets), part(&costs), part(&alpha));
                let step = dual_step(&block, &y, &c, &a, &weights, &options);
                changes.extend(step.alpha_changes);
                moved.iter_mut().zip(step.weight_changes).for_each(|(sum, by)| *sum += by);
                sum += step.alpha_sum;
                loss += step.loss;
            }
            let norm: f64 = weights.iter().map(|w| w * w).sum();
            let dual = alpha.iter().sum::<f64>() - 0.5 * norm;
            assert!(dual >= last - 1e-9, "{dual} after {last}");
            last = dual;
            gaps.push((0.5 * norm + loss - dual) / (0.5 * norm + loss));
            let step = common_step(&weights, &moved, sum);
            alpha.iter_mut().zip(&changes).for_each(|(a, by)| *a += step * by);
            weights.iter_mut().zip(&moved).for_each(|(w, by)| *w += step * by);
        }
        assert!(gaps[59] < 1e-3, "{gaps:?}");
        assert!(alpha.iter().all(|a| (0.0..=2.0).contains(a)));
    }

    #[test]
    fn encoded_rows_have_the_scalar_products_of_the_bins() {
        let spacing = mercer_machine::Spacing::Power { top: 4.0, exponent: 1 };
        // Steps: bin b has b ones, so that products are minima of bins.
        let encoding = (0..5).flat_map(|bin| (0..4).map(move |at| f32::from(u8::from(at < bin))));
        let bins = Bins::new(spacing, 4, encoding.collect()).unwrap();
        let rows = Matrix::dense(2, vec![1.0, 3.0, 4.0, 2.0, 0.0, 1.0]).unwrap();
        let encoded = encode_rows(&rows, &bins);
        let product = |a: usize, b: usize| -> f64 {
            (0..8).map(|at| encoded.row(a).get(at) * encoded.row(b).get(at)).sum()
        };
        assert_eq!([product(0, 1), product(0, 2), product(1, 1)], [3.0, 1.0, 6.0]);
    }
}
