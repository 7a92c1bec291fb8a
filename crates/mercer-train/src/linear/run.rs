//! The loop that solves all subproblems over packed examples: side by side, with limits and checkpoints.
//!
//! A subproblem is a selection of the packed rows, not a list of its examples as for the other backends: rows may be in
//! a file and are read in the order in which they were packed, so that membership and target follow from the class in
//! the head of each row, by the rules of [`ClassPair`]. One subproblem is solved in [`super::subproblem`].

use std::time::Duration;

use mercer_simd::factors::{Encoding, Float, RowHead};
use rayon::prelude::*;

use super::checkpoint::RunState;
use super::solution::SubproblemSolution;
use super::subproblem::{LinearProblem, SubproblemState};
use crate::checkpoint::Checkpointer;
use crate::control::{Control, Status};
use crate::packed::MAX_CHUNKS_IN_MEMORY;
use crate::problem::Problem;
use crate::reduce::ClassPair;
use crate::{Stop, TrainError};

/// How long subproblems are worked on between two reports.
const SLICE: Duration = Duration::from_millis(100);

/// Which rows a subproblem is trained on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowSelection {
    pub(super) name: String,
    pub(super) classes: ClassPair,
    /// The fold that is held out.
    pub(super) fold: Option<u32>,
}

impl RowSelection {
    /// Those of all subproblems, without folds.
    pub(super) fn all(problem: &Problem<'_>) -> Vec<Self> {
        let reduction = problem.reduction();
        let selection = |number| {
            let (name, classes) = (reduction.name(number), reduction.classes(number));
            Self { name, classes, fold: None }
        };
        (0..reduction.count()).map(selection).collect()
    }

    /// Whether a row is trained on.
    pub(super) fn trains_on(&self, folds: &[u32], row: RowHead) -> bool {
        self.classes.contains(row.tag) && !self.holds_out(folds, row)
    }

    /// Whether a row is in the fold that is held out.
    pub(super) fn holds_out(&self, folds: &[u32], row: RowHead) -> bool {
        self.fold.is_some_and(|fold| folds[row.row as usize] == fold)
    }
}

/// Solves as many subproblems at once as there are threads; each is solved by one thread, so the result does
/// not depend on their number. A checkpoint holds all of them after complete passes.
pub(super) fn solve_all<M: Encoding>(
    problem: &LinearProblem<M>,
    selections: &[RowSelection],
    warm: &[Vec<M::Real>],
    control: &mut Control<'_>,
) -> Result<Vec<Option<SubproblemSolution<M::Real>>>, TrainError> {
    let threads = rayon::current_num_threads().max(1);
    let at_once =
        if problem.store.is_on_disk() { threads.min(MAX_CHUNKS_IN_MEMORY) } else { threads };
    let slice =
        control.checkpointer.as_ref().map_or(SLICE, |checkpointer| checkpointer.every().min(SLICE));
    // Earlier rounds of a cross-validation count.
    let first = control.subproblem;
    let mut run = RunState::new(problem, selections, control)?;
    loop {
        while run.next < selections.len() && run.active.len() < at_once {
            let warm = warm.get(run.next).map(Vec::as_slice);
            run.active.push(SubproblemState::new(
                problem,
                run.next,
                selections[run.next].clone(),
                warm,
            ));
            run.next += 1;
        }
        if run.active.is_empty() {
            return Ok(run.solved);
        }
        let stop = control.stop_check(run.active.len());
        let work = |state: &mut SubproblemState<M::Real>| state.run(problem, slice, &stop);
        if let [only] = run.active.as_mut_slice() {
            work(only);
        } else {
            run.active.par_iter_mut().for_each(work);
        }
        problem.store.check()?;
        control.iterations = run.done + run.active.iter().map(|state| state.updates).sum::<u64>();
        report(&run.active, first + run.next, control);
        let stop = control.stop();
        if stop.is_some() {
            run.save(problem, control)?;
        }
        let (ended, rest): (Vec<_>, Vec<_>) =
            run.active.into_iter().partition(|state| state.termination.is_some() || stop.is_some());
        run.active = rest;
        for (number, solution) in solutions(problem, ended, stop) {
            run.done += solution.updates;
            run.solved[number] = Some(solution);
        }
        problem.store.check()?;
        if stop.is_some() {
            return Ok(run.solved);
        }
        if control.checkpointer.as_ref().is_some_and(Checkpointer::is_due) {
            run.save(problem, control)?;
        }
    }
}

fn solutions<M: Encoding>(
    problem: &LinearProblem<M>,
    ended: Vec<SubproblemState<M::Real>>,
    stop: Option<Stop>,
) -> Vec<(usize, SubproblemSolution<M::Real>)> {
    let solution =
        |state: SubproblemState<M::Real>| (state.number, state.into_solution(problem, stop));
    if ended.len() < 2 {
        return ended.into_iter().map(solution).collect();
    }
    ended.into_par_iter().map(solution).collect()
}

fn report<T: Float>(active: &[SubproblemState<T>], next: usize, control: &mut Control<'_>) {
    let worst = active.iter().map(|state| state.violation).fold(0.0, f64::max);
    let supports = |state: &SubproblemState<T>| {
        state.coefficients.iter().filter(|alpha| **alpha != T::default()).count()
    };
    let supports = active.iter().map(supports).max().unwrap_or(0);
    control.subproblem = next - active.len();
    control.report(Status { violation: worst, gap: f64::NAN, supports });
}
