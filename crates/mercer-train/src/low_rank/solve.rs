//! Solves subproblems over a low-rank factor: by coordinate descent where it is fast, else by the interior point method.
//! The order of a training (factor, guard, solution, report) is in `backend`.

use mercer_kernel::factor::{Blocked, Store};
use mercer_simd::Real;
use rayon::prelude::*;

use super::interior::{self, InteriorOptions};
use super::problem::{FINE, FactorQp, LowRankProblem, SolvedProgram};
use super::{How, descent};
use crate::control::{Control, Status};
use crate::{Qp, Stop, TrainError};

/// For a larger `C |g|²` coordinate descent is slower than the interior point method.
const DESCENT_LIMIT: f64 = 100.0;

impl LowRankProblem<'_> {
    /// Solves all subproblems over a factor, starting from earlier solutions of the same quadratic programs.
    pub(super) fn solve<T: Real>(
        &self,
        factor: &Blocked<T>,
        programs: &[FactorQp],
        from: Option<&[SolvedProgram]>,
        tolerance: f64,
        control: &mut Control<'_>,
    ) -> Result<Vec<SolvedProgram>, TrainError> {
        let betas = from.into_iter().flatten().zip(programs);
        let starts = betas
            .map(|(result, program)| result.solution.point.beta(&program.qp))
            .collect::<Vec<_>>();
        self.solve_from(factor, programs, starts, tolerance, control)
    }

    /// Solves all subproblems over a factor, starting from these points if there are any.
    pub(super) fn solve_from<T: Real>(
        &self,
        factor: &Blocked<T>,
        programs: &[FactorQp],
        starts: impl IntoIterator<Item = Vec<f64>>,
        tolerance: f64,
        control: &mut Control<'_>,
    ) -> Result<Vec<SolvedProgram>, TrainError> {
        let starts: Vec<Vec<f64>> = starts.into_iter().collect();
        let mut solved = Vec::with_capacity(programs.len());
        let threads = if programs.len() == 1 { 1 } else { rayon::current_num_threads().max(1) };
        for (first, group) in programs.chunks(threads).enumerate() {
            control.start_subproblem(first * threads);
            let start_of = |at: usize| starts.get(first * threads + at).cloned();
            if let [program] = group {
                let mut monitor = |made: u64, gap: f64| {
                    if !gap.is_nan() {
                        let status = Status { violation: gap, gap: f64::NAN, supports: 0 };
                        control.report(status);
                    }
                    let is_limit_reached = control
                        .max_iterations
                        .is_some_and(|limit| control.iterations + made >= limit);
                    control.stop().or(is_limit_reached.then_some(Stop::IterationLimit))
                };
                let result = self.solve_program(
                    factor.store(),
                    program,
                    start_of(0),
                    tolerance,
                    &mut monitor,
                );
                control.iterations += result.solution.updates + result.solution.iterations as u64;
                solved.push(result);
            } else {
                let must_stop = control.stop_check(group.len());
                let results: Vec<SolvedProgram> = group
                    .par_iter()
                    .enumerate()
                    .map(|(at, program)| {
                        let mut monitor =
                            |made: u64, _: f64| must_stop(made).then_some(Stop::TimeLimit);
                        self.solve_program(
                            factor.store(),
                            program,
                            start_of(at),
                            tolerance,
                            &mut monitor,
                        )
                    })
                    .collect();
                control.iterations += results
                    .iter()
                    .map(|result| result.solution.updates + result.solution.iterations as u64)
                    .sum::<u64>();
                let worst = results
                    .iter()
                    .map(|result| result.solution.evaluation.relative())
                    .fold(0.0, f64::max);
                control.report(Status { violation: worst, gap: f64::NAN, supports: 0 });
                let stop = control.stop();
                solved.extend(results.into_iter().map(|mut result| {
                    let own_stop = result.solution.stop;
                    result.solution.stop = own_stop.map(|own| stop.unwrap_or(own));
                    result
                }));
            }
            if let Some(reason) = factor.store().failure() {
                return Err(TrainError::FactorFile { reason });
            }
        }
        Ok(solved)
    }

    /// By descent, and by the interior point method where descent does not suit or gave up.
    fn solve_program<T: Real>(
        &self,
        store: &Store<T>,
        program: &FactorQp,
        start: Option<Vec<f64>>,
        tolerance: f64,
        monitor: &mut dyn FnMut(u64, f64) -> Option<Stop>,
    ) -> SolvedProgram {
        let chosen = program.rows.as_ref().map(|rows| {
            let file = if store.is_on_disk() { tempfile::tempfile().ok() } else { None };
            store.select(rows, file)
        });
        let store = chosen.as_ref().unwrap_or(store);
        let seed = self.solver.seed;
        let mut updates = 0;
        let mut switched = false;
        if self.descends(store, &program.qp, tolerance) {
            let may_give_up = self.solver.how == How::Auto;
            let mut options =
                descent::DescentOptions { tolerance, seed, may_give_up, monitor: &mut *monitor };
            let (solution, gave_up) =
                descent::solve(&program.qp, store, start.as_deref(), &mut options);
            if !gave_up {
                return SolvedProgram { solution, switched };
            }
            updates = solution.updates;
            switched = true;
        }
        let systems = self.solver.systems;
        let mut monitor = |made: usize, gap: f64| monitor(updates + made as u64, gap);
        let mut options = InteriorOptions { systems, tolerance, monitor: &mut monitor };
        let mut solution = interior::solve(&program.qp, store, &mut options);
        solution.updates = updates;
        SolvedProgram { solution, switched }
    }

    fn descends<T: Real>(&self, store: &Store<T>, qp: &Qp, tolerance: f64) -> bool {
        match self.solver.how {
            _ if !descent::fits(qp) => false,
            How::Descent => true,
            How::Interior => false,
            How::Auto => {
                let squares = super::interior_systems::squared_norms(store);
                let mean = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
                let limit = qp.upper.iter().chain(&qp.lower);
                let limit = limit.fold(0.0, |most: f64, c| most.max(c.abs()));
                tolerance > FINE && limit * mean <= DESCENT_LIMIT
            }
        }
    }
}
