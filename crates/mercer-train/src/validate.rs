//! Cross-validation: every example is asked of machines that did not learn from it.
//!
//! All folds and all formulations of a path read the rows of one Gram matrix, and each solution is where
//! the next formulation of the path starts, its gradient included: values of C in increasing order cost
//! little more than the last. Trainings end by the gradient from rows in singles, a sample of which is compared
//! with doubles.
//! Solvers of tables do the same over one set of packed examples.

mod folded;
mod folds;
mod start;
mod systems;

use std::time::Instant;

use mercer_data::{Dataset, Targets};
use mercer_kernel::KernelRef;
use mercer_machine::{Answer, Output};

use crate::control::{Control, Stop};
use crate::gram::{Gram, Source, View};
use crate::lowrank;
use crate::reduce::Binary;
use crate::solvers::{GramProblem, Method, Solution, StartPoint, Steering, StoppingTest};
use crate::tables;
use crate::training::prepare::{self, Inputs};
use crate::training::{conclusion, majority};
use crate::{FormulationRef, Goal, Progress, Qp, Subproblem, TrainError, Training};
use folded::Folded;
pub use folds::Folds;
pub(crate) use folds::dealt;
use start::Last;

/// Rows of supports fetched at once to score the examples held out.
const FETCH: usize = 256;
/// Coefficients that differ by less than this share of the largest differ by rounding.
const ROUNDING: f64 = 1e-12;

/// What the folds say of one kernel and one formulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Scores of each example by the machine of the other folds, from kernel values as training has them
    /// (singles where they pay); none for examples of weight zero.
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
    let settled = training.settled(first);
    let training = settled.as_ref();
    training.check()?;
    if let Method::Auto = training.solver.method() {
        let (solver, _) = lowrank::choose(data, kernel, first, training);
        let training = training.clone().solver(solver);
        return cross_validate(data, kernel, formulations, folds, &training, observer);
    }
    if let Some(other) = formulations.iter().find(|other| other.goal() != first.goal()) {
        let (first, other) = (first.spec().to_string(), other.spec().to_string());
        return Err(TrainError::MixedGoals { first, other });
    }
    let is_tables = matches!(training.solver.method(), Method::Tables(_));
    let domain = (!is_tables).then_some(kernel);
    let inputs = prepare::inputs(data, domain, first, training)?;
    if folds.of().len() != data.examples.rows() {
        let (found, rows) = (folds.of().len(), data.examples.rows());
        return Err(TrainError::FoldCount { found, rows });
    }
    let rows = data.examples.rows();
    let mut courses: Vec<Course<'_>> =
        formulations.iter().map(|formulation| Course::new(formulation, rows)).collect();
    if let Method::Tables(recipe) = training.solver.method() {
        let mut control = Control::new(observer, training.cancel.clone());
        control.time_limit = training.time_limit;
        control.tolerance = training.tolerance_used();
        let how = (training, recipe);
        tables::cross_validate(data, kernel, &inputs, how, folds, &mut courses, &mut control)?;
        return Ok(courses.into_iter().map(|one| one.judged(data, &inputs, folds)).collect());
    }
    if let Method::LowRank(recipe) = training.solver.method() {
        let mut control = Control::new(observer, training.cancel.clone());
        control.time_limit = training.time_limit;
        control.tolerance = training.tolerance_used();
        let how = (training, recipe);
        lowrank::cross_validate(data, kernel, &inputs, how, folds, &mut courses, &mut control)?;
        return Ok(courses.into_iter().map(|one| one.judged(data, &inputs, folds)).collect());
    }
    let source = Source::new(kernel, &data.examples);
    prepare::check_diagonal(&source)?;
    let folded = Folded::new(&inputs, training.scheme_used(), folds);
    let memory = training.memory_beside(&data.examples);
    let mut control = Control::new(observer, training.cancel.clone());
    control.time_limit = training.time_limit;
    control.tolerance = training.tolerance_used();
    control.parts = folds.count() * folded.questions() * formulations.len();
    if let Method::System(direct) = training.solver.method() {
        formulations.iter().try_for_each(|one| crate::systems::check(one, training))?;
        let bench = crate::systems::Bench { source: &source, direct, memory };
        let rounds = systems::Rounds { bench, folded: &folded };
        return rounds.run((formulations, folds), (data, &inputs), &mut control);
    }
    let gram = Gram::new(source, folded.blocks().to_vec(), memory);
    let mut rounds = Rounds { training, folded: &folded, gram, memory, control };
    rounds.run(folds.count(), &mut courses)?;
    Ok(courses.into_iter().map(|course| course.judged(data, &inputs, folds)).collect())
}

/// One formulation under way.
#[derive(Debug)]
pub(crate) struct Course<'f> {
    pub(crate) formulation: &'f FormulationRef,
    /// Of each example; none for those of weight zero.
    pub(crate) scores: Vec<Vec<f64>>,
    pub(crate) iterations: u64,
    pub(crate) seconds: f64,
    pub(crate) converged: bool,
    pub(crate) failure: Option<TrainError>,
}

impl<'f> Course<'f> {
    fn new(formulation: &'f FormulationRef, rows: usize) -> Self {
        let scores = vec![Vec::new(); rows];
        Self { formulation, scores, iterations: 0, seconds: 0.0, converged: true, failure: None }
    }

    fn judged(
        self,
        data: &Dataset,
        inputs: &Inputs<'_>,
        folds: &Folds,
    ) -> Result<Validation, TrainError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let measure = Measure::of(self.formulation.goal(), &data.targets);
        let judge = Judge { inputs, targets: &data.targets };
        let asked = |fold: Option<u32>| {
            let of = folds.of();
            (0..self.scores.len())
                .filter(move |row| fold.is_none_or(|fold| of[*row] == fold))
                .filter(|row| !self.scores[*row].is_empty())
        };
        let quality = judge.quality(asked(None), &self.scores);
        let each = |fold| judge.quality(asked(Some(fold)), &self.scores);
        Ok(Validation {
            output: inputs.output.clone(),
            measure,
            quality,
            folds: (0..folds.count() as u32).map(each).collect(),
            correlation: judge.correlation(asked(None), &self.scores),
            iterations: self.iterations,
            seconds: self.seconds,
            converged: self.converged,
            scores: self.scores,
        })
    }
}

/// The trainings of all folds, questions and formulations, over one Gram matrix.
struct Rounds<'r, 'a, 'o> {
    training: &'r Training,
    folded: &'r Folded<'r>,
    gram: Gram<'a>,
    memory: usize,
    control: Control<'o>,
}

impl Rounds<'_, '_, '_> {
    fn run(&mut self, folds: usize, courses: &mut [Course<'_>]) -> Result<(), TrainError> {
        let mut part = 0;
        for fold in 0..folds {
            let held_out = self.folded.held_out(fold);
            for number in 0..self.folded.questions() {
                let binary = self.folded.question(number, fold);
                let mut last = None;
                for course in courses.iter_mut() {
                    self.control.start_part(part);
                    part += 1;
                    if course.failure.is_some() {
                        continue;
                    }
                    let scores = self.round(&binary, fold, course, &mut last)?;
                    for (example, score) in held_out.iter().zip(scores) {
                        course.scores[*example as usize].push(score);
                    }
                }
            }
        }
        Ok(())
    }

    /// Trains one formulation on the other folds; scores of the examples held out.
    fn round(
        &mut self,
        binary: &Binary,
        fold: usize,
        course: &mut Course<'_>,
        last: &mut Option<Last>,
    ) -> Result<Vec<f64>, TrainError> {
        let (started, before) = (Instant::now(), self.control.iterations);
        let blocks = self.folded.own_blocks(fold);
        let width = self.folded.held_out(fold).len();
        if let Some(score) = self.folded.one_sided(binary) {
            return Ok(vec![score; width]);
        }
        let part =
            Subproblem { name: &binary.name, targets: &binary.targets, weights: &binary.weights };
        let qp = match course.formulation.quadratic_program(&part) {
            Ok(qp) => qp,
            Err(failure) => {
                course.failure = Some(failure);
                return Ok(Vec::new());
            }
        };
        let from = match last.take() {
            Some(last) => self.next_start(binary, &qp, &last),
            None => StartPoint::Point(qp.start.clone()),
        };
        let solution = self.solve(binary, &qp, from)?;
        course.converged &= solution.stop.is_none();
        let found = conclusion(course.formulation, &solution);
        let scores = match found {
            Ok(found) => {
                let coefficients = qp.fold(&solution.beta);
                let offset = if coefficients.iter().all(|beta| *beta == 0.0) {
                    majority(&binary.targets, found.offset)
                } else {
                    found.offset
                };
                let k_beta = self.k_beta(binary, &coefficients, &blocks, width);
                k_beta.iter().map(|sum| found.scale * sum - offset).collect()
            }
            Err(failure) => {
                course.failure = Some(failure);
                Vec::new()
            }
        };
        *last = Some(Last::new(&qp, &solution.beta, solution.k_beta));
        course.iterations += self.control.iterations - before;
        course.seconds += started.elapsed().as_secs_f64();
        Ok(scores)
    }

    /// The last solution, made to fit the next quadratic program, with its `Kβ`.
    fn next_start(&mut self, binary: &Binary, qp: &Qp, last: &Last) -> StartPoint {
        let scale = last.scale(qp);
        let beta = qp.repaired(&qp.unfold_scaled(&last.coefficients, scale));
        let mut k_beta: Vec<f64> = last.k_beta.iter().map(|sum| scale * sum).collect();
        let wanted = qp.fold(&beta);
        let largest = wanted.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let view = View::new(&binary.blocks);
        let examples = self.gram.examples(&view);
        let moved = wanted.iter().zip(&last.coefficients).map(|(new, old)| new - scale * old);
        let moved = examples.iter().zip(moved).filter(|(_, by)| by.abs() > ROUNDING * largest);
        let (rows, moved): (Vec<u32>, Vec<f64>) = moved.unzip();
        self.add(&view, &rows, &moved, &mut k_beta);
        StartPoint::Known { beta, k_beta }
    }

    fn solve(
        &mut self,
        binary: &Binary,
        qp: &Qp,
        from: StartPoint,
    ) -> Result<Solution, TrainError> {
        let limit = self.training.max_iterations;
        self.control.max_iterations = limit.map(|limit| self.control.iterations + limit);
        let Method::Gram(solver) = self.training.solver.method() else {
            unreachable!("other solvers went another way")
        };
        let view = View::new(&binary.blocks);
        let (gram, memory) = (&mut self.gram, self.memory);
        let stopping_test = StoppingTest::Sampled;
        let mut problem = GramProblem { gram, view, qp, from, shared: true, stopping_test, memory };
        let solution = solver.solve(&mut problem, &mut Steering(&mut self.control))?;
        match solution.stop {
            Some(stop @ (Stop::Cancelled | Stop::TimeLimit)) => Err(TrainError::Stopped(stop)),
            _ => Ok(solution),
        }
    }

    /// `Σ β K` of the examples held out.
    fn k_beta(
        &mut self,
        binary: &Binary,
        coefficients: &[f64],
        blocks: &[usize],
        width: usize,
    ) -> Vec<f64> {
        let examples = self.gram.examples(&View::new(&binary.blocks));
        let used = examples.iter().zip(coefficients).filter(|(_, beta)| **beta != 0.0);
        let (supports, weights): (Vec<u32>, Vec<f64>) = used.unzip();
        let mut k_beta = vec![0.0; width];
        self.add(&View::new(blocks), &supports, &weights, &mut k_beta);
        k_beta
    }

    /// Adds `Σ weight K` over these rows to the sums of a view.
    fn add(&mut self, view: &View, rows: &[u32], weights: &[f64], k_beta: &mut [f64]) {
        for (rows, weights) in rows.chunks(FETCH).zip(weights.chunks(FETCH)) {
            self.gram.fetch(view, rows);
            self.gram.add(view, rows, weights, k_beta);
        }
    }
}

/// What scores of all examples are worth, each example a fold of its own.
pub(crate) fn judged(
    data: &Dataset,
    inputs: &Inputs<'_>,
    formulation: &FormulationRef,
    scores: Vec<Vec<f64>>,
) -> Validation {
    let judge = Judge { inputs, targets: &data.targets };
    let asked = || (0..scores.len()).filter(|row| !scores[*row].is_empty());
    let quality = judge.quality(asked(), &scores);
    Validation {
        output: inputs.output.clone(),
        measure: Measure::of(formulation.goal(), &data.targets),
        quality,
        folds: vec![quality],
        correlation: judge.correlation(asked(), &scores),
        iterations: 0,
        seconds: 0.0,
        converged: true,
        scores,
    }
}

/// Compares answers with targets.
struct Judge<'j> {
    inputs: &'j Inputs<'j>,
    targets: &'j Targets,
}

impl Judge<'_> {
    fn quality(&self, rows: impl Iterator<Item = usize>, scores: &[Vec<f64>]) -> f64 {
        let output = &self.inputs.output;
        let known = match self.targets {
            Targets::Numbers(numbers) => Some(numbers.as_slice()),
            _ => None,
        };
        let (mut sum, mut count) = (0.0, 0usize);
        for row in rows {
            sum += match output.verdict(&scores[row]).answer {
                Answer::Class(class) => {
                    f64::from(u8::from(class == self.inputs.labels.class_of[row] as usize))
                }
                Answer::Value(value) => (value - self.inputs.values[row]).powi(2),
                Answer::Inlier(inside) => {
                    let expected = known.is_none_or(|targets| targets[row] > 0.0);
                    f64::from(u8::from(inside == expected))
                }
            };
            count += 1;
        }
        sum / count.max(1) as f64
    }

    fn correlation(&self, rows: impl Iterator<Item = usize>, scores: &[Vec<f64>]) -> Option<f64> {
        if self.inputs.output != Output::Value {
            return None;
        }
        let pairs: Vec<(f64, f64)> =
            rows.map(|row| (scores[row][0], self.inputs.values[row])).collect();
        let count = pairs.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
        let joint = sum(&|pair| (pair.0 - x) * (pair.1 - y));
        let spread = sum(&|pair| (pair.0 - x).powi(2)) * sum(&|pair| (pair.1 - y).powi(2));
        Some(joint * joint / spread)
    }
}

/// Whether examples of a formulation are dealt to folds by class.
pub fn by_class(formulation: &FormulationRef) -> bool {
    formulation.goal() == Goal::Classes
}
