//! Eigenvectors of a symmetric matrix, and how far they may be from it.

use mercer_kernel::bound::gamma;
use mercer_kernel::eigen::symmetric;
use mercer_simd::gemm_nt;

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

/// The mean of a product over `rows` and its transpose; both factors have `size` rows.
pub(super) fn symmetric_product(size: usize, rows: usize, left: &[f64], right: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; size * size];
    gemm_nt(size, size, rows, left, right, &mut product);
    let mut entries = product.clone();
    for a in 0..size {
        for b in 0..size {
            entries[a * size + b] = 0.5 * product[a * size + b] + 0.5 * product[b * size + a];
        }
    }
    entries
}

impl Spectrum {
    /// Eigenvectors of a matrix of `n` rows that is off by at most `error`, with bounds on their defects; see
    /// `mercer_query`'s quadratic certificate. Nothing is assumed of the decomposition: `A - E'ΛE` and
    /// `EE' - I` are computed, and the rounding of that is bounded, by `γ_(r+4) Σ|λ_j||e_j|²` and by
    /// `γ_(n+2) r` (each `|e_j|` being below 1.005).
    pub(super) fn of(entries: &[f64], n: usize, error: f64) -> Result<Self, &'static str> {
        let eigenpairs = symmetric(entries.to_vec(), n);
        let (values, vectors) = eigenpairs.ok_or("its eigenvalues could not be found")?;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()));
        let largest = order.first().map_or(0.0, |first| values[*first].abs());
        order.retain(|j| values[*j].abs() > DROP * largest);
        let rank = order.len();
        let values: Vec<f64> = order.iter().map(|j| values[*j]).collect();
        let rows = order.iter().map(|j| &vectors[j * n..(j + 1) * n]);
        let vectors: Vec<f64> = rows.flatten().copied().collect();
        let mut gram = vec![0.0; rank * rank];
        gemm_nt(rank, rank, n, &vectors, &vectors, &mut gram);
        (0..rank).for_each(|j| gram[j * rank + j] -= 1.0);
        let defect = frobenius(&gram) + 1.02 * gamma(n as f64 + 4.0) * rank as f64;
        let (mut left, mut right) = (vec![0.0; n * rank], vec![0.0; n * rank]);
        for j in 0..rank {
            for a in 0..n {
                left[a * rank + j] = vectors[j * n + a];
                right[a * rank + j] = values[j] * vectors[j * n + a];
            }
        }
        let mut rest = vec![0.0; n * n];
        gemm_nt(n, n, rank, &left, &right, &mut rest);
        for (rest, entry) in rest.iter_mut().zip(entries) {
            *rest = entry - *rest;
        }
        let sizes: f64 = values.iter().map(|value| value.abs()).sum();
        let rounding = 1.02 * gamma(rank as f64 + 6.0) * sizes;
        let underflow = (n * (rank + 4)) as f64 * f64::MIN_POSITIVE;
        let residual = (frobenius(&rest) + rounding + error) * (1.0 + 1e-9) + underflow;
        if !residual.is_finite() || defect.is_nan() || defect > 0.01 {
            return Err("its eigenvectors are not accurate enough");
        }
        Ok(Self { values, vectors, residual, defect })
    }
}

/// `||M||_F`, rounded up: fewer than 1e7 terms.
fn frobenius(matrix: &[f64]) -> f64 {
    let largest = matrix.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    // Scaled, so that small entries do not vanish when squared.
    let sum: f64 = matrix.iter().map(|x| (x / largest) * (x / largest)).sum();
    sum.sqrt() * largest * (1.0 + 1e-8)
}
