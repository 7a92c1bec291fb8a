//! Linear machines: dual coordinate descent, Newton's method and the lasso over packed examples.
//!
//! The same descent also trains additive machines: with `κ(s, t) ≈ Φ(s)·Φ(t)` on a few hundred bins a machine
//! is linear in `rank` hidden numbers per column, which [`crate::additive`] makes. How examples are packed is
//! in [`crate::packed`].

mod backend;
mod checkpoint;
mod dual;
mod folds;
mod lasso;
mod loss;
mod newton;
mod products;
mod quadratic_model;
mod run;
mod scores;
mod solution;
mod solver;
mod subproblem;
mod transposed;
mod values;
mod warm;

pub(crate) use backend::{BuildScores, Packing, PreparationReport, PreparedLinear};
pub use loss::Loss;
pub(crate) use scores::linear_scores;
pub(crate) use solution::SubproblemSolution;
pub use solver::LinearSolver;
pub(crate) use solver::{BIAS, BINS, LINEAR_BINS, PASSES, PENALTY, SEED, SPACE, Space};
pub(crate) use subproblem::LinearProblem;

use crate::FactorReport;

/// Coefficients of all examples in all subproblems, from which a training with another C can start.
#[derive(Debug, Clone, PartialEq)]
pub struct Duals {
    /// C.
    pub(crate) c: f64,
    /// As the losses store them.
    pub(crate) subproblems: Vec<Vec<f64>>,
}

/// What a linear or additive training says of bins, factors and packed examples.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearReport {
    /// `uniform`, `power`, `quantile`; for linear machines also `off`, or `signed` with values below zero.
    pub bins: &'static str,
    /// Numbers per column and bin.
    pub rank: usize,
    /// How well the factors approximate the kernel.
    pub factor: FactorReport,
    /// Non-zero values of the examples.
    pub nonzeros: usize,
    /// Bytes of the packed examples and of the state of one subproblem.
    pub example_bytes: usize,
    /// Weights that are not zero, of all subproblems, for the L1 penalty.
    pub weights: Option<usize>,
    /// Chunks of the file that holds the packed examples, where memory does not.
    pub chunks: Option<usize>,
    /// Seconds spent on bins, factors and packing.
    pub preparation: f64,
}
