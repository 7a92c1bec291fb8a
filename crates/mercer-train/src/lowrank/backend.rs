//! Backend of low-rank training: one factor of the Gram matrix for all subproblems.

use std::time::Instant;

use mercer_kernel::KernelRef;
use mercer_kernel::factor::Blocked;
use mercer_simd::Real;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

use super::factor_rows::FactorRows;
use super::guard::{self, HeldOut};
use super::problem::{FactorQp, LowRankProblem};
use super::report::{Seconds, approximation_reports, factor_report, low_rank_fit};
use super::{LowRank, descent, folds, polish, stages};
use crate::backend::{Backend, Fit, Prepared};
use crate::control::Control;
use crate::gram::{GramValue, Source};
use crate::problem::Problem;
use crate::reduce::Reduction;
use crate::validate::FoldRun;
use crate::{Folds, FormulationRef, ProblemForm, TrainError};

/// Why this solver does not fit, if it does not.
pub(super) fn suits(kernel: &KernelRef, formulation: &FormulationRef) -> Result<(), String> {
    if !kernel.is_positive_semidefinite() {
        let spec = kernel.spec();
        return Err(format!(
            "{spec} is not proved positive semidefinite, so it has no such factor"
        ));
    }
    if formulation.form() != ProblemForm::QuadraticProgram {
        let name = formulation.spec().name().to_owned();
        return Err(format!("{name} is no quadratic program over the Gram matrix"));
    }
    Ok(())
}

fn unsuited(reason: impl Into<String>) -> TrainError {
    TrainError::Unsuited { solver: "low_rank".to_owned(), reason: reason.into() }
}

/// All examples in random order: descent walks through neighbouring rows, which must not be of one class.
fn shuffled(reduction: &dyn Reduction, seed: u64) -> Vec<u32> {
    let mut examples = reduction.blocks().concat();
    descent::shuffle(&mut examples, &mut SplitMix64::seed_from_u64(seed.wrapping_add(7)));
    examples
}

impl Backend for &LowRank {
    fn prepare<'p>(
        &'p self,
        problem: &'p Problem<'p>,
    ) -> Result<Box<dyn Prepared + 'p>, TrainError> {
        suits(problem.kernel, problem.formulation).map_err(unsuited)?;
        if problem.training.checkpoint.is_some() {
            return Err(unsuited("it writes no checkpoints; leave them out"));
        }
        if problem.training.warm.is_some() {
            return Err(unsuited("it starts from nothing; leave the warm start out"));
        }
        let source = problem.kernel_source()?;
        let reduction = problem.reduction();
        let examples = shuffled(reduction.as_ref(), self.seed);
        Ok(Box::new(PreparedLowRank { problem, solver: self, source, reduction, examples }))
    }
}

/// Examples in the order of the factor's rows.
struct PreparedLowRank<'p> {
    problem: &'p Problem<'p>,
    solver: &'p LowRank,
    source: Source<'p>,
    reduction: Box<dyn Reduction + 'p>,
    /// The example of each row of the factor.
    examples: Vec<u32>,
}

impl PreparedLowRank<'_> {
    fn with<'a>(&'a self, formulation: &'a FormulationRef) -> LowRankProblem<'a> {
        LowRankProblem {
            problem: self.problem,
            formulation,
            solver: self.solver,
            reduction: self.reduction.as_ref(),
            source: &self.source,
            examples: &self.examples,
        }
    }
}

impl Prepared for PreparedLowRank<'_> {
    fn solve(self: Box<Self>, control: &mut Control<'_>) -> Result<Fit, TrainError> {
        let problem = self.with(self.problem.formulation);
        let programs = problem.programs()?;
        if problem.needs_f64(&programs) {
            solve::<f64>(&problem, programs, control)
        } else {
            solve::<f32>(&problem, programs, control)
        }
    }

    fn cross_validate(
        self: Box<Self>,
        folds: &Folds,
        runs: &mut [FoldRun<'_>],
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let kernel = self.problem.kernel;
        runs.iter().try_for_each(|run| suits(kernel, run.formulation)).map_err(unsuited)?;
        let problems: Vec<LowRankProblem<'_>> =
            runs.iter().map(|run| self.with(run.formulation)).collect();
        let needs_f64 = problems
            .iter()
            .any(|one| one.programs().is_ok_and(|programs| one.needs_f64(&programs)));
        if needs_f64 {
            folds::cross_validate::<f64>(&problems, folds, runs, control)
        } else {
            folds::cross_validate::<f32>(&problems, folds, runs, control)
        }
    }
}

/// The smallest relative distance from the span of the pivots at which a row becomes a pivot.
pub(super) fn pivot_floor<T: Real>() -> f64 {
    if T::BYTES == 4 { 1e-5 } else { 1e-10 }
}

fn solve<T: Real + GramValue>(
    problem: &LowRankProblem<'_>,
    programs: Vec<FactorQp>,
    control: &mut Control<'_>,
) -> Result<Fit, TrainError> {
    let started = Instant::now();
    let solver = problem.solver;
    let count = problem.examples.len();
    let rows = FactorRows::new(problem.source, problem.examples, T::BYTES == 8);
    let limit = solver.rank.unwrap_or(stages::LARGEST_RANK).min(count);
    let file = problem.file(count * limit * T::BYTES)?;
    let capacity = solver.rank.map_or(0, |rank| rank.min(count));
    let diagonal = problem.diagonal();
    let mut factor = Blocked::<T>::new(&diagonal, capacity, pivot_floor::<T>(), solver.seed, file);
    let held_out = HeldOut::new(problem, &programs)?;
    let watched = held_out.as_ref().map_or(programs.as_slice(), |held| held.programs.as_slice());
    let between = stages::grow(&mut factor, &rows, problem, watched, control)?;
    let factor_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let tolerance = problem.training().tolerance_used();
    let close = if held_out.is_some() { tolerance.max(guard::CLOSE) } else { tolerance };
    let mut solved = problem.solve(&factor, watched, between.as_deref(), close, control)?;
    let mut guard_report = None;
    if let Some(held_out) = &held_out {
        let outcome = held_out.compare(problem, &factor, &solved, control)?;
        if let Some(mut exact) = outcome.exact {
            let seconds =
                Seconds { factor: factor_seconds, solve: started.elapsed().as_secs_f64() };
            let mut report = factor_report(solver, &factor, &solved, seconds);
            report.approximation =
                approximation_reports(problem, &factor, watched, &solved, control);
            report.guard = Some(outcome.report);
            exact.details.low_rank = Some(Box::new(report));
            return Ok(*exact);
        }
        guard_report = Some(outcome.report);
        // Bounds of held-out rows differ between the two programs: coefficients are handed on, not distances.
        let found = solved.iter().zip(&held_out.programs);
        let starts: Vec<Vec<f64>> =
            found.map(|(one, program)| one.found.point.beta(&program.qp)).collect();
        solved = problem.solve_from(&factor, &programs, starts, tolerance, control)?;
    }
    let seconds = Seconds { factor: factor_seconds, solve: started.elapsed().as_secs_f64() };
    let mut report = factor_report(solver, &factor, &solved, seconds);
    report.approximation = approximation_reports(problem, &factor, &programs, &solved, control);
    report.guard = guard_report;
    let mut fit = low_rank_fit(problem, &factor, &programs, &solved)?;
    drop(factor);
    if problem.training().polish {
        return polish::polish(problem, &programs, &solved, report, control);
    }
    fit.details.low_rank = Some(Box::new(report));
    Ok(fit)
}
