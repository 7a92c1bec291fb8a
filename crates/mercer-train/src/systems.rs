//! Backend of linear systems (LS-SVM, Fisher, ridge): one system instead of a quadratic program.
//!
//! `(K + diag(r)) β + c = t`, with `Σ β = 0` where there is a bias `c = -b`: the minimum of
//! `½|w|² + ½ Σ (t_i - f(x_i))² / r_i`. Subproblems over the same examples with the same ridge share one
//! factor, so that one-vs-rest costs little more than two classes. `dense` holds all kernel values,
//! `factored` a low-rank factor of them.

mod dense;
mod factored;
mod folds;

use crate::backend::{Backend, Fit, FitDetails, FittedScores, Prepared, refuse_saved_state};
use crate::control::{Control, Status, Stop};
use crate::gram::{Source, kernel_sums};
use crate::problem::Problem;
use crate::reduce::{BinarySubproblem, Reduction};
use crate::validate::FoldRun;
use crate::{
    Direct, Expansion, Folds, FormulationRef, ProblemForm, SubproblemReport, TrainError, Training,
};

/// A linear system over the rows of a subproblem.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// t.
    pub targets: Vec<f64>,
    /// r: what is added to the diagonal; above zero.
    pub ridge: Vec<f64>,
    /// Whether there is a bias.
    pub has_bias: bool,
}

/// How the kernel matrix of a system was represented.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemReport {
    /// Pivots of the low-rank factor, the largest of the subproblems; `None` if all kernel values were used.
    pub rank: Option<usize>,
    /// Share of the trace of the kernel values that the factor leaves out, the largest of the subproblems.
    pub trace_left: f64,
}

/// Subproblems over the same examples with the same ridge.
struct SystemGroup<'g> {
    name: &'g str,
    examples: &'g [u32],
    systems: Vec<System>,
    /// Whether leave-one-out scores are wanted.
    wants_leave_one_out: bool,
}

impl<'g> SystemGroup<'g> {
    fn new(
        subproblems: &'g [BinarySubproblem],
        examples: &'g [u32],
        formulation: &FormulationRef,
        wants_leave_one_out: bool,
    ) -> Self {
        let systems =
            subproblems.iter().filter_map(|binary| formulation.system(&binary.view())).collect();
        Self { name: &subproblems[0].name, examples, systems, wants_leave_one_out }
    }
}

/// The solution of one system.
#[derive(Debug)]
struct SystemSolution {
    expansion: Expansion,
    objective: f64,
    gap: f64,
    /// Largest error of an equation, relative to the largest target.
    violation: f64,
    /// Scores of the group's examples by the machine of all others.
    leave_one_out: Option<Vec<f64>>,
}

/// The solutions of a group.
#[derive(Debug)]
struct GroupSolution {
    solutions: Vec<SystemSolution>,
    report: SystemReport,
    kernel_values: u64,
    bytes: usize,
    /// Why the factor ended early.
    stop: Option<Stop>,
}

/// Whether a formulation is a linear system.
pub fn is_system(formulation: &FormulationRef) -> bool {
    formulation.form() == ProblemForm::LinearSystem
}

impl Backend for &Direct {
    fn prepare<'p>(
        &'p self,
        problem: &'p Problem<'p>,
    ) -> Result<Box<dyn Prepared + 'p>, TrainError> {
        check(problem.formulation, problem.training)?;
        let source = problem.kernel_source()?;
        let memory = problem.training.memory_beside(problem.matrix()?);
        Ok(Box::new(PreparedSystems { problem, source, direct: self, memory }))
    }
}

/// Refuses what does not go with a system.
fn check(formulation: &FormulationRef, training: &Training) -> Result<(), TrainError> {
    if !is_system(formulation) {
        let solver = training.solver.spec().name().to_owned();
        let name = formulation.spec().name().to_owned();
        let reason = format!("it solves ls_svm, fisher and ridge, not {name}");
        return Err(TrainError::Unsuited { solver, reason });
    }
    refuse_saved_state(training)
}

/// Examples whose kernel values are known to be finite.
struct PreparedSystems<'p> {
    problem: &'p Problem<'p>,
    source: Source<'p>,
    direct: &'p Direct,
    memory: usize,
}

impl Prepared for PreparedSystems<'_> {
    fn solve(self: Box<Self>, control: &mut Control<'_>) -> Result<Fit, TrainError> {
        let reduction = self.problem.reduction();
        let mut run = SystemRun::new(&self, control.tolerance);
        run.solve_all(&reduction, control)?;
        let SystemRun { expansions, reports, leave_one_out, report, .. } = run;
        let example_sets = reduction.example_sets().to_vec();
        let scores = FittedScores::Expansions { example_sets, expansions };
        Ok(Fit {
            stop: run.stop,
            kernel_values: run.kernel_values,
            peak_memory_bytes: run.bytes,
            details: FitDetails { system: Some(report), ..FitDetails::default() },
            leave_one_out,
            ..Fit::new(scores, reports)
        })
    }

    fn cross_validate(
        self: Box<Self>,
        folds: &Folds,
        runs: &mut [FoldRun<'_>],
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        folds::cross_validate(&self, folds, runs, control)
    }
}

impl PreparedSystems<'_> {
    fn solve_group(
        &self,
        group: &SystemGroup<'_>,
        control: &mut Control<'_>,
    ) -> Result<GroupSolution, TrainError> {
        match self.direct.rank_of(group.examples.len(), self.memory) {
            None => dense::solve(&self.source, group, control),
            Some(rank) => factored::solve(&self.source, group, rank, control),
        }
    }

    /// Scores of examples by the machine of one subproblem.
    fn scores(&self, examples: &[u32], machine: &Expansion) -> Vec<f64> {
        let sums = kernel_sums(&self.source, examples, &machine.examples, &machine.coefficients);
        sums.into_iter().map(|sum| sum - machine.offset).collect()
    }
}

/// The subproblem of this number and those that follow it over the same examples, up to `count`.
fn shared_group(
    first: BinarySubproblem,
    number: usize,
    count: usize,
    next: impl Fn(usize) -> Option<BinarySubproblem>,
) -> Vec<BinarySubproblem> {
    let mut group = vec![first];
    while number + group.len() < count {
        match next(number + group.len()) {
            Some(next) if next.shares_examples(&group[0]) => group.push(next),
            _ => break,
        }
    }
    group
}

/// Reports how many rows or pivots are done; whether to go on.
fn go_on(control: &mut Control<'_>, done: usize) -> bool {
    control.report_and_go_on(Status { violation: f64::NAN, gap: f64::NAN, supports: done })
}

/// The largest target, which errors are compared with.
fn scale_of(targets: &[f64]) -> f64 {
    targets.iter().fold(f64::MIN_POSITIVE, |most: f64, target| most.max(target.abs()))
}

/// A training over all subproblems.
struct SystemRun<'c> {
    prepared: &'c PreparedSystems<'c>,
    tolerance: f64,
    expansions: Vec<Expansion>,
    reports: Vec<SubproblemReport>,
    /// Of each example; `None` once a subproblem has none.
    leave_one_out: Option<Vec<Vec<f64>>>,
    report: SystemReport,
    kernel_values: u64,
    bytes: usize,
    stop: Option<Stop>,
}

impl<'c> SystemRun<'c> {
    fn new(prepared: &'c PreparedSystems<'c>, tolerance: f64) -> Self {
        Self {
            prepared,
            tolerance,
            expansions: Vec::new(),
            reports: Vec::new(),
            leave_one_out: Some(vec![Vec::new(); prepared.problem.examples.rows()]),
            report: SystemReport { rank: None, trace_left: 0.0 },
            kernel_values: 0,
            bytes: 0,
            stop: None,
        }
    }

    fn solve_all(
        &mut self,
        reduction: &Reduction<'_>,
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let (example_sets, count) = (reduction.example_sets(), reduction.count());
        let all_examples: Vec<u32> = example_sets.concat();
        let mut number = 0;
        while number < count {
            control.start_subproblem(number);
            let first = reduction.subproblem(number);
            let next = |number: usize| Some(reduction.subproblem(number));
            let subproblems = shared_group(first, number, count, next);
            let examples = subproblems[0].examples(example_sets);
            let formulation = self.prepared.problem.formulation;
            let group = SystemGroup::new(&subproblems, &examples, formulation, true);
            let solved = self.prepared.solve_group(&group, control)?;
            self.add(&subproblems, &examples, &all_examples, solved);
            number += subproblems.len();
        }
        Ok(())
    }

    fn add(
        &mut self,
        subproblems: &[BinarySubproblem],
        examples: &[u32],
        all_examples: &[u32],
        solved: GroupSolution,
    ) {
        self.report.rank = self.report.rank.max(solved.report.rank);
        self.report.trace_left = self.report.trace_left.max(solved.report.trace_left);
        self.kernel_values += solved.kernel_values;
        self.bytes = self.bytes.max(solved.bytes);
        self.stop = self.stop.or(solved.stop);
        for (binary, solution) in subproblems.iter().zip(solved.solutions) {
            self.reports.push(SubproblemReport {
                converged: solution.violation <= self.tolerance && solved.stop.is_none(),
                objective: solution.objective,
                gap: solution.gap,
                violation: solution.violation,
                supports: solution.expansion.examples.len(),
                ..SubproblemReport::unsolved(binary.name.clone())
            });
            self.add_leave_one_out(binary, examples, all_examples, &solution);
            self.expansions.push(solution.expansion);
        }
    }

    /// Scores of all examples: of those that were trained on by the machine of the others, of the rest by
    /// the machine itself.
    fn add_leave_one_out(
        &mut self,
        binary: &BinarySubproblem,
        examples: &[u32],
        all_examples: &[u32],
        solution: &SystemSolution,
    ) {
        let (Some(scores_of), Some(scores)) = (&mut self.leave_one_out, &solution.leave_one_out)
        else {
            self.leave_one_out = None;
            return;
        };
        let mut scores = scores.clone();
        let formulation = self.prepared.problem.formulation;
        formulation.correct_leave_one_out(&binary.view(), &mut scores);
        let mut is_trained_on = vec![false; scores_of.len()];
        for (example, score) in examples.iter().zip(scores) {
            is_trained_on[*example as usize] = true;
            scores_of[*example as usize].push(score);
        }
        let others: Vec<u32> = all_examples
            .iter()
            .copied()
            .filter(|example| !is_trained_on[*example as usize])
            .collect();
        let scores = self.prepared.scores(&others, &solution.expansion);
        for (example, score) in others.iter().zip(scores) {
            scores_of[*example as usize].push(score);
        }
    }
}
