//! What is proved: the only place where proved ranges are made.
//!
//! A stage computes; the bounds below turn what it computed into a range that contains the score of the
//! machine as stored, in real arithmetic, whatever was rounded on the way. Each derivation is in the file of its
//! bound.

pub(crate) mod curves;
pub(crate) mod integer_codes;
pub(crate) mod nearby;
pub(crate) mod powers;
pub(crate) mod projection;
pub(crate) mod quadratic;
pub(crate) mod single_precision;
pub(crate) mod tail;
pub(crate) mod taylor;

use crate::Interval;

/// Relative error of a product of a query with a row of a strip of f32 values, in units of both norms:
/// `γ'_(n/4 + 12)`, `n` being the live columns. It covers both roundings to f32, four chains of at most `n/4 + 1`
/// fused multiply-adds, two additions, and seven units to spare. Infinite where it has no meaning.
fn strip_error(columns: usize) -> f64 {
    let units = (columns as f64 / 4.0 + 12.0) * f64::from(f32::EPSILON) / 2.0;
    if units < 0.5 { units / (1.0 - units) } else { f64::INFINITY }
}

/// A range that provably contains a score. Only the bounds of this module make one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proved {
    low: f64,
    high: f64,
}

impl Proved {
    /// The range, unless an overflow left nothing to claim.
    fn between(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low <= high).then_some(Self { low, high })
    }

    /// As an interval.
    pub fn interval(self) -> Interval {
        Interval { low: self.low, high: self.high }
    }
}
