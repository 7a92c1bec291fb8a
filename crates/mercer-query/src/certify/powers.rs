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
//! chain by `2^-1075`. `2^-1022 (Σ|ĉ_α| (1 + h^p) + 1)` covers both, as `2^52` exceeds `p` and `N`.

use mercer_kernel::bound::gamma;

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
        let slack = |(size, error): (&f64, &f64)| (rounding * size * up + error) * (1.0 + 1e-14);
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
