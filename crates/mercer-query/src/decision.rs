//! Decisions: an answer with its range, its certainty and its cost. How a decision is reached is in `tracker.rs`.

use mercer_machine::Answer;

/// How sure an answer is. The order is one of authority, not of truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The budget was spent before the label was settled, or a rule that was never tested stopped.
    Unsettled,
    /// Wrong with at most the plan's stated probability, at its stated confidence.
    Calibrated,
    /// Proved: the machine's score in real arithmetic has this sign, rounding included.
    Certified,
    /// The label of the specified f64 evaluation.
    Exact,
}

/// A range that contains a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of half-width `half_width` around `middle`, rounded outwards.
    pub fn around(middle: f64, half_width: f64) -> Self {
        Self { low: (middle - half_width).next_down(), high: (middle + half_width).next_up() }
    }

    /// What two ranges of the same score have in common; none if they do not meet.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    /// Whether it contains `value`.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// What an answer cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Multiply-adds, counting one kernel value of d columns as d.
    pub multiply_adds: u64,
}

/// An answer with its range, its certainty and its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Class, value or whether the query is an inlier.
    pub answer: Answer,
    /// Contains the score (two classes, regression, novelty) or the margin (several classes). Of a
    /// calibrated answer it is the estimate with its acceptance threshold: not proved.
    pub range: Interval,
    /// How sure.
    pub certainty: Certainty,
    /// What it cost.
    pub cost: Cost,
}
