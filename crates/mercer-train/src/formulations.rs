//! What is minimised: one file for each formulation, one line in [`FORMULATIONS`].

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

/// A formulation shared by parts.
pub type FormulationRef = Arc<dyn Formulation>;

/// What is minimised, as a quadratic program or as a linear system.
pub trait Formulation: Debug + Send + Sync {
    /// The text that builds it again.
    fn spec(&self) -> Spec;

    /// What its targets are.
    fn goal(&self) -> Goal;

    /// The quadratic program of one subproblem.
    ///
    /// # Errors
    /// If no point satisfies the constraints.
    fn quadratic_program(&self, subproblem: &Subproblem<'_>) -> Result<Qp, TrainError>;

    /// The same as a loss of single examples, where it is one: what solvers of tables minimise.
    fn loss(&self) -> Option<Loss> {
        None
    }

    /// The linear system of one part, where the solution is that of one.
    fn system(&self, _: &Subproblem<'_>) -> Option<System> {
        None
    }

    /// Corrects scores of examples left out, one after the other, for what else would change without them.
    fn left_out(&self, _: &Subproblem<'_>, _scores: &mut [f64]) {}

    /// The machine of a solution, from the multiplier of each group: coefficients are `scale β`, the
    /// offset is `b`.
    ///
    /// # Errors
    /// If the solution has no finite machine.
    fn conclude(&self, multipliers: &[f64]) -> Result<Conclusion, TrainError> {
        Ok(Conclusion { scale: 1.0, offset: multipliers[0] })
    }
}

/// What targets a formulation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Classes, reduced to binary questions.
    Classes,
    /// Numbers.
    Value,
    /// None.
    Novelty,
}

/// The examples of one binary question or of a whole regression.
#[derive(Debug, Clone, Copy)]
pub struct Subproblem<'a> {
    /// What the part is about, for messages.
    pub name: &'a str,
    /// +1 and -1 for classes, numbers for regression, ignored for novelty.
    pub targets: &'a [f64],
    /// Weight of each example, class weights included; above zero.
    pub weights: &'a [f64],
}

impl Subproblem<'_> {
    /// Every target is a side: 1 or -1.
    ///
    /// # Errors
    /// [`TrainError::NotASide`] for the first that is not.
    pub(crate) fn check_sides(&self) -> Result<(), TrainError> {
        let wrong = self.targets.iter().position(|target| target.abs() != 1.0);
        wrong.map_or(Ok(()), |at| {
            let (part, value) = (self.name.to_owned(), self.targets[at]);
            Err(TrainError::NotASide { part, row: at + 1, value })
        })
    }
}

/// How a solution becomes a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conclusion {
    /// Factor of the coefficients.
    pub scale: f64,
    /// b.
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

/// Refuses the quadratic program of a loss that only solvers of tables minimise.
fn tables_only(name: &str) -> TrainError {
    let formulation = name.to_owned();
    TrainError::NeedsTables { formulation }
}

/// Refuses the quadratic program of a formulation that is a linear system.
fn systems_only(name: &str) -> TrainError {
    let formulation = name.to_owned();
    TrainError::NeedsDirect { formulation }
}

type FormulationEntry = Entry<FormulationRef>;

/// Fills variables in order, each up to its weight, until `total` is used up.
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
