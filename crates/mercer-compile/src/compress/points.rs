use mercer_data::Matrix;
use mercer_kernel::factor::{Compensated, Factor, Given, GramColumns};
use mercer_machine::{Machine, Score};

use super::{Teacher, unfit};
use crate::CompileError;
use crate::kernel_gradient::{backwards, forwards};

/// Vectors that stand for a machine.
#[derive(Debug, Clone)]
pub struct Points {
    /// The vectors.
    pub rows: Matrix,
    /// Their coefficients, score after score.
    pub coefficients: Vec<Vec<f64>>,
    /// b of each score.
    pub offsets: Vec<f64>,
}

impl Points {
    /// The machine of these vectors.
    ///
    /// # Errors
    /// If the numbers are not finite.
    pub fn machine(&self, teacher: &Machine) -> Result<Machine, CompileError> {
        let pairs = self.coefficients.iter().zip(&self.offsets);
        let scores = pairs.map(|(beta, offset)| Score::expansion(beta, *offset)).collect();
        let (kernel, output) = (teacher.kernel().clone(), teacher.output().clone());
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
/// vector as far as doubles allow.
pub(crate) fn fitted(teacher: &Teacher<'_>, rows: &Matrix) -> Result<Points, CompileError> {
    let products = teacher.products_with(rows)?;
    let columns = teacher.columns(rows.clone());
    let mut factor = Factor::new(columns, DEPENDENT).with_prefetch(AHEAD);
    let mut ended = None;
    factor.grow(&mut Given::new(0..rows.rows()), rows.rows(), &mut |factor| {
        let at = factor.rank();
        if at.is_multiple_of(64) {
            ended = teacher.watch.step("fitting coefficients", at, rows.rows()).err();
        }
        ended.is_none()
    });
    if let Some(error) = ended {
        return Err(error);
    }
    let kept: Vec<usize> = factor.pivots().iter().filter_map(|pivot| pivot.row).collect();
    let triangle: Vec<Vec<f64>> =
        factor.pivots().iter().map(|pivot| pivot.coordinates.clone()).collect();
    let solve = |right: &[f64]| backwards(&triangle, &forwards(&triangle, right.iter().copied()));
    let wanted: Vec<Vec<f64>> =
        products.iter().map(|products| kept.iter().map(|row| products[*row]).collect()).collect();
    let mut coefficients: Vec<Vec<f64>> = wanted.iter().map(|c| solve(c)).collect();
    let mut column = vec![0.0; rows.rows()];
    let mut left: Vec<Vec<Compensated>> =
        wanted.iter().map(|c| c.iter().map(|value| Compensated::from(*value)).collect()).collect();
    for (at, row) in kept.iter().enumerate() {
        factor.columns().column(*row, &mut column);
        for (left, own) in left.iter_mut().zip(&coefficients) {
            for (place, other) in left.iter_mut().zip(&kept) {
                place.subtract_product(own[at], column[*other]);
            }
        }
    }
    for (own, left) in coefficients.iter_mut().zip(&left) {
        let rest: Vec<f64> = left.iter().map(Compensated::value).collect();
        let change = solve(&rest);
        if change.iter().all(|x| x.is_finite()) {
            own.iter_mut().zip(change).for_each(|(g, x)| *g += x);
        }
    }
    let offsets = teacher.machine.scores().iter().map(Score::offset).collect();
    Ok(Points { rows: rows.select(kept), coefficients, offsets })
}
