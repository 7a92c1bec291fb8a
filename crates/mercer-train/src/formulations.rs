//! Formulations: the optimisation problem that a training solves. One file for each formulation, one line in
//! [`FORMULATIONS`].
//!
//! How the problem is solved is in `solvers/`; how several classes become binary subproblems is in `reduce.rs`.

mod c_svc;
mod epsilon_svr;
mod fisher;
mod logistic;
mod ls_svm;
mod nu_svc;
mod nu_svr;
mod one_class;
mod ridge;
mod squared_hinge;

use std::fmt::Debug;
use std::sync::Arc;

use mercer_spec::{Entry, Registry, Spec, SpecError};

use crate::systems::System;
use crate::{Loss, Qp, TrainError};

/// A shared formulation.
pub type FormulationRef = Arc<dyn Formulation>;

/// An optimisation problem: a quadratic program, a loss of single examples, or a linear system.
pub trait Formulation: Debug + Send + Sync {
    /// The text from which [`formulation`] builds it again.
    fn spec(&self) -> Spec;

    /// The kind of targets it needs.
    fn goal(&self) -> Goal;

    /// The form of its training problem, which decides the solvers that suit it.
    fn form(&self) -> ProblemForm {
        ProblemForm::QuadraticProgram
    }

    /// Whether the constraints of [`Formulation::quadratic_program`] may have no solution, so that all
    /// subproblems are checked before any work starts.
    fn can_be_infeasible(&self) -> bool {
        false
    }

    /// The quadratic program of one subproblem, for solvers on the Gram matrix and on a low-rank factor.
    ///
    /// # Errors
    /// If no point satisfies the constraints.
    fn quadratic_program(&self, subproblem: &Subproblem<'_>) -> Result<Qp, TrainError>;

    /// The loss of single examples, where the formulation has one: what the linear and additive solvers
    /// minimise.
    fn loss(&self) -> Option<Loss> {
        None
    }

    /// The linear system of one subproblem, where the solution is given by one (solver `direct`).
    fn system(&self, _: &Subproblem<'_>) -> Option<System> {
        None
    }

    /// Corrects leave-one-out scores where leaving one example out also changes the targets of the others.
    fn correct_leave_one_out(&self, _: &Subproblem<'_>, _scores: &mut [f64]) {}

    /// How β and the multiplier of each group become a score: coefficients `scale β`, offset `b`.
    ///
    /// # Errors
    /// If the solution has no finite machine.
    fn scale_and_offset(&self, multipliers: &[f64]) -> Result<ScaleAndOffset, TrainError> {
        Ok(ScaleAndOffset { scale: 1.0, offset: multipliers[0] })
    }
}

/// The mathematical form of a training problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemForm {
    /// A quadratic program over kernel values.
    QuadraticProgram,
    /// A sum of losses that is no quadratic program over kernel values: for linear and additive solvers.
    SumOfLosses,
    /// A linear system.
    LinearSystem,
}

/// The kind of targets that a formulation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Classes; several classes are reduced to binary subproblems.
    Classes,
    /// Numbers: regression.
    Value,
    /// No targets: novelty detection.
    Novelty,
}

/// The examples of one binary subproblem, of a regression, or of a novelty detection.
#[derive(Debug, Clone, Copy)]
pub struct Subproblem<'a> {
    /// Its name in messages, such as `1 against 2`.
    pub name: &'a str,
    /// +1 and -1 for classes, numbers for regression, ignored for novelty.
    pub targets: &'a [f64],
    /// Weight of each example, class weights included; above zero.
    pub weights: &'a [f64],
}

impl Subproblem<'_> {
    /// Checks that every target is 1 or -1.
    ///
    /// # Errors
    /// [`TrainError::NotASign`] for the first that is not.
    pub(crate) fn check_signs(&self) -> Result<(), TrainError> {
        let wrong = self.targets.iter().position(|target| target.abs() != 1.0);
        wrong.map_or(Ok(()), |at| {
            let (subproblem, value) = (self.name.to_owned(), self.targets[at]);
            Err(TrainError::NotASign { subproblem, row: at + 1, value })
        })
    }
}

/// How a solution becomes a score: `scale Σ β K - offset`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleAndOffset {
    /// Factor of the coefficients.
    pub scale: f64,
    /// b, which is subtracted.
    pub offset: f64,
}

/// All formulations; one line each.
pub static FORMULATIONS: Registry<FormulationRef> = Registry {
    noun: "formulation",
    entries: &[
        &c_svc::ENTRY,
        &nu_svc::ENTRY,
        &epsilon_svr::ENTRY,
        &nu_svr::ENTRY,
        &one_class::ENTRY,
        &squared_hinge::ENTRY,
        &logistic::ENTRY,
        &ls_svm::ENTRY,
        &fisher::ENTRY,
        &ridge::ENTRY,
    ],
};

/// Builds a formulation from its text: `c_svc(C=10)`.
pub fn formulation(text: &str) -> Result<FormulationRef, SpecError> {
    FORMULATIONS.parse(text)
}

/// The error for a quadratic program of a loss that only the linear and additive solvers minimise.
fn needs_additive_solver(name: &str) -> TrainError {
    let formulation = name.to_owned();
    TrainError::NeedsAdditiveSolver { formulation }
}

/// The error for a quadratic program of a formulation that is a linear system.
fn needs_direct_solver(name: &str) -> TrainError {
    let formulation = name.to_owned();
    TrainError::NeedsDirect { formulation }
}

type FormulationEntry = Entry<FormulationRef>;

/// A feasible point: variables are filled in order, each up to its limit, until their sum is `total`.
fn fill(total: f64, limits: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut left = total;
    limits
        .map(|limit| {
            let given = left.clamp(0.0, limit);
            left -= given;
            given
        })
        .collect()
}
