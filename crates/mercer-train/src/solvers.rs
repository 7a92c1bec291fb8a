//! How a quadratic program is solved: one file for each solver, one line in [`SOLVERS`].

mod additive;
mod auto;
mod direct;
mod feature_map;
mod linear;
mod low_rank;
mod pmsvm;
mod pmsvm_lut;
mod smo;

use std::fmt::Debug;
use std::sync::Arc;

use mercer_machine::Scheme;
use mercer_spec::{Registry, Spec, SpecError};

pub use direct::Direct;
pub(crate) use smo::State;

use crate::control::{Control, Stop};
use crate::gram::{Gram, View};
use crate::lowrank::LowRank;
use crate::tables::Recipe;
use crate::{Optimality, Qp, TrainError};

/// A solver shared by parts.
pub type SolverRef = Arc<dyn Solver>;

/// How a quadratic program is solved.
pub trait Solver: Debug + Send + Sync {
    /// The text that builds it again.
    fn spec(&self) -> Spec;

    /// What it works on.
    fn method(&self) -> Method<'_>;

    /// The violation at which it stops where nothing else is asked for.
    fn tolerance(&self) -> f64 {
        match self.method() {
            Method::Gram(_) | Method::LowRank(_) | Method::Auto => 1e-3,
            Method::Tables(_) => 0.1,
            Method::System(_) => 1e-6,
        }
    }

    /// How it reduces several classes where nothing else is asked for.
    fn scheme(&self) -> Scheme {
        match self.method() {
            Method::Gram(_) | Method::LowRank(_) | Method::Auto => Scheme::OneVsOne,
            Method::Tables(_) | Method::System(_) => Scheme::OneVsRest,
        }
    }
}

/// What a solver works on.
#[derive(Debug)]
pub enum Method<'s> {
    /// Kernel values of pairs of examples.
    Gram(&'s dyn OnGram),
    /// Look-up factors of an additive kernel.
    Tables(&'s Recipe),
    /// A linear system over all examples.
    System(&'s Direct),
    /// A low-rank factor of the Gram matrix.
    LowRank(&'s LowRank),
    /// What another solver works on, chosen when the examples are seen.
    Auto,
}

/// A solver that works on kernel values of pairs.
pub trait OnGram: Debug + Send + Sync {
    /// Solves one question. A solver never hangs: it asks the control between blocks of work, and tells
    /// it where it stands.
    #[doc(hidden)]
    fn solve(
        &self,
        problem: &mut GramProblem<'_, '_>,
        control: &mut Steering<'_, '_>,
    ) -> Result<Solution, TrainError>;
}

/// One quadratic program over rows of a Gram matrix.
#[derive(Debug)]
pub struct GramProblem<'q, 'a> {
    pub(crate) gram: &'q mut Gram<'a>,
    pub(crate) view: View,
    pub(crate) qp: &'q Qp,
    /// Where to begin: a feasible point, or a state that was saved.
    pub(crate) from: StartPoint,
    /// Whether other questions read the same columns, so that none may be left out.
    pub(crate) shared: bool,
    /// By what the end is stopping_test.
    pub(crate) stopping_test: StoppingTest,
    pub(crate) memory: usize,
}

/// By what a solver that works on rows in singles knows that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoppingTest {
    /// `Kβ` of all rows, recomputed in doubles.
    Recomputed,
    /// The running `Kβ`, if that of a sample of the rows is the one in doubles: for one of many trainings
    /// none of whose machines is kept.
    Sampled,
}

/// Where a solver begins.
#[derive(Debug)]
pub(crate) enum StartPoint {
    /// At a feasible point.
    Point(Vec<f64>),
    /// At a feasible point, given its `Kβ` of each row.
    Known { beta: Vec<f64>, k_beta: Vec<f64> },
    /// Where a checkpoint was written.
    State(Box<State>),
}

/// The control of a training, as solvers see it.
pub struct Steering<'c, 'o>(pub(crate) &'c mut Control<'o>);

impl Debug for Steering<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Steering")
    }
}

/// What a solver found.
#[derive(Debug, Clone)]
pub struct Solution {
    /// β of each variable.
    pub(crate) beta: Vec<f64>,
    /// What it is worth, from kernel values as the question wanted it stopping_test.
    pub(crate) optimality: Optimality,
    /// `Kβ` of each row that says so; empty for a solution that was read from a file.
    pub(crate) k_beta: Vec<f64>,
    /// Why it ended early, if it did.
    pub(crate) stop: Option<Stop>,
}

/// All solvers; one line each.
pub static SOLVERS: Registry<SolverRef> = Registry {
    noun: "solver",
    entries: &[
        &smo::ENTRY,
        &direct::ENTRY,
        &auto::ENTRY,
        &additive::ENTRY,
        &low_rank::ENTRY,
        &linear::ENTRY,
        &feature_map::ENTRY,
        &pmsvm::ENTRY,
        &pmsvm_lut::ENTRY,
    ],
};

/// Builds a solver from its text: `smo(working_set=512)`.
pub fn solver(text: &str) -> Result<SolverRef, SpecError> {
    SOLVERS.parse(text)
}
