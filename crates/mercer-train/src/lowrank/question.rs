//! What is asked of a factor: quadratic programs over its rows.

use mercer_data::Dataset;
use mercer_kernel::KernelRef;

use super::interior::FactorSolution;
use super::{LowRank, Precision};
use crate::gram::Source;
use crate::reduce::Reduction;
use crate::training::prepare::Inputs;
use crate::{FormulationRef, Qp, Subproblem, TrainError, Training};

/// Beyond this `C |g|²` singles are too coarse for the factor.
const COARSE: f64 = 1e6;
/// Tolerances up to this one ask for interior points and doubles.
pub(super) const FINE: f64 = 1e-6;

/// All that a low-rank training reads.
pub(super) struct Asked<'a> {
    pub(super) data: &'a Dataset,
    pub(super) kernel: &'a KernelRef,
    pub(super) formulation: &'a FormulationRef,
    pub(super) training: &'a Training,
    pub(super) recipe: &'a LowRank,
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) reduction: &'a dyn Reduction,
    pub(super) source: &'a Source<'a>,
    /// The example of each row of the factor.
    pub(super) examples: &'a [u32],
}

/// One quadratic program over rows of the factor.
pub(super) struct Ask {
    pub(super) name: String,
    /// The rows, increasing, unless all.
    pub(super) rows: Option<Vec<u32>>,
    /// The place of each row in the question as solvers of Gram matrices ask it.
    pub(super) places: Vec<u32>,
    pub(super) targets: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) qp: Qp,
}

/// Its solution.
pub(super) struct Solved {
    pub(super) found: FactorSolution,
    pub(super) switched: bool,
}

impl Asked<'_> {
    pub(super) fn asks(&self) -> Result<Vec<Ask>, TrainError> {
        let blocks = self.reduction.blocks();
        let mut row_of = vec![0u32; self.data.examples.rows()];
        (0u32..).zip(self.examples).for_each(|(row, example)| row_of[*example as usize] = row);
        (0..self.reduction.questions())
            .map(|number| {
                let binary = self.reduction.question(number);
                let members = binary.blocks.iter().flat_map(|block| &blocks[*block]);
                let mut order: Vec<(u32, u32)> =
                    members.zip(0u32..).map(|(e, place)| (row_of[*e as usize], place)).collect();
                order.sort_unstable();
                let (rows, places): (Vec<u32>, Vec<u32>) = order.into_iter().unzip();
                let pick = |values: &[f64]| -> Vec<f64> {
                    places.iter().map(|place| values[*place as usize]).collect()
                };
                let (targets, weights) = (pick(&binary.targets), pick(&binary.weights));
                let part = Subproblem { name: &binary.name, targets: &targets, weights: &weights };
                let qp = self.formulation.quadratic_program(&part)?;
                let rows = (rows.len() < self.examples.len()).then_some(rows);
                Ok(Ask { name: binary.name, rows, places, targets, weights, qp })
            })
            .collect()
    }

    pub(super) fn needs_f64(&self, asks: &[Ask]) -> bool {
        let largest = self.source.diagonal.iter().fold(0.0, |most: f64, k| most.max(*k));
        let limit = asks.iter().flat_map(|ask| ask.qp.upper.iter().chain(&ask.qp.lower));
        let limit = limit.fold(0.0, |most: f64, c| most.max(c.abs()));
        match self.recipe.precision {
            Precision::Double => true,
            Precision::Single => !self.source.fits_f32,
            Precision::Auto => {
                !self.source.fits_f32
                    || self.source.f32_rows.is_none()
                    || self.training.tolerance_used() <= FINE
                    || largest * limit > COARSE
            }
        }
    }

    /// Numbers read for one kernel value.
    pub(super) fn width(&self) -> usize {
        let rows = self.data.examples.rows().max(1);
        (2 * self.data.examples.nonzeros() / rows).min(self.data.examples.columns()).max(1)
    }

    pub(super) fn examples_of(&self, ask: &Ask) -> Vec<u32> {
        match &ask.rows {
            Some(rows) => rows.iter().map(|row| self.examples[*row as usize]).collect(),
            None => self.examples.to_vec(),
        }
    }

    /// Examples with a coefficient, and the coefficients.
    pub(super) fn supports(&self, ask: &Ask, solved: &Solved) -> (Vec<u32>, Vec<f64>) {
        let beta = ask.qp.fold(&solved.found.point.beta(&ask.qp));
        let examples = self.examples_of(ask);
        examples.iter().zip(beta).filter(|(_, beta)| *beta != 0.0).unzip()
    }

    /// A file for the factor where memory does not hold it.
    pub(super) fn file(&self, bytes: usize) -> Result<Option<std::fs::File>, TrainError> {
        if bytes <= self.training.memory_beside(&self.data.examples) {
            return Ok(None);
        }
        let failed = |error: std::io::Error| TrainError::FactorFile { reason: error.to_string() };
        tempfile::tempfile().map(Some).map_err(failed)
    }
}
