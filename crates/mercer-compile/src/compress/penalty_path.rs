//! The supports that a falling penalty on coefficients keeps, for `lasso` and `primal`. The descent for one penalty is
//! [`mercer_train::SparseDescent`]; coefficients at zero penalty are the methods' task.

use mercer_kernel::factor::KernelColumns;
use mercer_train::SparseDescent;

use super::CompressionProblem;
use crate::CompileError;

/// Sweeps over all supports, at most, for one penalty.
const SWEEPS: usize = 200;
/// Penalties tried on the way to a size.
const TRIES: usize = 24;

/// A descent that can be continued with another penalty.
pub(super) struct PenaltyPath<'a> {
    problem: &'a CompressionProblem<'a>,
    descent: SparseDescent<KernelColumns>,
    /// Weight of each support in the penalty.
    weights: Vec<f64>,
}

impl<'a> PenaltyPath<'a> {
    pub(super) fn new(problem: &'a CompressionProblem<'a>, weights: Vec<f64>) -> Self {
        let columns = problem.columns(problem.supports.clone());
        let descent = SparseDescent::new(columns, problem.inner_products.clone(), weights.clone());
        Self { problem, descent, weights }
    }

    /// The length of the inner products of a support with W, all scores together.
    fn product(&self, row: usize) -> f64 {
        self.problem.inner_products.iter().map(|p| p[row] * p[row]).sum::<f64>().sqrt()
    }

    /// The largest such length: what shares of a penalty refer to.
    pub(super) fn scale(&self) -> f64 {
        (0..self.weights.len()).map(|row| self.product(row)).fold(0.0, f64::max)
    }

    /// The least penalty that keeps no support.
    pub(super) fn largest_penalty(&self) -> f64 {
        let penalty = |row: usize| self.product(row) / self.weights[row];
        (0..self.weights.len()).map(penalty).fold(0.0, f64::max)
    }

    /// Minimises with a penalty, from the current coefficients.
    pub(super) fn solve(&mut self, penalty: f64) -> Result<(), CompileError> {
        let (watch, mut interrupted) = (&self.problem.watch, None);
        self.descent.solve(penalty, SWEEPS, &mut |done, most| {
            interrupted = watch.step("sweeping over supports", done, most).err();
            interrupted.is_none()
        });
        interrupted.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Supports that are kept.
    pub(super) fn kept(&self) -> Vec<usize> {
        self.descent.kept()
    }

    /// The most supports not above `size` that a penalty keeps: penalties fall, then the interval is
    /// halved. Empty if none keeps 1 to `size`.
    pub(super) fn at_size(&mut self, size: usize) -> Result<Vec<usize>, CompileError> {
        let mut high = self.largest_penalty();
        let (mut low, mut best) = (None, Vec::new());
        for _ in 0..TRIES {
            let penalty = match low {
                Some(low) => f64::sqrt(low * high),
                None => high / 4.0,
            };
            if penalty < 1e-12 * self.scale() {
                break;
            }
            self.solve(penalty)?;
            let kept = self.kept();
            if kept.len() <= size {
                high = penalty;
                let is_enough = kept.len() == size;
                if kept.len() >= best.len() {
                    best = kept;
                }
                if is_enough {
                    break;
                }
            } else {
                low = Some(penalty);
            }
            if low.is_some_and(|low| high < 1.02 * low) {
                break;
            }
        }
        Ok(best)
    }
}
