//! Cross-validation of linear systems: each is solved on the other folds.
//!
//! The loop is not the one of [`crate::validate`], which trains one subproblem after the other and hands a solution on
//! along the path: here subproblems over the same examples share one factor, and a system starts from nothing.

use std::time::Instant;

use super::{PreparedSystems, SystemGroup, check, shared_group};
use crate::control::Control;
use crate::validate::{FoldRun, FoldSubproblems};
use crate::{Folds, TrainError};

pub(super) fn cross_validate(
    prepared: &PreparedSystems<'_>,
    folds: &Folds,
    runs: &mut [FoldRun<'_>],
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let training = prepared.problem.training;
    runs.iter().try_for_each(|run| check(run.formulation, training))?;
    let subproblems = FoldSubproblems::new(prepared.problem, folds);
    for (number, run) in runs.iter_mut().enumerate() {
        let (started, steps_before) = (Instant::now(), control.iterations);
        for fold in 0..folds.count() {
            control.start_subproblem((number * folds.count() + fold) * subproblems.count());
            if run.failure.is_none() {
                train_fold(prepared, &subproblems, fold, run, control)?;
            }
        }
        run.add_work(started, steps_before, control);
    }
    Ok(())
}

/// Solves all subproblems without one fold, and scores that fold.
fn train_fold(
    prepared: &PreparedSystems<'_>,
    subproblems: &FoldSubproblems<'_>,
    fold: usize,
    run: &mut FoldRun<'_>,
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let (held_out, count) = (subproblems.held_out(fold), subproblems.count());
    let mut number = 0;
    while number < count {
        let first = subproblems.subproblem(number, fold);
        if let Some(score) = subproblems.one_sided(&first) {
            run.add_scores(&held_out, std::iter::repeat(score));
            number += 1;
            continue;
        }
        let group = shared_group(first, number, count, |number| {
            let next = subproblems.subproblem(number, fold);
            subproblems.one_sided(&next).is_none().then_some(next)
        });
        let examples = group[0].examples(subproblems.example_sets());
        let systems = SystemGroup::new(&group, &examples, run.formulation, false);
        let solved = match prepared.solve_group(&systems, control) {
            Ok(solved) => solved,
            Err(stopped @ TrainError::Stopped(_)) => return Err(stopped),
            Err(failure) => {
                run.fail(failure);
                return Ok(());
            }
        };
        // A factor that a limit ended, whichever it was, is not the one that was asked for.
        if let Some(stop) = control.stop() {
            return Err(TrainError::Stopped(stop));
        }
        for solution in &solved.solutions {
            run.add_scores(&held_out, prepared.scores(&held_out, &solution.expansion));
        }
        number += group.len();
    }
    Ok(())
}
