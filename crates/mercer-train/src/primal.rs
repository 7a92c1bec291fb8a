//! `primal`: the primal reformulation of \[OG98\], training with free coefficients over all examples.
//!
//! `min ½ g'Kg + C Σξ_i` subject to `y_i ((Kg)_i + b) >= 1 - ξ_i` has the W of the dual problem, but g is not bound to
//! the multipliers: every g with `Kg = Kβ` is a solution. The dual problem is solved first ([`crate::gram_backend`]).
//! An attractor ([`Attractor`]) then draws coefficients to zero by a penalty that is annealed, over columns that a pricing
//! step asks for (`columns`); at zero penalty a basis of the same W is left (`basis`). Nothing here trains the dual.

mod attractor;
mod backend;
mod basis;
mod columns;
mod descent;

use mercer_spec::{Checked, Spec};

pub use attractor::{Attractor, PointStatus};
pub use basis::{SparseExpansion, same_hyperplane};
pub use descent::SparseDescent;

use crate::SolverRef;
use crate::solvers::{Method, Solver};

/// Settings of the solver `primal`.
#[derive(Debug)]
pub struct Primal {
    attractor: Attractor,
    /// Where the annealing ends before the penalty is dropped, relative to the largest `|f|`.
    lambda: f64,
    /// The solver of the dual problem.
    smo: SolverRef,
}

impl Primal {
    pub(crate) fn new(checked: &Checked<'_>) -> Self {
        let attractor = Attractor::named(checked.spec("penalty").map_or("l1", Spec::name));
        let smo = crate::solver("smo").expect("smo is registered");
        Self { attractor, lambda: checked.number("lambda"), smo }
    }
}

impl Solver for Primal {
    fn spec(&self) -> Spec {
        let attractor = Spec::new(self.attractor.name());
        Spec::new("primal").set("penalty", attractor).set("lambda", self.lambda)
    }

    fn method(&self) -> Method<'_> {
        Method::Primal(self)
    }
}

/// What the primal reformulation changed.
#[derive(Debug, Clone, PartialEq)]
pub struct PrimalReport {
    /// The attractor's name.
    pub attractor: &'static str,
    /// Distinct support vectors of the dual solution.
    pub dual_supports: usize,
    /// Coefficients that the attractor draws to zero, in the dual solution and in the end, all subproblems together.
    pub drawn: [usize; 2],
    /// Columns that pricing asked for, all subproblems together.
    pub priced: usize,
    /// Pricing steps, all subproblems together.
    pub pricings: usize,
    /// `|W - W~| / |W|`, the largest of the subproblems, as far as rounding lets it be measured.
    pub error: f64,
    /// Largest difference of a score at the examples.
    pub score_change: f64,
    /// Subproblems that keep the coefficients of the dual solution: their Gram matrix is not rank-deficient.
    pub unchanged: usize,
}
