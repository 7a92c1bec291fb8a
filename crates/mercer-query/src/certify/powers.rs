//! Scores as sums of weighted products of columns.
//!
//! The score is `Σ c_α x^α - b` over products of at most `p` columns, `N` in all. Stored are `ĉ_α`, and for
//! each degree `j` a bound `e_j` on the sum of `|ĉ_α - c_α|` over its products. A product of `j` columns meets
//! at most `p` roundings and its term at most `N` more in the chain of fused multiply-adds, and no product
//! exceeds the largest `|x_i|`, called `h`, to the power of its degree. So the computed sum is off by at most
//!
//! `Σ_j (γ_(N+p) Σ_(|α|=j) |ĉ_α| + e_j) h^j`,
//!
//! evaluated by Horner's rule in numbers that are not negative (`2p` roundings), and by what underflows: a
//! product that falls below the normal numbers is off by `p 2^-1074 max(1, h)^p` at most and a term of the
//! chain by `2^-1075`. `2^-1022 (Σ|ĉ_α| (1 + h^p) + 1)` covers both, as `2^52` exceeds `p` and `N`. What stands before
//! `h^j` is rounded up by `2^-1072`. What overflows makes the radius infinite or NaN, and then nothing is claimed.

use mercer_kernel::bound::{LEAST, gamma};

use super::Proved;

/// What is known of one score.
#[derive(Debug)]
pub(crate) struct Powers {
    /// What stands before `h^j`.
    slacks: Vec<f64>,
    /// `Σ|ĉ_α|`, rounded up.
    weight: f64,
    offset: f64,
}

impl Powers {
    /// Weights with the degree of each, and the stored errors by degree.
    pub(crate) fn new(
        weights: impl Iterator<Item = (f64, u32)> + Clone,
        errors: &[f64],
        offset: f64,
    ) -> Self {
        let count = weights.clone().count() as f64;
        let up = 1.0 + (count + 8.0) * f64::EPSILON;
        let mut sizes = vec![0.0; errors.len()];
        weights.for_each(|(weight, degree)| sizes[degree as usize] += weight.abs());
        let rounding = gamma(count + errors.len() as f64);
        // Products below the normal range are rounded up.
        let slack = |(size, error): (&f64, &f64)| {
            (rounding * size * up + error) * (1.0 + 1e-14) + 4.0 * LEAST
        };
        let slacks = sizes.iter().zip(errors).map(slack).collect();
        Self { slacks, weight: sizes.iter().sum::<f64>() * up, offset }
    }

    /// The range of a score whose sum was computed; `largest` is `h`.
    pub(crate) fn range(&self, sum: f64, largest: f64) -> Option<Proved> {
        let slack = self.slacks.iter().rev().fold(0.0, |sum: f64, slack| sum * largest + slack);
        let power = largest.powi(self.slacks.len() as i32 - 1);
        let tiny = f64::MIN_POSITIVE * (self.weight * (1.0 + power) + 1.0);
        let middle = sum - self.offset;
        let radius = slack * (1.0 + 1e-13)
            + 2.0 * f64::EPSILON * (sum.abs() + self.offset.abs())
            + tiny * (1.0 + 1e-13);
        Proved::between((middle - radius).next_down(), (middle + radius).next_up())
    }
}

#[cfg(test)]
mod tests {
    use mercer_kernel::bound::UNIT;
    use mercer_testkit::{Real, Wide};

    use super::super::inject;
    use super::*;

    fn range([weight, error, offset, sum, largest]: [f64; 5]) -> Option<Proved> {
        let weights = [(weight, 0), (0.5, 1), (2.0, 2)];
        Powers::new(weights.into_iter(), &[error, 1e-12, 1e-12], offset).range(sum, largest)
    }

    /// `Σ_j (γ_(N+p) Σ|c| + e_j) h^j` around `sum - b`.
    fn truth(&[weight, error, offset, sum, largest]: &[Wide; 5]) -> [Wide; 2] {
        let (rounding, stored) = (inject::gamma(5.0, UNIT), Wide::from(1e-12));
        let sizes = [(weight.abs(), error), (Wide::from(0.5), stored), (Wide::from(2.0), stored)];
        let slack = |(size, error): &(Wide, Wide)| rounding * *size + *error;
        let half = sizes.iter().rev().fold(Wide::ZERO, |sum, one| sum * largest + slack(one));
        inject::around(sum - offset, half)
    }

    #[test]
    fn nothing_is_proved_from_numbers_that_are_not_finite() {
        let names = ["weight", "error", "offset", "sum", "largest"];
        let ordinary = [1.0, 1e-12, 0.25, 3.0, 2.0];
        inject::nothing_is_proved(names, ordinary, range);
        inject::subnormals_keep_the_truth(ordinary, range, truth);
        inject::every_term_counts(ordinary, range, truth);
    }

    #[test]
    fn products_that_underflow_are_part_of_the_range() {
        // 1e300 x² at 1e-170 is 1e-40, but x² is computed as 0.
        let powers = Powers::new([(0.0, 0), (0.0, 1), (1e300, 2)].into_iter(), &[0.0; 3], 0.0);
        let range = powers.range(0.0, 1e-170).unwrap().interval();
        assert!(range.high >= 1e-40, "{range:?}");
    }

    #[test]
    fn weights_whose_rounding_underflows_still_count() {
        // 1e-309 x^12 at 1e20 is 1e-69, and rounded: the slack before x^12 is below the least positive number.
        let weights = [(0.0, 0), (1e-309, 12)];
        let powers = Powers::new(weights.into_iter(), &[0.0; 13], 0.0);
        let range = powers.range(1e-69, 1e20).unwrap().interval();
        assert!(range.high - 1e-69 > 2.0 * f64::EPSILON * 1e-69, "{range:?}");
    }
}
