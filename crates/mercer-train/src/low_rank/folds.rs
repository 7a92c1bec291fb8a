//! Cross-validation over one factor: all folds, subproblems and values of C read the same rows.
//!
//! The pivots are drawn without the targets, so that the held-out examples stay unseen.

use mercer_kernel::factor::{Blocked, Draw, GrowthLimit};
use mercer_simd::Real;

use super::backend::pivot_floor;
use super::factor_rows::FactorRows;
use super::guard::without;
use super::problem::{FactorQp, LowRankProblem, SolvedProgram};
use crate::control::Control;
use crate::gram::GramValue;
use crate::scale_and_offset::one_sided_score;
use crate::validate::{FoldRun, FoldTrainer, train_folds};
use crate::{Folds, Goal, ScaleAndOffset, Stop, TrainError};

/// The rank where it is free.
const RANK: usize = 512;
/// The share of the trace below which the factor grows no further.
const TRACE_FLOOR: f64 = 1e-6;

/// Trains every formulation on all folds but one, and scores the rows of that one.
pub(super) fn cross_validate<T: Real + GramValue>(
    problems: &[LowRankProblem<'_>],
    folds: &Folds,
    runs: &mut [FoldRun<'_>],
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let Some(first) = problems.first() else { return Ok(()) };
    let count = first.examples.len();
    let solver = first.solver;
    let free = if solver.trace.is_some() { solver.largest_rank(count) } else { RANK };
    let rank = solver.rank.unwrap_or(free).min(count);
    let rows = FactorRows::new(first.source, first.examples, T::BYTES == 8);
    let file = first.file(count * rank * T::BYTES)?;
    let (diagonal, floor) = (first.diagonal(), pivot_floor::<T>());
    let mut target = if solver.rank.is_some() { rank } else { rank.min(RANK) };
    let mut factor = Blocked::<T>::new(&diagonal, target, floor, solver.seed, file);
    let trace_share = solver.trace_share(diagonal.iter().sum(), TRACE_FLOOR);
    loop {
        let limit = GrowthLimit { rank: target, trace_share };
        let is_whole = factor.grow(&rows, Draw::Random, limit, &mut |_| control.stop().is_none());
        if !is_whole || factor.rank() < target || target == rank {
            break;
        }
        target = rank.min(2 * target);
    }
    if let Some(reason) = factor.store().failure() {
        return Err(TrainError::FactorFile { reason });
    }
    let programs = |(problem, run): (&LowRankProblem<'_>, &mut FoldRun<'_>)| {
        problem.programs().map_err(|failure| run.fail(failure)).unwrap_or_default()
    };
    let programs = problems.iter().zip(runs.iter_mut()).map(programs).collect();
    let mut trainer = LowRankFolds {
        problems,
        programs,
        factor: &factor,
        folds,
        subproblem: 0,
        held_out_rows: Vec::new(),
        held_out: Vec::new(),
    };
    train_folds(&mut trainer, folds.count(), first.reduction.count(), runs, control)
}

/// The trainings of all folds, subproblems and formulations.
struct LowRankFolds<'r, T> {
    problems: &'r [LowRankProblem<'r>],
    /// The programs of each formulation; none of one that failed.
    programs: Vec<Vec<FactorQp>>,
    factor: &'r Blocked<T>,
    folds: &'r Folds,
    subproblem: usize,
    /// Rows of the factor that are held out, and their examples.
    held_out_rows: Vec<u32>,
    held_out: Vec<u32>,
}

impl<T: Real> FoldTrainer for LowRankFolds<'_, T> {
    type Start = SolvedProgram;

    fn begin(&mut self, fold: usize, subproblem: usize) {
        let (examples, of) = (self.problems[0].examples, self.folds.of());
        let is_held = |row: &u32| of[examples[*row as usize] as usize] as usize == fold;
        self.held_out_rows = (0..examples.len() as u32).filter(is_held).collect();
        self.held_out = self.held_out_rows.iter().map(|row| examples[*row as usize]).collect();
        self.subproblem = subproblem;
    }

    fn held_out(&self) -> &[u32] {
        &self.held_out
    }

    fn train(
        &mut self,
        run: &mut FoldRun<'_>,
        number: usize,
        start: &mut Option<SolvedProgram>,
        control: &mut Control<'_>,
    ) -> Result<Vec<f64>, TrainError> {
        let (problem, program) = (&self.problems[number], &self.programs[number][self.subproblem]);
        let mut is_held = vec![false; problem.examples.len()];
        self.held_out_rows.iter().for_each(|row| is_held[*row as usize] = true);
        if let Some(score) = one_sided(problem, program, &is_held) {
            return Ok(vec![score; self.held_out_rows.len()]);
        }
        let program = match without(problem.formulation, program, &is_held) {
            Ok(program) => program,
            Err(failure) => return Ok(run.fail(failure)),
        };
        let last =
            start.take().filter(|result| result.solution.point.below.len() == program.qp.len());
        let first = last.as_ref().map(|result| scaled_start(result, &program));
        let tolerance = problem.training().tolerance_used();
        let programs = [program];
        let mut solved = problem.solve_from(self.factor, &programs, first, tolerance, control)?;
        let result = solved.pop().expect("one program gives one solution");
        Stop::check_limits(result.solution.stop)?;
        run.converged &= result.solution.evaluation.relative() <= tolerance;
        let scores = self.scores(problem, &programs[0], &result);
        *start = Some(result);
        Ok(scores.unwrap_or_else(|failure| run.fail(failure)))
    }
}

impl<T: Real> LowRankFolds<'_, T> {
    /// Scores of the rows held out.
    fn scores(
        &self,
        problem: &LowRankProblem<'_>,
        program: &FactorQp,
        result: &SolvedProgram,
    ) -> Result<Vec<f64>, TrainError> {
        let ended_early = result.solution.stop.is_some();
        let ScaleAndOffset { scale, offset } =
            problem.scale_and_offset(program, result, ended_early)?;
        let isa = mercer_simd::Isa::current();
        let values = self.factor.store().gather(&self.held_out_rows);
        let rows = values.chunks_exact(self.factor.rank().max(1));
        let score = |row: &[T]| scale * mercer_simd::row_dot(isa, row, &result.solution.w) - offset;
        Ok(rows.map(score).collect())
    }
}

/// The solution for a smaller C, scaled to the new bounds.
fn scaled_start(result: &SolvedProgram, program: &FactorQp) -> Vec<f64> {
    let qp = &program.qp;
    let width = |at: usize| qp.upper[at] - qp.lower[at];
    let value = |v: usize| {
        let (below, above) = (result.solution.point.below[v], result.solution.point.above[v]);
        let share = if below + above > 0.0 { below / (below + above) } else { 0.0 };
        qp.lower[v] + share * width(v)
    };
    (0..qp.len()).map(value).collect()
}

/// The score where the other folds have one class of a subproblem only, or none.
fn one_sided(problem: &LowRankProblem<'_>, program: &FactorQp, is_held: &[bool]) -> Option<f64> {
    if problem.formulation.goal() != Goal::Classes {
        return None;
    }
    let (has_plus, has_minus) = program.classes_left(is_held);
    one_sided_score(has_plus, has_minus)
}
