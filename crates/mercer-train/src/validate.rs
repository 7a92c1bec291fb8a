//! Cross-validation: every example is scored by machines that were not trained on it.
//!
//! All folds and all formulations of a path share the prepared examples of one backend, and each solution is
//! where the next formulation of the path starts: values of C in increasing order cost little more than the
//! last. How the folds are trained is in the backends; what the scores are worth is computed in `evaluate`.

mod evaluate;
mod folds;
mod subproblems;

use std::time::Instant;

use mercer_data::{Dataset, Targets};
use mercer_kernel::KernelRef;
use mercer_machine::Output;

use crate::backend::backend_of;
use crate::control::Control;
use crate::problem::Problem;
use crate::training::choose_solver;
use crate::{FormulationRef, Goal, Progress, TrainError, Training};
pub(crate) use evaluate::{leave_one_out, merit};
pub use folds::Folds;
pub(crate) use folds::shuffled_by_class;
pub(crate) use subproblems::FoldSubproblems;

/// What the folds say of one kernel and one formulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Scores of each example by the machine of the other folds, from kernel values as training computes
    /// them (f32 where that is faster); none for examples of weight zero.
    pub scores: Vec<Vec<f64>>,
    /// How scores become answers.
    pub output: Output,
    /// What is measured.
    pub measure: Measure,
    /// Over all examples.
    pub quality: f64,
    /// For each fold.
    pub folds: Vec<f64>,
    /// Squared correlation of answers and targets, for regressions.
    pub correlation: Option<f64>,
    /// Pair steps of all trainings.
    pub iterations: u64,
    /// Seconds of all trainings; kernel rows count where they were first needed.
    pub seconds: f64,
    /// Whether all trainings reached the tolerance.
    pub converged: bool,
}

impl Validation {
    /// The mean over the folds.
    pub fn mean(&self) -> f64 {
        self.folds.iter().sum::<f64>() / self.folds.len() as f64
    }
}

/// How answers are measured against targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Share of right answers; more is better.
    Accuracy,
    /// Mean squared error; less is better.
    SquaredError,
    /// Share of examples that a novelty machine accepts, where no targets say which it should.
    Accepted,
}

impl Measure {
    /// How machines of this goal are measured by these targets.
    pub fn of(goal: Goal, targets: &Targets) -> Self {
        match (goal, targets) {
            (Goal::Value, _) => Self::SquaredError,
            (Goal::Novelty, Targets::Absent | Targets::Names(_)) => Self::Accepted,
            _ => Self::Accuracy,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::SquaredError => "mean_squared_error",
            Self::Accepted => "accepted",
        }
    }

    /// Whether `a` is better than `b`.
    pub fn prefers(self, a: f64, b: f64) -> bool {
        if self == Self::SquaredError { a < b } else { a > b }
    }
}

/// Validates one kernel with each of several formulations; give those that differ in C in increasing order.
///
/// A formulation that no fold can satisfy (ν) has an error in its place. A limit of steps is one for each
/// training. Results do not depend on the number of threads.
///
/// # Errors
/// As [`crate::train`]; [`TrainError::Stopped`] if a limit of time or the cancel token ended it.
pub fn cross_validate(
    data: &Dataset,
    kernel: &KernelRef,
    formulations: &[FormulationRef],
    folds: &Folds,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Vec<Result<Validation, TrainError>>, TrainError> {
    let Some(first) = formulations.first() else { return Ok(Vec::new()) };
    let (chosen, _) = choose_solver(data, kernel, first, training)?;
    let training = chosen.as_ref();
    if let Some(other) = formulations.iter().find(|other| other.goal() != first.goal()) {
        let (first, other) = (first.spec().to_string(), other.spec().to_string());
        return Err(TrainError::MixedGoals { first, other });
    }
    let rows = data.examples.rows();
    let mut runs: Vec<FoldRun<'_>> =
        formulations.iter().map(|formulation| FoldRun::new(formulation, rows)).collect();
    let backend = backend_of(training.solver.as_ref());
    for run in &mut runs {
        run.failure = backend.check_formulation(run.formulation).err();
    }
    let suited = runs.iter().find(|run| run.failure.is_none()).map(|run| run.formulation);
    let formulation = suited.unwrap_or(first);
    let problem = Problem::new(&data.examples, &data.targets, kernel, formulation, training)?;
    if folds.of().len() != rows {
        return Err(TrainError::FoldCount { found: folds.of().len(), rows });
    }
    if suited.is_some() {
        let mut control = training.control(observer);
        // Each training has the limit of steps for itself.
        control.max_iterations = None;
        control.subproblems = folds.count() * problem.subproblem_count() * runs.len();
        backend.prepare(&problem)?.cross_validate(folds, &mut runs, &mut control)?;
    }
    Ok(runs.into_iter().map(|run| run.evaluate(&problem, folds)).collect())
}

/// The trainings of one formulation on all folds.
#[derive(Debug)]
pub(crate) struct FoldRun<'f> {
    pub(crate) formulation: &'f FormulationRef,
    /// Of each example; none for those of weight zero.
    pub(crate) scores: Vec<Vec<f64>>,
    pub(crate) iterations: u64,
    pub(crate) seconds: f64,
    pub(crate) converged: bool,
    pub(crate) failure: Option<TrainError>,
}

impl<'f> FoldRun<'f> {
    fn new(formulation: &'f FormulationRef, rows: usize) -> Self {
        let scores = vec![Vec::new(); rows];
        Self { formulation, scores, iterations: 0, seconds: 0.0, converged: true, failure: None }
    }

    /// Adds the score of one subproblem to each of these examples.
    pub(crate) fn add_scores(&mut self, examples: &[u32], scores: impl IntoIterator<Item = f64>) {
        for (example, score) in examples.iter().zip(scores) {
            self.scores[*example as usize].push(score);
        }
    }

    /// Adds the steps and seconds of a training that began at this time, after so many steps.
    pub(crate) fn add_work(&mut self, started: Instant, steps_before: u64, control: &Control<'_>) {
        self.iterations += control.iterations - steps_before;
        self.seconds += started.elapsed().as_secs_f64();
    }

    /// Ends the trainings of this formulation; there are no scores.
    pub(crate) fn fail(&mut self, failure: TrainError) -> Vec<f64> {
        self.failure = Some(failure);
        Vec::new()
    }
}

/// A backend that trains one formulation of a path after the other on the same fold and subproblem.
pub(crate) trait FoldTrainer {
    /// What the next formulation starts from.
    type Start;

    /// Goes to a fold that is held out and a subproblem over the others.
    fn begin(&mut self, fold: usize, subproblem: usize);

    /// The examples held out.
    fn held_out(&self) -> &[u32];

    /// Trains the formulation of this run and number; returns scores of the examples held out.
    ///
    /// # Errors
    /// Those that end the whole cross-validation; others are kept in the run.
    fn train(
        &mut self,
        run: &mut FoldRun<'_>,
        number: usize,
        start: &mut Option<Self::Start>,
        control: &mut Control<'_>,
    ) -> Result<Vec<f64>, TrainError>;
}

/// Trains all runs on all folds: fold after fold, subproblem after subproblem, along the path. For backends that train one
/// subproblem at a time; `systems` and `linear` train several at once.
pub(crate) fn train_folds<T: FoldTrainer>(
    trainer: &mut T,
    folds: usize,
    subproblems: usize,
    runs: &mut [FoldRun<'_>],
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let mut done = 0;
    for fold in 0..folds {
        for subproblem in 0..subproblems {
            trainer.begin(fold, subproblem);
            let mut start = None;
            for (number, run) in runs.iter_mut().enumerate() {
                control.start_subproblem(done);
                done += 1;
                if run.failure.is_some() {
                    continue;
                }
                let (started, steps_before) = (Instant::now(), control.iterations);
                let scores = trainer.train(run, number, &mut start, control)?;
                run.add_scores(trainer.held_out(), scores);
                run.add_work(started, steps_before, control);
            }
        }
    }
    Ok(())
}

/// Whether examples of a formulation are dealt to folds by class.
pub fn by_class(formulation: &FormulationRef) -> bool {
    formulation.goal() == Goal::Classes
}
