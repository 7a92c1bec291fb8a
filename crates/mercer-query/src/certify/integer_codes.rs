//! Kernel expansions computed from integer products of codes.
//!
//! Rows lie near a grid: a support is `z = z' + ρ`, a query `x = x' + r` with `z' = base + step b`,
//! `x' = base + step a` and codes a, b from 0 to 255. In columns without codes `x' = x`, and `z'` is the
//! base, or 0 beyond the machine's columns. Products of codes are exact in 32 bits; upper bounds on `|r|`
//! and on the largest `|ρ_i|` come with the codes ([`mercer_kernel::block::Coded`]), and `η` is their sum.
//! Notation is that of [`super::single_precision`].
//!
//! **Gaussian.** `d'² = |x' - z'|² = step² D + B`, where `D = Σ(a - b)²` is an exact integer and `B` the sum
//! over columns without codes. The triangle inequality gives `|d - d'| <= η`, so
//! `|d² - d'²| <= η (2 d' + η)`. The exponent `t = γ step² D + γ B` has terms of one sign only: rounding D,
//! `γ step²`, `γ B` and the result to f32 makes a relative error of at most `3.2 v`. So the exponent
//! is wrong by at most
//!
//! `δ = γ η (2 d' + η) + 3.2 v T`, where `T = min(88, γ d'²)` and `d' = sqrt(T / γ)`.
//!
//! Both terms grow with d'; where the computed exponent exceeds `126 ln 2 = 87.3` the value is taken as
//! `2^-126 < 2e-38`, and then `K < 5e-38` as long as `δ <= 1/2`. The rest is as in single precision: `r = e^δ / (1 - ε) - 1`.
//!
//! **Others.** `x·z = x'·z' + r·z + x'·ρ`, so the product of the grid rows is off by at most
//! `|r| Z + (|x| + |r|) |ρ|`. It is put together from integers in f64,
//! `x'·z' = step² Σab + base (step Σa + step Σb + n base + Σ_dead x)`, with at most 10 roundings, and those
//! of the sum over dead columns, relative to the sizes of its terms, which together are at most
//! `M = (step |a| + |base| sqrt(n)) (Z + |ρ| + 2 |base| sqrt(n)) + |base| Σ_dead |x|`. What follows is as
//! in f32 with this error of a product; 1e-150 is added for products of small steps that underflow.

use mercer_kernel::Profile;
use mercer_kernel::block::{Coded, CodedQuery};
use mercer_kernel::bound::{UNIT, capped};

use super::single_precision::{F32Bound, F32Query, HIDDEN, SINGLE, is_sane};

/// Constants of one machine, computed at load, beside those for single precision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodedBound {
    step: f64,
    base: f64,
    /// Live columns.
    pub(crate) live: f64,
    /// Largest `|ρ_i|`.
    pub(crate) leftover: f64,
    /// Largest `|b_i|`, rounded up.
    pub(crate) longest_code: f64,
}

impl CodedBound {
    pub(crate) fn new(coded: &Coded) -> Self {
        let most = coded.squares().iter().copied().max().unwrap_or(0);
        Self {
            step: coded.grid().step(),
            base: coded.grid().base(),
            live: coded.live_columns() as f64,
            leftover: coded.residual(),
            longest_code: f64::from(most).sqrt() * (1.0 + 1e-15),
        }
    }

    /// Factor and constant of the exponent of a Gaussian to the base 2: `γ step² / ln 2` and `γ B / ln 2`,
    /// rounded once each.
    pub(crate) fn exponent(&self, kernel_gamma: f64, query: &CodedQuery) -> [f32; 2] {
        let kernel_gamma = kernel_gamma * std::f64::consts::LOG2_E;
        [(kernel_gamma * self.step * self.step) as f32, (kernel_gamma * query.beyond) as f32]
    }

    /// What is known of a query whose squared norm is `squared_norm`; `None` where nothing can be claimed.
    pub(crate) fn query(
        &self,
        f32_bound: &F32Bound,
        squared_norm: f64,
        query: &CodedQuery,
    ) -> Option<F32Query> {
        let longest = f32_bound.longest;
        if !is_sane(squared_norm) || !is_sane(longest * longest) {
            return None;
        }
        let codes = f64::from(query.squares).sqrt() * (1.0 + 1e-15);
        if let Profile::Gaussian { gamma: kernel_gamma } = f32_bound.profile {
            let factor = kernel_gamma * self.step * self.step;
            if !(1e-30..=1e30).contains(&kernel_gamma) || !(1e-30..=1e30).contains(&factor) {
                return None;
            }
            let apart = query.residual + self.leftover + HIDDEN;
            let distance = self.step * (codes + self.longest_code);
            let most = capped(kernel_gamma * 1.01 * (distance * distance + query.beyond), 88.0);
            let furthest = (most / kernel_gamma).sqrt() * 1.001;
            let from_grid = kernel_gamma * apart * (2.0 * furthest + apart) * 1.001;
            let delta = from_grid + 3.2 * SINGLE * most + 1e-40;
            return F32Query::gaussian(delta, mercer_simd::EXP2_32_RELATIVE_ERROR);
        }
        let (length, longest) = (squared_norm.sqrt() * (1.0 + 1e-9) + HIDDEN, longest + HIDDEN);
        let left = query.residual * longest + (length + query.residual) * self.leftover;
        let base = self.base.abs() * self.live.sqrt();
        let sizes = (self.step * codes + base) * (longest + self.leftover + 2.0 * base)
            + self.base.abs() * query.dead_size;
        let roundings = 10.0 + if self.base == 0.0 { 0.0 } else { f32_bound.columns as f64 };
        f32_bound
            .with_products(squared_norm, (left + roundings * UNIT * sizes) * (1.0 + 1e-9) + HIDDEN)
    }

    /// The part of `x'·z'` that only depends on the query, and the factors of `Σab` and of `Σb`.
    pub(crate) fn product(&self, query: &CodedQuery) -> [f64; 3] {
        let sum = self.step * f64::from(query.sum) + self.live * self.base + query.dead_sum;
        [self.base * sum, self.step * self.step, self.base * self.step]
    }
}

#[cfg(test)]
mod tests {
    use mercer_testkit::{Real, Wide};

    use super::super::inject;
    use super::super::single_precision::F32Weights;
    use super::*;
    use crate::Proved;

    fn range(profile: Profile, numbers: [f64; 9]) -> Option<Proved> {
        let [step, base, leftover, longest_code, squared_norm, residual, beyond, dead_size, sum] =
            numbers;
        let bound = CodedBound { step, base, live: 4.0, leftover, longest_code };
        let f32_bound = F32Bound { profile, terms: 9.0, longest: 2.0, rows: 3, columns: 5 };
        let query = CodedQuery { squares: 9, sum: 5, residual, beyond, dead_sum: 0.0, dead_size };
        let known = bound.query(&f32_bound, squared_norm, &query)?;
        let weights = F32Weights { used: 1.5, original: 1.5, offset: 0.25, lost: 1e-44 };
        f32_bound.range(&known, &weights, sum, 1.25)
    }

    const NAMES: [&str; 9] = [
        "step",
        "base",
        "leftover",
        "longest code",
        "squared norm",
        "residual",
        "beyond",
        "dead size",
        "sum",
    ];
    const ORDINARY: [f64; 9] = [0.25, 0.5, 1e-9, 3.0, 3.0, 1e-9, 0.125, 0.5, 0.75];

    /// Rows that are off the grid by what is left of them, and nothing else.
    fn truth(profile: Profile, numbers: &[Wide; 9]) -> [Wide; 2] {
        let [step, _, leftover, longest_code, squared_norm, residual, beyond, _, sum] = *numbers;
        let (number, used, offset) = (Wide::from, Wide::from(1.5), Wide::from(0.25));
        if squared_norm < Wide::ZERO || beyond < Wide::ZERO {
            return inject::around(Wide::ZERO, -Wide::ONE);
        }
        let half = if let Profile::Gaussian { gamma } = profile {
            let distance = step * (number(3.0) + longest_code);
            let most = number(gamma) * (distance * distance + beyond);
            let most = inject::least(most, number(88.0));
            let furthest = (most / number(gamma)).sqrt();
            let apart = residual + leftover;
            let delta = number(gamma) * apart * (number(2.0) * furthest + apart);
            delta * number(1.25) + number(5e-38) * used
        } else {
            let left = residual * number(2.0) + (squared_norm.sqrt() + residual) * leftover;
            left * used
        };
        inject::around(sum - offset, half)
    }

    #[test]
    fn nothing_is_proved_from_numbers_that_are_not_finite() {
        for profile in [Profile::Gaussian { gamma: 0.5 }, Profile::Identity] {
            let found = |numbers| range(profile, numbers);
            inject::subnormals_keep_the_truth(ORDINARY, found, |numbers| truth(profile, numbers));
            assert!(range(profile, ORDINARY).is_some());
            let is_gaussian = profile != Profile::Identity;
            for (at, name) in NAMES.iter().enumerate() {
                // Gaussians use neither the base nor the size of dead columns, others not the distance beyond the codes.
                let is_unused = match *name {
                    "base" | "dead size" => is_gaussian,
                    "longest code" | "beyond" => !is_gaussian,
                    _ => false,
                };
                for poison in [f64::NAN, f64::INFINITY] {
                    let mut numbers = ORDINARY;
                    numbers[at] = poison;
                    // A distance that is infinite makes every value zero: that is known.
                    let is_capped = is_gaussian && poison == f64::INFINITY;
                    let is_fine =
                        is_unused || (is_capped && matches!(*name, "longest code" | "beyond"));
                    assert!(
                        is_fine || range(profile, numbers).is_none(),
                        "{profile:?}: {name} = {poison}"
                    );
                }
            }
        }
    }
}
