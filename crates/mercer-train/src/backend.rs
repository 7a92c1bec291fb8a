//! Backends: the five ways to solve a training problem, behind one interface.
//!
//! [`crate::training`] prepares a backend, lets it solve and builds machine and report from its [`Fit`];
//! [`crate::validate`] prepares it and lets it train on the folds. Backends are [`crate::gram_backend`]
//! (quadratic programs over kernel values of pairs), [`crate::low_rank`] (the same over a low-rank factor),
//! [`crate::systems`] (linear systems), [`crate::linear`] (linear machines, also in the look-up factors of
//! [`crate::additive`]) and [`crate::primal`] (other coefficients of what `smo` finds).

use std::sync::Arc;

use mercer_machine::{Bins, Score};

use crate::control::Control;
use crate::decomposition::RowFile;
use crate::gram_backend::GramBackend;
use crate::problem::Problem;
use crate::solvers::{Method, Solver};
use crate::validate::FoldRun;
use crate::{
    Duals, Expansion, Folds, FormulationRef, LinearReport, LowRankReport, PrimalReport, Stop,
    SubproblemReport, SystemReport, TrainError, Training,
};

/// One way to solve training problems.
pub(crate) trait Backend {
    /// Refuses a formulation that it cannot minimise, so that others of a path can still be validated.
    ///
    /// # Errors
    /// [`TrainError::Unsuited`].
    fn check_formulation(&self, _: &FormulationRef) -> Result<(), TrainError> {
        Ok(())
    }

    /// Checks that it suits the problem, and prepares the examples.
    ///
    /// # Errors
    /// If it does not suit the problem, or the examples are not what the kernel needs.
    fn prepare<'p>(
        &'p self,
        problem: &'p Problem<'p>,
    ) -> Result<Box<dyn Prepared + 'p>, TrainError>;
}

/// A problem whose examples are ready.
pub(crate) trait Prepared {
    /// Solves all subproblems. A limit or the cancel token ends it with the best scores so far.
    ///
    /// # Errors
    /// If a subproblem has no solution, or a file cannot be read or written.
    fn solve(self: Box<Self>, control: &mut Control<'_>) -> Result<Fit, TrainError>;

    /// Trains the formulation of each run on all folds but one, and scores the examples of that one.
    ///
    /// # Errors
    /// As [`Prepared::solve`]; [`TrainError::Stopped`] if a limit of time or the cancel token ended it.
    fn cross_validate(
        self: Box<Self>,
        folds: &Folds,
        runs: &mut [FoldRun<'_>],
        control: &mut Control<'_>,
    ) -> Result<(), TrainError>;
}

/// The backend of a solver.
pub(crate) fn backend_of(solver: &dyn Solver) -> Box<dyn Backend + '_> {
    match solver.method() {
        Method::Gram(solver) => Box::new(GramBackend { solver }),
        Method::Linear(solver) => Box::new(solver),
        Method::Printed(solver) => Box::new(solver),
        Method::Systems(solver) => Box::new(solver),
        Method::LowRank(solver) => Box::new(solver),
        Method::Primal(solver) => Box::new(solver),
        Method::Auto => unreachable!("another solver was chosen before"),
    }
}

/// Refuses checkpoints and warm starts, for backends that have neither.
///
/// # Errors
/// [`TrainError::Unsuited`].
pub(crate) fn refuse_saved_state(training: &Training) -> Result<(), TrainError> {
    let reason = if training.checkpoint.is_some() {
        "it writes no checkpoints; leave them out"
    } else if training.warm.is_some() {
        "it starts from nothing; leave the warm start out"
    } else {
        return Ok(());
    };
    let solver = training.solver.spec().name().to_owned();
    Err(TrainError::Unsuited { solver, reason: reason.to_owned() })
}

/// The result of a backend: scores, and what the report says of them.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) scores: FittedScores,
    /// One report for each subproblem.
    pub(crate) subproblems: Vec<SubproblemReport>,
    /// Why it ended early, if it did.
    pub(crate) stop: Option<Stop>,
    pub(crate) kernel_values: u64,
    pub(crate) peak_memory_bytes: usize,
    pub(crate) details: FitDetails,
    /// Coefficients to start another training from, where they were requested.
    pub(crate) duals: Option<Duals>,
    /// Leave-one-out scores of each example, where they are known.
    pub(crate) leave_one_out: Option<Vec<Vec<f64>>>,
    /// The examples, where they are in a file and not in memory.
    pub(crate) file: Option<RowFile>,
}

/// What only one backend reports.
#[derive(Debug, Default)]
pub(crate) struct FitDetails {
    pub(crate) linear: Option<Box<LinearReport>>,
    pub(crate) system: Option<SystemReport>,
    pub(crate) low_rank: Option<Box<LowRankReport>>,
    pub(crate) primal: Option<Box<PrimalReport>>,
}

/// The scores of a machine, one for each subproblem.
#[derive(Debug)]
pub(crate) enum FittedScores {
    /// Sums over examples.
    Expansions {
        /// The examples of the machine in this order, set after set.
        example_sets: Vec<Vec<u32>>,
        expansions: Vec<Expansion>,
    },
    /// Linear in the values of so many columns.
    Linear { columns: usize, scores: Vec<Score> },
    /// Linear in look-up factors of so many columns.
    Tables { columns: usize, grid: Arc<Bins>, scores: Vec<Score> },
}

impl Fit {
    /// Scores and the reports of their subproblems; nothing else is known yet.
    pub(crate) fn new(scores: FittedScores, subproblems: Vec<SubproblemReport>) -> Self {
        Self {
            scores,
            subproblems,
            stop: None,
            kernel_values: 0,
            peak_memory_bytes: 0,
            details: FitDetails::default(),
            duals: None,
            leave_one_out: None,
            file: None,
        }
    }
}
