//! Training: options, and the way from data to a machine.

pub(crate) mod digest;
mod on_gram;
pub(crate) mod prepare;

use std::borrow::Cow;
use std::time::Duration;

use mercer_data::{Dataset, Matrix, Targets};
use mercer_kernel::KernelRef;
use mercer_machine::{ClassName, Machine, Output, Scheme};

use crate::control::Control;
use crate::lowrank;
use crate::report::Trained;
use crate::solvers::Method;
use crate::systems;
use crate::tables;
use crate::{
    Cancel, Checkpoint, Duals, FormulationRef, Progress, Rows, SolverRef, Subproblem, TrainError,
};

pub(crate) use on_gram::{conclusion, conclusion_of, majority, on_gram};

/// How to train: solver, limits, memory, weights, checkpoints.
#[derive(Debug, Clone)]
pub struct Training {
    pub(crate) solver: SolverRef,
    /// Whether the solver was asked for.
    solver_given: bool,
    pub(crate) scheme: Option<Scheme>,
    pub(crate) tolerance: Option<f64>,
    pub(crate) memory: usize,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) max_iterations: Option<u64>,
    pub(crate) cancel: Cancel,
    pub(crate) weights: Option<Vec<f64>>,
    class_weights: Vec<(ClassName, f64)>,
    checkpoint: Option<Checkpoint>,
    warm: Option<Machine>,
    keep_duals: bool,
    duals: Option<Duals>,
    polish: bool,
    starts: Option<Vec<Vec<f64>>>,
}

impl Default for Training {
    /// SMO with LIBSVM's tolerance 1e-3, one-vs-one, 1 GiB, no limits.
    fn default() -> Self {
        Self {
            solver: crate::solver("smo").expect("smo is registered"),
            solver_given: false,
            scheme: None,
            tolerance: None,
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
            starts: None,
        }
    }
}

impl Training {
    /// How it is solved; where nothing is said, `direct` for linear systems and `smo` for the rest.
    pub fn solver(mut self, solver: SolverRef) -> Self {
        self.solver = solver;
        self.solver_given = true;
        self
    }

    /// With the solver that this formulation needs, unless one was asked for.
    pub(crate) fn settled(&self, formulation: &FormulationRef) -> Cow<'_, Self> {
        let nothing = Subproblem { name: "", targets: &[], weights: &[] };
        if self.solver_given || formulation.system(&nothing).is_none() {
            return Cow::Borrowed(self);
        }
        let solver = crate::solver("direct").expect("direct is registered");
        Cow::Owned(Self { solver, ..self.clone() })
    }

    /// How many classes become binary questions; the solver's own way where nothing is said.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Some(scheme);
        self
    }

    /// LIBSVM's ε: the largest violation of the optimality conditions that is accepted; the solver's own
    /// where nothing is said.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Bytes for the whole training: examples, packed rows, kept kernel rows, and a tenth for buffers.
    /// However large the examples are, a quarter stays for the rows.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Ends after this time with the best machine so far.
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.time_limit = limit;
        self
    }

    /// Ends after this many pair steps, all questions together.
    pub fn max_iterations(mut self, limit: Option<u64>) -> Self {
        self.max_iterations = limit;
        self
    }

    /// A switch that ends the training from elsewhere.
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = cancel;
        self
    }

    /// One weight per example; zero leaves an example out.
    pub fn weights(mut self, weights: Option<Vec<f64>>) -> Self {
        self.weights = weights;
        self
    }

    /// The weights, where some were given.
    pub fn example_weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// Factors of the weights of some classes.
    pub fn class_weights(mut self, weights: Vec<(ClassName, f64)>) -> Self {
        self.class_weights = weights;
        self
    }

    /// Saves the training now and then, and continues from there.
    pub fn checkpoint(mut self, checkpoint: Option<Checkpoint>) -> Self {
        self.checkpoint = checkpoint;
        self
    }

    /// Starts from a machine of the same classes; its coefficients are fitted into the new limits.
    pub fn warm_start(mut self, machine: Option<Machine>) -> Self {
        self.warm = machine;
        self
    }

    /// What the examples leave for packed and kept rows.
    pub(crate) fn memory_beside(&self, examples: &Matrix) -> usize {
        self.memory_beside_bytes(examples.bytes())
    }

    /// What examples of so many bytes leave for packed and kept rows.
    pub(crate) fn memory_beside_bytes(&self, examples: usize) -> usize {
        let rows = self.memory - self.memory / 10;
        rows.saturating_sub(examples).max(self.memory / 4)
    }

    /// Whether the solver can read examples in pieces ([`train_rows`]).
    pub fn reads_pieces(&self) -> bool {
        matches!(self.solver.method(), Method::Tables(_))
    }

    /// Keeps the coefficients of all examples, so that a training with another C can start from them; for
    /// solvers of tables.
    pub fn keep_duals(mut self) -> Self {
        self.keep_duals = true;
        self
    }

    /// Starts from coefficients of a training on the same examples, scaled to the new C.
    pub fn continue_from(mut self, duals: Option<Duals>) -> Self {
        self.duals = duals;
        self
    }

    /// Whether a low-rank solution is led on to the exact one.
    pub fn polish(mut self, polish: bool) -> Self {
        self.polish = polish;
        self
    }

    pub(crate) fn polishes(&self) -> bool {
        self.polish
    }

    /// Feasible points to start from, one for each question.
    pub(crate) fn starts(mut self, starts: Vec<Vec<f64>>) -> Self {
        self.starts = Some(starts);
        self
    }

    /// The tolerance is the solver's own again.
    pub(crate) fn no_tolerance(mut self) -> Self {
        self.tolerance = None;
        self
    }

    pub(crate) fn keeps_duals(&self) -> bool {
        self.keep_duals
    }

    pub(crate) fn duals(&self) -> Option<&Duals> {
        self.duals.as_ref()
    }

    pub(crate) fn has_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    pub(crate) fn checkpoint_wanted(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    pub(crate) fn has_warm_machine(&self) -> bool {
        self.warm.is_some()
    }

    fn control<'o>(&self, observer: &'o mut dyn FnMut(&Progress)) -> Control<'o> {
        let mut control = Control::new(observer, self.cancel.clone());
        control.time_limit = self.time_limit;
        control.max_iterations = self.max_iterations;
        control.tolerance = self.tolerance_used();
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
        Ok(())
    }
}

/// Learns a machine from examples. Work runs in the rayon pool of the caller; the result does not depend
/// on the number of threads.
///
/// `observer` is told where the training stands after every round. A limit or the cancel token ends it
/// with the best machine so far, and the report says so.
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
    let settled = training.settled(formulation);
    let training = settled.as_ref();
    training.check()?;
    if let Method::Auto = training.solver.method() {
        let (solver, chosen) = lowrank::choose(data, kernel, formulation, training);
        let training = training.clone().solver(solver);
        let mut trained = train(data, kernel, formulation, &training, observer)?;
        trained.report.chosen = Some(chosen);
        return Ok(trained);
    }
    let mut control = training.control(observer);
    if let Method::Tables(recipe) = training.solver.method() {
        let rows = (&data.examples as &dyn Rows, &data.targets);
        return tables::train(rows, kernel, formulation, (training, recipe), &mut control);
    }
    if let Method::System(direct) = training.solver.method() {
        return systems::train(data, kernel, formulation, (training, direct), &mut control);
    }
    if let Method::LowRank(recipe) = training.solver.method() {
        return lowrank::train(data, kernel, formulation, (training, recipe), &mut control);
    }
    on_gram(data, kernel, formulation, training, &mut control)
}

/// The same from examples that are read in pieces, by a solver of tables: they are packed into a file where
/// memory does not hold them.
///
/// # Errors
/// As [`train`], and if the solver is none of tables.
pub fn train_rows(
    (examples, targets): (&dyn Rows, &Targets),
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Trained, TrainError> {
    training.check()?;
    let Method::Tables(recipe) = training.solver.method() else {
        let solver = training.solver.spec().name().to_owned();
        let reason = "it needs all examples in memory".to_owned();
        return Err(TrainError::Unsuited { solver, reason });
    };
    let mut control = training.control(observer);
    let rows = (examples, targets);
    tables::train(rows, kernel, formulation, (training, recipe), &mut control)
}

/// The output of a formulation over these classes.
fn output(goal: crate::Goal, names: Vec<ClassName>, scheme: Scheme) -> Output {
    match goal {
        crate::Goal::Classes => Output::Classes { names, scheme },
        crate::Goal::Value => Output::Value,
        crate::Goal::Novelty => Output::Novelty,
    }
}
