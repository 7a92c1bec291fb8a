//! Loss, gradient and Hessian of a machine on landmarks, block by block: what one pass over the rows of Newton's method
//! needs. The step itself is the caller's; the low-rank solver of one process is in `low_rank/`.

use mercer_data::{Matrix, Row};
use mercer_kernel::KernelRef;
use mercer_kernel::block::{BLOCK, Packed};
use mercer_simd::Isa;

/// Sums over rows of the squared hinge `½ Σ c max(0, 1 - y f(x))²` with `f(x) = Σ_j w_j K(x, z_j) + b` over landmarks z.
///
/// The parameters are w, then b; the Hessian is that of the generalised Newton method (rows inside the margin count).
/// Sums of blocks are added by [`LandmarkSums::merge`]: the last bits depend on how rows were cut into blocks and on
/// the order of merging.
#[derive(Debug, Clone, PartialEq)]
pub struct LandmarkSums {
    /// The loss.
    pub loss: f64,
    /// Its gradient.
    pub gradient: Vec<f64>,
    /// Its Hessian, row-major; the lower triangle is filled as well.
    pub hessian: Vec<f64>,
}

impl LandmarkSums {
    /// Sums without rows, for so many landmarks.
    pub fn empty(landmarks: usize) -> Self {
        let size = landmarks + 1;
        Self { loss: 0.0, gradient: vec![0.0; size], hessian: vec![0.0; size * size] }
    }

    /// Adds the sums of another block.
    ///
    /// # Panics
    /// If the numbers of landmarks differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.gradient.len(), other.gradient.len(), "the same landmarks");
        self.loss += other.loss;
        let add = |sums: &mut [f64], terms: &[f64]| {
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        };
        add(&mut self.gradient, &other.gradient);
        add(&mut self.hessian, &other.hessian);
    }

    fn add_row(&mut self, values: &[f64], target: f64, cost: f64, weights: &[f64]) {
        let size = self.gradient.len();
        let products = values.iter().zip(weights).map(|(value, weight)| value * weight);
        let slack = 1.0 - target * (products.sum::<f64>() + weights[size - 1]);
        if slack <= 0.0 {
            return;
        }
        self.loss += 0.5 * cost * slack * slack;
        let feature = |at: usize| if at + 1 == size { 1.0 } else { values[at] };
        for row in 0..size {
            self.gradient[row] -= cost * target * slack * feature(row);
            let scaled = cost * feature(row);
            let out = &mut self.hessian[row * size..][..size];
            out[..size - 1].iter_mut().zip(values).for_each(|(sum, value)| *sum += scaled * value);
            out[size - 1] += scaled;
        }
    }
}

/// Landmarks, packed once for many blocks of rows.
#[derive(Debug)]
pub struct Landmarks {
    packed: Packed,
}

impl Landmarks {
    /// Packs the landmarks.
    pub fn new(kernel: &KernelRef, landmarks: &Matrix) -> Self {
        Self { packed: Packed::new(kernel.clone(), landmarks, None) }
    }

    /// Number of landmarks.
    pub fn count(&self) -> usize {
        self.packed.rows()
    }

    /// Loss, gradient and Hessian of a block of rows at the parameters `weights` (w, then b).
    ///
    /// # Panics
    /// If there is not one target (+1 or -1) and one cost for each row, or one weight for each landmark and b.
    pub fn sums(
        &self,
        rows: &Matrix,
        targets: &[f64],
        costs: &[f64],
        weights: &[f64],
    ) -> LandmarkSums {
        let lengths = (targets.len(), costs.len(), weights.len());
        let expected = (rows.rows(), rows.rows(), self.count() + 1);
        assert_eq!(lengths, expected, "targets, costs and weights fit");
        let (isa, count) = (Isa::current(), self.count());
        let (mut queries, mut scratch) = (self.packed.queries(), Vec::new());
        let mut sums = LandmarkSums::empty(count);
        for first in (0..rows.rows()).step_by(BLOCK) {
            let range = first..(first + BLOCK).min(rows.rows());
            let block: Vec<Row<'_>> = range.clone().map(|row| rows.row(row)).collect();
            let mut values = vec![0.0; block.len() * count];
            self.packed.load(isa, block.iter().copied(), &mut queries);
            self.packed.visit(isa, &queries, block.iter().copied(), &mut scratch, |tile| {
                for query in tile.queries.clone() {
                    values[query * count..][tile.rows.clone()].copy_from_slice(tile.of(query));
                }
            });
            for (row, values) in range.zip(values.chunks(count.max(1))) {
                sums.add_row(values, targets[row], costs[row], weights);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a point where no slack is near zero the loss is a quadratic: differences give gradient and Hessian.
    #[test]
    fn gradient_and_hessian_are_those_of_the_loss() {
        let kernel = mercer_kernel::parse("rbf(gamma=0.5)").unwrap();
        let rows =
            Matrix::dense(2, (0..600).map(|at| f64::from(at * 37 % 101) / 50.0 - 1.0).collect());
        let rows = rows.unwrap();
        let targets: Vec<f64> = (0..300).map(|row| if row % 5 < 2 { 1.0 } else { -1.0 }).collect();
        let costs: Vec<f64> = (0..300).map(|row| 1.0 + f64::from(row % 3)).collect();
        let landmarks = Landmarks::new(&kernel, &rows.select([3, 50, 120]));
        // |f| is at most 0.3: every row is inside the margin.
        let weights = [0.1, -0.05, 0.05, 0.1];
        let at = |weights: &[f64]| landmarks.sums(&rows, &targets, &costs, weights);
        let here = at(&weights);
        let step = 1e-3;
        for place in 0..4 {
            let moved = |by: f64| {
                let mut weights = weights;
                weights[place] += by;
                at(&weights)
            };
            let (after, before) = (moved(step), moved(-step));
            // Central differences of a quadratic are exact: what is left is rounding of a loss of about 1e3.
            let slope = (after.loss - before.loss) / (2.0 * step);
            assert!((slope - here.gradient[place]).abs() < 1e-7, "{slope} {:?}", here.gradient);
            for other in 0..4 {
                let slope = (after.gradient[other] - before.gradient[other]) / (2.0 * step);
                let expected = here.hessian[place * 4 + other];
                assert!((slope - expected).abs() < 1e-7, "{slope} {expected}");
            }
        }
        let mut merged = LandmarkSums::empty(3);
        for cut in [0..7, 7..290, 290..300] {
            let block = rows.select(cut.clone());
            merged.merge(&landmarks.sums(&block, &targets[cut.clone()], &costs[cut], &weights));
        }
        assert!((merged.loss - here.loss).abs() <= 1e-10 * here.loss);
        assert!((merged.hessian[5] - here.hessian[5]).abs() <= 1e-10 * here.hessian[5]);
    }
}
