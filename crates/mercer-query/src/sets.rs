//! Prediction sets and intervals: which targets are close enough to the scores of a row. Membership is decided by proved ranges
//! where they suffice, and by exact scores otherwise. The calibration is `mercer_machine::Conformal`.

use std::ops::Range;

use mercer_data::Matrix;
use mercer_machine::{Answer, Conformal, Output, nonconformity};
use rayon::prelude::*;

use crate::set_from_ranges::SetRule;
use crate::{Certainty, Cost, Decision, Interval, Plan, QueryError, QueryOptions, Require, Worker};

/// The targets that a row may have.
#[derive(Debug, Clone, PartialEq)]
pub enum PredictionSet {
    /// Positions of classes, increasing; empty only where [`EmptySets::Allowed`] was asked for.
    Classes(Vec<usize>),
    /// Values of a regression.
    Interval(Interval),
}

/// A prediction set, how it was found and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct SetDecision {
    /// The set.
    pub set: PredictionSet,
    /// [`Certainty::Certified`] if ranges decided, else [`Certainty::Exact`].
    pub certainty: Certainty,
    /// What it cost.
    pub cost: Cost,
}

/// Whether sets of classes may be empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptySets {
    /// The label belongs to its set. Where labels are right more often than the coverage asked, sets then cover that much more.
    #[default]
    Never,
    /// The label belongs to its set only if it fits well enough: the coverage is the one asked, and a row that fits no class has
    /// an empty set.
    Allowed,
}

/// What a caller asks of prediction sets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SetOptions {
    /// Intervals of a regression may be wider by this, so that ranges decide more.
    pub tolerance: Option<f64>,
    /// Whether sets of classes may be empty.
    pub empty: EmptySets,
}

impl PredictionSet {
    /// Whether it holds a target.
    pub fn contains(&self, target: Answer) -> bool {
        match (self, target) {
            (Self::Classes(classes), Answer::Class(class)) => classes.contains(&class),
            (Self::Interval(interval), Answer::Value(value)) => interval.contains(value),
            _ => false,
        }
    }

    /// Number of classes, or length of the interval.
    pub fn size(&self) -> f64 {
        match self {
            Self::Classes(classes) => classes.len() as f64,
            Self::Interval(interval) => interval.high - interval.low,
        }
    }
}

impl Plan {
    /// Prediction sets of all rows, in order. Estimates decide nothing here, and there is no budget.
    ///
    /// # Errors
    /// As [`Plan::decide`], for a novelty machine, or for a calibration that is not believed ([`Conformal::is_believed`]).
    pub fn predict_sets(
        &self,
        rows: &Matrix,
        conformal: &Conformal,
        options: &SetOptions,
    ) -> Result<Vec<SetDecision>, QueryError> {
        if !conformal.is_believed() {
            return Err(QueryError::UntestedSets);
        }
        let (output, quantile) = (self.exact_stage().machine().output(), conformal.quantile());
        let tolerance = options.tolerance;
        let proved =
            QueryOptions { require: Require::Certified, tolerance, ..QueryOptions::default() };
        let with_label = options.empty == EmptySets::Never;
        match output {
            Output::Novelty => Err(QueryError::NoSets),
            Output::Value => {
                let decisions = self.decide_with(rows, &proved)?.decisions;
                // No residual is below 0, whatever a file says.
                let half = if quantile > 0.0 { quantile } else { 0.0 };
                Ok(decisions.iter().map(|decision| interval(decision, half)).collect())
            }
            // A class with a positive margin is the label, so that it is alone.
            Output::Classes { .. } if with_label && quantile < 0.0 => {
                let decisions = self.decide_with(rows, &proved)?.decisions;
                Ok(decisions.iter().map(label_alone).collect())
            }
            Output::Classes { .. } if self.exact_stage().machine().scores().len() == 1 => {
                self.sets_of_two(rows, quantile)
            }
            Output::Classes { .. } => self.sets_of_several(rows, SetRule { quantile, with_label }),
        }
    }

    /// Two classes: the first belongs to the set if `f >= -q`, the second if `f <= q`. With `q >= 0` one of both holds, and both
    /// where `|f| <= q`; with `q < 0` neither where `|f| < |q|`.
    fn sets_of_two(&self, rows: &Matrix, quantile: f64) -> Result<Vec<SetDecision>, QueryError> {
        // `f > threshold` gives the first class: `f >= -q` is `f` above the number before `-q`.
        let ask = |rows: &Matrix, threshold: f64| {
            let options = QueryOptions { threshold: Some(threshold), ..QueryOptions::default() };
            Ok::<_, QueryError>(self.decide_with(rows, &options)?.decisions)
        };
        let (first, second) = ((-quantile).next_down(), quantile);
        let (upper, lower) = if quantile >= 0.0 { (second, first) } else { (first, second) };
        let above = ask(rows, upper)?;
        let is_first = |decision: &Decision| decision.answer == Answer::Class(0);
        let others: Vec<usize> = (0..rows.rows()).filter(|row| !is_first(&above[*row])).collect();
        let below = ask(&rows.select(others.iter().copied()), lower)
            .map_err(|error| error.renumbered(|row| others[row - 1] + 1))?;
        let between = if quantile >= 0.0 { vec![0, 1] } else { Vec::new() };
        let set = |decision: &Decision, classes: Vec<usize>| SetDecision {
            set: PredictionSet::Classes(classes),
            certainty: decision.certainty,
            cost: decision.cost,
        };
        let mut sets: Vec<SetDecision> =
            above.iter().map(|decision| set(decision, vec![0])).collect();
        for (row, decision) in others.into_iter().zip(&below) {
            let classes = if is_first(decision) { between.clone() } else { vec![1] };
            let first = &above[row];
            sets[row] = SetDecision {
                certainty: Ord::max(decision.certainty, first.certainty),
                cost: Cost {
                    multiply_adds: first.cost.multiply_adds + decision.cost.multiply_adds,
                },
                ..set(decision, classes)
            };
        }
        Ok(sets)
    }

    /// Several classes: those whose margin is at least `-q`, and the label. The stages go on until that is decided for each class;
    /// rows that they leave open are evaluated exactly, once.
    fn sets_of_several(
        &self,
        rows: &Matrix,
        rule: SetRule,
    ) -> Result<Vec<SetDecision>, QueryError> {
        let by_ranges = self.sets_by_ranges(rows, rule)?;
        let open: Vec<usize> = (0..rows.rows()).filter(|row| by_ranges[*row].0.is_none()).collect();
        let scores = self
            .scores(&rows.select(open.iter().copied()))
            .map_err(|error| error.renumbered(|row| open[row - 1] + 1))?;
        let mut sets: Vec<SetDecision> = by_ranges
            .into_iter()
            .map(|(members, multiply_adds)| SetDecision {
                set: PredictionSet::Classes(members.unwrap_or_default()),
                certainty: Certainty::Certified,
                cost: Cost { multiply_adds },
            })
            .collect();
        let (machine, exact) = (self.exact_stage().machine(), self.exact_stage().cost());
        let (output, classes) = (machine.output(), machine.classes().len());
        for (row, scores) in open.into_iter().zip(scores.chunks_exact(machine.scores().len())) {
            let belongs = |class: &usize| {
                let found = nonconformity(output, scores, Answer::Class(*class));
                let is_label = rule.with_label && output.answer(scores) == Answer::Class(*class);
                is_label || found.is_some_and(|found| found <= rule.quantile)
            };
            sets[row] = SetDecision {
                set: PredictionSet::Classes((0..classes).filter(belongs).collect()),
                certainty: Certainty::Exact,
                cost: Cost { multiply_adds: sets[row].cost.multiply_adds + exact.multiply_adds },
            };
        }
        Ok(sets)
    }

    /// The set of each row as far as ranges decide it, and what that cost.
    fn sets_by_ranges(
        &self,
        rows: &Matrix,
        rule: SetRule,
    ) -> Result<Vec<(Option<Vec<usize>>, u64)>, QueryError> {
        self.check(rows)?;
        if self.stages().is_empty() {
            return Ok(vec![(None, 0); rows.rows()]);
        }
        let run =
            |worker: &mut Worker<'_>, range: Range<usize>| worker.sets_by_ranges(rows, range, rule);
        let mut blocks = self.blocks(rows.rows());
        // One block stays on the caller's thread: waking others takes longer than a query.
        if blocks.len() < 2 {
            let only = blocks.pop();
            return Ok(only.map_or(Vec::new(), |range| run(&mut self.worker(), range)));
        }
        let parts = blocks.into_par_iter().map_init(|| self.worker(), run);
        Ok(parts.collect::<Vec<_>>().concat())
    }
}

fn label_alone(decision: &Decision) -> SetDecision {
    let label = match decision.answer {
        Answer::Class(class) => class,
        _ => 0,
    };
    SetDecision {
        set: PredictionSet::Classes(vec![label]),
        certainty: decision.certainty,
        cost: decision.cost,
    }
}

/// The interval around a value, or around a proved range of it, rounded outwards.
fn interval(decision: &Decision, quantile: f64) -> SetDecision {
    let Interval { low, high } = match (decision.certainty, decision.answer) {
        (Certainty::Exact, Answer::Value(value)) => Interval { low: value, high: value },
        _ => decision.range,
    };
    let set = Interval { low: (low - quantile).next_down(), high: (high + quantile).next_up() };
    SetDecision {
        set: PredictionSet::Interval(set),
        certainty: decision.certainty,
        cost: decision.cost,
    }
}
