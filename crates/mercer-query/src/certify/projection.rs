//! Machine and query projected onto a few points of feature space, step by step.
//!
//! Basis points `Z_1..Z_k` and a lower triangular matrix T, meant to be the inverse of the Cholesky factor
//! of their Gram matrix, give `e_i = Σ_(j<=i) T_ij Φ(Z_j)`, meant to be orthonormal. A score is
//! `f + b = <W, Q>`, `W = Σ β_i Φ(x_i)`, `Q = Φ(x)`; stored beside T are numbers `w_i`, meant to be
//! `<e_i, W>`. Nothing below needs T or w to be accurate. With
//!
//! `y_i = <e_i, Q> = Σ_j T_ij K(Z_j, x)`, `D_ij = <e_i, e_j> - [i = j]`, `c_i = <e_i, W>`, and after `k`
//! steps `W = Σ w_i e_i + W'`, `Q = Σ y_i e_i + Q'` (sums over `i <= k`), exactly
//!
//! `<W, Q> = Σ w_i y_i + <W', Σ y_i e_i> + <W', Q'>`,  `<W', e_i> = c_i - w_i - (D w)_i =: h_i`,
//! `|Q'|² = K(x, x) - |y|² + y'Dy`,  `|W'|² = |W|² - 2 w'c + |w|² + w'Dw`.
//!
//! So `|<W, Q> - Σ w_i y_i| <= Ω_k R_k + |h| |y|` where `Ω_k >= |W'|`, `R_k >= |Q'|`: that is \[DeCoste03\]
//! eq. 22 (whose eq. 21 to 23 reduce to it), made true for the factor at hand instead of an exact one.
//! Offline: `Ω_k`, `hidden_k >= |h|`, `delta_k >= ||D||_F`; see the fitting half for how they are bounded.
//!
//! **Rounding.** `u = 2^-53`, `γ_n = n u / (1 - n u)`. Let `s_j >= sqrt(K(Z_j, Z_j))`, `q >= sqrt(K(x, x))`,
//! `t_i = Σ_j |T_ij| s_j`, `τ_i = Σ_j |T_ij|`, and `B_k`, `A_k` the norms of their first `k`. Kernel values
//! have `|K̂_j - K_j| <= r s_j q`, or at least `<= ε`. The computed `ŷ_i` is a chain of `i` fused
//! multiply-adds, so `|ŷ_i - y_i| <= γ_i Σ|T_ij||K̂_j| + Σ|T_ij||K̂_j - K_j|` and
//!
//! `|ŷ - y| <= e_k = q E_k`,  `E_k = 1.01 (γ_k + r) B_k`, or `γ_k B_k 1.01 + (ε / q) A_k`.
//!
//! `|y| <= sqrt(1 + delta_k) q <= 1.005 q` as `delta_k <= 0.01`. While `E_k <= 0.1`:
//!
//! - the sum `N = Σ ŷ_i²` in step order: `| N - |y|² | <= γ_(k+1) |ŷ|² + e (2 |y| + e)`, so
//!   `R_k² <= q² (1 - N / q² + noise)`, `noise = 1.3 (γ_(k+8) + delta_k) + 2.1 E_k + E_k²`, with the
//!   four roundings of that sum;
//! - the sum `F = Σ w_i ŷ_i`, one chain: wrong by `γ_k |w||ŷ| + |w| e`, so with `|h||y|` the score lies
//!   within `Ω_k R_k + q (|w|_k (E_k + 1.2 γ_(k+4)) + 1.2 hidden_k)` of `F - b`.
//!
//! What follows in f64 is at most eight roundings of numbers no larger than what is widened.
//!
//! **Underflow and overflow.** Nothing is claimed where `q²` lies outside 1e-100 to 1e100. Within, the `k` products
//! of a `ŷ_i` lose at most `k 2^-1074`; as `|e_i| >= 0.99`, `B_k` is at least that and `E_k q` at least
//! `10^-16 q >= 10^-66`. Squares of `ŷ` that underflow are below `10^-308`, and `noise q² >= 10^-116`. The norm `|w|_k`
//! is stored with 1e-150 added for squares that underflow. The products `w_i ŷ_i` lose `k 2^-1074` in all, what
//! follows a few `2^-1074`: `2^-1022` covers them. What overflows makes a bound infinite or NaN, and then nothing is
//! claimed.

use mercer_kernel::bound::{UNIT, at_least_zero, gamma, larger};

use super::Proved;
use crate::rounding::QuerySize;

/// Largest `delta_k` for which the constants above hold.
pub(crate) const MOST_DEFECT: f64 = 0.01;

/// What the steps of all scores share.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedSteps(pub(crate) Vec<SharedStep>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedStep {
    /// `A_k`: what an absolute error of kernel values is multiplied by.
    pub(crate) absolute: f64,
    /// `B_k`: the same for a relative one.
    pub(crate) relative: f64,
    /// `1.01 γ_k B_k`.
    pub(crate) chain: f64,
    /// `1.3 (γ_(k+8) + delta_k)`.
    pub(crate) noise: f64,
}

/// One step of one score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProjectionStep {
    /// `w_k`.
    pub weight: f64,
    /// `Ω_k`.
    pub(crate) rest: f64,
    /// `|w|_k`.
    pub(crate) norm: f64,
    /// `1.2 (γ_(k+4) |w|_k + hidden_k)`.
    pub(crate) constant: f64,
}

/// What is known of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProjectionQuery {
    root: f64,
    /// `1 / q²`.
    inverse: f64,
    /// `1.01 r`, or zero.
    pub(super) relative: f64,
    /// `ε / q`, or zero.
    pub(super) absolute: f64,
}

/// What a step leaves of a query, over `q`: the squared length of the rest and the error of its
/// coordinates.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StepResidual {
    square: f64,
    error: f64,
}

impl SharedSteps {
    /// Constants of all steps from the rows of T (row `i` has `i + 1` entries), the sizes `s_j` of the
    /// basis points and `delta`.
    pub(crate) fn new<'a>(
        rows: impl Iterator<Item = &'a [f64]>,
        sizes: &[f64],
        delta: &[f64],
    ) -> Self {
        let mut shared = Self::default();
        let (mut ones, mut sized) = (0.0, 0.0);
        for ((row, delta), k) in rows.zip(delta).zip(1u32..) {
            let k = f64::from(k);
            let up = 1.0 + (k + 8.0) * f64::EPSILON;
            let plain: f64 = row.iter().map(|t| t.abs()).sum::<f64>() * up;
            let long: f64 = row.iter().zip(sizes).map(|(t, s)| t.abs() * s).sum::<f64>() * up;
            ones += plain * plain * up;
            sized += long * long * up;
            let (absolute, relative) = (ones.sqrt() * up, sized.sqrt() * up);
            let (chain, noise) = (1.011 * gamma(k) * relative, 1.3 * (gamma(k + 8.0) + delta));
            shared.0.push(SharedStep { absolute, relative, chain, noise });
        }
        shared
    }

    /// What step `k` (from 0) leaves of a query whose squared coordinates add up to `spent`.
    #[inline]
    pub(crate) fn left(&self, k: usize, known: &ProjectionQuery, spent: f64) -> StepResidual {
        let step = &self.0[k];
        let error = step.chain + known.relative * step.relative + known.absolute * step.absolute;
        let noise = step.noise + (2.1 + error) * error;
        // Two roundings relative to 1, which the constants of the noise allow for.
        StepResidual { square: at_least_zero(1.0 - spent * known.inverse + noise), error }
    }
}

impl ProjectionStep {
    /// `k` from 1; `norm` is `|w|_k` rounded up.
    pub(crate) fn new(k: usize, weight: f64, rest: f64, norm: f64, hidden: f64) -> Self {
        let constant = 1.2001 * (gamma(k as f64 + 4.0) * norm + hidden) + f64::MIN_POSITIVE;
        Self { weight, rest, norm, constant }
    }

    /// Whether the range after this step is likely to leave zero out: a test without a root. What it says
    /// is not relied on.
    #[inline]
    pub(crate) fn may_settle(
        &self,
        known: &ProjectionQuery,
        left: StepResidual,
        sum: f64,
        offset: f64,
    ) -> bool {
        let away = (sum - offset).abs() - known.root * (self.norm * left.error + self.constant);
        let gap = self.rest * known.root;
        away > 0.0 && away * away > gap * gap * left.square
    }

    /// The range of the score `f = sum - offset` after this step; `None` where nothing can be claimed.
    pub(crate) fn range(
        &self,
        known: &ProjectionQuery,
        left: StepResidual,
        sum: f64,
        offset: f64,
    ) -> Option<Proved> {
        if left.error.is_nan() || left.error > 0.1 {
            return None;
        }
        let relative = self.rest * left.square.sqrt() + self.norm * left.error + self.constant;
        let half = known.root * relative * (1.0 + 1e-12)
            + 8.0 * UNIT * (sum.abs() + offset.abs())
            + f64::MIN_POSITIVE;
        let middle = sum - offset;
        Proved::between((middle - half).next_down(), (middle + half).next_up())
    }
}

impl ProjectionQuery {
    /// `q`.
    pub(crate) fn root(&self) -> f64 {
        self.root
    }

    /// A query with `K(x, x) <= square`, and what is known of its kernel values.
    pub(crate) fn new(square: f64, size: &QuerySize) -> Option<Self> {
        if !(1e-100..=1e100).contains(&square) {
            return None;
        }
        let root = square.sqrt() * (1.0 + 4.0 * UNIT);
        let (relative, absolute) = match size.relative_error {
            Some(relative) => (1.01 * relative * larger(size.factor / root, 1.0), 0.0),
            None => (0.0, 1.001 * size.kernel_error / root),
        };
        let is_sane = relative.is_finite() && absolute.is_finite();
        is_sane.then_some(Self { root, inverse: 1.0 / square, relative, absolute })
    }
}

#[cfg(test)]
mod tests {
    use mercer_testkit::{Real, Wide};

    use super::super::inject;
    use super::*;

    fn range(numbers: [f64; 12]) -> Option<Proved> {
        let [square, factor, kernel_error, t, size, delta, weight, rest, norm, hidden, y, offset] =
            numbers;
        let query = QuerySize { factor, kernel_error, relative_error: None };
        let known = ProjectionQuery::new(square, &query)?;
        let shared = SharedSteps::new([[t].as_slice()].into_iter(), &[size], &[delta]);
        let left = shared.left(0, &known, y * y);
        ProjectionStep::new(1, weight, rest, norm, hidden).range(&known, left, weight * y, offset)
    }

    /// `q (rest |r| + norm (error + γ) + hidden)`, `|r|²` being what the coordinate leaves of 1, with its noise.
    fn truth(numbers: &[Wide; 12]) -> [Wide; 2] {
        let [square, _, kernel_error, t, size, delta, weight, rest, norm, hidden, y, offset] =
            *numbers;
        if square <= Wide::ZERO {
            return inject::around(Wide::ZERO, -Wide::ONE);
        }
        let q = square.sqrt();
        let chain = inject::gamma(1.0, UNIT) * t.abs() * size;
        let error = chain + kernel_error / q * t.abs();
        let noise = inject::gamma(2.0, UNIT) + delta + (Wide::from(2.0) + error) * error;
        let left = inject::at_least_zero(Wide::ONE - y * y / square + noise);
        let rounding = inject::gamma(5.0, UNIT);
        let half = q * (rest * left.sqrt() + norm * (error + rounding) + hidden);
        inject::around(weight * y - offset, half)
    }

    #[test]
    fn nothing_is_proved_from_numbers_that_are_not_finite() {
        let names = [
            "K(x, x)",
            "factor",
            "kernel error",
            "t",
            "size",
            "delta",
            "weight",
            "rest",
            "norm",
            "hidden",
            "y",
            "offset",
        ];
        let ordinary = [1.0, 1.0, 1e-15, 1.0, 1.0, 1e-14, 2.0, 0.5, 2.0, 1e-15, 0.5, 0.25];
        // The factor is not used without a relative error.
        let unused = 1;
        let of = |mut numbers: [f64; 12]| {
            if !numbers[unused].is_finite() {
                return None;
            }
            numbers[unused] = 1.0;
            range(numbers)
        };
        inject::nothing_is_proved(names, ordinary, of);
        inject::subnormals_keep_the_truth(ordinary, of, truth);
        inject::every_term_counts(ordinary, of, truth);
        for poison in [f64::NAN, f64::INFINITY] {
            for (factor, relative) in [(poison, 1e-15), (1.0, poison)] {
                let kernel_error = f64::INFINITY;
                let query = QuerySize { factor, kernel_error, relative_error: Some(relative) };
                assert!(ProjectionQuery::new(1.0, &query).is_none(), "{query:?}");
            }
        }
    }

    #[test]
    fn queries_whose_values_may_underflow_get_no_range() {
        let query = QuerySize { factor: 1.0, kernel_error: 1e-300, relative_error: None };
        for square in [0.0, 1e-310, 1e-101, 1e101, f64::MAX] {
            assert!(ProjectionQuery::new(square, &query).is_none(), "{square:e}");
        }
    }
}
