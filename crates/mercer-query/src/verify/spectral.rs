//! The matrix of a degree-2 machine, for a fit of `spectral` and for its verification. The certificate is
//! `certify/quadratic.rs`; eigenvectors are found in `mercer_compile`.

use mercer_kernel::bound::{gamma, larger};
use mercer_kernel::{Form, Profile};
use mercer_machine::{Machine, Score, Section};

use super::forms::{self, symmetric_product};
use super::live_rows::write_live;
use super::{MeasureError, Watch, all_at_least, check_columns};
use crate::Exact;

fn unfit(reason: impl Into<String>) -> MeasureError {
    MeasureError::Unfit(reason.into())
}

/// `s²` and whether the kernel is normalised.
///
/// # Errors
/// If the kernel is not of degree 2, or its parameters are too large or too small.
pub fn degree_two(machine: &Machine) -> Result<(f64, bool), MeasureError> {
    let profile = match machine.kernel().form() {
        Form::Dot(finish) => finish.profile(),
        _ => Profile::Other,
    };
    let (scale, shift, is_normalized) = match profile {
        Profile::Power { scale, shift, degree: 2 } => (scale, shift, false),
        Profile::NormalizedPower { scale, shift, degree: 2 } => (scale, shift, true),
        _ => {
            let kernel = machine.kernel().spec();
            return Err(unfit(format!("{kernel} is not a polynomial of degree 2")));
        }
    };
    if shift < 0.0 {
        return Err(unfit("its constant coef0 is negative"));
    }
    if !(1e-60..=1e60).contains(&scale) {
        return Err(unfit(format!("gamma {scale:e} lies outside 1e-60 to 1e60")));
    }
    Ok((shift / scale, is_normalized))
}

/// The matrix A of one score as computed, and how far it may be from the exact one.
///
/// An entry is a sum of `m` products `β z_a z_b`, one of each `z` possibly `s`, which carries two
/// roundings: at most `m + 8` roundings in all, the mean of the two triangles included. So
/// `||ΔA||_F <= γ_(m+8) Σ|β_i| g_i`. Normalised kernels divide by a `g_i` of `columns` terms, which adds
/// `columns + 4` roundings, and `Σ|β_i|` remains. What underflows is at most `2^-1074 (1 + |z_b|)` a term.
#[derive(Debug)]
pub struct QuadraticMatrix {
    /// Rows: the live columns and the constant one.
    pub size: usize,
    /// Row after row.
    pub entries: Vec<f64>,
    /// Bound on the Frobenius norm of its error.
    pub error: f64,
}

impl QuadraticMatrix {
    /// The matrix of a score of a machine of degree 2.
    ///
    /// # Errors
    /// If the score is linear, or its numbers are too large or too small.
    pub fn of(exact: &Exact, score: &Score) -> Result<Self, MeasureError> {
        let (machine, live) = (exact.machine(), exact.packed().live());
        let (constant, is_normalized) = degree_two(machine)?;
        let Score::Expansion { supports, coefficients, .. } = score else {
            return Err(unfit("a linear score is one product already"));
        };
        let (rows, size) = (supports.len(), live.len() + 1);
        let root = constant.sqrt();
        // Both factors column by column: the product runs over supports.
        let (mut left, mut right) = (vec![0.0; rows * size], vec![0.0; rows * size]);
        let mut buffer = vec![0.0; live.len()];
        let (mut weight, mut longest) = (0.0, 0.0f64);
        for (row, (support, beta)) in supports.iter().zip(coefficients).enumerate() {
            write_live(machine.supports().row(*support as usize), live, &mut buffer);
            let values = buffer.iter().copied().chain([root]);
            let g = buffer.iter().map(|z| z * z).sum::<f64>() + constant;
            longest = larger(longest, g);
            if g < 1e-200 && buffer.iter().any(|z| *z != 0.0) {
                return Err(unfit("a support is so short that its square underflows"));
            }
            let factor = match is_normalized {
                true if g > 0.0 => beta / g,
                true => 0.0,
                false => *beta,
            };
            weight += if is_normalized { beta.abs() } else { beta.abs() * g };
            for (column, value) in values.enumerate() {
                left[column * rows + row] = value;
                right[column * rows + row] = factor * value;
            }
        }
        let is_sane = |value: f64| value == 0.0 || (1e-100..=1e100).contains(&value);
        if !is_sane(longest) || !is_sane(weight) {
            return Err(unfit("its supports or coefficients lie outside the scales 1e-50 to 1e50"));
        }
        let entries = symmetric_product(size, rows, &left, &right);
        let terms = rows as f64 + 8.0 + if is_normalized { size as f64 + 8.0 } else { 0.0 };
        let underflow = (rows * size) as f64 * f64::MIN_POSITIVE * (1.0 + longest.sqrt());
        let error = gamma(terms) * weight * (1.0 + 1e-9) + underflow;
        Ok(Self { size, entries, error })
    }
}

/// Verifies residual and defect of each score.
pub(crate) fn verify(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    check_columns(exact)?;
    let scores = exact.machine().scores();
    let damaged = || unfit("its arrays do not fit each other");
    let array = |name: &str| section.f64s(name).ok_or_else(damaged);
    let counts = section.u32s("counts").ok_or_else(damaged)?;
    let (mut values, mut vectors) = (array("values")?, array("vectors")?);
    let errors = array("errors")?.chunks_exact(2);
    for (number, ((score, count), errors)) in scores.iter().zip(counts).zip(errors).enumerate() {
        watch.step("measuring quadratic forms", number, scores.len())?;
        let matrix = QuadraticMatrix::of(exact, score)?;
        let count = *count as usize;
        let own_values = values.split_off(..count).ok_or_else(damaged)?;
        let own_vectors = vectors.split_off(..count * matrix.size).ok_or_else(damaged)?;
        let defect = forms::defect(own_vectors, matrix.size);
        all_at_least("errors (defect)", &errors[1..], &[defect.proved()])?;
        let residual = forms::residual(&matrix.entries, matrix.error, own_values, own_vectors);
        all_at_least("errors (residual)", &errors[..1], &[residual.proved()])?;
    }
    Ok(())
}

/// Multiply-adds of a verification.
pub(crate) fn work(section: &Section, exact: &Exact) -> f64 {
    let size = exact.packed().live_columns() as f64 + 1.0;
    let counts = section.u32s("counts").unwrap_or_default();
    let form = |(score, count): (&Score, &u32)| {
        let rows = match score {
            Score::Expansion { supports, .. } => supports.len() as f64,
            _ => 0.0,
        };
        size * size * (rows + f64::from(*count)) + f64::from(*count).powi(2) * size
    };
    exact.machine().scores().iter().zip(counts).map(form).sum()
}
