//! `min ½ |W - Σ g_i Φ_i|² + λ Σ w_i |g_i|` by coordinate descent, for `lasso` and `primal`.
//!
//! With several scores `g_i` is a list, one number for each, and `|g_i|` its length, so that a support is
//! left out of all scores or of none.

use mercer_kernel::factor::{GramColumns, KernelColumns};

use super::CompressionProblem;
use crate::CompileError;

/// Sweeps over all supports, at most, for one penalty.
const SWEEPS: usize = 200;
/// A sweep that changes nothing by more than this share of the penalty ends the descent.
const CONVERGED: f64 = 1e-3;
/// Penalties tried on the way to a size.
const TRIES: usize = 24;

/// A descent that can be continued with another penalty.
pub(super) struct CoordinateDescent<'a> {
    problem: &'a CompressionProblem<'a>,
    columns: KernelColumns,
    /// Weight of each support in the penalty.
    weights: Vec<f64>,
    /// Coefficients, and the inner products with the residual `W - W~`, score after score.
    g: Vec<Vec<f64>>,
    residual: Vec<Vec<f64>>,
    column: Vec<f64>,
}

impl<'a> CoordinateDescent<'a> {
    pub(super) fn new(problem: &'a CompressionProblem<'a>, weights: Vec<f64>) -> Self {
        let columns = problem.columns(problem.supports.clone());
        let (count, scores) = (problem.len(), problem.betas.len());
        let g = vec![vec![0.0; count]; scores];
        let (residual, column) = (problem.inner_products.clone(), vec![0.0; count]);
        Self { problem, columns, weights, g, residual, column }
    }

    /// The least penalty at which only supports without a penalty are kept.
    pub(super) fn largest_penalty(&self) -> f64 {
        let size = |row: usize| {
            let squares: f64 = self.problem.inner_products.iter().map(|p| p[row] * p[row]).sum();
            if self.weights[row] > 0.0 { squares.sqrt() / self.weights[row] } else { 0.0 }
        };
        (0..self.problem.len()).map(size).fold(0.0, f64::max)
    }

    /// Number of supports without a penalty.
    pub(super) fn free(&self) -> usize {
        self.weights.iter().filter(|weight| **weight == 0.0).count()
    }

    /// Minimises with a penalty, from the current coefficients.
    pub(super) fn solve(&mut self, penalty: f64) -> Result<(), CompileError> {
        let all: Vec<usize> = (0..self.problem.len()).collect();
        let mut done = 0;
        while done < SWEEPS {
            self.problem.watch.step("sweeping over supports", done, SWEEPS)?;
            let change = self.sweep(&all, penalty);
            done += 1;
            if change <= CONVERGED * penalty {
                break;
            }
            let active: Vec<usize> = all.iter().copied().filter(|row| self.is_kept(*row)).collect();
            while done < SWEEPS {
                done += 1;
                if self.sweep(&active, penalty) <= CONVERGED * penalty {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One pass; returns the largest change of an inner product with itself.
    fn sweep(&mut self, rows: &[usize], penalty: f64) -> f64 {
        let mut most = 0.0f64;
        for row in rows.iter().copied() {
            let diagonal = self.columns.diagonal()[row];
            if diagonal.is_nan() || diagonal <= 0.0 {
                continue;
            }
            let pairs = self.g.iter().zip(&self.residual);
            let minimum: Vec<f64> =
                pairs.map(|(g, residual)| g[row] + residual[row] / diagonal).collect();
            let length = minimum.iter().map(|v| v * v).sum::<f64>().sqrt();
            let limit = penalty * self.weights[row] / diagonal;
            let share = if length > limit { 1.0 - limit / length } else { 0.0 };
            let change: Vec<f64> =
                minimum.iter().zip(&self.g).map(|(v, g)| share * v - g[row]).collect();
            if change.iter().all(|x| *x == 0.0) {
                continue;
            }
            self.columns.column(row, &mut self.column);
            for ((g, residual), change) in self.g.iter_mut().zip(&mut self.residual).zip(&change) {
                g[row] += change;
                residual.iter_mut().zip(&self.column).for_each(|(place, k)| *place -= change * k);
            }
            most = most.max(change.iter().map(|x| x * x).sum::<f64>().sqrt() * diagonal);
        }
        most
    }

    fn is_kept(&self, row: usize) -> bool {
        self.g.iter().any(|g| g[row] != 0.0)
    }

    /// Supports that are kept.
    pub(super) fn kept(&self) -> Vec<usize> {
        (0..self.problem.len()).filter(|row| self.is_kept(*row)).collect()
    }

    /// The most supports not above `size` that a penalty keeps: penalties fall, then the interval is
    /// halved.
    pub(super) fn at_size(&mut self, size: usize) -> Result<Vec<usize>, CompileError> {
        let mut high = self.largest_penalty();
        let (mut low, mut best) = (None, Vec::new());
        for _ in 0..TRIES {
            let penalty = match low {
                Some(low) => f64::sqrt(low * high),
                None => high / 4.0,
            };
            if penalty < 1e-12 * self.largest_penalty() {
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
