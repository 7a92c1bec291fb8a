//! Backend of low-rank training: one factor of the Gram matrix for all subproblems, and the steps of a training in
//! their order. Each step is in a file of its own: `grow`, `solve`, `guard`, `report`, `polish`.

use std::time::Instant;

use mercer_kernel::KernelRef;
use mercer_kernel::factor::Blocked;
use mercer_simd::Real;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

use super::factor_rows::FactorRows;
use super::guard::{self, HeldOut};
use super::problem::{FactorQp, LowRankProblem, SolvedProgram};
use super::report::{Seconds, approximation_reports, factor_report, low_rank_fit};
use super::{GuardReport, LowRank, LowRankReport, descent, folds, grow, polish};
use crate::backend::{Backend, Fit, Prepared, refuse_saved_state};
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

fn unsuited(reason: String) -> TrainError {
    TrainError::Unsuited { solver: "low_rank".to_owned(), reason }
}

/// All examples in random order: descent walks through neighbouring rows, which must not be of one class.
fn shuffled(reduction: &Reduction<'_>, seed: u64) -> Vec<u32> {
    let mut examples = reduction.example_sets().concat();
    descent::shuffle(&mut examples, &mut SplitMix64::seed_from_u64(seed.wrapping_add(7)));
    examples
}

impl Backend for &LowRank {
    fn prepare<'p>(
        &'p self,
        problem: &'p Problem<'p>,
    ) -> Result<Box<dyn Prepared + 'p>, TrainError> {
        suits(problem.kernel, problem.formulation).map_err(unsuited)?;
        refuse_saved_state(problem.training)?;
        let source = problem.kernel_source()?;
        let reduction = problem.reduction();
        let examples = shuffled(&reduction, self.seed);
        Ok(Box::new(PreparedLowRank { problem, solver: self, source, reduction, examples }))
    }
}

/// Examples in the order of the factor's rows.
struct PreparedLowRank<'p> {
    problem: &'p Problem<'p>,
    solver: &'p LowRank,
    source: Source<'p>,
    reduction: Reduction<'p>,
    /// The example of each row of the factor.
    examples: Vec<u32>,
}

impl PreparedLowRank<'_> {
    fn with_formulation<'a>(&'a self, formulation: &'a FormulationRef) -> LowRankProblem<'a> {
        LowRankProblem {
            problem: self.problem,
            formulation,
            solver: self.solver,
            reduction: &self.reduction,
            source: &self.source,
            examples: &self.examples,
        }
    }
}

impl Prepared for PreparedLowRank<'_> {
    fn solve(self: Box<Self>, control: &mut Control<'_>) -> Result<Fit, TrainError> {
        let problem = self.with_formulation(self.problem.formulation);
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
            runs.iter().map(|run| self.with_formulation(run.formulation)).collect();
        let needs_f64 = problems
            .iter()
            .any(|problem| problem.programs().is_ok_and(|programs| problem.needs_f64(&programs)));
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

/// Grows the factor, solves the programs over it, lets the guard compare, and builds scores and report.
fn solve<T: Real + GramValue>(
    problem: &LowRankProblem<'_>,
    programs: Vec<FactorQp>,
    control: &mut Control<'_>,
) -> Result<Fit, TrainError> {
    let factor_started = Instant::now();
    let rows = FactorRows::new(problem.source, problem.examples, T::BYTES == 8);
    let mut factor = empty_factor::<T>(problem)?;
    // With the guard on, the programs without its held-out rows come first.
    let held_out = HeldOut::new(problem, &programs)?;
    let first_programs =
        held_out.as_ref().map_or(programs.as_slice(), |held_out| held_out.programs.as_slice());
    let intermediate = grow::grow_factor(&mut factor, &rows, problem, first_programs, control)?;
    let run = LowRankRun {
        problem,
        factor: &factor,
        factor_seconds: factor_started.elapsed().as_secs_f64(),
        solve_started: Instant::now(),
    };
    let tolerance = problem.training().tolerance_used();
    let first_tolerance = if held_out.is_some() { tolerance.max(guard::CLOSE) } else { tolerance };
    let first_start = intermediate.as_deref();
    let mut solved =
        problem.solve(&factor, first_programs, first_start, first_tolerance, control)?;
    let mut guard_report = None;
    if let Some(held_out) = &held_out {
        let outcome = held_out.compare(problem, &factor, &solved, control)?;
        guard_report = Some(outcome.report);
        if let Some(mut exact) = outcome.exact {
            let report = run.report(first_programs, &solved, guard_report, control);
            exact.details.low_rank = Some(Box::new(report));
            return Ok(*exact);
        }
        solved = run.solve_all_rows(&programs, held_out, &solved, control)?;
    }
    let report = run.report(&programs, &solved, guard_report, control);
    let mut fit = low_rank_fit(problem, &factor, &programs, &solved)?;
    drop(factor);
    if problem.training().polish {
        return polish::polish(problem, &programs, &solved, report, control);
    }
    fit.details.low_rank = Some(Box::new(report));
    Ok(fit)
}

/// A factor without pivots, in a file where memory does not hold the largest rank.
fn empty_factor<T: Real>(problem: &LowRankProblem<'_>) -> Result<Blocked<T>, TrainError> {
    let (solver, count) = (problem.solver, problem.examples.len());
    let largest_rank = solver.largest_rank(count);
    let file = problem.file(count * largest_rank * T::BYTES)?;
    let capacity = solver.rank.map_or(0, |rank| rank.min(count));
    let diagonal = problem.diagonal();
    Ok(Blocked::new(&diagonal, capacity, pivot_floor::<T>(), solver.seed, file))
}

/// A training whose factor has its final rank.
struct LowRankRun<'r, T> {
    problem: &'r LowRankProblem<'r>,
    factor: &'r Blocked<T>,
    factor_seconds: f64,
    solve_started: Instant,
}

impl<T: Real> LowRankRun<'_, T> {
    /// Solves the programs of all rows, starting from the solution without the held-out ones.
    fn solve_all_rows(
        &self,
        programs: &[FactorQp],
        held_out: &HeldOut,
        solved_without: &[SolvedProgram],
        control: &mut Control<'_>,
    ) -> Result<Vec<SolvedProgram>, TrainError> {
        // Bounds of held-out rows differ between the two programs: coefficients are handed on, not distances.
        let results = solved_without.iter().zip(&held_out.programs);
        let starts: Vec<Vec<f64>> =
            results.map(|(result, program)| result.solution.point.beta(&program.qp)).collect();
        let tolerance = self.problem.training().tolerance_used();
        self.problem.solve_from(self.factor, programs, starts, tolerance, control)
    }

    /// The factor, how the programs were solved, the approximation error and the guard.
    fn report(
        &self,
        programs: &[FactorQp],
        solved: &[SolvedProgram],
        guard: Option<GuardReport>,
        control: &Control<'_>,
    ) -> LowRankReport {
        let solve = self.solve_started.elapsed().as_secs_f64();
        let seconds = Seconds { factor: self.factor_seconds, solve };
        let report = factor_report(self.problem.solver, self.factor, solved, seconds);
        let approximation =
            approximation_reports(self.problem, self.factor, programs, solved, control);
        LowRankReport { approximation, guard, ..report }
    }
}
