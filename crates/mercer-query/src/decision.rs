//! Decisions: an answer with its range, its certainty and its cost.

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
    /// The interval of half-width `radius` around `middle`, rounded outwards.
    pub fn around(middle: f64, radius: f64) -> Self {
        Self { low: (middle - radius).next_down(), high: (middle + radius).next_up() }
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
    pub score: Interval,
    /// How sure.
    pub certainty: Certainty,
    /// What it cost.
    pub cost: Cost,
}
