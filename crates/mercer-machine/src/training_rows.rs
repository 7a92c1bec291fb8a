//! [`TrainingRows`]: the rows that a machine was trained on, kept with its model so that updates need no data file.
//! How a machine is updated is in `mercer-train` (`update.rs`).

use mercer_data::{Matrix, Targets};

use crate::{ClassName, MachineError};

/// Bytes of the name of a class, on average over the rows.
const MOST_BYTES: usize = 1024;

/// The rows of a training, as the machine expects them (scaled), with their targets and weights.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRows {
    examples: Matrix,
    targets: Targets,
    weights: Option<Vec<f64>>,
    solver: Option<String>,
    class_weights: Vec<(ClassName, f64)>,
}

impl TrainingRows {
    /// # Errors
    /// If the counts differ, or a target or a weight is not what a training accepts.
    pub fn new(
        examples: Matrix,
        targets: Targets,
        weights: Option<Vec<f64>>,
    ) -> Result<Self, MachineError> {
        let expected = examples.rows();
        let count = |what: &'static str, found: usize| {
            if found == expected {
                Ok(())
            } else {
                Err(MachineError::Count { what, found, expected })
            }
        };
        if targets != Targets::Absent {
            count("targets of kept rows", targets.len())?;
        }
        if let Targets::Names(texts) = &targets {
            Self::check_texts(texts.iter().map(String::len).sum(), expected)?;
        }
        if let Targets::Numbers(numbers) = &targets
            && !numbers.iter().all(|value| value.is_finite())
        {
            return Err(MachineError::OutOfRange { what: "a target of its kept rows" });
        }
        if let Some(weights) = &weights {
            count("weights of kept rows", weights.len())?;
            if !weights.iter().all(|weight| is_weight(*weight)) {
                return Err(MachineError::OutOfRange { what: "a weight of its kept rows" });
            }
        }
        Ok(Self { examples, targets, weights, solver: None, class_weights: Vec::new() })
    }

    /// Checks that targets are no longer than names of classes are: a file has each name once, and the rows refer to it.
    pub(crate) fn check_texts(bytes: usize, rows: usize) -> Result<(), MachineError> {
        if bytes > MOST_BYTES.saturating_mul(rows.max(1024)) {
            return Err(MachineError::OutOfRange {
                what: "the length of class names of its kept rows",
            });
        }
        Ok(())
    }

    /// The same with the solver and the weights of classes that they were trained with.
    ///
    /// # Errors
    /// If a weight is negative or not finite.
    pub fn with_options(
        self,
        solver: Option<String>,
        class_weights: Vec<(ClassName, f64)>,
    ) -> Result<Self, MachineError> {
        if !class_weights.iter().all(|(_, weight)| is_weight(*weight)) {
            return Err(MachineError::OutOfRange { what: "a weight of a class of its kept rows" });
        }
        Ok(Self { solver, class_weights, ..self })
    }

    /// The rows.
    pub fn examples(&self) -> &Matrix {
        &self.examples
    }

    /// Their targets; absent for novelty detection.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Their weights, where some are not 1.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The solver, where it was given.
    pub fn solver(&self) -> Option<&str> {
        self.solver.as_deref()
    }

    /// Factors of the weights of some classes.
    pub fn class_weights(&self) -> &[(ClassName, f64)] {
        &self.class_weights
    }
}

fn is_weight(weight: f64) -> bool {
    weight >= 0.0 && weight.is_finite()
}
