//! The second-order expansion of a Gaussian machine around the mean of its supports, for a fit of `taylor` and for its
//! verification. The certificate is `certify/taylor.rs`, whose notation this is; eigenvectors are found in `mercer_compile`.
//!
//! # Verification
//!
//! A file keeps some eigenvectors in f32, and the certificate speaks of eigenvectors `e_j` that were rounded to these. Here
//! the rows `ê_j` of the file are taken as they are: then nothing is lost to their rounding, and of the units of
//! `η = γ'_(n/4 + 12)` at least eight are to spare. What the rows do to the matrices is measured instead:
//!
//! - `x~'A x~ <= Σ λ_j y_j² + t ((1 + defect) g - Σ y_j²) + residual g` for all `x~`, `y_j = ê_j·x~`, says that
//!   `(t (1 + defect) + residual) I + Σ (λ_j - t) ê_j ê_j' - A` is positive semidefinite, and likewise from below.
//!   `4e-7 √k |λ|_max` more is allowed: the certificate adds `1.05 |λ|_max noise` to the form, of which eight units of η make at
//!   least `1.05² 2.02 1.03 8 2^-24 √k g |λ|_max > 1e-6 √k g |λ|_max`; so that is less than four of the eight.
//! - `|l - |l| ê|` is allowed three units of `|l|`, `|m - |m| ê|` four of `|m|`, and each constant `ê_j·m` two of `|m|`.

use mercer_kernel::bound::{UNIT, gamma, larger, largest};
use mercer_kernel::{Form, Profile};
use mercer_machine::{Machine, Score, Section};

use super::forms::{self, symmetric_product};
use super::live_rows::{LiveRows, transposed};
use super::semidefinite::is_semidefinite;
use super::{MeasureError, Watch, all_at_least, at_least, check_columns};
use crate::Exact;
use crate::stages::CHUNK;
use crate::stages::taylor::{BOUNDS, CURVES, MIDDLE, RESTS, SLOPE};

/// Largest `|t|` for which the remainder is summed up.
pub const MOST_EXPONENT: f64 = 8.0;

/// `2^-24`.
const SINGLE: f64 = 0.5 * f32::EPSILON as f64;

fn unfit(reason: impl Into<String>) -> MeasureError {
    MeasureError::Unfit(reason.into())
}

/// γ of a Gaussian kernel.
pub fn gaussian(machine: &Machine) -> Option<f64> {
    match machine.kernel().form() {
        Form::Shift(finish) => match finish.profile() {
            Profile::Gaussian { gamma } => Some(gamma),
            _ => None,
        },
        _ => None,
    }
}

/// The supports around their mean.
#[derive(Debug)]
pub struct Cloud {
    width: f64,
    columns: usize,
    /// `m`.
    middle: Vec<f64>,
    /// `z~`, row by row, and column by column.
    rows: Vec<f64>,
    by_column: Vec<f64>,
    /// `|z~|`, rounded up.
    lengths: Vec<f64>,
    /// `|z~|²` as computed.
    squares: Vec<f64>,
    /// Longest support before centring, squared.
    longest: f64,
}

/// What is known of one score for queries within a radius.
#[derive(Debug)]
pub struct TaylorExpansion {
    /// `c`.
    pub constant: f64,
    /// Bounds on what was rounded, see `certify/taylor.rs`.
    pub drift: f64,
    /// The same, for each unit of length.
    pub bend: f64,
    /// `l`.
    pub slope: Vec<f64>,
    /// A.
    pub curve: FormMatrix,
    /// M.
    pub rest: FormMatrix,
}

/// A symmetric matrix as computed.
#[derive(Debug)]
pub struct FormMatrix {
    /// Row after row.
    pub entries: Vec<f64>,
    /// Bound on the Frobenius norm of its error.
    pub error: f64,
}

impl Cloud {
    /// The supports of a Gaussian machine.
    ///
    /// # Errors
    /// If there are none, or their numbers are too large or too small.
    pub fn new(exact: &Exact, width: f64) -> Result<Self, MeasureError> {
        let LiveRows { count, columns, values: mut rows, .. } = LiveRows::of_supports(exact);
        let is_sane = |x: &f64| *x == 0.0 || (1e-8..=1e8).contains(&x.abs());
        if count == 0 || columns == 0 {
            return Err(unfit("the machine has no supports"));
        }
        if !rows.iter().all(is_sane) || !(1e-20..=1e20).contains(&width) {
            return Err(unfit("its supports or gamma lie outside the scales 1e-8 to 1e8"));
        }
        let mut middle = vec![0.0; columns];
        let mut longest = 0.0f64;
        for row in rows.chunks_exact(columns) {
            longest = larger(longest, row.iter().map(|z| z * z).sum());
            middle.iter_mut().zip(row).for_each(|(m, z)| *m += z / count as f64);
        }
        for row in rows.chunks_exact_mut(columns) {
            row.iter_mut().zip(&middle).for_each(|(z, m)| *z -= m);
        }
        let squares: Vec<f64> =
            rows.chunks_exact(columns).map(|row| row.iter().map(|z| z * z).sum()).collect();
        let up = 1.0 + 2.0 * gamma(columns as f64 + 4.0);
        let lengths: Vec<f64> = squares.iter().map(|square: &f64| square.sqrt() * up).collect();
        let by_column = transposed(&rows, count, columns);
        Ok(Self { width, columns, middle, rows, by_column, lengths, squares, longest })
    }

    /// Live columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// `m`.
    pub fn middle(&self) -> &[f64] {
        &self.middle
    }

    fn far(&self) -> f64 {
        largest(self.lengths.iter().copied())
    }

    /// The radius that a fit takes.
    pub fn radius(&self) -> f64 {
        larger(1.25 * self.far(), 0.25 / self.width.sqrt())
    }

    /// Bound on `|t|` of any query within a radius.
    pub fn exponent(&self, radius: f64) -> f64 {
        2.0 * self.width * radius * self.far()
    }

    /// Bound on the relative error of any `b_i exp(t_i)` within a radius.
    ///
    /// A coordinate of `z~` is off by the rounding of centring and its own, so `|Δz| <= 1.01u (|z| + |z~|)`.
    /// That moves `t` by at most `2γ R |Δz|` and `γ|z~|²` by `γ (2|z~||Δz| + |Δz|²)`; the sum of squares and
    /// the argument of `exp` add `γ γ_(n+4) |z~|²`, and `exp`, taken to be right within 16 units, and the
    /// product 20 u.
    fn relative(&self, radius: f64) -> f64 {
        let (width, far, columns) = (self.width, self.far(), self.columns as f64);
        let up = 1.0 + 2.0 * gamma(columns + 4.0);
        let moved = 1.01 * UNIT * (self.longest.sqrt() * up + far);
        let relative = width * (2.0 * (radius + far) * moved + moved * moved)
            + width * gamma(columns + 4.0) * far * far
            + 20.0 * UNIT;
        1.01 * relative
    }

    /// One score, for queries within a radius.
    ///
    /// # Errors
    /// If the score is linear, or its coefficients are too large or too small.
    pub fn expand(&self, score: &Score, radius: f64) -> Result<TaylorExpansion, MeasureError> {
        let Score::Expansion { supports, coefficients, .. } = score else {
            return Err(unfit("a linear score is one product already"));
        };
        let (width, count) = (self.width, self.lengths.len());
        // A support that the score does not name weighs nothing; one named twice may weigh less than its parts.
        let (mut weights, mut sizes) = (vec![0.0; count], vec![0.0; count]);
        for (support, beta) in supports.iter().zip(coefficients) {
            let at = *support as usize;
            let weight = beta * mercer_simd::exp1(-width * self.squares[at]);
            weights[at] += weight;
            sizes[at] += weight.abs();
        }
        let total: f64 = sizes.iter().sum();
        if !(total == 0.0 || (1e-100..=1e100).contains(&total)) {
            return Err(unfit("its coefficients lie outside the scales 1e-100 to 1e100"));
        }
        let sums = gamma(count as f64 + 8.0);
        let long = sizes.iter().zip(&self.lengths).map(|(b, z)| b * z).sum::<f64>();
        let grown = sizes.iter().zip(&self.lengths);
        let grown = grown.map(|(b, z)| b * mercer_simd::exp1(2.0 * width * radius * z));
        let drift =
            1.01 * (self.relative(radius) * grown.sum::<f64>() + sums * total) + f64::MIN_POSITIVE;
        let mut slope = vec![0.0; self.columns];
        for (row, b) in self.rows.chunks_exact(self.columns).zip(&weights) {
            slope.iter_mut().zip(row).for_each(|(l, z)| *l += 2.0 * width * b * z);
        }
        // Also the rounding of l / |l| and of |l|.
        let bend = 1.01 * (sums + 16.0 * UNIT) * 2.0 * width * long
            + gamma(self.columns as f64 + 8.0) * norm(&slope)
            + f64::MIN_POSITIVE;
        let curve: Vec<f64> = weights.iter().map(|b| 2.0 * width * width * b).collect();
        // What is rounded in it and in the lengths is less than the millionth added.
        let rest = sizes.iter().zip(&self.lengths).map(|(b, z)| {
            4.0 * width * width * b * beyond(2.0 * width * radius * z) * (1.0 + 1e-6)
        });
        let (curve, rest) = (self.form(&curve), self.form(&rest.collect::<Vec<_>>()));
        Ok(TaylorExpansion { constant: weights.iter().sum(), drift, bend, slope, curve, rest })
    }

    /// `Σ w z~z~'`; an entry is a sum of `count` products of three numbers, and a mean of two of those.
    fn form(&self, weights: &[f64]) -> FormMatrix {
        let (count, columns) = (weights.len(), self.columns);
        let mut right = self.by_column.clone();
        for column in right.chunks_exact_mut(count) {
            column.iter_mut().zip(weights).for_each(|(z, w)| *z *= w);
        }
        let entries = symmetric_product(columns, count, &self.by_column, &right);
        let sizes = weights.iter().zip(&self.lengths).map(|(w, z)| w.abs() * z * z).sum::<f64>();
        let error = 1.01 * gamma(count as f64 + 8.0) * sizes
            + (count * columns) as f64 * f64::MIN_POSITIVE * 1e8;
        FormMatrix { entries, error }
    }
}

/// `φ(T) = Σ_(k>=3) T^(k-2) / k!` for T up to [`MOST_EXPONENT`].
fn beyond(exponent: f64) -> f64 {
    let mut term = exponent / 6.0;
    let mut sum = 0.0;
    for k in 4..80 {
        sum += term;
        term *= exponent / f64::from(k);
    }
    sum
}

/// The length of a list of numbers, as the certificate has it.
pub fn norm(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Rows of a file with their eigenvalues and constants.
#[derive(Debug, Default)]
struct StoredRows {
    rows: Vec<f64>,
    values: Vec<f64>,
    shifts: Vec<f64>,
}

impl StoredRows {
    /// Adds some rows of a chunk.
    fn add(&mut self, file: &File<'_>, chunk: usize, rows: std::ops::Range<usize>) {
        let rows = chunk * CHUNK + rows.start..chunk * CHUNK + rows.end;
        let directions = &file.basis[rows.start * file.columns..rows.end * file.columns];
        self.rows.extend(directions.iter().map(|x| f64::from(*x)));
        self.values.extend_from_slice(&file.values[rows.clone()]);
        self.shifts.extend_from_slice(&file.shifts[rows]);
    }

    /// Whether the constants are `ê·m`, and the rows that are not zero are orthonormal to within 0.01.
    fn check(&self, middle: &[f64]) -> Result<(), MeasureError> {
        let allowed = 2.0 * SINGLE * norm(middle) + 1e-40;
        let mut kept = Vec::new();
        for (row, shift) in self.rows.chunks_exact(middle.len()).zip(&self.shifts) {
            let exactly: f64 = row.iter().zip(middle).map(|(x, m)| x * m).sum();
            let off = (exactly - shift).abs();
            if off.is_nan() || off > allowed {
                return Err(unfit(format!("a shift is {shift:e}, and must be {exactly:e}")));
            }
            if row.iter().any(|x| *x != 0.0) {
                kept.extend_from_slice(row);
            }
        }
        let defect = forms::defect(&kept, middle.len()).proved();
        if defect.is_nan() || defect > 0.01 {
            return Err(unfit(format!("its eigenvectors are {defect:e} from orthonormal")));
        }
        Ok(())
    }
}

/// The arrays of a section, whose lengths fit each other.
struct File<'a> {
    columns: usize,
    basis: &'a [f32],
    shifts: &'a [f64],
    values: &'a [f64],
    tails: &'a [f64],
    bounds: &'a [f64],
}

/// What a file says of one form: residual, defect and the largest eigenvalue.
#[derive(Debug, Clone, Copy)]
struct StoredForm {
    residual: f64,
    defect: f64,
    largest: f64,
}

/// Which side of a form is bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Above,
    Below,
}

impl StoredForm {
    fn new(numbers: &[f64]) -> Self {
        Self { residual: numbers[0], defect: numbers[1], largest: numbers[2] }
    }

    /// Whether the rows and the extreme eigenvalue `tail` of the others bound a matrix from one side.
    fn bounds(
        self,
        matrix: &FormMatrix,
        rows: &StoredRows,
        tail: f64,
        side: Side,
        watch: &Watch<'_>,
    ) -> Result<bool, MeasureError> {
        let n = matrix.entries.len().isqrt();
        let count = rows.values.len();
        let sign = if side == Side::Above { 1.0 } else { -1.0 };
        let most = rows.values.iter().fold(tail.abs(), |most, value| larger(most, value.abs()));
        if most.is_nan() || most > self.largest {
            return Ok(false);
        }
        // ±(Σ (λ_j - t) ê ê' + t (1 + defect) I - A) + (residual + allowed) I.
        let factors: Vec<f64> = rows.values.iter().map(|value| sign * (value - tail)).collect();
        let left = transposed(&rows.rows, count, n);
        let mut right = left.clone();
        for row in right.chunks_exact_mut(count) {
            row.iter_mut().zip(&factors).for_each(|(x, factor)| *x *= factor);
        }
        let mut difference = symmetric_product(n, count, &left, &right);
        let sizes: f64 = factors.iter().map(|factor| factor.abs()).sum();
        let error = matrix.error + 1.05 * gamma(count as f64 + 8.0) * sizes;
        let allowed = 4e-7 * (count as f64).sqrt() * self.largest;
        let diagonal = sign * tail * (1.0 + self.defect) + self.residual + allowed;
        for (place, entry) in difference.iter_mut().zip(&matrix.entries) {
            *place -= sign * entry;
        }
        (0..n).for_each(|at| difference[at * n + at] += diagonal);
        let size = forms::frobenius(&matrix.entries) + diagonal.abs() * (n as f64).sqrt() + sizes;
        Ok(is_semidefinite(difference, n, error + 8.0 * UNIT * size, watch)?)
    }
}

impl<'a> File<'a> {
    fn new(section: &'a Section, columns: usize) -> Option<Self> {
        Some(Self {
            columns,
            basis: section.f32s("basis")?,
            shifts: section.f64s("shifts")?,
            values: section.f64s("values")?,
            tails: section.f64s("tails")?,
            bounds: section.f64s("bounds")?,
        })
    }

    /// Whether a row and its length are those of a vector, to within some units of f32.
    fn check_line(&self, at: usize, line: &[f64], units: f64) -> Result<(), MeasureError> {
        let (row, length) =
            (&self.basis[at * self.columns..(at + 1) * self.columns], self.values[at]);
        let mut off = 0.0;
        for (x, row) in line.iter().zip(row) {
            off += (x - length * f64::from(*row)).powi(2);
        }
        let off = f64::sqrt(off);
        if off.is_nan() || off > units * SINGLE * length + 1e-40 {
            return Err(unfit(format!("row {at} of its basis is off by {off:e}")));
        }
        Ok(())
    }
}

/// Verifies all scores.
pub(crate) fn verify(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    check_columns(exact)?;
    let machine = exact.machine();
    let width = gaussian(machine).ok_or_else(|| unfit("the kernel is not a Gaussian"))?;
    let cloud = Cloud::new(exact, width)?;
    let damaged = || unfit("its arrays do not fit each other");
    let file = File::new(section, cloud.columns).ok_or_else(damaged)?;
    let scores = machine.scores();
    for (number, score) in scores.iter().enumerate() {
        watch.step("measuring quadratic forms", number, scores.len())?;
        verify_score(&file, &cloud, (number, scores.len()), score, watch)?;
    }
    Ok(())
}

fn verify_score(
    file: &File<'_>,
    cloud: &Cloud,
    place: (usize, usize),
    score: &Score,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    let (number, scores) = place;
    let bounds = &file.bounds[number * BOUNDS..(number + 1) * BOUNDS];
    let &[constant, drift, bend, radius, rest_tail, ..] = bounds else {
        return Err(unfit("its bounds do not fit the machine"));
    };
    let exponent = cloud.exponent(radius);
    if exponent.is_nan() || exponent > MOST_EXPONENT {
        return Err(unfit(format!("exponents reach {exponent:e}, beyond {MOST_EXPONENT}")));
    }
    let found = cloud.expand(score, radius)?;
    let moved = (found.constant - constant).abs() * (1.0 + 1e-9);
    all_at_least("bounds (drift)", &[drift], &[found.drift + moved])?;
    all_at_least("bounds (bend)", &[bend], &[found.bend])?;
    let first = number * CHUNK;
    let (length, stored) = (norm(&cloud.middle), file.values[first + MIDDLE]);
    if (length - stored).abs() > 4.0 * UNIT * length {
        return Err(at_least("values (length of the middle)", first + MIDDLE, stored, length));
    }
    file.check_line(first + MIDDLE, &cloud.middle, 4.0)?;
    file.check_line(first + SLOPE, &found.slope, 3.0)?;
    let mut rows = StoredRows::default();
    rows.add(file, number, SLOPE..SLOPE + 1);
    rows.check(&cloud.middle)?;
    let mut rows = StoredRows::default();
    rows.add(file, number, RESTS..CURVES);
    rows.check(&cloud.middle)?;
    let rest = StoredForm::new(&bounds[8..11]);
    if !rest.bounds(&found.rest, &rows, rest_tail, Side::Above, watch)? {
        return Err(unfit("its bound on the remainder is too small"));
    }
    let curve = StoredForm::new(&bounds[5..8]);
    let mut rows = StoredRows::default();
    for (chunk, tails) in file.tails.chunks_exact(2).enumerate().skip(number).step_by(scores) {
        rows.add(file, chunk, if chunk == number { CURVES..CHUNK } else { 0..CHUNK });
        rows.check(&cloud.middle)?;
        let below = curve.bounds(&found.curve, &rows, tails[0], Side::Below, watch)?;
        let above = curve.bounds(&found.curve, &rows, tails[1], Side::Above, watch)?;
        if !(below && above) {
            return Err(unfit(format!("its tails after chunk {} are too small", chunk + 1)));
        }
    }
    Ok(())
}

/// Multiply-adds of a verification.
pub(crate) fn work(section: &Section, exact: &Exact) -> f64 {
    let (columns, supports) = (exact.packed().live_columns() as f64, exact.packed().rows() as f64);
    let chunks = section.f64s("tails").map_or(0, <[f64]>::len) as f64;
    let scores = exact.machine().scores().len() as f64;
    let factors = columns * columns * (columns / 3.0 + 64.0) * (chunks + scores);
    2.0 * scores * supports * columns * columns + factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_the_second_order_is_bounded() {
        for n in 1..=160 {
            let t = f64::from(n) / 20.0;
            let wanted = (t.exp() - 1.0 - t - 0.5 * t * t) / (t * t);
            assert!((beyond(t) - wanted).abs() <= 1e-11 * wanted + 1e-12 / (t * t), "{t}");
            // A smaller argument by a factor gives less than that factor.
            assert!(beyond(0.5 * t) <= 0.5 * beyond(t));
        }
    }
}
