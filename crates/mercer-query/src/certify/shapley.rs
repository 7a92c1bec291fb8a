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
/// and `|b_j|`, `all` is `|c| + Σ_k max(|a_k|, |b_k|)`. Each `a_k` and `b_k` is a product of two values times `scale`.
///
/// Moments are sums of products of at most p values. In absolute values they add up to
/// `Σ_q binom(p, q) 2 own^q (all - own)^(p-q) <= 2 p own all^(p-1)`, and no term meets more roundings than p + 6 for each column
/// and 8 p besides, those of nodes and weights included.
///
/// A product of two values that underflows is wrong by `2^-1075`, `scale` times as much after it; together they move each sum
/// by at most `δ`, and a difference of two powers by `2 p δ (all + δ)^(p-1)`.
pub(crate) fn power_error(columns: usize, degree: u32, scale: f64, own: f64, all: f64) -> f64 {
    let p = f64::from(degree);
    let steps = (columns as f64 + 8.0) * (p + 6.0) + 8.0 * p + 8.0 * RULE_UNITS;
    let size = 2.0 * p * own * all.powi(degree as i32 - 1) * (1.0 + 1e-9);
    // Each operation may underflow by `2^-1075`; what follows multiplies by at most `p! (1 + all)^p`, and `p! < 2^53`.
    let underflow = steps * f64::MIN_POSITIVE * (1.0 + all).powi(degree as i32);
    let moved = columns as f64 * (scale.abs() + 1.0) * f64::MIN_POSITIVE;
    let shifted = 2.0 * p * moved * (all + moved).powi(degree as i32 - 1) * (1.0 + 1e-9);
    let error = gamma(steps) * size + underflow + shifted;
    if error.is_nan() { f64::INFINITY } else { error }
}

/// What a term of two values may have lost below the normal range, before it is multiplied by a coefficient: that of its last
/// operation, and, where the quotient of both values underflows, all of it. It is then below 1500 times the lesser value, that
/// is below `1e-150 sqrt(u v)`; `magnitude` is at least `sqrt(u v)`.
pub(crate) fn term_error(magnitude: f64) -> f64 {
    f64::MIN_POSITIVE + 1e-150 * magnitude
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

#[cfg(test)]
mod tests {
    use mercer_testkit::{Real, Wide};

    use super::super::{Proved, inject};
    use super::*;

    /// An error as the range around 0 that it allows, widened as `range` does, for the checks of `inject`.
    fn known(error: f64) -> Option<Proved> {
        let error = error * (1.0 + 1e-9);
        Proved::between(-error, error)
    }

    fn wide(number: f64) -> Wide {
        Wide::from(number)
    }

    /// `(e^x - 1)` by its series, and the errors of exp.
    fn factor_truth(&[error]: &[Wide; 1]) -> [Wide; 2] {
        let grown = error + error * error / wide(2.0) + error * error * error / wide(6.0);
        let exp = wide(EXP_RELATIVE_ERROR);
        inject::around(Wide::ZERO, grown + exp * (Wide::ONE + grown))
    }

    #[test]
    fn factors_of_exponents_that_are_wrong_are_within_their_error() {
        let range = |[error]: [f64; 1]| known(factor_error(error));
        inject::nothing_is_proved(["error"], [1e-12], range);
        inject::subnormals_keep_the_truth([1e-12], range, factor_truth);
        inject::every_term_counts([1e-12], range, factor_truth);
        inject::every_term_counts([1e-4], range, factor_truth);
        assert!(factor_error(1e-3).is_infinite());
    }

    const COLUMNS: usize = 30;
    const NODES: usize = 64;

    fn column([factors, common, truncated, size, a, b, of_a, of_b]: [f64; 8]) -> f64 {
        ProductError::new(COLUMNS, NODES, factors, common, truncated).of_column(
            size,
            [a, b],
            [of_a, of_b],
        )
    }

    /// Products of `1 + e_k`: for each column the node, two roundings and that of the running product, then the weight and the
    /// sum over nodes, with `e^x - 1` in place of its bound; three roundings of the contribution itself.
    fn column_truth(numbers: &[Wide; 8]) -> [Wide; 2] {
        let &[factors, common, truncated, size, a, b, of_a, of_b] = numbers;
        // Four units of nodes and weights are what `quadrature` proves of its rules.
        let roundings = wide(COLUMNS as f64 * 7.0 + 4.0 + NODES as f64 / 8.0 + 4.0);
        let first = factors + common + roundings * wide(UNIT);
        let relative = first + first * first / wide(2.0) + first * first * first / wide(6.0);
        let difference = (a - b).abs();
        let own = (a * of_a + b * of_b) * (Wide::ONE + relative);
        // A factor that is taken to be zero is below `exp(-690)`.
        let vanished = wide(2.17e-300) * wide(COLUMNS as f64);
        let half = size * (difference * (relative + wide(3.0 * UNIT)) + own) + truncated + vanished;
        inject::around(Wide::ZERO, half)
    }

    #[test]
    fn contributions_of_products_are_within_their_error() {
        let names =
            ["factors", "common", "truncated", "size", "a", "b", "error of a", "error of b"];
        let range = |numbers: [f64; 8]| known(column(numbers));
        for ordinary in [
            [1e-14, 1e-15, 1e-20, 0.5, 0.9, 0.3, 1e-15, 1e-16],
            // Rounding of the products alone, what a rule leaves out alone, and own errors alone.
            [1e-20, 1e-20, 1e-30, 0.5, 0.9, 0.3, 1e-20, 1e-20],
            [1e-20, 1e-20, 1e-3, 1e-6, 0.9, 0.3, 1e-20, 1e-20],
            [1e-20, 1e-20, 1e-30, 0.5, 0.9, 0.9, 1e-9, 1e-9],
            [1e-4, 1e-4, 1e-30, 0.5, 0.9, 0.3, 1e-4, 1e-4],
            // Products below the normal range.
            [1e-15, 1e-15, 1e-310, 1e-299, 0.9, 0.3, 1e-15, 1e-15],
        ] {
            inject::nothing_is_proved(names, ordinary, range);
            inject::subnormals_keep_the_truth(ordinary, range, column_truth);
            inject::every_term_counts(ordinary, range, column_truth);
        }
        let far = [1e-2, 0.0, 0.0, 0.5, 0.9, 0.3, 0.0, 0.0];
        assert!(column(far).is_infinite(), "{}", column(far));
    }

    fn power_truth(degree: u32, &[scale, own, all]: &[Wide; 3]) -> [Wide; 2] {
        let power = |base: Wide, exponent: u32| (0..exponent).fold(Wide::ONE, |all, _| all * base);
        let p = f64::from(degree);
        let steps = COLUMNS as f64 * (p + 6.0) + 8.0 * p;
        let factorial: f64 = (1..=degree).map(f64::from).product();
        let least = wide(f64::from_bits(1)) / wide(2.0);
        // Each operation may be wrong by 2^-1075, and what follows multiplies by `p! (1 + all)^p` at most.
        let lost = least * wide(steps * factorial) * power(Wide::ONE + all, degree);
        let size = wide(2.0 * p) * own * power(all, degree - 1);
        // So may each product of two values, and the product of it with the factor.
        let moved = wide(COLUMNS as f64) * least * (scale.abs() + Wide::ONE);
        let shifted = wide(2.0 * p) * moved * power(all + moved, degree - 1);
        inject::around(Wide::ZERO, inject::gamma(steps, UNIT) * size + lost + shifted)
    }

    #[test]
    fn contributions_of_powers_are_within_their_error() {
        for degree in [1, 2, 3, 8] {
            let range =
                |[scale, own, all]: [f64; 3]| known(power_error(COLUMNS, degree, scale, own, all));
            let truth = |numbers: &[Wide; 3]| power_truth(degree, numbers);
            for ordinary in
                [[0.1, 0.5, 2.0], [1.0, 1e-30, 1e-20], [1.0, 1e-320, 1e-300], [1e300, 1e-9, 1e-5]]
            {
                inject::subnormals_keep_the_truth(ordinary, range, truth);
                inject::every_term_counts(ordinary, range, truth);
            }
            inject::nothing_is_proved(["scale", "own", "all"], [0.1, 0.5, 2.0], range);
        }
    }

    #[test]
    fn terms_are_within_what_they_lost() {
        let range = |[magnitude]: [f64; 1]| known(term_error(magnitude));
        // `t low log2(1 / t)` of values whose quotient t is the largest one below the normal range.
        let truth = |&[magnitude]: &[Wide; 1]| {
            let root = wide(f64::MIN_POSITIVE).sqrt();
            let half = wide(f64::from_bits(1)) / wide(2.0) + root * magnitude.abs() * wide(1100.0);
            inject::around(Wide::ZERO, half)
        };
        for ordinary in [2.0, 1e-300, 1e-150] {
            inject::subnormals_keep_the_truth([ordinary], range, truth);
            inject::every_term_counts([ordinary], range, truth);
        }
        inject::nothing_is_proved(["magnitude"], [2.0], range);
    }

    #[test]
    fn sums_of_contributions_are_within_their_error() {
        let range = |[size]: [f64; 1]| known(sum_error(20, 8.0, size));
        let truth = |&[size]: &[Wide; 1]| {
            let lost = wide(f64::from_bits(1)) / wide(2.0) * wide(28.0);
            inject::around(Wide::ZERO, inject::gamma(28.0, UNIT) * size + lost)
        };
        for ordinary in [3.0, 1e-300, 1e-320] {
            inject::subnormals_keep_the_truth([ordinary], range, truth);
            inject::every_term_counts([ordinary], range, truth);
        }
        inject::nothing_is_proved(["size"], [3.0], range);
        assert!(sum_error(20, f64::NAN, 3.0).is_infinite());
    }

    #[test]
    fn ranges_of_contributions_hold_both_ends_or_all_numbers() {
        let proved = |[value, error]: [f64; 2]| {
            let Interval { low, high } = range(value, error);
            // All numbers: nothing is said.
            if low == f64::MIN && high == f64::MAX { None } else { Proved::between(low, high) }
        };
        let truth = |&[value, error]: &[Wide; 2]| inject::around(value, error);
        inject::nothing_is_proved(["value", "error"], [2.0, 1e-12], proved);
        for ordinary in [[2.0, 1e-12], [2.0, 1.0], [1e-310, 1e-320]] {
            inject::subnormals_keep_the_truth(ordinary, proved, truth);
            inject::every_term_counts(ordinary, proved, truth);
        }
    }
}
