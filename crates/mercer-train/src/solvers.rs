//! Solvers by name: one file for each, one line in [`SOLVERS`].
//! What a solver works on is its [`Method`]; the training around it is in [`crate::backend`].

mod additive;
mod auto;
mod decomposition;
mod direct;
mod feature_map;
mod linear;
mod low_rank;
mod pmsvm;
mod pmsvm_lut;
mod primal;
mod smo;

use std::fmt::Debug;
use std::sync::Arc;

use mercer_machine::Scheme;
use mercer_spec::{Registry, Spec, SpecError};

pub use direct::Direct;
pub(crate) use smo::{LowestPoint, State};

use crate::additive::PrintedPmsvm;
use crate::control::{Control, Stop};
use crate::decomposition::RowFile;
use crate::gram::{Gram, View};
use crate::linear::LinearSolver;
use crate::low_rank::LowRank;
use crate::primal::Primal;
use crate::{Optimality, Qp, TrainError};

/// A solver that several owners share.
pub type SolverRef = Arc<dyn Solver>;

/// How a formulation is minimised.
pub trait Solver: Debug + Send + Sync {
    /// The text that builds it again.
    fn spec(&self) -> Spec;

    /// What it works on.
    fn method(&self) -> Method<'_>;

    /// The violation at which it stops by default.
    fn tolerance(&self) -> f64 {
        match self.method() {
            Method::Gram(_) | Method::LowRank(_) | Method::Primal(_) | Method::Auto => 1e-3,
            Method::Linear(_) | Method::Printed(_) => 0.1,
            Method::Systems(_) => 1e-6,
        }
    }

    /// How it reduces several classes by default.
    fn scheme(&self) -> Scheme {
        match self.method() {
            Method::Gram(_) | Method::LowRank(_) | Method::Primal(_) | Method::Auto => {
                Scheme::OneVsOne
            }
            Method::Linear(_) | Method::Printed(_) | Method::Systems(_) => Scheme::OneVsRest,
        }
    }
}

/// What a solver works on.
#[derive(Debug)]
pub enum Method<'s> {
    /// Kernel values of pairs of examples.
    Gram(&'s dyn GramSolver),
    /// The weights of a linear machine: in the values, or in look-up factors of an additive kernel.
    Linear(&'s LinearSolver),
    /// The algorithms of \[YW12\] as printed.
    Printed(&'s PrintedPmsvm),
    /// A linear system over all examples.
    Systems(&'s Direct),
    /// A low-rank factor of the Gram matrix.
    LowRank(&'s LowRank),
    /// The W of the dual problem, from free coefficients.
    Primal(&'s Primal),
    /// The solver is chosen when the examples are known.
    Auto,
}

/// A solver of quadratic programs over kernel values of pairs.
pub trait GramSolver: Debug + Send + Sync {
    /// Solves one quadratic program. Between blocks of work it reports to the control and asks it whether to
    /// stop.
    ///
    /// # Errors
    /// If a checkpoint cannot be written.
    #[doc(hidden)]
    fn solve(
        &self,
        problem: &mut GramProblem<'_, '_>,
        control: &mut Control<'_>,
    ) -> Result<Solution, TrainError>;

    /// Whether it solves a quadratic program of so many variables as one working set over kernel rows.
    #[doc(hidden)]
    fn solves_whole(&self, _variables: usize) -> bool {
        false
    }

    /// Whether it reads kernel rows of the Gram matrix, so that its columns are packed.
    #[doc(hidden)]
    fn reads_columns(&self) -> bool {
        true
    }
}

/// One quadratic program over rows of a Gram matrix.
#[derive(Debug)]
pub struct GramProblem<'q, 'a> {
    pub(crate) gram: &'q mut Gram<'a>,
    pub(crate) view: View,
    pub(crate) qp: &'q Qp,
    /// A feasible point, or a state that was saved.
    pub(crate) from: StartPoint,
    /// Whether other subproblems read the same columns, so that none may be shrunk.
    pub(crate) shared: bool,
    /// How convergence is tested.
    pub(crate) stopping_test: StoppingTest,
    pub(crate) memory: usize,
    /// The examples, where they are in a file and not in memory.
    pub(crate) file: Option<&'q RowFile>,
}

/// How a solver that works on rows in f32 tests convergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoppingTest {
    /// By `Kβ` of all rows, recomputed in f64.
    Recomputed,
    /// By the running `Kβ`, if that of a sample of the rows agrees with f64: for the many trainings of a
    /// cross-validation, whose machines are not kept.
    Sampled,
}

/// Where a solver starts.
#[derive(Debug)]
pub(crate) enum StartPoint {
    /// At a feasible point.
    Point(Vec<f64>),
    /// At a feasible point, given its `Kβ` of each row.
    Known { beta: Vec<f64>, k_beta: Vec<f64> },
    /// Where a checkpoint was written.
    State(Box<State>),
}

/// What a solver found.
#[derive(Debug, Clone)]
pub struct Solution {
    /// β of each variable.
    pub(crate) beta: Vec<f64>,
    /// Objective, gap and violation, computed as the stopping test says.
    pub(crate) optimality: Optimality,
    /// `Kβ` of each row that the optimality was computed from; empty for a solution read from a file.
    pub(crate) k_beta: Vec<f64>,
    /// Why it ended early, if it did.
    pub(crate) stop: Option<Stop>,
}

/// All solvers; one line each.
pub static SOLVERS: Registry<SolverRef> = Registry {
    noun: "solver",
    entries: &[
        &smo::ENTRY,
        &decomposition::ENTRY,
        &direct::ENTRY,
        &auto::ENTRY,
        &additive::ENTRY,
        &low_rank::ENTRY,
        &linear::ENTRY,
        &feature_map::ENTRY,
        &pmsvm::ENTRY,
        &pmsvm_lut::ENTRY,
        &primal::ENTRY,
    ],
};

/// Builds a solver from its text: `smo(working_set=512)`.
pub fn solver(text: &str) -> Result<SolverRef, SpecError> {
    SOLVERS.parse(text)
}
