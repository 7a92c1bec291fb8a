//! Quadratic programs over the rows of a factor, one for each subproblem.
//! How they are solved is in `solve`; how the factor is made in `grow`.

use super::interior::FactorSolution;
use super::{How, LowRank, Precision};
use crate::gram::Source;
use crate::problem::Problem;
use crate::reduce::Reduction;
use crate::scale_and_offset::scale_and_offset;
use crate::{FormulationRef, Qp, ScaleAndOffset, Subproblem, TrainError, Training};

/// Below this share of the trace f32 is too coarse to say how much of it is left.
const COARSE_TRACE: f64 = 1e-4;
/// Beyond this `C |g|²` f32 is too coarse for the factor.
const COARSE: f64 = 1e6;
/// Tolerances up to this one need interior points and f64.
pub(super) const FINE: f64 = 1e-6;

/// All that a low-rank training reads.
pub(super) struct LowRankProblem<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) formulation: &'a FormulationRef,
    pub(super) solver: &'a LowRank,
    pub(super) reduction: &'a Reduction<'a>,
    pub(super) source: &'a Source<'a>,
    /// The example of each row of the factor.
    pub(super) examples: &'a [u32],
}

/// The quadratic program of one subproblem over rows of the factor.
pub(super) struct FactorQp {
    pub(super) name: String,
    /// The rows, increasing, unless all.
    pub(super) rows: Option<Vec<u32>>,
    /// The position of each row in the subproblem as the reduction orders it.
    pub(super) places: Vec<u32>,
    pub(super) targets: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) qp: Qp,
}

impl FactorQp {
    /// Its row of the factor at this position.
    pub(super) fn row(&self, at: usize) -> usize {
        self.rows.as_ref().map_or(at, |rows| rows[at] as usize)
    }

    /// Whether rows of the class +1 are left when others are held out, and rows of the class -1.
    pub(super) fn classes_left(&self, is_held: &[bool]) -> (bool, bool) {
        let has = |sign: f64| {
            (0..self.qp.rows).any(|at| self.targets[at] == sign && !is_held[self.row(at)])
        };
        (has(1.0), has(-1.0))
    }
}

/// The solution of one program.
pub(super) struct SolvedProgram {
    pub(super) solution: FactorSolution,
    /// Whether coordinate descent gave up and the interior point method took over.
    pub(super) switched: bool,
}

impl<'a> LowRankProblem<'a> {
    pub(super) fn training(&self) -> &'a Training {
        self.problem.training
    }

    /// Kernel values K(x, x) of the rows.
    pub(super) fn diagonal(&self) -> Vec<f64> {
        self.examples.iter().map(|row| self.source.diagonal[*row as usize]).collect()
    }

    pub(super) fn programs(&self) -> Result<Vec<FactorQp>, TrainError> {
        let example_sets = self.reduction.example_sets();
        let mut row_of = vec![0u32; self.problem.examples.rows()];
        (0u32..).zip(self.examples).for_each(|(row, example)| row_of[*example as usize] = row);
        (0..self.reduction.count())
            .map(|number| {
                let binary = self.reduction.subproblem(number);
                let members = binary.sets.iter().flat_map(|set| &example_sets[*set]);
                let mut order: Vec<(u32, u32)> = members
                    .zip(0u32..)
                    .map(|(example, place)| (row_of[*example as usize], place))
                    .collect();
                order.sort_unstable();
                let (rows, places): (Vec<u32>, Vec<u32>) = order.into_iter().unzip();
                let pick = |values: &[f64]| -> Vec<f64> {
                    places.iter().map(|place| values[*place as usize]).collect()
                };
                let (targets, weights) = (pick(&binary.targets), pick(&binary.weights));
                let subproblem =
                    Subproblem { name: &binary.name, targets: &targets, weights: &weights };
                let qp = self.formulation.quadratic_program(&subproblem)?;
                let rows = (rows.len() < self.examples.len()).then_some(rows);
                Ok(FactorQp { name: binary.name, rows, places, targets, weights, qp })
            })
            .collect()
    }

    pub(super) fn needs_f64(&self, programs: &[FactorQp]) -> bool {
        let largest = self.source.diagonal.iter().fold(0.0, |most: f64, k| most.max(*k));
        let limit =
            programs.iter().flat_map(|program| program.qp.upper.iter().chain(&program.qp.lower));
        let limit = limit.fold(0.0, |most: f64, c| most.max(c.abs()));
        match self.solver.precision {
            Precision::Double => true,
            Precision::Single => !self.source.fits_f32,
            Precision::Auto => {
                self.solver.how == How::Printed
                    || self.is_trace_fine()
                    || !self.source.fits_f32
                    || self.source.f32_rows.is_none()
                    || self.training().tolerance_used() <= FINE
                    || largest * limit > COARSE
            }
        }
    }

    /// Whether the trace may be too small for a factor in f32.
    fn is_trace_fine(&self) -> bool {
        let whole: f64 = self.diagonal().iter().sum();
        self.solver.trace.is_some_and(|trace| trace < COARSE_TRACE * whole)
    }

    /// Numbers read for one kernel value.
    pub(super) fn numbers_per_value(&self) -> usize {
        let examples = self.problem.examples;
        let rows = examples.rows().max(1);
        (2 * examples.nonzeros() / rows).min(examples.columns()).max(1)
    }

    pub(super) fn examples_of(&self, program: &FactorQp) -> Vec<u32> {
        match &program.rows {
            Some(rows) => rows.iter().map(|row| self.examples[*row as usize]).collect(),
            None => self.examples.to_vec(),
        }
    }

    /// Examples with a coefficient, and the coefficients.
    pub(super) fn supports(
        &self,
        program: &FactorQp,
        solved: &SolvedProgram,
    ) -> (Vec<u32>, Vec<f64>) {
        let beta = program.qp.fold(&solved.solution.point.beta(&program.qp));
        let examples = self.examples_of(program);
        examples.iter().zip(beta).filter(|(_, beta)| *beta != 0.0).unzip()
    }

    /// Scale and offset of the score of a solved program.
    pub(super) fn scale_and_offset(
        &self,
        program: &FactorQp,
        solved: &SolvedProgram,
        ended_early: bool,
    ) -> Result<ScaleAndOffset, TrainError> {
        let is_constant = solved.solution.w.iter().all(|w| *w == 0.0);
        let multipliers = &solved.solution.evaluation.multipliers;
        let targets = &program.targets;
        scale_and_offset(self.formulation, multipliers, targets, is_constant, ended_early)
    }

    /// A file for the factor where memory does not hold it.
    pub(super) fn file(&self, bytes: usize) -> Result<Option<std::fs::File>, TrainError> {
        if bytes <= self.training().memory_beside_bytes(self.problem.examples.bytes()) {
            return Ok(None);
        }
        let failed = |error: std::io::Error| TrainError::FactorFile { reason: error.to_string() };
        tempfile::tempfile().map(Some).map_err(failed)
    }
}
