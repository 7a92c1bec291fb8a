//! Backend of linear and additive solvers: packs the examples, solves all subproblems, builds scores.
//! How values are packed is in `values` and [`crate::additive`]; the loop over subproblems is in `run`.

use mercer_data::limits;
use mercer_simd::factors::{Encoding, Float};
use mercer_simd::{Isa, Real as _};

use super::run::{RowSelection, solve_all};
use super::solution::SubproblemSolution;
use super::subproblem::{LinearProblem, Termination};
use super::transposed::Transposed;
use super::warm::warm_start;
use super::{Duals, LinearReport, LinearSolver, Loss, Space, folds, values};
use crate::additive::{self, BinPlacement, FactorReport};
use crate::backend::{Backend, Fit, FitDetails, FittedScores, Prepared};
use crate::control::Control;
use crate::packed::{ColumnOrder, ExampleStore, MemoryBudget};
use crate::problem::Problem;
use crate::validate::FoldRun;
use crate::{Folds, FormulationRef, SubproblemReport, TrainError};

impl Backend for &LinearSolver {
    fn check_formulation(&self, formulation: &FormulationRef) -> Result<(), TrainError> {
        loss_of(self, formulation).map(drop)
    }

    fn prepare<'p>(
        &'p self,
        problem: &'p Problem<'p>,
    ) -> Result<Box<dyn Prepared + 'p>, TrainError> {
        let loss = loss_of(self, problem.formulation)?;
        let rows = problem.weighted_examples();
        let packing = Packing { problem, solver: self, loss, rows };
        packing.check_weights(1)?;
        if self.bins == BinPlacement::Off {
            values::prepare(packing)
        } else {
            additive::prepare(packing)
        }
    }
}

/// The loss of a formulation that this solver minimises.
pub(super) fn loss_of(
    solver: &LinearSolver,
    formulation: &FormulationRef,
) -> Result<Loss, TrainError> {
    let unsuited =
        |reason: String| TrainError::Unsuited { solver: solver.name().to_owned(), reason };
    let loss = formulation.loss().ok_or_else(|| {
        unsuited(format!(
            "it minimises c_svc, squared_hinge, logistic or epsilon_svr, not {}",
            formulation.spec().name()
        ))
    })?;
    // Descent over the weights needs a smooth loss and values as they are.
    let is_suited = loss.is_smooth() && solver.bins == BinPlacement::Off;
    match solver.space {
        Space::Primal if !is_suited => Err(unsuited(
            "space=primal minimises squared_hinge or logistic, with bins=off".to_owned(),
        )),
        Space::Lasso if !is_suited => Err(unsuited(
            "penalty=l1 minimises squared_hinge or logistic, with bins=off; other losses have penalty=l2"
                .to_owned(),
        )),
        _ => Ok(loss),
    }
}

/// What examples are packed from.
pub(crate) struct Packing<'p> {
    pub(crate) problem: &'p Problem<'p>,
    pub(crate) solver: &'p LinearSolver,
    pub(crate) loss: Loss,
    /// Examples of weight above zero.
    pub(crate) rows: Vec<u32>,
}

impl Packing<'_> {
    /// An error that names the solver.
    pub(crate) fn unsuited(&self, reason: String) -> TrainError {
        TrainError::Unsuited { solver: self.solver.name().to_owned(), reason }
    }

    /// Checks that the scores, with `rank` weights for each column, are no larger than the examples justify.
    pub(crate) fn check_weights(&self, rank: usize) -> Result<(), TrainError> {
        let examples = self.problem.examples;
        let weights = examples.columns().saturating_mul(rank);
        let weights = weights.saturating_mul(self.problem.subproblem_count());
        limits::check_table("the weights of columns", weights, examples.nonzeros())
            .map_err(|error| self.unsuited(error.to_string()))
    }

    /// Memory for packed rows.
    pub(crate) fn memory_budget(&self) -> MemoryBudget {
        let bytes = self.problem.training.memory_beside_bytes(self.problem.examples.bytes());
        MemoryBudget { bytes, seed: self.solver.seed }
    }

    /// The problem over packed examples.
    pub(crate) fn linear_problem<M: Encoding>(
        &self,
        store: ExampleStore,
        columns: ColumnOrder,
        encoding: M,
        has_dual_objective: bool,
    ) -> LinearProblem<M> {
        LinearProblem {
            store,
            columns,
            encoding,
            weights: self.problem.row_weights(&self.rows),
            targets: self.problem.row_targets(&self.rows),
            folds: Vec::new(),
            loss: self.loss,
            bias: M::Real::from_f64(self.solver.bias),
            tolerance: self.problem.training.tolerance_used(),
            passes: self.solver.passes,
            seed: self.solver.seed,
            has_dual_objective,
            space: self.solver.space,
            transposed: None,
            isa: Isa::current(),
        }
    }
}

/// What the report says of the preparation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreparationReport {
    /// Name of the bins.
    pub(crate) bins: &'static str,
    pub(crate) factor: FactorReport,
    pub(crate) seconds: f64,
}

/// Makes scores of the weights of all subproblems; a subproblem that was not begun has none.
pub(crate) type BuildScores<M> = Box<
    dyn Fn(
        &LinearProblem<M>,
        &[Option<SubproblemSolution<<M as Encoding>::Real>>],
    ) -> Result<FittedScores, TrainError>,
>;

/// Packed examples, and how weights become scores.
pub(crate) struct PreparedLinear<'p, M: Encoding> {
    pub(crate) packing: Packing<'p>,
    pub(crate) packed: LinearProblem<M>,
    pub(crate) report: PreparationReport,
    pub(crate) build_scores: BuildScores<M>,
}

impl<M: Encoding> Prepared for PreparedLinear<'_, M> {
    fn solve(self: Box<Self>, control: &mut Control<'_>) -> Result<Fit, TrainError> {
        let (problem, packed) = (self.packing.problem, &self.packed);
        let selections = RowSelection::all(problem);
        let warm = warm_start(problem.training, packed, selections.len())?;
        let mut solved = solve_all(packed, &selections, &warm, control)?;
        let duals = problem.training.keep_duals.then(|| Duals::take(packed, &mut solved));
        let scores = (self.build_scores)(packed, &solved)?;
        let report = self.linear_report(&scores, &solved);
        let reports = selections.iter().zip(&solved).map(|(selection, solution)| {
            subproblem_report(&selection.name, solution.as_ref(), packed.tolerance)
        });
        Ok(Fit {
            stop: solved.iter().flatten().filter_map(SubproblemSolution::stop).next_back(),
            peak_memory_bytes: peak_memory_bytes(packed, selections.len()),
            details: FitDetails { linear: Some(Box::new(report)), ..FitDetails::default() },
            duals,
            ..Fit::new(scores, reports.collect())
        })
    }

    fn cross_validate(
        self: Box<Self>,
        folds: &Folds,
        runs: &mut [FoldRun<'_>],
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        folds::cross_validate(self.packing, self.packed, folds, runs, control)
    }
}

impl<M: Encoding> PreparedLinear<'_, M> {
    fn linear_report(
        &self,
        scores: &FittedScores,
        solved: &[Option<SubproblemSolution<M::Real>>],
    ) -> LinearReport {
        let packed = &self.packed;
        let (columns, rows) = (packed.transposed.as_ref(), packed.store.rows());
        let bytes = packed.store.bytes(1) + columns.map_or(0, Transposed::bytes);
        LinearReport {
            bins: self.report.bins,
            rank: match scores {
                FittedScores::Tables { grid, .. } => grid.rank(),
                _ => packed.encoding.rank(),
            },
            factor: self.report.factor,
            nonzeros: columns.map_or(packed.store.entries(), Transposed::entries),
            example_bytes: bytes + M::Real::BYTES * 2 * rows,
            weights: columns.is_some().then(|| nonzero_weights(solved)),
            chunks: packed.store.is_on_disk().then(|| packed.store.chunks()),
            preparation: self.report.seconds,
        }
    }
}

fn subproblem_report<T: Float>(
    name: &str,
    solution: Option<&SubproblemSolution<T>>,
    tolerance: f64,
) -> SubproblemReport {
    let unsolved = SubproblemReport::unsolved(name.to_owned());
    let Some(solution) = solution else { return unsolved };
    let is_optimal = solution.termination == Termination::Optimal;
    SubproblemReport {
        converged: is_optimal && solution.violation <= tolerance,
        objective: solution.objective,
        gap: solution.gap,
        violation: solution.violation,
        supports: solution.supports,
        bounded: solution.bounded,
        iterations: solution.updates,
        ..unsolved
    }
}

/// Bytes of the packed examples and of the subproblems that are solved at the same time.
fn peak_memory_bytes<M: Encoding>(packed: &LinearProblem<M>, subproblems: usize) -> usize {
    let threads = rayon::current_num_threads().min(subproblems);
    let numbers = packed.store.rows() + packed.store.columns() * packed.encoding.rank();
    let state = 4 * packed.store.rows() + M::Real::BYTES * numbers;
    let transposed = packed.transposed.as_ref().map_or(0, Transposed::bytes);
    packed.store.bytes(threads) + threads * state + transposed
}

/// Weights that are not zero, of all subproblems.
fn nonzero_weights<T: Float>(solved: &[Option<SubproblemSolution<T>>]) -> usize {
    let count = |solution: &SubproblemSolution<T>| {
        solution.weights.iter().filter(|weight| **weight != T::default()).count()
    };
    solved.iter().flatten().map(count).sum()
}
