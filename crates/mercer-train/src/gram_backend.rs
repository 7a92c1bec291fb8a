//! Backend of solvers over a Gram matrix (`smo`, `decomposition`): quadratic programs over kernel values of pairs of examples,
//! one subproblem after the other, with checkpoints and warm starts.
//! The solvers are in [`crate::solvers`], cross-validation is in `folds`.

mod folds;
mod start;

use mercer_data::Matrix;
use mercer_machine::MachineError;

use crate::backend::{Backend, Fit, FittedScores, Prepared};
use crate::control::Control;
use crate::decomposition::RowFile;
use crate::gram::{Gram, Source, View, kernel_sums};
use crate::problem::{Problem, check_domain, needs_matrix};
use crate::reduce::{BinarySubproblem, Reduction};
use crate::scale_and_offset::{majority_offset, scale_and_offset};
use crate::solvers::{GramProblem, GramSolver, Solution, StartPoint, State, StoppingTest};
use crate::update::EarlierMachine;
use crate::validate::FoldRun;
use crate::warm::Warm;
use crate::{
    Expansion, Folds, Optimality, ProblemForm, Qp, ScaleAndOffset, Stop, SubproblemReport,
    TrainError, Training,
};

/// What a training holds for each row beside the rows: the program, coefficients, sums, targets and weights.
const BYTES_PER_ROW: usize = 160;

/// Training by a solver that works on kernel values of pairs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GramBackend<'s> {
    pub(crate) solver: &'s dyn GramSolver,
}

impl Backend for GramBackend<'_> {
    fn prepare<'p>(
        &'p self,
        problem: &'p Problem<'p>,
    ) -> Result<Box<dyn Prepared + 'p>, TrainError> {
        Ok(Box::new(self.prepared(problem)?))
    }
}

impl GramBackend<'_> {
    fn prepared<'p>(&'p self, problem: &'p Problem<'p>) -> Result<PreparedGram<'p>, TrainError> {
        let is_in_pieces = problem.examples.as_matrix().is_none();
        let examples = if is_in_pieces && !self.solver.reads_columns() {
            let check = |first: usize, rows: &Matrix| check_domain(first, rows, problem.kernel);
            StoredExamples::File(RowFile::write(problem.examples, problem.kernel, &check)?)
        } else {
            StoredExamples::Memory(problem.kernel_source()?)
        };
        Ok(PreparedGram { problem, solver: self.solver, examples, starts: None, earlier: None })
    }

    /// Solves all subproblems, each from a given feasible point.
    ///
    /// # Errors
    /// As [`Prepared::solve`].
    pub(crate) fn solve_from(
        &self,
        problem: &Problem<'_>,
        starts: Option<Vec<Vec<f64>>>,
        control: &mut Control<'_>,
    ) -> Result<Fit, TrainError> {
        let prepared = PreparedGram { starts, ..self.prepared(problem)? };
        prepared.solve_all(control)
    }

    /// Solves all subproblems, from the machine of other rows.
    ///
    /// # Errors
    /// As [`Prepared::solve`].
    pub(crate) fn solve_after<'p>(
        &'p self,
        problem: &'p Problem<'p>,
        earlier: &'p EarlierMachine<'p>,
        control: &mut Control<'_>,
    ) -> Result<Fit, TrainError> {
        let prepared = PreparedGram { earlier: Some(earlier), ..self.prepared(problem)? };
        prepared.solve_all(control)
    }
}

/// Examples whose kernel values are known to be finite.
struct PreparedGram<'p> {
    problem: &'p Problem<'p>,
    solver: &'p dyn GramSolver,
    examples: StoredExamples<'p>,
    /// Feasible points to start from, one for each subproblem.
    starts: Option<Vec<Vec<f64>>>,
    /// A machine of other rows to start from.
    earlier: Option<&'p EarlierMachine<'p>>,
}

/// Where the examples are.
enum StoredExamples<'p> {
    Memory(Source<'p>),
    /// In a temporary file, for solvers that read rows in blocks.
    File(RowFile),
}

impl Prepared for PreparedGram<'_> {
    fn solve(self: Box<Self>, control: &mut Control<'_>) -> Result<Fit, TrainError> {
        self.solve_all(control)
    }

    fn cross_validate(
        self: Box<Self>,
        folds: &Folds,
        runs: &mut [FoldRun<'_>],
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        folds::cross_validate(*self, folds, runs, control)
    }
}

impl PreparedGram<'_> {
    fn solve_all(self, control: &mut Control<'_>) -> Result<Fit, TrainError> {
        let Self { problem, solver, examples, starts, earlier } = self;
        let training = problem.training;
        let reduction = problem.reduction();
        let programs = Programs { problem, reduction: &reduction };
        programs.check()?;
        let example_sets = reduction.example_sets().to_vec();
        let (columns, rows) = (problem.examples.columns(), problem.examples.rows());
        let empty = Matrix::sparse(columns, &[0], &[], &[]).map_err(MachineError::from)?;
        let (source, file, memory) = match examples {
            StoredExamples::Memory(source) => {
                let memory = training.memory_beside(source.examples);
                (source, None, memory)
            }
            StoredExamples::File(file) => {
                let mut source = Source::new(problem.kernel, &empty);
                source.centre.clone_from(&file.centre);
                (source, Some(file), training.memory_beside_bytes(rows * BYTES_PER_ROW))
            }
        };
        let warm = match &training.warm {
            Some(machine) => Some(Warm::new(machine, problem.matrix()?, &problem.output)?),
            None => None,
        };
        let gram = if solver.reads_columns() {
            Gram::new(source, example_sets, memory)
        } else {
            Gram::without_columns(source, example_sets)
        };
        let reports = Vec::new();
        let mut run = GramRun {
            training,
            solver,
            programs,
            gram,
            memory,
            file: file.as_ref(),
            warm,
            starts,
            earlier,
            reports,
            stop: None,
        };
        if run.starts_whole()? {
            // Kernel rows of what moves are few, and sums over f64 ones need not be computed again.
            run.gram.switch_to_f64(memory);
        }
        let expansions = run.solve_all(control)?;
        let example_sets = reduction.example_sets().to_vec();
        let scores = FittedScores::Expansions { example_sets, expansions };
        let fit = Fit {
            stop: run.stop,
            kernel_values: run.gram.computed(),
            peak_memory_bytes: run.gram.peak_bytes(),
            ..Fit::new(scores, run.reports)
        };
        Ok(Fit { file, ..fit })
    }
}

/// The quadratic program of each subproblem.
struct Programs<'r> {
    problem: &'r Problem<'r>,
    reduction: &'r Reduction<'r>,
}

impl Programs<'_> {
    fn get(&self, number: usize) -> Result<(BinarySubproblem, Qp), TrainError> {
        let binary = self.reduction.subproblem(number);
        let qp = self.problem.formulation.quadratic_program(&binary.view())?;
        Ok((binary, qp))
    }

    /// Refuses before any work starts what has no quadratic program or no feasible point.
    fn check(&self) -> Result<(), TrainError> {
        let formulation = self.problem.formulation;
        let is_program = formulation.form() == ProblemForm::QuadraticProgram;
        if is_program && !formulation.can_be_infeasible() {
            return Ok(());
        }
        (0..self.reduction.count()).try_for_each(|number| self.get(number).map(drop))
    }
}

/// A training over one Gram matrix.
struct GramRun<'c, 'a> {
    training: &'c Training,
    solver: &'c dyn GramSolver,
    programs: Programs<'c>,
    gram: Gram<'a>,
    memory: usize,
    /// The examples, where they are in a file.
    file: Option<&'c RowFile>,
    warm: Option<Warm<'c>>,
    starts: Option<Vec<Vec<f64>>>,
    earlier: Option<&'c EarlierMachine<'c>>,
    reports: Vec<SubproblemReport>,
    /// Why the last subproblem that ended early did so.
    stop: Option<Stop>,
}

impl GramRun<'_, '_> {
    fn solve_all(&mut self, control: &mut Control<'_>) -> Result<Vec<Expansion>, TrainError> {
        let saved = match &mut control.checkpointer {
            Some(checkpointer) => checkpointer.load()?,
            None => None,
        };
        let (mut finished, mut state) = (Vec::new(), None);
        if let Some(saved) = saved {
            control.earlier = saved.elapsed;
            control.iterations = saved.iterations;
            finished = saved.finished;
            state = Some((saved.subproblem, saved.state));
        }
        let mut finished = finished.into_iter();
        let count = self.programs.reduction.count();
        let mut expansions = Vec::with_capacity(count);
        for number in 0..count {
            let (binary, qp) = self.programs.get(number)?;
            let steps_before = control.iterations;
            let solution = match finished.next() {
                Some(solution) => solution,
                None if number > 0 && control.stop().is_some() => {
                    expansions.push(self.skip(&binary, &qp, control.stop()));
                    continue;
                }
                None => {
                    let state = state.take_if(|(at, _)| *at == number).map(|(_, state)| state);
                    self.solve(number, &binary, &qp, state, control)?
                }
            };
            let steps = control.iterations - steps_before;
            expansions.push(self.add_solution(&binary, &qp, solution, steps)?);
        }
        Ok(expansions)
    }

    fn solve(
        &mut self,
        number: usize,
        binary: &BinarySubproblem,
        qp: &Qp,
        state: Option<State>,
        control: &mut Control<'_>,
    ) -> Result<Solution, TrainError> {
        let view = View::new(&binary.sets);
        let from = self.start(number, &view, qp, state)?;
        control.start_subproblem(number);
        let tolerance = control.tolerance;
        let shared = self.programs.reduction.shares_example_sets();
        let (memory, file) = (self.memory, self.file);
        let (gram, stopping_test) = (&mut self.gram, StoppingTest::Recomputed);
        let mut problem = GramProblem { gram, view, qp, from, shared, stopping_test, memory, file };
        let solution = self.solver.solve(&mut problem, control);
        // A solver lowers it while the gap is too large.
        control.tolerance = tolerance;
        let solution = solution?;
        if matches!(solution.stop, None | Some(Stop::Stalled | Stop::GivenUp)) {
            control.checkpointer.iter_mut().for_each(|saver| saver.finish_subproblem(&solution));
        }
        Ok(solution)
    }

    /// Whether it starts from the machine of other rows, and every subproblem is one working set.
    fn starts_whole(&self) -> Result<bool, TrainError> {
        if self.earlier.is_none() {
            return Ok(false);
        }
        for number in 0..self.programs.reduction.count() {
            if !self.solver.solves_whole(self.programs.get(number)?.1.len()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A checkpoint, a warm start, a given point, the machine of other rows, or the formulation's own start.
    fn start(
        &mut self,
        number: usize,
        view: &View,
        qp: &Qp,
        state: Option<State>,
    ) -> Result<StartPoint, TrainError> {
        Ok(match (state, &self.warm) {
            (Some(state), _) if state.fits(qp) => StartPoint::State(Box::new(state)),
            (Some(_), _) => return Err(foreign_checkpoint(self.training)),
            (None, Some(warm)) => {
                let coefficients = warm.coefficients(number, &self.gram.examples(view));
                StartPoint::Point(qp.repaired(&qp.unfold(&coefficients)))
            }
            (None, None) => match (&self.starts, self.earlier) {
                (Some(starts), _) => StartPoint::Point(qp.repaired(&starts[number])),
                (None, Some(earlier)) => {
                    let examples = self.gram.examples(view);
                    let (gram, is_whole) = (&mut self.gram, self.solver.solves_whole(qp.len()));
                    let mut sums = |folded: &[f64]| {
                        let used = || (0..folded.len()).filter(|row| folded[*row] != 0.0);
                        let supports: Vec<u32> = used().map(|row| examples[row]).collect();
                        let weights: Vec<f64> = used().map(|row| folded[row]).collect();
                        if is_whole && gram.is_f64() {
                            gram.sums(view, &supports, &weights)
                        } else {
                            kernel_sums(&gram.source, &examples, &supports, &weights)
                        }
                    };
                    earlier.start(number, &examples, qp, &mut sums)
                }
                (None, None) => StartPoint::Point(qp.start.clone()),
            },
        })
    }

    /// Adds the report of a solved subproblem and returns its score.
    fn add_solution(
        &mut self,
        binary: &BinarySubproblem,
        qp: &Qp,
        solution: Solution,
        iterations: u64,
    ) -> Result<Expansion, TrainError> {
        let Solution { beta, optimality, stop, .. } = solution;
        let folded = qp.fold(&beta);
        let used: Vec<usize> = (0..folded.len()).filter(|row| folded[*row] != 0.0).collect();
        let multipliers = &optimality.multipliers;
        let formulation = self.programs.problem.formulation;
        let targets = &binary.targets;
        let ended_early = stop.is_some();
        let ScaleAndOffset { scale, offset } =
            scale_and_offset(formulation, multipliers, targets, used.is_empty(), ended_early)?;
        let square = scale * scale;
        let has_gap = (self.training.relative_gap)
            .is_none_or(|share| optimality.gap <= share * optimality.objective.abs());
        let report = SubproblemReport {
            converged: optimality.violation <= self.training.tolerance_used() && has_gap,
            iterations,
            objective: square * optimality.objective,
            gap: square * optimality.gap,
            violation: optimality.violation,
            ..SubproblemReport::unsolved(binary.name.clone())
        };
        self.reports.push(report.with_point(qp, &beta));
        self.stop = stop.or(self.stop);
        let all = self.gram.examples(&View::new(&binary.sets));
        Ok(Expansion {
            examples: used.iter().map(|row| all[*row]).collect(),
            coefficients: used.iter().map(|row| scale * folded[*row]).collect(),
            offset,
        })
    }

    /// A subproblem that was not begun: the larger class wins.
    fn skip(&mut self, binary: &BinarySubproblem, qp: &Qp, stop: Option<Stop>) -> Expansion {
        let mut optimality = Optimality::of(qp, &qp.start, &vec![0.0; qp.rows]);
        if qp.start.iter().any(|value| *value != 0.0) {
            (optimality.gap, optimality.violation) = (f64::INFINITY, f64::INFINITY);
        }
        self.reports.push(SubproblemReport {
            converged: optimality.violation <= 0.0,
            gap: optimality.gap,
            violation: optimality.violation,
            ..SubproblemReport::unsolved(binary.name.clone())
        });
        self.stop = stop.or(self.stop);
        let offset = majority_offset(&binary.targets, 0.0);
        Expansion { examples: Vec::new(), coefficients: Vec::new(), offset }
    }
}

/// A checkpoint that passed its digest but does not fit: the file was tampered with.
fn foreign_checkpoint(training: &Training) -> TrainError {
    let path = training.checkpoint.as_ref().map(|checkpoint| checkpoint.path.clone());
    let reason = "its subproblems do not fit the data".to_owned();
    TrainError::Checkpoint { path: path.unwrap_or_default(), reason }
}
