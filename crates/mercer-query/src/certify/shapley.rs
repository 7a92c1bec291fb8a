//! Bounds on the rounding errors of Shapley values: how far a computed contribution of a column may lie from the one in real
//! arithmetic. The values themselves are computed in `attribute/`.

use mercer_kernel::bound::{UNIT, gamma};
use mercer_simd::EXP_RELATIVE_ERROR;

use super::quadrature::RULE_UNITS;
use crate::Interval;

/// Exponents beyond it make a factor that is taken to be zero: it is below 1e-299.
pub(crate) const VANISHES: f64 = 690.0;

/// What factors that vanish, and products that underflow, may be wrong by for each column of a pair; all other factors are at
/// most 1.
const VANISHED: f64 = 1e-298;

/// Relative error of `exp(-t)` if t is wrong by at most `error`; infinite where that is large.
pub(crate) fn factor_error(error: f64) -> f64 {
    // `e^x - 1 <= 1.001 x` below 1e-3, and one rounding to spare.
    if error < 1e-3 { 1.001 * error + EXP_RELATIVE_ERROR + UNIT } else { f64::INFINITY }
}

/// What is known of the factors of one support and one background row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProductError {
    /// Relative error of an integral and of the factor of the columns that both rows share.
    relative: f64,
    /// What is left out, whatever the column.
    absolute: f64,
}

impl ProductError {
    /// `factors` is the sum over columns of the larger relative error of both factors, `common` that of the shared
    /// columns, whose exponents are summed before; the rule has `nodes` nodes and leaves out `truncated`.
    ///
    /// A factor `t a + (1 - t) b` has positive terms: the relative error of the worse of a and b, that of the node, two
    /// roundings; the running products add one each, the weight its own error, and the sum over nodes at most
    /// `nodes / 8 + 4` roundings.
    pub(crate) fn new(
        columns: usize,
        nodes: usize,
        factors: f64,
        common: f64,
        truncated: f64,
    ) -> Self {
        let roundings = columns as f64 * (RULE_UNITS + 3.0) + RULE_UNITS + nodes as f64 / 8.0 + 8.0;
        let first_order = factors + common + roundings * UNIT;
        // Products of `1 + e_k` are at most `1 + 1.01 Σ e_k` below 1e-2.
        let relative = if first_order < 1e-2 { 1.02 * first_order } else { f64::INFINITY };
        Self { relative, absolute: truncated + VANISHED * (columns as f64 + 1.0) }
    }

    /// Error of `common (a - b) I`: `size` is `common I`, `errors` are the relative errors of a and b.
    pub(crate) fn of_column(self, size: f64, factors: [f64; 2], errors: [f64; 2]) -> f64 {
        let difference = (factors[0] - factors[1]).abs();
        let own = factors[0] * errors[0] + factors[1] * errors[1];
        let error = size * (difference * (self.relative + 4.0 * UNIT) + 1.02 * own) + self.absolute;
        if error.is_nan() { f64::INFINITY } else { error }
    }
}

/// Error of one contribution `h(.. + a_j) - h(.. + b_j)` of a power `(c + Σ)^p`, averaged over subsets: `own` is the larger of `|a_j|`
/// and `|b_j|`, `all` is `|c| + Σ_k max(|a_k|, |b_k|)`.
///
/// Moments are sums of products of at most p values. In absolute values they add up to
/// `Σ_q binom(p, q) 2 own^q (all - own)^(p-q) <= 2 p own all^(p-1)`, and no term meets more roundings than p + 6 for each column
/// and 8 p besides, those of nodes and weights included.
pub(crate) fn power_error(columns: usize, degree: u32, own: f64, all: f64) -> f64 {
    let p = f64::from(degree);
    let steps = (columns as f64 + 8.0) * (p + 6.0) + 8.0 * p + 8.0 * RULE_UNITS;
    let size = 2.0 * p * own * all.powi(degree as i32 - 1) * (1.0 + 1e-9);
    // Each operation may underflow by `2^-1075`; what follows multiplies by at most `p! (1 + all)^p`, and `p! < 2^53`.
    let underflow = steps * f64::MIN_POSITIVE * (1.0 + all).powi(degree as i32);
    let error = gamma(steps) * size + underflow;
    if error.is_nan() { f64::INFINITY } else { error }
}

/// Error of a sum of `terms` numbers whose absolute values add up to `size`, with so many roundings in each term.
pub(crate) fn sum_error(terms: usize, roundings: f64, size: f64) -> f64 {
    let steps = terms as f64 + roundings;
    let error = gamma(steps) * size * (1.0 + 1e-9) + (steps + 1.0) * f64::MIN_POSITIVE;
    if error.is_nan() { f64::INFINITY } else { error }
}

/// The range around a computed contribution; all numbers where nothing is known.
pub(crate) fn range(value: f64, error: f64) -> Interval {
    let range = Interval::around(value, error * (1.0 + 1e-9));
    if range.low.is_finite() && range.high.is_finite() {
        return range;
    }
    Interval { low: f64::MIN, high: f64::MAX }
}
