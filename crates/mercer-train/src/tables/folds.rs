//! Cross-validation over one set of packed examples: all folds, questions and values of C read the same rows.
//!
//! Levels and factors are made from all examples: they know values, never targets.

use std::mem::discriminant;
use std::time::Instant;

use mercer_data::Dataset;
use mercer_kernel::KernelRef;
use mercer_simd::factors::Encoding;

use super::course::{Bench, Job, asks, check_space, run};
use super::part::{Ask, End, Shared};
use super::warm::fitted;
use super::{Duals, Loss, Recipe};
use crate::control::Control;
use crate::training::prepare::Inputs;
use crate::validate::Course;
use crate::{Folds, Stop, TrainError, Training};

/// Trains every formulation on all folds but one, and scores the rows of that one. Coefficients carry over to
/// the next formulation of the same loss.
pub(crate) fn cross_validate(
    data: &Dataset,
    kernel: &KernelRef,
    inputs: &Inputs<'_>,
    (training, recipe): (&Training, &Recipe),
    folds: &Folds,
    courses: &mut [Course<'_>],
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let mut left = Vec::new();
    for course in courses {
        let unsuited = || super::unsuited(recipe, course.formulation);
        let loss = course.formulation.loss().ok_or_else(unsuited);
        match loss.and_then(|loss| check_space(recipe, loss).map(|()| loss)) {
            Ok(loss) => left.push((course, loss)),
            Err(failure) => course.failure = Some(failure),
        }
    }
    let Some((_, loss)) = left.first() else { return Ok(()) };
    let rows = inputs.examples();
    let examples = &data.examples;
    let job = Job { examples, kernel, training, recipe, loss: *loss, inputs, rows: &rows };
    let questions = asks(inputs, training.scheme_used());
    let of_fold =
        |fold: u32| questions.iter().map(move |ask| Ask { fold: Some(fold), ..ask.clone() });
    let asks: Vec<Ask> = (0..folds.count() as u32).flat_map(of_fold).collect();
    let rounds = Rounds { job: &job, asks: &asks, folds };
    match job.prepare()?.0 {
        Bench::Values(shared) => rounds.run(shared, left, control),
        Bench::Levels(shared, _) => rounds.run(shared, left, control),
        Bench::Stairs(shared, _) => rounds.run(shared, left, control),
    }
}

/// The trainings of all folds and questions.
struct Rounds<'r> {
    job: &'r Job<'r>,
    asks: &'r [Ask],
    folds: &'r Folds,
}

impl Rounds<'_> {
    fn run<M: Encoding>(
        &self,
        mut shared: Shared<M>,
        courses: Vec<(&mut Course<'_>, Loss)>,
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let (rows, of) = (self.job.rows, self.folds.of());
        shared.folds = rows.iter().map(|row| of[*row as usize]).collect();
        control.parts = self.asks.len() * courses.len();
        let mut last: Option<Duals> = None;
        for (number, (course, loss)) in courses.into_iter().enumerate() {
            let (started, before) = (Instant::now(), control.iterations);
            let is_same = discriminant(&shared.loss) == discriminant(&loss);
            shared.loss = loss;
            // Coefficients do not make the weights of a penalty on their sizes.
            let warm = last.take().filter(|_| is_same && shared.transposed.is_none());
            let warm = warm.map(|duals| fitted(&duals, &shared)).unwrap_or_default();
            let limit = self.job.training.max_iterations;
            control.max_iterations = limit.map(|limit| before + limit * self.asks.len() as u64);
            control.start_part(number * self.asks.len());
            let mut learned = run(&shared, (self.asks, &warm), control)?;
            if let Some(stop @ (Stop::Cancelled | Stop::TimeLimit)) = control.stop() {
                return Err(TrainError::Stopped(stop));
            }
            for (ask, part) in self.asks.iter().zip(&learned) {
                let Some(part) = part else {
                    // A limit of steps was used up before this question began: a constant, as in training.
                    let held = (0..rows.len()).filter(|row| Some(shared.folds[*row]) == ask.fold);
                    held.for_each(|row| course.scores[rows[row] as usize].push(-1.0));
                    course.converged = false;
                    continue;
                };
                course.converged &= part.end == End::Optimal;
                for (row, value) in &part.held_out {
                    course.scores[rows[*row as usize] as usize].push(*value);
                }
            }
            last = Some(Duals::take(&shared, &mut learned));
            course.iterations += control.iterations - before;
            course.seconds += started.elapsed().as_secs_f64();
        }
        Ok(())
    }
}
