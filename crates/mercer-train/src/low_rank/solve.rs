//! Solves subproblems over a low-rank factor: by coordinate descent where it is fast, else by the interior point method.
//! The order of a training (factor, guard, solution, report) is in `backend`.

use mercer_kernel::factor::{Blocked, Store};
use mercer_simd::Real;
use rayon::prelude::*;

use super::interior::{self, InteriorOptions, Variant};
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
        for (number, group) in programs.chunks(threads).enumerate() {
            let first = number * threads;
            control.start_subproblem(first);
            let starts = &starts[first.min(starts.len())..];
            if let [program] = group {
                let start = starts.first().map(Vec::as_slice);
                solved.push(self.solve_watched(factor.store(), program, start, tolerance, control));
            } else {
                let store = factor.store();
                solved.extend(self.solve_group(store, group, starts, tolerance, control));
            }
            if let Some(reason) = factor.store().failure() {
                return Err(TrainError::FactorFile { reason });
            }
        }
        Ok(solved)
    }

    /// Solves one program and reports its progress.
    fn solve_watched<T: Real>(
        &self,
        store: &Store<T>,
        program: &FactorQp,
        start: Option<&[f64]>,
        tolerance: f64,
        control: &mut Control<'_>,
    ) -> SolvedProgram {
        let mut monitor = |made: u64, gap: f64| {
            if !gap.is_nan() {
                control.report(Status { violation: gap, gap: f64::NAN, supports: 0 });
            }
            let limit = control.max_iterations;
            let is_limit_reached = limit.is_some_and(|limit| control.iterations + made >= limit);
            control.stop().or(is_limit_reached.then_some(Stop::IterationLimit))
        };
        let result = self.solve_program(store, program, start, tolerance, &mut monitor);
        control.iterations += steps_of(&result);
        result
    }

    /// Solves several programs side by side, one thread each, and reports when all have ended.
    fn solve_group<T: Real>(
        &self,
        store: &Store<T>,
        programs: &[FactorQp],
        starts: &[Vec<f64>],
        tolerance: f64,
        control: &mut Control<'_>,
    ) -> Vec<SolvedProgram> {
        let must_stop = control.stop_check(programs.len());
        let solve = |(at, program): (usize, &FactorQp)| {
            let mut monitor = |made: u64, _: f64| must_stop(made).then_some(Stop::TimeLimit);
            let start = starts.get(at).map(Vec::as_slice);
            self.solve_program(store, program, start, tolerance, &mut monitor)
        };
        let mut results: Vec<SolvedProgram> = programs.par_iter().enumerate().map(solve).collect();
        control.iterations += results.iter().map(steps_of).sum::<u64>();
        let gaps = results.iter().map(|result| result.solution.evaluation.relative());
        let violation = gaps.fold(0.0, f64::max);
        control.report(Status { violation, gap: f64::NAN, supports: 0 });
        // Threads know that they must stop, the control why.
        if let Some(stop) = control.stop() {
            let stops = results.iter_mut().filter_map(|result| result.solution.stop.as_mut());
            stops.for_each(|reason| *reason = stop);
        }
        results
    }

    /// By descent, and by the interior point method where descent does not suit or gave up.
    fn solve_program<T: Real>(
        &self,
        store: &Store<T>,
        program: &FactorQp,
        start: Option<&[f64]>,
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
            let (solution, gave_up) = descent::solve(&program.qp, store, start, &mut options);
            if !gave_up {
                return SolvedProgram { solution, switched };
            }
            updates = solution.updates;
            switched = true;
        }
        let systems = self.solver.systems;
        let variant = match self.solver.how {
            How::Printed => Variant::Printed,
            _ => Variant::Improved,
        };
        let mut monitor = |made: usize, gap: f64| monitor(updates + made as u64, gap);
        let mut options = InteriorOptions { systems, variant, tolerance, monitor: &mut monitor };
        let mut solution = interior::solve(&program.qp, store, &mut options);
        solution.updates = updates;
        SolvedProgram { solution, switched }
    }

    fn descends<T: Real>(&self, store: &Store<T>, qp: &Qp, tolerance: f64) -> bool {
        match self.solver.how {
            _ if !descent::fits(qp) => false,
            How::Descent => true,
            How::Interior | How::Printed => false,
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

/// Coordinate updates and iterations.
fn steps_of(result: &SolvedProgram) -> u64 {
    result.solution.updates + result.solution.iterations as u64
}
