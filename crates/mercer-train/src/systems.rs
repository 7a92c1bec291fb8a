//! Machines that keep all coefficients: one linear system instead of a quadratic program.
//!
//! `(K + diag(r)) β + c = t`, with `Σ β = 0` where there is a bias `c = -b`: the best point of
//! `½|w|² + ½ Σ (t_i - f(x_i))² / r_i`. Questions that read the same examples with the same ridge share one
//! factor, so that one-vs-rest costs little more than two classes.

mod dense;
mod low_rank;

use std::time::Instant;

use mercer_data::Dataset;
use mercer_kernel::KernelRef;

use crate::assemble;
use crate::control::{Control, Standing, Stop};
use crate::gram::{Source, kernel_sums};
use crate::reduce::{Binary, Reduction};
use crate::report::{Report, SubproblemReport, Trained};
use crate::training::prepare;
use crate::validate::judged;
use crate::{Direct, Expansion, FormulationRef, Subproblem, TrainError, Training};

/// A linear system over the rows of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// t.
    pub targets: Vec<f64>,
    /// r: what is added to the diagonal; above zero.
    pub ridge: Vec<f64>,
    /// Whether a constant is fitted beside.
    pub has_bias: bool,
}

/// How the kernel values of a system were held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemReport {
    /// Pivots of the low-rank factor, the most of the questions; `None` if all kernel values were used.
    pub rank: Option<usize>,
    /// Share of the trace of the kernel values that the factor leaves over, the worst of the questions.
    pub trace_left: f64,
}

/// Questions over the same examples with the same ridge.
pub(crate) struct Group<'g> {
    pub(crate) name: &'g str,
    pub(crate) examples: &'g [u32],
    pub(crate) systems: Vec<System>,
    /// Whether scores of examples left out are wanted.
    pub(crate) wants_left_out: bool,
}

/// The solution of one question.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) expansion: Expansion,
    objective: f64,
    gap: f64,
    /// Largest error of an equation, relative to the largest target.
    violation: f64,
    /// Scores of the group's examples by the machine of all others.
    left_out: Option<Vec<f64>>,
}

/// What came of a group.
#[derive(Debug)]
pub(crate) struct Solved {
    pub(crate) answers: Vec<Answer>,
    report: SystemReport,
    kernel_values: u64,
    bytes: usize,
    /// Why the factor ended early.
    stop: Option<Stop>,
}

/// Whether a formulation is a linear system.
pub fn is_system(formulation: &FormulationRef) -> bool {
    formulation.system(&Subproblem { name: "", targets: &[], weights: &[] }).is_some()
}

/// Where systems are solved, and with what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bench<'b> {
    pub(crate) source: &'b Source<'b>,
    pub(crate) direct: &'b Direct,
    pub(crate) memory: usize,
}

impl Bench<'_> {
    pub(crate) fn solve(
        &self,
        group: &Group<'_>,
        control: &mut Control<'_>,
    ) -> Result<Solved, TrainError> {
        match self.direct.rank_of(group.examples.len(), self.memory) {
            None => dense::solve(self.source, group, control),
            Some(rank) => low_rank::solve(self.source, group, rank, control),
        }
    }
}

/// Tells how many rows or pivots are done; whether to go on.
fn go_on(control: &mut Control<'_>, done: usize) -> bool {
    control.tell(Standing { violation: f64::NAN, gap: f64::NAN, supports: done });
    control.stop().is_none()
}

/// The largest target, which errors are compared with.
fn scale_of(targets: &[f64]) -> f64 {
    targets.iter().fold(f64::MIN_POSITIVE, |most: f64, target| most.max(target.abs()))
}

pub(crate) fn train(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    (training, direct): (&Training, &Direct),
    control: &mut Control<'_>,
) -> Result<Trained, TrainError> {
    check(formulation, training)?;
    let started = Instant::now();
    let inputs = prepare::inputs(data, Some(kernel), formulation, training)?;
    let source = Source::new(kernel, &data.examples);
    prepare::check_diagonal(&source)?;
    let reduction = inputs.reduction(training.scheme_used());
    control.parts = reduction.questions();
    let memory = training.memory_beside(&data.examples);
    let bench = Bench { source: &source, direct, memory };
    let mut course = Course::new(bench, formulation, data.examples.rows());
    course.run(reduction.as_ref(), control)?;
    let learned = std::mem::take(&mut course.learned);
    let (blocks, output) = (reduction.blocks(), inputs.output.clone());
    let machine = assemble::machine(kernel, &data.examples, &blocks, &learned, output)?;
    let left_out = course.left_out.take().map(|scores| {
        let mut validation = judged(data, &inputs, formulation, scores);
        validation.seconds = started.elapsed().as_secs_f64();
        validation
    });
    let report = course.report(control, machine.supports().rows());
    Ok(Trained { machine, report, expansions: learned, duals: None, left_out })
}

/// Refuses what does not go with a system.
pub(crate) fn check(formulation: &FormulationRef, training: &Training) -> Result<(), TrainError> {
    let unsuited = |reason: String| {
        Err(TrainError::Unsuited { solver: training.solver.spec().name().to_owned(), reason })
    };
    if !is_system(formulation) {
        let name = formulation.spec().name().to_owned();
        return unsuited(format!("it solves ls_svm, fisher and ridge, not {name}"));
    }
    if training.has_checkpoint() {
        return unsuited("it writes no checkpoints; leave them out".to_owned());
    }
    if training.has_warm_machine() {
        return unsuited("it solves in one go and starts from nothing".to_owned());
    }
    Ok(())
}

/// A training under way.
struct Course<'c> {
    bench: Bench<'c>,
    formulation: &'c FormulationRef,
    learned: Vec<Expansion>,
    parts: Vec<SubproblemReport>,
    /// Of each example; `None` once a question has none.
    left_out: Option<Vec<Vec<f64>>>,
    report: SystemReport,
    kernel_values: u64,
    bytes: usize,
    stop: Option<Stop>,
}

impl<'c> Course<'c> {
    fn new(bench: Bench<'c>, formulation: &'c FormulationRef, rows: usize) -> Self {
        Self {
            bench,
            formulation,
            learned: Vec::new(),
            parts: Vec::new(),
            left_out: Some(vec![Vec::new(); rows]),
            report: SystemReport { rank: None, trace_left: 0.0 },
            kernel_values: 0,
            bytes: 0,
            stop: None,
        }
    }

    fn run(
        &mut self,
        reduction: &dyn Reduction,
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let (blocks, questions) = (reduction.blocks(), reduction.questions());
        let mut number = 0;
        while number < questions {
            control.start_part(number);
            let mut asked = vec![reduction.question(number)];
            while number + asked.len() < questions {
                let next = reduction.question(number + asked.len());
                if next.blocks != asked[0].blocks || next.weights != asked[0].weights {
                    break;
                }
                asked.push(next);
            }
            let examples: Vec<u32> =
                asked[0].blocks.iter().flat_map(|block| blocks[*block].iter().copied()).collect();
            let everyone: Vec<u32> = blocks.concat();
            let group = group(&asked, &examples, self.formulation, true);
            let solved = self.bench.solve(&group, control)?;
            self.take(&asked, &group, &everyone, solved, control.tolerance);
            number += asked.len();
        }
        Ok(())
    }

    fn take(
        &mut self,
        asked: &[Binary],
        group: &Group<'_>,
        everyone: &[u32],
        solved: Solved,
        tolerance: f64,
    ) {
        self.report.rank = self.report.rank.max(solved.report.rank);
        self.report.trace_left = self.report.trace_left.max(solved.report.trace_left);
        self.kernel_values += solved.kernel_values;
        self.bytes = self.bytes.max(solved.bytes);
        self.stop = self.stop.or(solved.stop);
        for (binary, answer) in asked.iter().zip(solved.answers) {
            self.parts.push(SubproblemReport {
                name: binary.name.clone(),
                converged: answer.violation <= tolerance && solved.stop.is_none(),
                iterations: 0,
                objective: answer.objective,
                gap: answer.gap,
                violation: answer.violation,
                supports: answer.expansion.examples.len(),
                bounded: 0,
            });
            self.leave_out(binary, group, everyone, &answer);
            self.learned.push(answer.expansion);
        }
    }

    /// Scores of all examples: of those that were learned from by the machine of the others, of the rest by
    /// the machine itself.
    fn leave_out(&mut self, binary: &Binary, group: &Group<'_>, everyone: &[u32], answer: &Answer) {
        let (Some(all), Some(own)) = (&mut self.left_out, &answer.left_out) else {
            self.left_out = None;
            return;
        };
        let mut own = own.clone();
        self.formulation.left_out(&part(binary), &mut own);
        let mut is_own = vec![false; all.len()];
        for (example, score) in group.examples.iter().zip(own) {
            is_own[*example as usize] = true;
            all[*example as usize].push(score);
        }
        let others: Vec<u32> =
            everyone.iter().copied().filter(|example| !is_own[*example as usize]).collect();
        let scores = self.bench.scores(&others, &answer.expansion);
        for (example, score) in others.iter().zip(scores) {
            all[*example as usize].push(score);
        }
    }

    fn report(&self, control: &Control<'_>, supports: usize) -> Report {
        let parts = &self.parts;
        Report {
            seconds: control.elapsed().as_secs_f64(),
            iterations: 0,
            converged: parts.iter().all(|part| part.converged),
            stop: self.stop,
            objective: parts.iter().map(|part| part.objective).sum(),
            gap: parts.iter().map(|part| part.gap).sum(),
            violation: parts.iter().map(|part| part.violation).fold(0.0, f64::max),
            supports,
            bounded: 0,
            kernel_values: self.kernel_values,
            peak_memory_bytes: self.bytes,
            table: None,
            low_rank: None,
            chosen: None,
            system: Some(self.report),
            parts: parts.clone(),
        }
    }
}

impl Bench<'_> {
    /// Scores of examples under one question's machine.
    pub(crate) fn scores(&self, examples: &[u32], machine: &Expansion) -> Vec<f64> {
        let sums = kernel_sums(self.source, examples, &machine.examples, &machine.coefficients);
        sums.into_iter().map(|sum| sum - machine.offset).collect()
    }
}

fn part(binary: &Binary) -> Subproblem<'_> {
    Subproblem { name: &binary.name, targets: &binary.targets, weights: &binary.weights }
}

/// Questions that share examples and ridge.
pub(crate) fn group<'g>(
    asked: &'g [Binary],
    examples: &'g [u32],
    formulation: &FormulationRef,
    wants_left_out: bool,
) -> Group<'g> {
    let systems = asked.iter().filter_map(|binary| formulation.system(&part(binary))).collect();
    Group { name: &asked[0].name, examples, systems, wants_left_out }
}
