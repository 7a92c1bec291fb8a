//! What a small machine says, and how far a query is from one of its vectors, or from a few.
//!
//! With stored coefficients `g` over vectors `Z_j`, `W~ = Σ g_j Φ(Z_j)` and `R = W - W~`, exactly. For any
//! numbers `a_j` over any vectors, with `Q = Φ(x)`,
//!
//! `f + b = Σ g_j K(Z_j, x) + <R, Q - Σ a_j Φ(Z_j)> + Σ a_j <R, Φ(Z_j)>`,
//!
//! so the score lies within `|R| ρ + Σ|a_j| η_j` of that of the small machine, where `η_j >= |<R, Φ(Z_j)>|`
//! (nothing but rounding after a re-fit, and measured offline) and
//!
//! `ρ² = K(x, x) - 2 Σ a_j K_j + Σ a_i a_j K_ij`.
//!
//! With the best `a` over all vectors ρ is the power function, the whole sequence of
//! [`super::projection`]; with one vector `a = K_j / K_jj` and nothing is to be solved; with the 8 nearest
//! it is a system of 8.
//!
//! **Rounding.** `q² >= K(x, x)`, `s_j² >= K_jj`. Computed values have `|K̂_j - K_j| <= e s_j q` or
//! `<= e q`, so with `δ_j` either `s_j` or 1, `A = Σ|a_j| s_j`, `A' = Σ|a_j| δ_j`, and at most `n` vectors:
//!
//! - `ρ² <= q² - 2 Σ a_j K̂_j + Σ a_i a_j K̂_ij + 2 e q A' + e' A'² + γ_(2n+8) (q + 1.1 A)²`, `e'` the same
//!   error between two vectors;
//! - `|Σ g_j K̂_j - Σ g_j K_j| <= γ_k 1.1 q G + e q G'`, `G = Σ|g_j| s_j`, `G' = Σ|g_j| δ_j`.
//!
//! **Underflow and overflow.** As in [`super::projection`] nothing is claimed where `q²` lies outside 1e-100 to
//! 1e100; beside `γ_(2n+12) q² >= 10^-115` the few products that underflow do not count, and those of `Σ g_j K̂_j` lose
//! `k 2^-1074`, which `2^-1022` covers. `G` is stored with `k 2^-1074` added. A vector whose `K_jj` lies outside 1e-100
//! to 1e100 is never among the nearest.

use mercer_kernel::bound::{UNIT, at_least_zero, gamma};

use super::Proved;
use super::projection::ProjectionQuery;

/// Vectors used at once, at most.
pub(crate) const FEW: usize = 8;

/// One score of the small machine; all bounds rounded up.
#[derive(Debug, Clone)]
pub(crate) struct SmallMachine {
    /// A bound on `|R|`.
    pub stray: f64,
    /// `G`, and `Σ|g_j|`.
    pub sized: f64,
    pub plain: f64,
    /// `η_j`.
    pub slants: Vec<f64>,
    pub offset: f64,
}

/// A combination of a few vectors that lies near a query: `(vector, a_j)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nearby<'a> {
    pub vectors: &'a [u32],
    pub weights: &'a [f64],
    /// Bound on ρ.
    pub distance: f64,
}

/// What is known of all vectors.
#[derive(Debug, Clone)]
pub(crate) struct Vectors {
    /// `s_j`.
    pub sizes: Vec<f64>,
    /// Bound on the error of a kernel value of two vectors, over `s_i s_j` or over 1.
    pub error: Option<f64>,
    pub is_relative: bool,
}

impl Vectors {
    /// A bound on the distance between a query and a combination: `along = Σ a_j K̂_j`,
    /// `square = Σ a_i a_j K̂_ij`, computed in any order.
    pub(crate) fn distance(
        &self,
        known: &ProjectionQuery,
        vectors: &[u32],
        weights: &[f64],
        along: f64,
        square: f64,
    ) -> Option<f64> {
        let (mut sized, mut plain) = (0.0, 0.0);
        for (vector, a) in vectors.iter().zip(weights) {
            sized += a.abs() * self.sizes[*vector as usize];
            plain += a.abs();
        }
        let (q, n) = (known.root(), vectors.len() as f64);
        let from_query = 2.0 * q * (known.relative * sized + known.absolute * plain);
        let among = if self.is_relative { sized * sized } else { plain * plain };
        let rounding = gamma(2.0 * n + 12.0) * (q + 1.1 * sized).powi(2);
        let errors = (from_query + self.error? * among + rounding) * (1.0 + 1e-9);
        let left = at_least_zero(q * q - 2.0 * along + square + errors);
        let distance = left.sqrt() * (1.0 + 1e-12) + f64::MIN_POSITIVE;
        distance.is_finite().then_some(distance)
    }
}

impl SmallMachine {
    /// The range of the score, given the computed `Σ g_j K̂_j` over `count` vectors.
    pub(crate) fn range(
        &self,
        known: &ProjectionQuery,
        count: usize,
        sum: f64,
        near: Nearby<'_>,
    ) -> Option<Proved> {
        let q = known.root();
        let from_kernel = q * (known.relative * self.sized + known.absolute * self.plain);
        let chain = gamma(count as f64 + 4.0) * 1.1 * q * self.sized;
        let mut slant = 0.0;
        for (vector, a) in near.vectors.iter().zip(near.weights) {
            slant += a.abs() * self.slants[*vector as usize];
        }
        let half = (self.stray * near.distance + from_kernel + chain + slant) * (1.0 + 1e-12)
            + 8.0 * UNIT * (sum.abs() + self.offset.abs())
            + f64::MIN_POSITIVE;
        let middle = sum - self.offset;
        Proved::between((middle - half).next_down(), (middle + half).next_up())
    }
}

#[cfg(test)]
mod tests {
    use mercer_testkit::{Real, Wide};

    use super::super::inject;
    use super::*;
    use crate::rounding::QuerySize;

    fn range(numbers: [f64; 13]) -> Option<Proved> {
        let [
            square,
            kernel_error,
            size,
            error,
            weight,
            along,
            form,
            stray,
            sized,
            plain,
            slant,
            sum,
            offset,
        ] = numbers;
        let query = QuerySize { factor: 1.0, kernel_error, relative_error: None };
        let known = ProjectionQuery::new(square, &query)?;
        let vectors = Vectors { sizes: vec![size], error: Some(error), is_relative: true };
        let distance = vectors.distance(&known, &[0], &[weight], along, form)?;
        let near = Nearby { vectors: &[0], weights: &[weight], distance };
        let slants = vec![slant];
        SmallMachine { stray, sized, plain, slants, offset }.range(&known, 1, sum, near)
    }

    /// The distance times the stray, the errors of kernel values and slants, and both roundings of the header.
    fn truth(numbers: &[Wide; 13]) -> [Wide; 2] {
        let [
            own,
            kernel_error,
            size,
            error,
            weight,
            along,
            form,
            stray,
            sized,
            plain,
            slant,
            sum,
            offset,
        ] = *numbers;
        if own < Wide::ZERO {
            return inject::around(Wide::ZERO, -Wide::ONE);
        }
        let (two, among) = (Wide::from(2.0), weight.abs() * size);
        let (q, more) = (own.sqrt(), Wide::from(1.1));
        let reach = q + more * among;
        let rounding = inject::gamma(10.0, UNIT) * reach * reach;
        let errors = two * kernel_error * weight.abs() + error * among * among + rounding;
        let distance = inject::at_least_zero(own - two * along + form + errors).sqrt();
        let chain = inject::gamma(1.0, UNIT) * more * q * sized;
        let half = stray * distance + kernel_error * plain + chain + weight.abs() * slant;
        inject::around(sum - offset, half)
    }

    #[test]
    fn nothing_is_proved_from_numbers_that_are_not_finite() {
        let names = [
            "K(x, x)",
            "kernel error",
            "size",
            "error",
            "weight",
            "along",
            "square",
            "stray",
            "sized",
            "plain",
            "slant",
            "sum",
            "offset",
        ];
        let ordinary = [1.0, 1e-15, 1.0, 1e-15, 0.5, 0.25, 0.25, 0.1, 1.0, 1.0, 1e-14, 0.75, 0.5];
        inject::nothing_is_proved(names, ordinary, range);
        inject::subnormals_keep_the_truth(ordinary, range, truth);
        inject::every_term_counts(ordinary, range, truth);
    }
}
