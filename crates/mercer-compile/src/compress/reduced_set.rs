//! A reduced set: vectors with the coefficients that approximate a machine best. Which vectors these are is decided by
//! the method.

use mercer_data::Matrix;
use mercer_kernel::factor::{Compensated, Factor, Given, GramColumns};
use mercer_machine::{Machine, Score};

use super::{CompressionProblem, unfit};
use crate::CompileError;

/// Vectors that approximate a machine.
#[derive(Debug, Clone)]
pub struct ReducedSet {
    /// The vectors.
    pub rows: Matrix,
    /// Their coefficients, score after score.
    pub coefficients: Vec<Vec<f64>>,
    /// b of each score.
    pub offsets: Vec<f64>,
}

impl ReducedSet {
    /// The machine of these vectors.
    ///
    /// # Errors
    /// If the numbers are not finite.
    pub fn machine(&self, original: &Machine) -> Result<Machine, CompileError> {
        let pairs = self.coefficients.iter().zip(&self.offsets);
        let scores = pairs.map(|(beta, offset)| Score::expansion(beta, *offset)).collect();
        let (kernel, output) = (original.kernel().clone(), original.output().clone());
        Machine::new(kernel, self.rows.clone(), scores, output)
            .map_err(|error| unfit("compress", error.to_string()))
    }
}

/// A vector whose distance from the span of those before it is this share of its length adds nothing.
const DEPENDENT: f64 = 1e-13;
/// Vectors whose kernel columns are computed together.
const AHEAD: usize = 32;

/// The best coefficients of given vectors: the projection of W onto their span. Vectors that depend on
/// those before them are left out.
///
/// `g = K_ZZ^-1 K_ZS β` by a Cholesky factor and one refinement, so that `W - W~` is orthogonal to every
/// vector as far as f64 allows.
pub(crate) fn fit_coefficients(
    problem: &CompressionProblem<'_>,
    rows: &Matrix,
) -> Result<ReducedSet, CompileError> {
    let products = problem.inner_products_with(rows)?;
    let columns = problem.columns(rows.clone());
    let mut factor = Factor::new(columns, DEPENDENT).with_prefetch(AHEAD);
    let mut interrupted = None;
    factor.grow(&mut Given::new(0..rows.rows()), rows.rows(), &mut |factor| {
        let at = factor.rank();
        if at.is_multiple_of(64) {
            let goes_on = problem.watch.step("fitting coefficients", at, rows.rows());
            interrupted = goes_on.err().map(CompileError::from);
        }
        interrupted.is_none()
    });
    if let Some(error) = interrupted {
        return Err(error);
    }
    let kept: Vec<usize> = factor.pivots().iter().filter_map(|pivot| pivot.row).collect();
    let right_sides: Vec<Vec<f64>> =
        products.iter().map(|products| kept.iter().map(|row| products[*row]).collect()).collect();
    let mut coefficients: Vec<Vec<f64>> = right_sides.iter().map(|c| factor.solve(c)).collect();
    let mut column = vec![0.0; rows.rows()];
    let mut residuals: Vec<Vec<Compensated>> = right_sides
        .iter()
        .map(|c| c.iter().map(|value| Compensated::from(*value)).collect())
        .collect();
    for (at, row) in kept.iter().enumerate() {
        factor.columns().column(*row, &mut column);
        for (residual, g) in residuals.iter_mut().zip(&coefficients) {
            for (place, other) in residual.iter_mut().zip(&kept) {
                place.subtract_product(g[at], column[*other]);
            }
        }
    }
    for (g, residual) in coefficients.iter_mut().zip(&residuals) {
        let rest: Vec<f64> = residual.iter().map(Compensated::value).collect();
        let change = factor.solve(&rest);
        if change.iter().all(|x| x.is_finite()) {
            g.iter_mut().zip(change).for_each(|(g, x)| *g += x);
        }
    }
    let offsets = problem.machine.scores().iter().map(Score::offset).collect();
    Ok(ReducedSet { rows: rows.select(kept), coefficients, offsets })
}
