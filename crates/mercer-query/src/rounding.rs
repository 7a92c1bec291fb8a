//! The rounding bound eps_f of the exact evaluation, without the sum it would avoid.
//!
//! The computed score is `fl(Σ β_i K̂_i) - b`, where partial sum `l` chains every eighth term and a tree of
//! three levels joins the eight. A term passes at most `n = ceil(m / 8) + 3` roundings, the difference
//! adds one, so
//!
//! `|f̂ - f| <= γ_(n+1) (Σ|β_i||K̂_i| + |b|) + Σ|β_i| |K̂_i - K_i|`.
//!
//! For semidefinite kernels `|K_i| <= sqrt(K_ii) sqrt(K(x, x))`, so the first sum is a constant of the
//! machine times a number of the query; other kernels use their own bound at the longest support.

use mercer_kernel::block::Packed;
use mercer_kernel::bound;
use mercer_machine::{Machine, Score};

/// Self-sums above it lose no digits to underflow, nor do the kernel values made of them.
const SAFE: f64 = 1e-25;

/// A self-sum of zero may hide a row whose squares underflow; it is at most this.
const HIDDEN: f64 = 1e-300;

/// Constants of all scores of one machine.
#[derive(Debug)]
pub(crate) struct Rounding {
    scores: Vec<Constants>,
    /// Largest and smallest `b(z, z)` of a support.
    longest: f64,
    shortest: f64,
    columns: usize,
    is_shifted: bool,
    is_semidefinite: bool,
}

#[derive(Debug)]
struct Constants {
    /// `Σ|β_i|`, rounded up.
    weight: f64,
    /// `Σ|β_i| sqrt(K_ii)`, rounded up.
    self_weight: f64,
    /// Roundings that a term can meet.
    steps: f64,
    offset: f64,
}

/// What the bound needs of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuerySize {
    /// Bound on one kernel value over `sqrt(K_ii)` (semidefinite) or over 1.
    factor: f64,
    /// Bound on the error of one kernel value.
    kernel_error: f64,
    /// The same, relative to the bound on the value, where the kernel has one.
    relative_error: Option<f64>,
}

impl Rounding {
    pub(crate) fn new(machine: &Machine, packed: &Packed) -> Self {
        let is_semidefinite = machine.kernel().is_positive_semidefinite();
        let sums: Vec<f64> = packed.self_sums().iter().map(|own| own.max(HIDDEN)).collect();
        let up = |sum: f64, terms: usize| sum * (1.0 + (terms as f64 + 8.0) * f64::EPSILON);
        let roots: Vec<f64> = if is_semidefinite {
            let value = |own: &f64| bound::value(machine.kernel().as_ref(), *own, *own).sqrt();
            sums.iter().map(value).collect()
        } else {
            Vec::new()
        };
        let constants = |score: &Score| match score {
            Score::Expansion { supports, coefficients, offset } => {
                let weight = coefficients.iter().map(|beta| beta.abs()).sum();
                let own = |(support, beta): (&u32, &f64)| beta.abs() * roots[*support as usize];
                let named = supports.iter().zip(coefficients);
                let self_weight = if is_semidefinite { named.map(own).sum() } else { 0.0 };
                Constants {
                    weight: up(weight, coefficients.len()),
                    self_weight: up(self_weight, coefficients.len()),
                    steps: (packed.rows().div_ceil(8) + 4) as f64,
                    offset: offset.abs(),
                }
            }
            Score::Linear { weights, offset } => Constants {
                weight: up(weights.iter().map(|w| w * w).sum::<f64>().sqrt(), weights.len()),
                self_weight: 0.0,
                steps: (weights.len() + 1) as f64,
                offset: offset.abs(),
            },
        };
        Self {
            scores: machine.scores().iter().map(constants).collect(),
            longest: sums.iter().copied().fold(0.0, f64::max),
            shortest: sums.iter().copied().fold(f64::INFINITY, f64::min),
            columns: machine.columns(),
            is_shifted: packed.is_shifted(),
            is_semidefinite,
        }
    }

    /// `own` is the query's self-sum `b(x, x)`, `width` the number of its columns.
    pub(crate) fn of_query(&self, packed: &Packed, own: f64, width: usize) -> QuerySize {
        let kernel = packed.kernel().as_ref();
        let own = own.max(HIDDEN);
        let columns = self.columns.max(width);
        let value = bound::value(kernel, own, own);
        let factor = if self.is_semidefinite {
            value.sqrt() * (1.0 + 1e-15)
        } else {
            bound::value(kernel, own, self.longest)
        };
        let error = |other: f64| bound::error(kernel, columns, own, other, self.is_shifted);
        // Errors grow with the support's length, except where short ones underflow.
        let kernel_error = error(self.longest).max(error(self.shortest.min(self.longest)));
        // An infinite error means that something may overflow: then no relative bound holds either.
        let is_safe = own > SAFE && self.shortest > SAFE && kernel_error.is_finite();
        let relative_error = if self.is_semidefinite && is_safe {
            bound::relative_error(kernel, columns, self.is_shifted)
        } else {
            None
        };
        QuerySize { factor, kernel_error, relative_error }
    }

    /// eps_f of one expansion score.
    pub(crate) fn expansion(&self, score: usize, query: &QuerySize) -> f64 {
        let constants = &self.scores[score];
        if constants.weight == 0.0 {
            return bound::gamma(1.0) * constants.offset;
        }
        let weight = if self.is_semidefinite { constants.self_weight } else { constants.weight };
        let magnitude = weight * query.factor;
        let from_kernel = match query.relative_error {
            Some(relative) => relative * magnitude,
            None => constants.weight * query.kernel_error,
        };
        let sum = magnitude + from_kernel + constants.offset;
        let error = bound::gamma(constants.steps) * sum + from_kernel;
        if error.is_nan() { f64::INFINITY } else { error * (1.0 + 1e-15) + f64::MIN_POSITIVE }
    }

    /// eps_f of one linear score; `length` is |x|.
    pub(crate) fn linear(&self, score: usize, length: f64) -> f64 {
        let constants = &self.scores[score];
        let sum = constants.weight * length + constants.offset;
        bound::gamma(constants.steps + 1.0) * sum * (1.0 + 1e-15)
            + constants.steps * f64::MIN_POSITIVE
    }
}
