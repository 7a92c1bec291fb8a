//! Additive kernels at linear cost: values become levels, the scalar kernel on the levels becomes look-up
//! factors, and dual coordinate descent runs on those.
//!
//! With `κ(s, t) ≈ Φ(s)·Φ(t)` on a few hundred levels the machine is a linear one in `rank` hidden numbers
//! per column that nobody writes down: a visit of a non-zero reads `rank` weights and `rank` factors.

use mercer_spec::Spec;

mod course;
mod dual;
mod factor;
mod losses;
mod maps;
mod part;
mod quantise;

pub use factor::FactorReport;
pub use losses::Loss;
pub use maps::Nodes;
pub use quantise::LevelsWanted;

pub(crate) use course::{needs_tables, train};
pub(crate) use maps::Map;

/// How a solver turns an additive kernel into look-up factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Its name, for messages.
    pub(crate) name: &'static str,
    pub(crate) map: Map,
    /// Levels, zero included.
    pub(crate) levels: usize,
    pub(crate) wanted: LevelsWanted,
    /// Value of a constant column; 0 for none.
    pub(crate) bias: f64,
    pub(crate) seed: u64,
}

impl Recipe {
    /// Adds what all these solvers take.
    pub(crate) fn finish_spec(&self, spec: Spec) -> Spec {
        let is_paper = matches!(self.map, Map::Polynomial { .. });
        let spec = if is_paper { spec } else { spec.set("levels", self.wanted.name()) };
        spec.set("bias", self.bias).set("seed", self.seed as f64)
    }
}

/// Coefficients of all examples in all questions, from which a training with another C can start.
#[derive(Debug, Clone, PartialEq)]
pub struct Duals {
    /// C.
    pub(crate) price: f64,
    /// As the losses store them.
    pub(crate) parts: Vec<Vec<f32>>,
}

/// What the training says of levels and factors.
#[derive(Debug, Clone, PartialEq)]
pub struct TableReport {
    /// `uniform`, `power`, `quantile` or, for linear machines with values below zero, `signed`.
    pub levels: &'static str,
    /// Numbers per column and level.
    pub rank: usize,
    /// How well the factors stand for the kernel.
    pub factor: FactorReport,
    /// Non-zero values of the examples.
    pub nonzeros: usize,
    /// Bytes of the packed examples and of the state of one question.
    pub example_bytes: usize,
    /// Seconds spent on making levels and factors.
    pub preparation: f64,
}
