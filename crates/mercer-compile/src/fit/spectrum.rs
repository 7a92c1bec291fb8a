//! Eigenvectors of a symmetric matrix, and how far they may be from it, as `mercer_query`'s `verify/forms.rs` measures it.

use mercer_kernel::eigen::symmetric;
use mercer_query::verify::forms::{defect, residual};

/// Eigenvalues below this share of the largest are left to the residual.
const DROP: f64 = 1e-14;

/// Eigenvalues, the largest in size first, and their vectors.
#[derive(Debug)]
pub(super) struct Spectrum {
    pub values: Vec<f64>,
    /// Row by row.
    pub vectors: Vec<f64>,
    /// `>= ||A - E'ΛE||_F`.
    pub residual: f64,
    /// `>= ||EE' - I||_F`, at most 0.01.
    pub defect: f64,
}

impl Spectrum {
    /// Eigenvectors of a matrix of `n` rows that is off by at most `error`, with bounds on their defects; see
    /// `mercer_query`'s quadratic certificate. Nothing is assumed of the decomposition: `A - E'ΛE` and
    /// `EE' - I` are measured.
    pub(super) fn of(entries: &[f64], n: usize, error: f64) -> Result<Self, &'static str> {
        let eigenpairs = symmetric(entries.to_vec(), n);
        let (values, vectors) = eigenpairs.ok_or("its eigenvalues could not be found")?;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()));
        let largest = order.first().map_or(0.0, |first| values[*first].abs());
        order.retain(|j| values[*j].abs() > DROP * largest);
        let values: Vec<f64> = order.iter().map(|j| values[*j]).collect();
        let rows = order.iter().map(|j| &vectors[j * n..(j + 1) * n]);
        let vectors: Vec<f64> = rows.flatten().copied().collect();
        let defect = defect(&vectors, n).stored();
        let residual = residual(entries, error, &values, &vectors).stored();
        if !residual.is_finite() || defect.is_nan() || defect > 0.01 {
            return Err("its eigenvectors are not accurate enough");
        }
        Ok(Self { values, vectors, residual, defect })
    }
}
