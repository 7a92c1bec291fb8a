//! Training: the options, and the one path from examples to a machine.
//!
//! [`train`] chooses the solver, checks the [`Problem`], lets the solver's backend prepare and solve it
//! ([`crate::backend`]) and builds machine and report ([`crate::report`]).

use std::borrow::Cow;
use std::time::Duration;

use mercer_data::{Dataset, Matrix, Targets};
use mercer_kernel::KernelRef;
use mercer_machine::{ClassName, Machine, Scheme};
use mercer_spec::Spec;

use crate::backend::backend_of;
use crate::checkpoint::Checkpointer;
use crate::control::Control;
use crate::digest;
use crate::low_rank;
use crate::problem::{Problem, needs_matrix};
use crate::report::{self, Trained};
use crate::row_source::RowSource;
use crate::solvers::Method;
use crate::{
    Cancel, Checkpoint, Duals, FormulationRef, ProblemForm, Progress, SolverRef, TrainError,
};

/// How to train: solver, limits, memory, weights, checkpoints.
#[derive(Debug, Clone)]
pub struct Training {
    pub(crate) solver: SolverRef,
    /// Whether the solver was given by the caller.
    solver_given: bool,
    pub(crate) scheme: Option<Scheme>,
    pub(crate) tolerance: Option<f64>,
    pub(crate) relative_gap: Option<f64>,
    pub(crate) memory: usize,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) max_iterations: Option<u64>,
    pub(crate) cancel: Cancel,
    pub(crate) weights: Option<Vec<f64>>,
    pub(crate) class_weights: Vec<(ClassName, f64)>,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) warm: Option<Machine>,
    pub(crate) keep_duals: bool,
    pub(crate) duals: Option<Duals>,
    pub(crate) polish: bool,
}

impl Default for Training {
    /// SMO with LIBSVM's tolerance 1e-3, one-vs-one, 1 GiB, no limits.
    fn default() -> Self {
        Self {
            solver: crate::solver("smo").expect("smo is registered"),
            solver_given: false,
            scheme: None,
            tolerance: None,
            relative_gap: None,
            memory: 1 << 30,
            time_limit: None,
            max_iterations: None,
            cancel: Cancel::new(),
            weights: None,
            class_weights: Vec::new(),
            checkpoint: None,
            warm: None,
            keep_duals: false,
            duals: None,
            polish: false,
        }
    }
}

impl Training {
    /// The solver; by default `direct` for linear systems and `smo` for the rest.
    pub fn solver(mut self, solver: SolverRef) -> Self {
        self.solver = solver;
        self.solver_given = true;
        self
    }

    /// How several classes are reduced to binary subproblems; by default the solver's own scheme.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Some(scheme);
        self
    }

    /// LIBSVM's ε: the largest violation of the optimality conditions that is accepted; by default the
    /// solver's own.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Goes on, after the tolerance is reached, until the duality gap of each subproblem is at most this share of its
    /// objective: the objective is then within that share of the optimum. For `smo` and `decomposition`, without checkpoints.
    pub fn relative_gap(mut self, share: Option<f64>) -> Self {
        self.relative_gap = share;
        self
    }

    /// Bytes for the whole training: examples, packed rows, cached kernel rows, and a tenth for buffers.
    /// However large the examples are, a quarter is left for the rows.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Ends after this time with the best machine so far.
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.time_limit = limit;
        self
    }

    /// Ends after this many pair steps, all subproblems together.
    pub fn max_iterations(mut self, limit: Option<u64>) -> Self {
        self.max_iterations = limit;
        self
    }

    /// A token that ends the training from another thread.
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = cancel;
        self
    }

    /// One weight per example; examples of weight zero are not used.
    pub fn weights(mut self, weights: Option<Vec<f64>>) -> Self {
        self.weights = weights;
        self
    }

    /// The weights of the examples, where they were given.
    pub fn example_weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The solver that was given or is the default.
    pub fn solver_spec(&self) -> Spec {
        self.solver.spec()
    }

    /// Whether the solver was given, not left to the formulation.
    pub fn is_solver_given(&self) -> bool {
        self.solver_given
    }

    /// Factors of the weights of some classes, where they were given.
    pub fn class_weights_given(&self) -> &[(ClassName, f64)] {
        &self.class_weights
    }

    /// Factors of the weights of some classes.
    pub fn class_weights(mut self, weights: Vec<(ClassName, f64)>) -> Self {
        self.class_weights = weights;
        self
    }

    /// Saves the training at intervals, and resumes from the file.
    pub fn checkpoint(mut self, checkpoint: Option<Checkpoint>) -> Self {
        self.checkpoint = checkpoint;
        self
    }

    /// Starts from a machine of the same classes; its coefficients are clipped to the new bounds.
    pub fn warm_start(mut self, machine: Option<Machine>) -> Self {
        self.warm = machine;
        self
    }

    /// Bytes that the examples leave for packed and cached rows.
    pub(crate) fn memory_beside(&self, examples: &Matrix) -> usize {
        self.memory_beside_bytes(examples.bytes())
    }

    /// Bytes that examples of this size leave for packed and cached rows.
    pub(crate) fn memory_beside_bytes(&self, examples: usize) -> usize {
        let rows = self.memory - self.memory / 10;
        rows.saturating_sub(examples).max(self.memory / 4)
    }

    /// Whether the solver can read examples in pieces ([`train_rows`]).
    pub fn reads_pieces(&self) -> bool {
        match self.solver.method() {
            Method::Linear(_) => true,
            Method::Gram(solver) => !solver.reads_columns(),
            _ => false,
        }
    }

    /// Keeps the coefficients of all examples, so that a training with another C can start from them; for
    /// linear and additive solvers.
    pub fn keep_duals(mut self) -> Self {
        self.keep_duals = true;
        self
    }

    /// Starts from coefficients of a training on the same examples, scaled to the new C.
    pub fn continue_from(mut self, duals: Option<Duals>) -> Self {
        self.duals = duals;
        self
    }

    /// Whether a low-rank solution is continued to the exact one.
    pub fn polish(mut self, polish: bool) -> Self {
        self.polish = polish;
        self
    }

    /// Goes back to the solver's own tolerance.
    pub(crate) fn default_tolerance(mut self) -> Self {
        self.tolerance = None;
        self
    }

    /// A new control with the limits of this training.
    pub(crate) fn control<'o>(&self, observer: &'o mut dyn FnMut(&Progress)) -> Control<'o> {
        let mut control = Control::new(observer, self.cancel.clone());
        control.time_limit = self.time_limit;
        control.max_iterations = self.max_iterations;
        control.tolerance = self.tolerance_used();
        control.relative_gap = self.relative_gap;
        control
    }

    pub(crate) fn tolerance_used(&self) -> f64 {
        self.tolerance.unwrap_or_else(|| self.solver.tolerance())
    }

    pub(crate) fn scheme_used(&self) -> Scheme {
        self.scheme.unwrap_or_else(|| self.solver.scheme())
    }

    pub(crate) fn check(&self) -> Result<(), TrainError> {
        let tolerance = self.tolerance_used();
        if !(tolerance > 0.0 && tolerance.is_finite()) {
            let (option, value) = ("the tolerance", tolerance);
            return Err(TrainError::Option { option, value, range: "above 0 and finite" });
        }
        self.check_relative_gap()
    }

    fn check_relative_gap(&self) -> Result<(), TrainError> {
        let Some(value) = self.relative_gap else { return Ok(()) };
        if !(value > 0.0 && value.is_finite()) {
            let option = "the relative gap";
            return Err(TrainError::Option { option, value, range: "above 0 and finite" });
        }
        let reason = match self.solver.method() {
            Method::Gram(_) if self.checkpoint.is_some() => {
                "a checkpoint does not hold how far the relative gap has come; leave one of them out"
            }
            Method::Gram(_) | Method::Auto => return Ok(()),
            _ => "it does not stop by a relative gap; leave it out",
        };
        let solver = self.solver.spec().name().to_owned();
        Err(TrainError::Unsuited { solver, reason: reason.to_owned() })
    }
}

/// Trains a machine on examples. Work runs in the rayon pool of the caller; the result does not depend on
/// the number of threads.
///
/// `observer` is called after every round. A limit or the cancel token ends the training with the best
/// machine so far, and the report says so.
///
/// # Errors
/// If targets, weights or options do not fit, if ν is infeasible, or if kernel values overflow: before
/// any work starts. If a checkpoint cannot be written or belongs to something else.
pub fn train(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Trained, TrainError> {
    let (chosen, reason) = choose_solver(data, kernel, formulation, training)?;
    let training = chosen.as_ref();
    let mut control = training.control(observer);
    let problem = Problem::new(&data.examples, &data.targets, kernel, formulation, training)?;
    let mut trained = run(&problem, &mut control)?;
    trained.report.chosen = reason;
    Ok(trained)
}

/// The same from examples that are read in pieces, by a linear or additive solver: they are packed into a
/// temporary file if they do not fit in memory; or by `decomposition`, which keeps them in blocks of a temporary file.
///
/// # Errors
/// As [`train`], and if the solver needs all examples in memory.
pub fn train_rows(
    examples: &dyn RowSource,
    targets: &Targets,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Trained, TrainError> {
    training.check()?;
    if !training.reads_pieces() {
        return Err(needs_matrix(training));
    }
    let mut control = training.control(observer);
    let problem = Problem::new(examples, targets, kernel, formulation, training)?;
    run(&problem, &mut control)
}

/// Prepares and solves, then builds machine and report: the path of every training.
fn run(problem: &Problem<'_>, control: &mut Control<'_>) -> Result<Trained, TrainError> {
    let backend = backend_of(problem.training.solver.as_ref());
    backend.check_formulation(problem.formulation)?;
    let prepared = backend.prepare(problem)?;
    if let Some(checkpoint) = &problem.training.checkpoint {
        let what = format!("{} {}", problem.kernel.spec(), problem.formulation.spec());
        let digest = digest::of(&what, problem.examples, problem.targets, problem.training)?;
        control.checkpointer = Some(Checkpointer::new(checkpoint, digest));
    }
    control.subproblems = problem.subproblem_count();
    let fit = prepared.solve(control)?;
    report::build_trained(problem, fit, control)
}

/// The training with the solver that it will use, and why that one where `auto` chose it.
pub(crate) fn choose_solver<'t>(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &'t Training,
) -> Result<(Cow<'t, Training>, Option<String>), TrainError> {
    let is_system = formulation.form() == ProblemForm::LinearSystem;
    let mut chosen = Cow::Borrowed(training);
    if is_system && !training.solver_given {
        let direct = crate::solver("direct").expect("direct is registered");
        chosen = Cow::Owned(training.clone().solver(direct));
    }
    chosen.check()?;
    let Method::Auto = chosen.solver.method() else { return Ok((chosen, None)) };
    let (solver, reason) = low_rank::choose(data, kernel, formulation, training);
    let chosen = training.clone().solver(solver);
    chosen.check()?;
    Ok((Cow::Owned(chosen), Some(reason)))
}
