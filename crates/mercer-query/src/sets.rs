//! Prediction sets and intervals: which targets are close enough to the scores of a row. Membership is decided by proved ranges
//! where they suffice, and by exact scores otherwise. The calibration is `mercer_machine::Conformal`.

use mercer_data::Matrix;
use mercer_machine::{Answer, Conformal, Output, nonconformity};

use crate::{Certainty, Cost, Decision, Interval, Plan, QueryError, QueryOptions, Require};

/// The targets that a row may have.
#[derive(Debug, Clone, PartialEq)]
pub enum PredictionSet {
    /// Positions of classes, increasing; never empty, because the label belongs to it.
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
    /// Prediction sets of all rows, in order. Estimates decide nothing here, and there is no budget; the tolerance of a
    /// regression widens its intervals by as much at most.
    ///
    /// # Errors
    /// As [`Plan::decide`], for a novelty machine, or for a calibration that is not believed ([`Conformal::is_believed`]).
    pub fn predict_sets(
        &self,
        rows: &Matrix,
        conformal: &Conformal,
        tolerance: Option<f64>,
    ) -> Result<Vec<SetDecision>, QueryError> {
        if !conformal.is_believed() {
            return Err(QueryError::UntestedSets);
        }
        let (output, quantile) = (self.exact_stage().machine().output(), conformal.quantile());
        let proved =
            QueryOptions { require: Require::Certified, tolerance, ..QueryOptions::default() };
        match output {
            Output::Novelty => Err(QueryError::NoSets),
            Output::Value => {
                let decisions = self.decide_with(rows, &proved)?.decisions;
                // No residual is below 0, whatever a file says.
                let half = if quantile > 0.0 { quantile } else { 0.0 };
                Ok(decisions.iter().map(|decision| interval(decision, half)).collect())
            }
            Output::Classes { .. }
                if quantile >= 0.0 && self.exact_stage().machine().scores().len() == 1 =>
            {
                self.sets_of_two(rows, quantile)
            }
            Output::Classes { names, .. } => {
                let decisions = self.decide_with(rows, &proved)?.decisions;
                self.sets_of_several(rows, decisions, names.len(), quantile)
            }
        }
    }

    /// Two classes: the first belongs to the set if `f >= -q`, the second if `f <= q`; with `q >= 0` one of both holds.
    fn sets_of_two(&self, rows: &Matrix, quantile: f64) -> Result<Vec<SetDecision>, QueryError> {
        // `f > threshold` gives the first class: `f >= -q` is `f` above the number before `-q`.
        let ask = |rows: &Matrix, threshold: f64| {
            let options = QueryOptions { threshold: Some(threshold), ..QueryOptions::default() };
            Ok::<_, QueryError>(self.decide_with(rows, &options)?.decisions)
        };
        let above = ask(rows, quantile)?;
        let is_first = |decision: &Decision| decision.answer == Answer::Class(0);
        let others: Vec<usize> = (0..rows.rows()).filter(|row| !is_first(&above[*row])).collect();
        let below = ask(&rows.select(others.iter().copied()), (-quantile).next_down())?;
        let set = |decision: &Decision, classes: Vec<usize>| SetDecision {
            set: PredictionSet::Classes(classes),
            certainty: decision.certainty,
            cost: decision.cost,
        };
        let mut sets: Vec<SetDecision> =
            above.iter().map(|decision| set(decision, vec![0])).collect();
        for (row, decision) in others.into_iter().zip(&below) {
            let classes = if is_first(decision) { vec![0, 1] } else { vec![1] };
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

    /// Several classes, or a quantile below 0. A class whose margin is at least `-q` belongs to the set, and the label. No other
    /// class has a margin above minus that of the label: if the label wins by more than q, it is alone. With `q < 0` it always is,
    /// because a class with a positive margin is the label.
    fn sets_of_several(
        &self,
        rows: &Matrix,
        decisions: Vec<Decision>,
        classes: usize,
        quantile: f64,
    ) -> Result<Vec<SetDecision>, QueryError> {
        let is_alone = |decision: &Decision| quantile < 0.0 || decision.range.low > quantile;
        let open: Vec<usize> = (0..rows.rows()).filter(|row| !is_alone(&decisions[*row])).collect();
        let scores = self.scores(&rows.select(open.iter().copied()))?;
        let label = |decision: &Decision| match decision.answer {
            Answer::Class(class) => class,
            _ => 0,
        };
        let mut sets: Vec<SetDecision> = decisions
            .iter()
            .map(|decision| SetDecision {
                set: PredictionSet::Classes(vec![label(decision)]),
                certainty: decision.certainty,
                cost: decision.cost,
            })
            .collect();
        let machine = self.exact_stage().machine();
        for (row, scores) in open.into_iter().zip(scores.chunks_exact(machine.scores().len())) {
            let belongs = |class: &usize| {
                let found = nonconformity(machine.output(), scores, Answer::Class(*class));
                *class == label(&decisions[row]) || found.is_some_and(|found| found <= quantile)
            };
            let exact = self.exact_stage().cost().multiply_adds;
            let is_exact = decisions[row].certainty == Certainty::Exact;
            let more = if is_exact { 0 } else { exact };
            sets[row] = SetDecision {
                set: PredictionSet::Classes((0..classes).filter(belongs).collect()),
                certainty: Certainty::Exact,
                cost: Cost { multiply_adds: sets[row].cost.multiply_adds + more },
            };
        }
        Ok(sets)
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
