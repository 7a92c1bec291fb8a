//! Cross-validation over one factor: all folds, questions and values of C read the same rows.
//!
//! The pivots are drawn without looking at targets, so that what is held out stays unknown.

use std::time::Instant;

use mercer_kernel::factor::{Blocked, Draw, GrowthLimit};
use mercer_simd::Real;

use super::guard::without;
use super::question::{Ask, Asked, Solved};
use super::rows::Rows;
use crate::control::Control;
use crate::gram::GramValue;
use crate::training::{conclusion_of, majority};
use crate::validate::Course;
use crate::{Folds, Goal, Stop, TrainError};

/// The rank where it is free.
const RANK: usize = 512;

/// Trains every formulation on all folds but one, and scores the rows of that one.
pub(super) fn run<T: Real + GramValue>(
    asked: &[Asked<'_>],
    folds: &Folds,
    courses: &mut [Course<'_>],
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let Some(first) = asked.first() else { return Ok(()) };
    let count = first.examples.len();
    let rank = first.recipe.rank.unwrap_or(RANK).min(count);
    let rows = Rows::new(first.source, first.examples, T::BYTES == 8);
    let diagonal: Vec<f64> =
        first.examples.iter().map(|row| first.source.diagonal[*row as usize]).collect();
    let floor = if T::BYTES == 4 { 1e-5 } else { 1e-10 };
    let file = first.file(count * rank * T::BYTES)?;
    let mut factor = Blocked::<T>::new(&diagonal, rank, floor, first.recipe.seed, file);
    factor.grow(&rows, Draw::Random, GrowthLimit { rank, trace_share: 1e-6 }, &mut |_| {
        control.stop().is_none()
    });
    if let Some(reason) = factor.store().failure() {
        return Err(TrainError::FactorFile { reason });
    }
    let asks: Vec<Option<Vec<Ask>>> = asked
        .iter()
        .zip(courses.iter_mut())
        .map(|(asked, course)| match asked.asks() {
            Ok(asks) => Some(asks),
            Err(failure) => {
                course.failure = Some(failure);
                None
            }
        })
        .collect();
    let questions = first.reduction.questions();
    control.parts = folds.count() * questions * courses.len();
    let mut part = 0;
    for fold in 0..folds.count() as u32 {
        let held: Vec<u32> = (0..count as u32)
            .filter(|row| folds.of()[first.examples[*row as usize] as usize] == fold)
            .collect();
        let round = Round { factor: &factor, held: &held, count };
        for question in 0..questions {
            let mut last: Option<Solved> = None;
            for (at, course) in courses.iter_mut().enumerate() {
                control.start_part(part);
                part += 1;
                let Some(ask) = asks[at].as_ref().map(|asks| &asks[question]) else { continue };
                if course.failure.is_none() {
                    round.validate(&asked[at], ask, course, &mut last, control)?;
                }
            }
        }
    }
    Ok(())
}

/// The rows held out of one round.
struct Round<'r, T> {
    factor: &'r Blocked<T>,
    held: &'r [u32],
    count: usize,
}

impl<T: Real> Round<'_, T> {
    fn validate(
        &self,
        asked: &Asked<'_>,
        ask: &Ask,
        course: &mut Course<'_>,
        last: &mut Option<Solved>,
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let started = Instant::now();
        let before = control.iterations;
        let mut is_held = vec![false; self.count];
        self.held.iter().for_each(|row| is_held[*row as usize] = true);
        let scores = match one_sided(asked, ask, &is_held) {
            Some(score) => vec![score; self.held.len()],
            None => match without(asked.formulation, ask, &is_held) {
                Ok(own) => {
                    let from =
                        last.take().filter(|one| one.found.point.below.len() == own.qp.len());
                    let asks = [own];
                    let tolerance = asked.training.tolerance_used();
                    let start = from.as_ref().map(|one| fitted(one, &asks[0]));
                    let mut found =
                        asked.solve_from(self.factor, &asks, start, tolerance, control)?;
                    let one = found.pop().expect("one question gives one solution");
                    if let Some(stop @ (Stop::Cancelled | Stop::TimeLimit)) = one.found.stop {
                        return Err(TrainError::Stopped(stop));
                    }
                    course.converged &= one.found.evaluation.relative() <= tolerance;
                    let scores = self.scores(asked, &asks[0], &one, course);
                    *last = Some(one);
                    scores
                }
                Err(failure) => {
                    course.failure = Some(failure);
                    return Ok(());
                }
            },
        };
        for (row, score) in self.held.iter().zip(scores) {
            course.scores[asked.examples[*row as usize] as usize].push(score);
        }
        course.iterations += control.iterations - before;
        course.seconds += started.elapsed().as_secs_f64();
        Ok(())
    }

    fn scores(
        &self,
        asked: &Asked<'_>,
        ask: &Ask,
        one: &Solved,
        course: &mut Course<'_>,
    ) -> Vec<f64> {
        let is_over = one.found.stop.is_some();
        let end = match conclusion_of(asked.formulation, &one.found.evaluation.multipliers, is_over)
        {
            Ok(end) => end,
            Err(failure) => {
                course.failure = Some(failure);
                return Vec::new();
            }
        };
        let nothing = one.found.w.iter().all(|w| *w == 0.0);
        let offset = if nothing { majority(&ask.targets, end.offset) } else { end.offset };
        let isa = mercer_simd::Isa::current();
        let values = self.factor.store().gather(self.held);
        let rows = values.chunks_exact(self.factor.rank().max(1));
        rows.map(|row| end.scale * mercer_simd::row_dot(isa, row, &one.found.w) - offset).collect()
    }
}

/// The solution of a smaller C, fitted into the new limits.
fn fitted(one: &Solved, ask: &Ask) -> Vec<f64> {
    let qp = &ask.qp;
    let width = |at: usize| qp.upper[at] - qp.lower[at];
    let value = |v: usize| {
        let (below, above) = (one.found.point.below[v], one.found.point.above[v]);
        let share = if below + above > 0.0 { below / (below + above) } else { 0.0 };
        qp.lower[v] + share * width(v)
    };
    (0..qp.len()).map(value).collect()
}

/// The score where the other folds have one class of a duel only, or none of them.
fn one_sided(asked: &Asked<'_>, ask: &Ask, is_held: &[bool]) -> Option<f64> {
    if asked.formulation.goal() != Goal::Classes {
        return None;
    }
    let row_of = |at: usize| ask.rows.as_ref().map_or(at, |rows| rows[at] as usize);
    let has =
        |sign: f64| (0..ask.qp.rows).any(|at| ask.targets[at] == sign && !is_held[row_of(at)]);
    match (has(1.0), has(-1.0)) {
        (true, true) => None,
        (true, false) => Some(1.0),
        (false, true) => Some(-1.0),
        (false, false) => Some(0.0),
    }
}
