//! Cross-validation over one Gram matrix: all folds, subproblems and formulations read its rows.
//!
//! Each solution is where the next formulation of the path starts, its gradient included. Trainings end by
//! the gradient from rows in f32, a sample of which is compared with f64.

use super::start::PathStart;
use super::{PreparedGram, StoredExamples, needs_matrix};
use crate::control::Control;
use crate::gram::{Gram, View};
use crate::reduce::BinarySubproblem;
use crate::scale_and_offset::scale_and_offset;
use crate::solvers::{GramProblem, GramSolver, Solution, StartPoint, StoppingTest};
use crate::validate::{FoldRun, FoldSubproblems, FoldTrainer, train_folds};
use crate::{Folds, Qp, ScaleAndOffset, Stop, TrainError};

/// Kernel rows of support vectors fetched at once to score the examples held out.
const FETCH: usize = 256;
/// Coefficients that differ by less than this share of the largest differ by rounding.
const ROUNDING: f64 = 1e-12;

pub(super) fn cross_validate(
    prepared: PreparedGram<'_>,
    folds: &Folds,
    runs: &mut [FoldRun<'_>],
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let PreparedGram { problem, solver, examples, .. } = prepared;
    let StoredExamples::Memory(source) = examples else {
        return Err(needs_matrix(problem.training));
    };
    let subproblems = FoldSubproblems::new(problem, folds);
    let memory = problem.training.memory_beside(problem.matrix()?);
    let gram = Gram::new(source, subproblems.example_sets().to_vec(), memory);
    let max_iterations = problem.training.max_iterations;
    let mut trainer = GramFolds {
        solver,
        subproblems: &subproblems,
        gram,
        memory,
        max_iterations,
        present: None,
    };
    train_folds(&mut trainer, folds.count(), subproblems.count(), runs, control)
}

/// The trainings of all folds, subproblems and formulations.
struct GramFolds<'r, 'a> {
    solver: &'r dyn GramSolver,
    subproblems: &'r FoldSubproblems<'r>,
    gram: Gram<'a>,
    memory: usize,
    /// Pair steps of one training.
    max_iterations: Option<u64>,
    present: Option<WithoutFold>,
}

/// A subproblem without one fold.
struct WithoutFold {
    binary: BinarySubproblem,
    held_out: Vec<u32>,
    held_out_sets: Vec<usize>,
}

impl FoldTrainer for GramFolds<'_, '_> {
    type Start = PathStart;

    fn begin(&mut self, fold: usize, number: usize) {
        self.present = Some(WithoutFold {
            binary: self.subproblems.subproblem(number, fold),
            held_out: self.subproblems.held_out(fold),
            held_out_sets: self.subproblems.held_out_sets(fold),
        });
    }

    fn held_out(&self) -> &[u32] {
        self.present.as_ref().map_or(&[], |present| &present.held_out)
    }

    fn train(
        &mut self,
        run: &mut FoldRun<'_>,
        _: usize,
        start: &mut Option<PathStart>,
        control: &mut Control<'_>,
    ) -> Result<Vec<f64>, TrainError> {
        let present = self.present.take().expect("begin was called");
        let scores = self.train_without_fold(&present, run, start, control);
        self.present = Some(present);
        scores
    }
}

impl GramFolds<'_, '_> {
    fn train_without_fold(
        &mut self,
        present: &WithoutFold,
        run: &mut FoldRun<'_>,
        start: &mut Option<PathStart>,
        control: &mut Control<'_>,
    ) -> Result<Vec<f64>, TrainError> {
        let binary = &present.binary;
        if let Some(score) = self.subproblems.one_sided(binary) {
            return Ok(vec![score; present.held_out.len()]);
        }
        let qp = match run.formulation.quadratic_program(&binary.view()) {
            Ok(qp) => qp,
            Err(failure) => return Ok(run.fail(failure)),
        };
        let from = match start.take() {
            Some(last) => self.next_start(binary, &qp, &last),
            None => StartPoint::Point(qp.start.clone()),
        };
        let solution = self.solve(binary, &qp, from, control)?;
        run.converged &= solution.stop.is_none();
        let coefficients = qp.fold(&solution.beta);
        let is_constant = coefficients.iter().all(|beta| *beta == 0.0);
        let multipliers = &solution.optimality.multipliers;
        let ended_early = solution.stop.is_some();
        let targets = &binary.targets;
        let formulation = run.formulation;
        let scores =
            match scale_and_offset(formulation, multipliers, targets, is_constant, ended_early) {
                Ok(ScaleAndOffset { scale, offset }) => {
                    let k_beta = self.held_out_sums(present, &coefficients);
                    k_beta.iter().map(|sum| scale * sum - offset).collect()
                }
                Err(failure) => run.fail(failure),
            };
        *start = Some(PathStart::new(&qp, &solution.beta, solution.k_beta));
        Ok(scores)
    }

    /// The last solution, made to fit the next program, with its `Kβ`.
    fn next_start(&mut self, binary: &BinarySubproblem, qp: &Qp, last: &PathStart) -> StartPoint {
        let scale = last.scale(qp);
        let beta = qp.repaired(&qp.unfold_scaled(&last.coefficients, scale));
        let mut k_beta: Vec<f64> = last.k_beta.iter().map(|sum| scale * sum).collect();
        let coefficients = qp.fold(&beta);
        let largest = coefficients.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let view = View::new(&binary.sets);
        let examples = self.gram.examples(&view);
        let moved = coefficients.iter().zip(&last.coefficients).map(|(new, old)| new - scale * old);
        let moved = examples.iter().zip(moved).filter(|(_, by)| by.abs() > ROUNDING * largest);
        let (rows, moved): (Vec<u32>, Vec<f64>) = moved.unzip();
        self.add(&view, &rows, &moved, &mut k_beta);
        StartPoint::Known { beta, k_beta }
    }

    fn solve(
        &mut self,
        binary: &BinarySubproblem,
        qp: &Qp,
        from: StartPoint,
        control: &mut Control<'_>,
    ) -> Result<Solution, TrainError> {
        control.max_iterations = self.max_iterations.map(|limit| control.iterations + limit);
        let view = View::new(&binary.sets);
        let (gram, memory) = (&mut self.gram, self.memory);
        let stopping_test = StoppingTest::Sampled;
        let mut problem =
            GramProblem { gram, view, qp, from, shared: true, stopping_test, memory, file: None };
        let solution = self.solver.solve(&mut problem, control)?;
        Stop::check_limits(solution.stop)?;
        Ok(solution)
    }

    /// `Σ β K` of the examples held out.
    fn held_out_sums(&mut self, present: &WithoutFold, coefficients: &[f64]) -> Vec<f64> {
        let examples = self.gram.examples(&View::new(&present.binary.sets));
        let used = examples.iter().zip(coefficients).filter(|(_, beta)| **beta != 0.0);
        let (supports, weights): (Vec<u32>, Vec<f64>) = used.unzip();
        let mut sums = vec![0.0; present.held_out.len()];
        self.add(&View::new(&present.held_out_sets), &supports, &weights, &mut sums);
        sums
    }

    /// Adds `Σ weight K` over these rows to the sums of a view.
    fn add(&mut self, view: &View, rows: &[u32], weights: &[f64], sums: &mut [f64]) {
        for (rows, weights) in rows.chunks(FETCH).zip(weights.chunks(FETCH)) {
            self.gram.fetch(view, rows);
            self.gram.add(view, rows, weights, sums);
        }
    }
}
