//! What the directions of `projected` leave of the supports, for a fit and for its verification. The names are those of
//! `certify/tail.rs`; directions are found in `mercer_compile`.
//!
//! Nothing is assumed of the decomposition: every residual is computed, and the rounding of that is bounded as written
//! beside it. A fit stores three times these roundings (`Spare::Fit`), so that a second measurement proves no more.
//!
//! # Verification of the tail
//!
//! A file keeps `r` of the `n` directions, and the certificate uses the others only in
//!
//! `x'T'W²T x <= Σ_(d<j<=r) μ_j y_j² + μ_rest ((1 + defect)|x|² - Σ_(j<=r) y_j²) + tail |x|²`,  `y_j = v_j·x`.
//!
//! That holds for all `x` if and only if the matrix
//!
//! `(μ_rest (1 + defect) + tail) I + Σ_(d<j<=r) (μ_j - μ_rest) v_j v_j' - μ_rest Σ_(j<=d) v_j v_j' - T'W²T`
//!
//! is positive semidefinite, which a Cholesky factorisation proves. The defect of the directions of the file alone is
//! measured too, since it also bounds `||V V' - I||_2`.

use mercer_kernel::bound::{self, UNIT, gamma};
use mercer_machine::Section;
use mercer_simd::gemm_nt;

use super::forms::{self, frobenius};
use super::live_rows::{LiveRows, transposed};
use super::semidefinite::is_semidefinite;
use super::{MeasureError, Watch, all_at_least, check_columns};
use crate::Exact;

/// How often the rounding of a measurement counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spare {
    /// Once: what is proved.
    Verification,
    /// Three times: what a fit stores.
    Fit,
}

impl Spare {
    /// The factor.
    pub fn times(self) -> f64 {
        match self {
            Self::Verification => 1.0,
            Self::Fit => 3.0,
        }
    }
}

/// What is stored of the supports: rows along the head, and weights.
#[derive(Debug, Clone, Copy)]
pub struct ProjectedRows<'a> {
    /// The first `d` directions, row after row.
    pub head: &'a [f64],
    /// `a_i`, row after row.
    pub supports: &'a [f64],
    /// `w_i`.
    pub weights: &'a [f64],
}

/// What the head leaves of the supports: `(W T)'`, its norm, how far it may be off, and the bounds on single rows.
#[derive(Debug)]
pub struct Rests {
    supports: usize,
    /// `(W T)'`, row after row.
    pub across: Vec<f64>,
    /// `||W T||_F`.
    pub size: f64,
    /// Bound on the error of `W T`.
    pub off: f64,
    /// `>= |V t_i|` of all rows.
    pub leak: f64,
    /// `>= |t_i|`.
    pub reach: f64,
    /// `|a_i| <= (1 + excess)|z_i|`.
    pub excess: f64,
    /// `||W Z||_F`.
    pub weighted_rows: f64,
}

impl Rests {
    /// Measures the rests of the supports.
    ///
    /// - An entry of `T` passes `d + 2` roundings, so row `i` is off by at most
    ///   `γ_(d+3) (|z_i| + √d 1.02 |a_i|) =: o_i`, and `W T` by `ΔW = (Σ w_i² o_i²)^½`.
    /// - `V t_i`: `1.02 √d (γ_(n+4) |t_i| + o_i)`.
    pub fn new(rows: &LiveRows, stored: &ProjectedRows<'_>, spare: Spare) -> Self {
        let (m, n) = (rows.count, rows.columns);
        let head = stored.supports.len() / usize::max(m, 1);
        let mut rests = vec![0.0; m * n];
        gemm_nt(m, n, head, stored.supports, &transposed(stored.head, head, n), &mut rests);
        for (rest, z) in rests.iter_mut().zip(&rows.values) {
            *rest = z - *rest;
        }
        let root = (head as f64).sqrt();
        let (mut off, mut weighted_rows, mut excess) = (0.0f64, 0.0f64, 0.0f64);
        let (mut leak, mut reach) = (0.0, 0.0);
        let mut leaks = vec![0.0; m * head];
        gemm_nt(m, head, n, &rests, stored.head, &mut leaks);
        for row in 0..m {
            let z = frobenius(&rows.values[row * n..(row + 1) * n]);
            let a = frobenius(&stored.supports[row * head..(row + 1) * head]);
            let t = frobenius(&rests[row * n..(row + 1) * n]);
            let o = gamma(head as f64 + 3.0) * (z + 1.02 * root * a) * (1.0 + 1e-9) + 1e-150;
            let w = stored.weights[row];
            off += w * w * o * o;
            weighted_rows += w * w * z * z;
            // A row of zeros must have coordinates of zero.
            let beyond = match (z > 0.0, a == 0.0) {
                (true, _) => a / z - 1.0,
                (false, true) => 0.0,
                (false, false) => f64::INFINITY,
            };
            excess = larger(excess, beyond);
            let v = frobenius(&leaks[row * head..(row + 1) * head]);
            let rounding = 1.02 * root * (gamma(n as f64 + 4.0) * t + o);
            leak = larger(leak, v + spare.times() * rounding);
            reach = larger(reach, t + spare.times() * o);
        }
        let off = off.sqrt() * (1.0 + 1e-8);
        for (row, weight) in rests.chunks_exact_mut(n).zip(stored.weights) {
            row.iter_mut().for_each(|x| *x *= weight);
        }
        let up = 1.0 + if spare == Spare::Fit { 3e-8 } else { 1e-8 };
        Self {
            supports: m,
            size: frobenius(&rests),
            across: transposed(&rests, m, n),
            off,
            leak: leak * up,
            reach: reach * up,
            excess: larger(excess, 0.0) + if spare == Spare::Fit { 2e-8 } else { 1e-8 },
            weighted_rows: weighted_rows.sqrt() * up,
        }
    }

    /// `T'W²T`, and how far it is off: `m` terms, so `γ_(m+8) ||WT||² + 2 ||WT|| ΔW + ΔW²`.
    pub fn gram(&self, columns: usize) -> (Vec<f64>, f64) {
        let m = self.across.len() / usize::max(columns, 1);
        let mut gram = vec![0.0; columns * columns];
        gemm_nt(columns, columns, m, &self.across, &self.across, &mut gram);
        let Self { size, off, .. } = self;
        let error = gamma(m as f64 + 8.0) * size * size + 2.0 * size * off + off * off;
        (gram, error * (1.0 + 1e-8))
    }

    /// `||T'W P' - D||_F` and `||P P' - I||_F`, as a certificate takes them.
    ///
    /// `D = P W T` sums `m` terms: off by `(γ_(m+4) ||WT|| + ΔW) ||P||_F`. `P P' - I`: `γ_(m+4) 1.05 h`.
    pub fn drift_and_skew(&self, basis: &[f64], corrections: &[f32], spare: Spare) -> [f64; 2] {
        let m = self.supports;
        if basis.is_empty() {
            return [1e-250, 0.0];
        }
        let (h, n) = (basis.len() / m, self.across.len() / m);
        let mut exactly = vec![0.0; h * n];
        gemm_nt(h, n, m, basis, &self.across, &mut exactly);
        for (x, single) in exactly.iter_mut().zip(corrections) {
            *x -= f64::from(*single);
        }
        let rounding = (gamma(m as f64 + 4.0) * self.size + self.off) * frobenius(basis);
        let up = 1.0 + if spare == Spare::Fit { 3e-8 } else { 1e-8 };
        let drift = (frobenius(&exactly) + spare.times() * rounding) * up + 1e-250;
        let mut gram = vec![0.0; h * h];
        gemm_nt(h, h, m, basis, basis, &mut gram);
        (0..h).for_each(|k| gram[k * h + k] -= 1.0);
        let rounding = 1.05 * gamma(m as f64 + 4.0) * h as f64;
        [drift, (frobenius(&gram) + spare.times() * rounding) * up]
    }
}

/// The larger of two numbers, or none if one is none.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// What the factorisation of a verification needs beside the tail itself: it subtracts `γ_(n+16)` of the trace and the
/// rounding of the sum over directions. A fit adds it.
pub fn tail_margin(columns: usize, ahead: &[f64], rest: f64, tail: f64) -> f64 {
    let n = columns as f64;
    let sizes = ahead.iter().sum::<f64>() + n * (rest + tail);
    6.0 * gamma(n + 32.0) * sizes
}

/// Verifies all bounds of the stage.
pub(crate) fn verify(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    check_columns(exact)?;
    let damaged = || MeasureError::Unfit("its arrays do not fit each other".to_owned());
    let wide = |name: &str| -> Result<Vec<f64>, MeasureError> {
        let values = section.f32s(name).ok_or_else(damaged)?;
        Ok(values.iter().map(|x| f64::from(*x)).collect())
    };
    let array = |name: &str| section.f64s(name).ok_or_else(damaged);
    let rows = LiveRows::of_supports(exact);
    let (m, n) = (rows.count, rows.columns);
    if m == 0 || n == 0 || rows.squares.iter().any(|square| !is_usable(*square)) {
        let reason = "its supports lie outside the scales 1e-12 to 1e15";
        return Err(MeasureError::Unfit(reason.to_owned()));
    }
    let (vectors, supports) = (wide("vectors")?, wide("supports")?);
    let (head, ahead) = (supports.len() / m, vectors.len() / n);
    let (values, errors) = (array("values")?, array("errors")?);
    let &[tail, defect, drift, skew, leak, reach, excess, weighted_rows] = errors else {
        return Err(damaged());
    };
    watch.step("measuring what directions leave", 0, 3)?;
    let found_defect = forms::defect(&vectors, n).proved();
    all_at_least("errors (defect)", &[defect], &[found_defect])?;
    let stored = ProjectedRows {
        head: &vectors[..head * n],
        supports: &supports,
        weights: array("weights")?,
    };
    let rests = Rests::new(&rows, &stored, Spare::Verification);
    let found = [rests.leak, rests.reach, rests.excess, rests.weighted_rows];
    all_at_least("errors (of rows)", &[leak, reach, excess, weighted_rows], &found)?;
    watch.step("measuring corrections", 1, 3)?;
    let corrections = section.f32s("corrections").ok_or_else(damaged)?;
    let found = rests.drift_and_skew(array("basis")?, corrections, Spare::Verification);
    all_at_least("errors (of corrections)", &[drift, skew], &found)?;
    watch.step("measuring the tail", 2, 3)?;
    let (gram, error) = rests.gram(n);
    let tails = TailBounds { head, ahead, values, tail, defect };
    if tails.hold(&gram, error, &vectors, watch)? {
        Ok(())
    } else {
        Err(MeasureError::Unfit(format!("its tail {tail:e} is too small for its directions")))
    }
}

/// Squared norms for which no product of f32 values overflows or matters when it underflows.
fn is_usable(square: f64) -> bool {
    square == 0.0 || (1e-24..=1e30).contains(&square)
}

/// What a file says of the tail.
struct TailBounds<'a> {
    head: usize,
    ahead: usize,
    /// Those of the look-ahead, then the rest.
    values: &'a [f64],
    tail: f64,
    defect: f64,
}

impl TailBounds<'_> {
    fn hold(
        &self,
        gram: &[f64],
        error: f64,
        vectors: &[f64],
        watch: &Watch<'_>,
    ) -> Result<bool, MeasureError> {
        let n = gram.len().isqrt();
        let Some((rest, ahead)) = self.values.split_last() else { return Ok(false) };
        let of_head = std::iter::repeat_n(-rest, self.head);
        let factors: Vec<f64> = of_head.chain(ahead.iter().map(|value| value - rest)).collect();
        let left = transposed(vectors, self.ahead, n);
        let mut right = left.clone();
        for row in right.chunks_exact_mut(usize::max(self.ahead, 1)) {
            row.iter_mut().zip(&factors).for_each(|(x, factor)| *x *= factor);
        }
        let mut difference = forms::symmetric_product(n, self.ahead, &left, &right);
        difference.iter_mut().zip(gram).for_each(|(place, entry)| *place -= entry);
        let diagonal = rest * (1.0 + self.defect) + self.tail;
        (0..n).for_each(|at| difference[at * n + at] += diagonal);
        let sizes: f64 = factors.iter().map(|factor| factor.abs()).sum();
        let rounding = 1.05 * gamma(self.ahead as f64 + 8.0) * sizes
            + 4.0 * UNIT * (frobenius(gram) + (n as f64).sqrt() * diagonal + sizes);
        Ok(is_semidefinite(difference, n, error + rounding, watch)?)
    }
}

/// Multiply-adds of a verification.
pub(crate) fn work(section: &Section, exact: &Exact) -> f64 {
    let (m, n) = (exact.packed().rows() as f64, exact.packed().live_columns() as f64);
    let length = |name: &str| section.f32s(name).map_or(0, <[f32]>::len) as f64;
    let (supports, vectors) = (length("supports"), length("vectors"));
    let (head, ahead) = (supports / bound::larger(m, 1.0), vectors / bound::larger(n, 1.0));
    let rests = 2.0 * m * n * head + m * n * n + length("corrections") * m;
    rests + n * n * (n / 3.0 + ahead) + ahead * ahead * n
}
