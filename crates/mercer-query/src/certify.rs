//! What is proved: the only place where proved ranges are made.
//!
//! A stage computes; the bounds below turn what it computed into a range that contains the score of the
//! machine as stored, in real arithmetic, whatever was rounded on the way. Each derivation stands with its
//! bound.

pub(crate) mod curves;
pub(crate) mod nearby;
pub(crate) mod powers;
pub(crate) mod projection;
pub(crate) mod quadratic;
pub(crate) mod singles;
pub(crate) mod steps;
pub(crate) mod tail;
pub(crate) mod taylor;

use crate::Interval;

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
