//! Proves that a symmetric matrix is positive semidefinite, by a Cholesky factorisation in f64. What the matrix means is
//! up to the caller.

use mercer_kernel::bound::{gamma, larger};
use mercer_kernel::cholesky::{Cholesky, CholeskyError};

use super::{Interrupted, Watch};

/// Whether every symmetric matrix whose distance from this one (in the spectral norm) is at most `error` is positive
/// semidefinite; `false` where that could not be proved. The lower triangle counts.
///
/// If the factorisation of a matrix S runs to its end, `R'R = S + Δ` with `|Δ| <= γ_(n+1) |R'||R|` entry by entry (Higham,
/// *Accuracy and Stability of Numerical Algorithms*, theorem 10.3, sums in any order), and
/// `|| |R'||R| ||_2 <= ||R||_F² <= tr(S) / (1 - γ_(n+1))`. So no eigenvalue of S lies below `-c tr(S)`,
/// `c = γ_(n+1) / (1 - γ_(n+1))`. S is the matrix less `error + c tr` on the diagonal, and a little more for the rounding
/// of that. All numbers are scaled by a power of two so that the largest is about 1, which is exact but for what falls below 1e-290.
pub(super) fn is_semidefinite(
    mut matrix: Vec<f64>,
    size: usize,
    error: f64,
    watch: &Watch<'_>,
) -> Result<bool, Interrupted> {
    let mut largest = error;
    for value in &matrix {
        if !value.is_finite() {
            return Ok(false);
        }
        largest = larger(largest, value.abs());
    }
    if !(error >= 0.0 && largest < 1e300) {
        return Ok(false);
    }
    if largest == 0.0 {
        return Ok(true);
    }
    let scale = f64::from_bits((2045 - (largest.to_bits() >> 52)) << 52);
    matrix.iter_mut().for_each(|value| *value *= scale);
    let trace: f64 = (0..size).map(|at| matrix[at * size + at]).sum();
    let rounding = gamma(size as f64 + 16.0);
    let shift = (error * scale + 1.01 * rounding * trace.abs()) * (1.0 + 1e-12) + 1e-270;
    if !shift.is_finite() || rounding.is_nan() || rounding > 0.01 {
        return Ok(false);
    }
    (0..size).for_each(|at| matrix[at * size + at] -= shift);
    let mut go_on = |done: usize| watch.step("factoring a difference", done, size).is_ok();
    match Cholesky::new(matrix, size, &mut go_on) {
        Ok(_) => Ok(true),
        Err(CholeskyError::NotPositiveDefinite(_)) => Ok(false),
        Err(CholeskyError::Cancelled) => Err(Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proves(matrix: &[f64], size: usize, error: f64) -> bool {
        is_semidefinite(matrix.to_vec(), size, error, &Watch::NOBODY).unwrap()
    }

    #[test]
    fn definite_matrices_are_proved_at_every_scale_and_others_never() {
        for scale in [1e-300, 1e-200, 1e-30, 1.0, 3e12, 1e200] {
            let definite = [2.0, 1.0, 0.0, 1.0, 2.0, -1.0, 0.0, -1.0, 2.0].map(|x| x * scale);
            assert!(proves(&definite, 3, 0.0), "{scale}");
            // Its smallest eigenvalue is 2 - √2.
            assert!(proves(&definite, 3, 0.58 * scale));
            assert!(!proves(&definite, 3, 0.59 * scale));
            let indefinite = [1.0, 1.01, 1.01, 1.0].map(|x| x * scale);
            assert!(!proves(&indefinite, 2, 0.0), "{scale}");
            // The zero of a singular matrix cannot be told from a small negative number.
            assert!(!proves(&[scale, scale, scale, scale], 2, 0.0));
        }
    }

    #[test]
    fn zero_is_semidefinite_and_its_error_must_be_covered() {
        assert!(proves(&[0.0; 4], 2, 0.0));
        assert!(!proves(&[0.0; 4], 2, 1e-300));
        assert!(proves(&[3e-300, 0.0, 0.0, 3e-300], 2, 1e-300));
    }

    #[test]
    fn what_is_not_a_number_proves_nothing() {
        assert!(!proves(&[1.0, f64::NAN, f64::NAN, 1.0], 2, 0.0));
        assert!(!proves(&[f64::INFINITY], 1, 0.0));
        assert!(!proves(&[1.0], 1, f64::NAN));
        assert!(!proves(&[1.0], 1, -1.0));
        assert!(!proves(&[1.0], 1, f64::INFINITY));
    }
}
