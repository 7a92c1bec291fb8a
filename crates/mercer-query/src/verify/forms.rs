//! Symmetric matrices and their decompositions: how far one is from the other, with the rounding of that measurement. How a
//! decomposition is found is in `mercer_compile`.

use mercer_kernel::bound::{gamma, largest};
use mercer_simd::gemm_nt;

/// A size as computed, and how far it may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// What was computed.
    pub value: f64,
    /// Bound on its rounding error.
    pub error: f64,
}

impl Measured {
    /// At least the true size.
    pub fn proved(self) -> f64 {
        (self.value + self.error) * (1.0 + 1e-9)
    }

    /// What a fit stores: two measurements differ by at most twice the error, so that a second one, on whatever
    /// processor, proves no more than this.
    pub fn stored(self) -> f64 {
        (self.value + 3.0 * self.error) * (1.0 + 4e-9)
    }
}

/// The mean of a product over `rows` and its transpose; both factors have `size` rows.
pub fn symmetric_product(size: usize, rows: usize, left: &[f64], right: &[f64]) -> Vec<f64> {
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

/// `||EE' - I||_F` of the rows of E, `columns` numbers each: off by at most `γ_(n+4) r`, each `|e_j|` being below 1.005
/// wherever the defect is at most 0.01.
pub fn defect(vectors: &[f64], columns: usize) -> Measured {
    let rank = vectors.len() / usize::max(columns, 1);
    let mut gram = vec![0.0; rank * rank];
    gemm_nt(rank, rank, columns, vectors, vectors, &mut gram);
    (0..rank).for_each(|j| gram[j * rank + j] -= 1.0);
    let error = 1.02 * gamma(columns as f64 + 4.0) * rank as f64;
    Measured { value: frobenius(&gram), error }
}

/// `||A - E'ΛE||_F` for a matrix of `n` rows that is off by at most `error`. Rounding adds `γ_(r+6) Σ|λ_j||e_j|²`, the defect
/// of E being at most 0.01.
pub fn residual(entries: &[f64], error: f64, values: &[f64], vectors: &[f64]) -> Measured {
    let rank = values.len();
    let n = entries.len().isqrt();
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
    Measured { value: frobenius(&rest), error: rounding + error + underflow }
}

/// `||M||_F`, rounded up: fewer than 1e7 terms. No number if an entry is none.
pub fn frobenius(matrix: &[f64]) -> f64 {
    if matrix.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    let largest = largest(matrix.iter().map(|value| value.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    // Scaled, so that small entries do not vanish when squared.
    let sum: f64 = matrix.iter().map(|x| (x / largest) * (x / largest)).sum();
    sum.sqrt() * largest * (1.0 + 1e-8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_norm_of_what_is_no_number_is_none() {
        assert!(frobenius(&[f64::NAN, f64::NAN]).is_nan());
        assert!(frobenius(&[1.0, f64::NAN]).is_nan());
        assert!(frobenius(&[1.0, f64::INFINITY]).is_infinite());
        assert!((frobenius(&[3e-200, 4e-200]) / 5e-200 - 1.0).abs() < 1e-7);
    }

    #[test]
    fn a_decomposition_is_measured_as_far_as_it_is_off() {
        // diag(2, 1) with its own vectors, then with one value wrong.
        let (entries, vectors) = ([2.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]);
        assert!(residual(&entries, 0.0, &[2.0, 1.0], &vectors).proved() < 1e-14);
        assert!(residual(&entries, 0.0, &[2.0, 0.5], &vectors).value >= 0.5);
        assert!(defect(&vectors, 2).proved() < 1e-14);
        assert!(defect(&[1.0, 0.1, 0.0, 1.0], 2).value > 0.1);
    }
}
