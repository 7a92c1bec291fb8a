//! Properties of every kernel, on any rows of its domain.

use mercer_data::{Matrix, Row};
use mercer_kernel::{Curve, Form, KernelRef, bound, parse};

use crate::generate::{map, row};
use crate::{Dd, reference};

/// Whether a property holds, or where it does not.
pub type Verdict = Result<(), String>;

/// What [`accuracy`] measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Accuracy {
    /// Pairs compared.
    pub pairs: usize,
    /// Pairs for which the kernel claims nothing: the bound is infinite.
    pub unbounded: usize,
    /// Largest error as a share of its bound.
    pub worst: f64,
}

impl Accuracy {
    /// Both counts together.
    pub fn join(self, other: Self) -> Self {
        Self {
            pairs: self.pairs + other.pairs,
            unbounded: self.unbounded + other.unbounded,
            worst: self.worst.max(other.worst),
        }
    }
}

/// `K(u, v)` and `K(v, u)` have the same bits and are numbers.
///
/// NaN is forgiven only where the kernel says that it knows nothing of its error.
pub fn symmetry(kernel: &KernelRef, rows: &Matrix) -> Verdict {
    for (i, j) in pairs(rows.rows()) {
        let (u, v) = (rows.row(i), rows.row(j));
        let (forth, back) = (kernel.value(u, v), kernel.value(v, u));
        let excused = || error_bound(kernel, u, v, rows.columns(), false) == f64::INFINITY;
        if forth.to_bits() != back.to_bits() || forth.is_nan() && !excused() {
            return Err(broken(kernel, rows, i, j, &[forth, back], "asymmetric"));
        }
    }
    Ok(())
}

/// Dense and sparse rows give the same bits, in all four combinations.
pub fn storage(kernel: &KernelRef, rows: &Matrix) -> Verdict {
    let (dense, sparse) = (rows.to_dense(), rows.to_sparse());
    for (i, j) in pairs(rows.rows()) {
        let found = [
            kernel.value(dense.row(i), dense.row(j)),
            kernel.value(dense.row(i), sparse.row(j)),
            kernel.value(sparse.row(i), dense.row(j)),
            kernel.value(sparse.row(i), sparse.row(j)),
        ];
        if found.iter().any(|value| !same(*value, found[0])) {
            let what = "dense·dense, dense·sparse, sparse·dense, sparse·sparse differ";
            return Err(broken(kernel, rows, i, j, &found, what));
        }
    }
    Ok(())
}

/// The printed text builds the same kernel: same text, same bits.
pub fn round_trip(kernel: &KernelRef, rows: &Matrix) -> Verdict {
    let text = kernel.spec().to_string();
    let again = parse(&text).map_err(|error| format!("{text}: {error}"))?;
    if again.spec() != kernel.spec() {
        return Err(format!("{text} builds {}", again.spec()));
    }
    for (i, j) in pairs(rows.rows()) {
        let (u, v) = (rows.row(i), rows.row(j));
        let found = [kernel.value(u, v), again.value(u, v)];
        if !same(found[0], found[1]) {
            return Err(broken(kernel, rows, i, j, &found, "changed by printing"));
        }
    }
    Ok(())
}

/// Values lie within `bound::error` of the double-double reference and within `bound::value`.
///
/// With a centre, the kernel sees the rounded differences `u - c` and `v - c`, and the reference the rows.
pub fn accuracy(
    kernel: &KernelRef,
    rows: &Matrix,
    centre: Option<&[f64]>,
) -> Result<Accuracy, String> {
    let spec = kernel.spec();
    let seen = centre.map_or_else(|| rows.clone(), |centre| centred(rows, centre));
    let mut summary = Accuracy::default();
    for (i, j) in pairs(rows.rows()) {
        let (u, v) = (seen.row(i), seen.row(j));
        let found = kernel.value(u, v);
        let truth = reference::kernel_value(&spec, &row(rows, i), &row(rows, j));
        let error = error_bound(kernel, u, v, rows.columns(), centre.is_some());
        summary.pairs += 1;
        if error == f64::INFINITY {
            summary.unbounded += 1;
            continue;
        }
        let gap = (Dd::from(found) - truth).abs().hi;
        let is_within = gap <= error;
        if !is_within {
            let what = "value, reference, gap and bound on it";
            let numbers = [found, truth.hi, gap, error];
            return Err(broken(kernel, rows, i, j, &numbers, what));
        }
        if gap > 0.0 {
            summary.worst = summary.worst.max(gap / error);
        }
        let (uu, vv) = (kernel.form().base(u, u), kernel.form().base(v, v));
        let most = bound::value(kernel.as_ref(), uu, vv);
        if !(found.abs() <= most && truth.abs() <= Dd::from(most)) {
            let what = "value, reference and bound on them";
            let numbers = [found, truth.hi, most];
            return Err(broken(kernel, rows, i, j, &numbers, what));
        }
    }
    Ok(summary)
}

/// Between two supports no error bound is larger than the larger of theirs, so that those of the longest
/// and of the shortest support serve all.
pub fn bounds_peak_at_the_ends(kernel: &KernelRef, columns: usize) -> Verdict {
    let ladder: Vec<f64> = (-320..=308).step_by(4).map(|e| 10f64.powi(e)).collect();
    for uu in [0.0, 1e-310, 1e-200, 1e-3, 1.0, 1e4, 1e100, 1e300] {
        let error = |vv: &f64| bound::error(kernel.as_ref(), columns, uu, *vv, false);
        let errors: Vec<f64> = ladder.iter().map(error).collect();
        for at in 1..errors.len() - 1 {
            let least = |errors: &[f64]| errors.iter().copied().fold(f64::INFINITY, f64::min);
            let ends = least(&errors[..at]).max(least(&errors[at + 1..]));
            if errors[at] > ends {
                let (spec, vv, error) = (kernel.spec(), ladder[at], errors[at]);
                return Err(format!("{spec}: {error:e} at {uu:e}, {vv:e}, but {ends:e} beside"));
            }
        }
    }
    Ok(())
}

/// Where a scalar kernel claims a shape, it has it, up to the rounding it states.
pub fn curves(kernel: &KernelRef) -> Verdict {
    let Form::Additive(term, _) = kernel.form() else { return Ok(()) };
    if term.curve() == Curve::Unknown {
        return Ok(());
    }
    let ladder: Vec<f64> = (-30..=30).map(|e| 1.7f64.powi(e)).collect();
    let slack = (term.rounding() + 16.0) * bound::UNIT;
    for s in &ladder {
        for three in ladder.windows(3) {
            let [a, b, c] = [three[0], three[1], three[2]];
            let [low, middle, high] = [a, b, c].map(|t| term.term(*s, t));
            let chord = low + (high - low) * ((b - a) / (c - a));
            let falls = high < middle - slack * middle || middle < low - slack * low;
            let sags = middle < chord - slack * high;
            // A straight line up to s and constant beyond.
            let expected = if b <= *s { low * (b / a) } else { term.term(*s, *s) };
            let bends = term.curve() == Curve::Kinked && (middle - expected).abs() > slack * middle;
            if falls || sags || bends || term.term(*s, 0.0) != 0.0 {
                let spec = kernel.spec();
                return Err(format!("{spec}: not the curve it claims to be at {s:e}, {b:e}"));
            }
        }
    }
    Ok(())
}

/// Where the kernel claims to be semidefinite, no eigenvalue of the Gram matrix lies below `-n e`, `e`
/// being the largest error bound of its entries: `‖E‖₂ <= n max|E_ij|` (Weyl).
///
/// `G + n e I` is factorised in double-double; that succeeds only if it is positive definite. Nothing is
/// claimed, and nothing checked, where a value overflows or has no bound.
pub fn semidefinite(kernel: &KernelRef, rows: &Matrix) -> Verdict {
    if !kernel.is_positive_semidefinite() {
        return Ok(());
    }
    let n = rows.rows();
    let (mut gram, mut error) = (vec![Dd::ZERO; n * n], 0.0f64);
    for (i, j) in pairs(n) {
        let (u, v) = (rows.row(i), rows.row(j));
        gram[i * n + j] = Dd::from(kernel.value(u, v));
        gram[j * n + i] = gram[i * n + j];
        error = error.max(error_bound(kernel, u, v, rows.columns(), false));
    }
    let largest = gram.iter().fold(0.0f64, |most, value| most.max(value.hi.abs()));
    if !error.is_finite() || gram.iter().any(|value| !value.is_finite()) || largest == 0.0 {
        return Ok(());
    }
    // 1e-25: the factorisation itself is right to n 2^-104 of the largest entry.
    let shift = Dd::from(n as f64 * error) + Dd::from(largest) * Dd::from(n as f64 * 1e-25);
    match negative_pivot(&mut gram, n, shift) {
        None => Ok(()),
        Some((row, pivot)) => Err(format!(
            "{}: the Gram matrix of {n} rows is not semidefinite: pivot {pivot:e} in row {row} after \
             adding {:e}",
            kernel.spec(),
            shift.hi
        )),
    }
}

/// `bound::error` from the rows.
pub fn error_bound(
    kernel: &KernelRef,
    u: Row<'_>,
    v: Row<'_>,
    columns: usize,
    shifted: bool,
) -> f64 {
    let (uu, vv) = (kernel.form().base(u, u), kernel.form().base(v, v));
    bound::error(kernel.as_ref(), columns, uu, vv, shifted)
}

/// Rows minus a centre, column by column; columns beyond the centre stay.
///
/// # Panics
/// If a difference overflows.
pub fn centred(rows: &Matrix, centre: &[f64]) -> Matrix {
    let columns = rows.columns();
    let mut values = crate::generate::values(rows);
    for row in values.chunks_exact_mut(columns.max(1)) {
        for (value, shift) in row.iter_mut().zip(centre) {
            *value -= shift;
        }
    }
    let centred = Matrix::dense(columns, values).expect("differences are finite");
    if rows.is_sparse() { centred.to_sparse() } else { centred }
}

/// The mean row, zeros included.
pub fn mean(rows: &Matrix) -> Vec<f64> {
    let count = rows.rows().max(1) as f64;
    let mut sum = vec![0.0; rows.columns()];
    // Divided first: the sum of huge rows may overflow.
    let shares = map(rows, |x| x / count);
    for share in shares.iter() {
        for (column, value) in share.nonzeros() {
            sum[column as usize] += value;
        }
    }
    sum
}

/// Factorises `gram + shift I` by Cholesky's method in place; the first pivot that is not positive.
fn negative_pivot(gram: &mut [Dd], n: usize, shift: Dd) -> Option<(usize, f64)> {
    for i in 0..n {
        for j in 0..=i {
            let mut rest = gram[i * n + j];
            if i == j {
                rest = rest + shift;
            }
            for k in 0..j {
                rest = rest - gram[i * n + k] * gram[j * n + k];
            }
            if i > j {
                gram[i * n + j] = rest / gram[j * n + j];
            } else if rest > Dd::ZERO {
                gram[i * n + i] = rest.sqrt();
            } else {
                return Some((i, rest.hi));
            }
        }
    }
    None
}

/// Pairs `i <= j`.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i..n).map(move |j| (i, j)))
}

/// Same bits, all NaN being one.
pub(super) fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn broken(
    kernel: &KernelRef,
    rows: &Matrix,
    i: usize,
    j: usize,
    numbers: &[f64],
    what: &str,
) -> String {
    let (u, v) = (row(rows, i), row(rows, j));
    format!("{}: {what}: {numbers:?} for rows {i} = {u:?} and {j} = {v:?}", kernel.spec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::dense;

    #[test]
    fn indefinite_matrices_are_found_out() {
        let mut gram = [1.0, 2.0, 2.0, 1.0].map(Dd::from);
        assert!(negative_pivot(&mut gram.clone(), 2, Dd::from(0.99)).is_some());
        assert!(negative_pivot(&mut gram, 2, Dd::from(1.01)).is_none());
    }

    #[test]
    fn means_centre_rows() {
        let rows = dense(7, 3, 1);
        let centred = centred(&rows, &mean(&rows));
        assert!(mean(&centred).iter().all(|x| x.abs() < 1e-15));
    }
}
