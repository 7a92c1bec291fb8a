//! Cross-validation over one set of packed examples: all folds, subproblems and values of C read the same rows.
//!
//! Bins and factors are made from all examples: they depend on values, never on targets.
//!
//! The loop is not the one of [`crate::validate`], which trains one subproblem of one fold after the other: here all
//! folds and subproblems of a formulation are solved side by side, one thread each, over the same pass through the
//! packed rows.

use std::mem::discriminant;
use std::time::Instant;

use mercer_simd::factors::Encoding;

use super::Duals;
use super::backend::{Packing, loss_of};
use super::run::{RowSelection, solve_all};
use super::subproblem::{LinearProblem, Termination};
use super::warm::scaled;
use crate::control::Control;
use crate::validate::FoldRun;
use crate::{Folds, Stop, TrainError};

/// Trains every formulation on all folds but one, and scores the rows of that one. Coefficients carry over to
/// the next formulation of the same loss.
pub(super) fn cross_validate<M: Encoding>(
    packing: Packing<'_>,
    mut packed: LinearProblem<M>,
    folds: &Folds,
    runs: &mut [FoldRun<'_>],
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let Packing { problem, solver, rows, .. } = packing;
    let all = RowSelection::all(problem);
    let of_fold =
        |fold: u32| all.iter().map(move |rows| RowSelection { fold: Some(fold), ..rows.clone() });
    let selections: Vec<RowSelection> = (0..folds.count() as u32).flat_map(of_fold).collect();
    packed.folds = rows.iter().map(|row| folds.of()[*row as usize]).collect();
    let mut last_duals: Option<Duals> = None;
    for (number, run) in runs.iter_mut().enumerate() {
        if run.failure.is_some() {
            continue;
        }
        let loss = loss_of(solver, run.formulation)?;
        let (started, steps_before) = (Instant::now(), control.iterations);
        let is_same = discriminant(&packed.loss) == discriminant(&loss);
        packed.loss = loss;
        // Coefficients do not determine the weights of an L1 penalty.
        let warm = last_duals.take().filter(|_| is_same && packed.transposed.is_none());
        let warm = warm.map(|duals| scaled(&duals, &packed)).unwrap_or_default();
        let limit = problem.training.max_iterations;
        control.max_iterations = limit.map(|limit| steps_before + limit * selections.len() as u64);
        control.start_subproblem(number * selections.len());
        let mut solved = solve_all(&packed, &selections, &warm, control)?;
        Stop::check_limits(control.stop())?;
        for (selection, solution) in selections.iter().zip(&solved) {
            let Some(solution) = solution else {
                // A limit of steps was used up before this subproblem began: a constant, as in training.
                let of_fold = rows.iter().zip(&packed.folds);
                let of_fold = of_fold.filter(|(_, fold)| Some(**fold) == selection.fold);
                let held_out: Vec<u32> = of_fold.map(|(row, _)| *row).collect();
                run.add_scores(&held_out, std::iter::repeat(-1.0));
                run.converged = false;
                continue;
            };
            run.converged &= solution.termination == Termination::Optimal;
            let held_out = solution.held_out.iter();
            let (held_out, scores): (Vec<u32>, Vec<f64>) =
                held_out.map(|(row, score)| (rows[*row as usize], *score)).unzip();
            run.add_scores(&held_out, scores);
        }
        last_duals = Some(Duals::take(&packed, &mut solved));
        run.add_work(started, steps_before, control);
    }
    Ok(())
}
