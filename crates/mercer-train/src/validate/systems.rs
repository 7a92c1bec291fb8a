//! Folds of linear systems: each is solved on the other folds.

use std::time::Instant;

use mercer_data::Dataset;

use super::folded::Folded;
use super::{Course, Folds, Validation};
use crate::control::Control;
use crate::systems::{Bench, group};
use crate::training::prepare::Inputs;
use crate::{FormulationRef, TrainError};

/// The trainings of all folds, questions and formulations.
pub(super) struct Rounds<'r> {
    pub(super) bench: Bench<'r>,
    pub(super) folded: &'r Folded<'r>,
}

impl Rounds<'_> {
    pub(super) fn run(
        &self,
        (formulations, folds): (&[FormulationRef], &Folds),
        (data, inputs): (&Dataset, &Inputs<'_>),
        control: &mut Control<'_>,
    ) -> Result<Vec<Result<Validation, TrainError>>, TrainError> {
        let rows = data.examples.rows();
        let mut judged = Vec::with_capacity(formulations.len());
        for (number, formulation) in formulations.iter().enumerate() {
            let mut course = Course::new(formulation, rows);
            let started = Instant::now();
            for fold in 0..folds.count() {
                control.start_part((number * folds.count() + fold) * self.folded.questions());
                if course.failure.is_none() {
                    self.fold(fold, &mut course, control)?;
                }
            }
            course.seconds = started.elapsed().as_secs_f64();
            judged.push(course.judged(data, inputs, folds));
        }
        Ok(judged)
    }

    fn fold(
        &self,
        fold: usize,
        course: &mut Course<'_>,
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let held_out = self.folded.held_out(fold);
        let questions = self.folded.questions();
        let mut number = 0;
        while number < questions {
            let first = self.folded.question(number, fold);
            if let Some(score) = self.folded.one_sided(&first) {
                held_out.iter().for_each(|row| course.scores[*row as usize].push(score));
                number += 1;
                continue;
            }
            let mut asked = vec![first];
            while number + asked.len() < questions {
                let next = self.folded.question(number + asked.len(), fold);
                let same = next.blocks == asked[0].blocks && next.weights == asked[0].weights;
                if !same || self.folded.one_sided(&next).is_some() {
                    break;
                }
                asked.push(next);
            }
            let blocks = self.folded.blocks();
            let examples: Vec<u32> =
                asked[0].blocks.iter().flat_map(|block| blocks[*block].iter().copied()).collect();
            let group = group(&asked, &examples, course.formulation, false);
            let solved = match self.bench.solve(&group, control) {
                Ok(solved) => solved,
                Err(stopped @ TrainError::Stopped(_)) => return Err(stopped),
                Err(failure) => {
                    course.failure = Some(failure);
                    return Ok(());
                }
            };
            if let Some(stop) = control.stop() {
                return Err(TrainError::Stopped(stop));
            }
            for answer in &solved.answers {
                let scores = self.bench.scores(&held_out, &answer.expansion);
                for (row, score) in held_out.iter().zip(scores) {
                    course.scores[*row as usize].push(score);
                }
            }
            number += asked.len();
        }
        Ok(())
    }
}
