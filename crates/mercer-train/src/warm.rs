//! A machine as the starting point of another training.
//! For solvers over a Gram matrix; linear solvers start from coefficients (`linear/warm.rs`).

use std::collections::HashMap;

use mercer_data::{Matrix, Row};
use mercer_machine::{Machine, Output, Score};

use crate::TrainError;

/// Coefficients of a machine by the training examples that equal its supports.
#[derive(Debug)]
pub(crate) struct Warm<'a> {
    machine: &'a Machine,
    /// Support of each example, if it is one; only the first of equal examples counts.
    support_of: Vec<Option<u32>>,
}

type Key = Vec<(u32, u64)>;

fn key(row: Row<'_>) -> Key {
    row.nonzeros().map(|(column, value)| (column, value.to_bits())).collect()
}

impl<'a> Warm<'a> {
    /// # Errors
    /// If the machine has other outputs.
    pub(crate) fn new(
        machine: &'a Machine,
        examples: &Matrix,
        output: &Output,
    ) -> Result<Self, TrainError> {
        if machine.output() != output {
            let reason = "it has other classes, another scheme or another purpose".to_owned();
            return Err(TrainError::WarmStart { reason });
        }
        let supports = machine.supports();
        let mut places: HashMap<Key, u32> =
            (0..supports.rows()).map(|row| (key(supports.row(row)), row as u32)).collect();
        let support_of = examples.iter().map(|row| places.remove(&key(row))).collect();
        Ok(Self { machine, support_of })
    }

    /// Coefficients of one score for these examples; zero where the machine knows none.
    pub(crate) fn coefficients(&self, score: usize, examples: &[u32]) -> Vec<f64> {
        let mut by_support = vec![0.0; self.machine.supports().rows()];
        if let Score::Expansion { supports, coefficients, .. } = &self.machine.scores()[score] {
            for (support, beta) in supports.iter().zip(coefficients) {
                by_support[*support as usize] = *beta;
            }
        }
        let beta = |support: u32| by_support[support as usize];
        examples.iter().map(|e| self.support_of[*e as usize].map_or(0.0, beta)).collect()
    }
}
