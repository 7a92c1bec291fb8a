//! The constants of the near certificates (`certify/nearby.rs`, whose notation this is), for a fit of `compressed` and for its
//! verification; those of the sequence are in `sequence.rs`.
//!
//! The small machine is `W~ = Σ g_j Φ(Z_j)`; a fit takes `g = T'w` rounded. The rest of the sequence is
//! `W' = W - Σ w_i e_i`, `|W'| <= Ω`, so
//!
//! `|R| = |W - W~| <= Ω + Σ_j |g_j - (T'w)_j| s_j`,  `|g'_j - (T'w)_j| <= 2u |g'_j| + 3 k² u² Σ_i |T_ij w_i|`,
//!
//! `g'` being computed as a compensated sum, and `<R, Φ(Z_j)> = <Z_j, W> - Σ_l g_l K_jl`, whose computed value is off by at most
//! `ε σ_j (S' + G') + 8u s_j (S + G)`, `G = Σ|g_l| s_l`, `G' = Σ|g_l| σ_l`: kernel values, compensated sums.

use mercer_kernel::bound::UNIT;
use mercer_kernel::factor::Compensated;

use super::sequence::{ScoreNorms, SequenceConstants, UP};

/// Arrays, score after score.
#[derive(Debug)]
pub struct Near {
    /// `g`.
    pub coefficients: Vec<f64>,
    /// A bound on `|R|`.
    pub strays: Vec<f64>,
    /// Bounds on `|<R, Φ(Z_j)>|`.
    pub slants: Vec<f64>,
}

impl Near {
    /// Coefficients that are given, score after score, or those of the sequence.
    pub fn new(constants: &SequenceConstants, lengths: &ScoreNorms, given: Option<&[f64]>) -> Self {
        let steps = constants.steps();
        let raw = &constants.raw;
        let (epsilon, is_relative) = (raw.errors.factor * 1.001, raw.errors.is_relative);
        let sigma = |j: usize| if is_relative { raw.sizes[j] } else { 1.0 };
        let row = |i: usize| &constants.triangle[i * (i + 1) / 2..(i + 1) * (i + 2) / 2];
        let mut near = Self { coefficients: Vec::new(), strays: Vec::new(), slants: Vec::new() };
        for (score, length) in lengths.scores.iter().enumerate() {
            let mut sums = vec![Compensated::default(); steps];
            let mut spread = vec![0.0; steps];
            for (i, w) in constants.weights[score][..steps].iter().enumerate() {
                for ((sum, size), t) in sums.iter_mut().zip(&mut spread).zip(row(i)) {
                    sum.add_product(*t, *w);
                    *size += (t * w).abs();
                }
            }
            let found: Vec<f64> = sums.iter().map(Compensated::value).collect();
            let own = given.map_or(found.as_slice(), |all| &all[score * steps..][..steps]);
            let (mut stray, mut large, mut scaled) = (0.0, 0.0, 0.0);
            let squares = 4.0 * (steps as f64 + 2.0).powi(2) * UNIT * UNIT;
            for (j, g) in own.iter().enumerate() {
                let moved = (g - found[j]).abs() * (1.0 + 4.0 * UNIT);
                let rounding = 2.0 * UNIT * found[j].abs() + squares * spread[j];
                stray += (moved + rounding) * raw.sizes[j];
                large += g.abs() * raw.sizes[j];
                scaled += g.abs() * sigma(j);
            }
            let (large, scaled) = (large * UP, scaled * UP);
            let other = if is_relative { length.size } else { length.plain };
            near.strays.push((constants.rests[score][steps - 1] + stray) * UP);
            for j in 0..steps {
                let mut left = Compensated::from(raw.products[j][score]);
                let pairs = own.iter().zip(&raw.gram[j]);
                pairs.for_each(|(g, value)| left.subtract_product(*g, *value));
                let error = epsilon * sigma(j) * (other + scaled)
                    + 8.0 * UNIT * raw.sizes[j] * (length.size + large);
                near.slants.push((left.value().abs() + error) * UP + f64::MIN_POSITIVE);
            }
            near.coefficients.extend_from_slice(own);
        }
        near
    }
}
