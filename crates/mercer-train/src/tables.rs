//! Linear machines on values as they are; and additive kernels at linear cost: values become levels, the scalar kernel on the levels becomes look-up
//! factors, and dual coordinate descent runs on those.
//!
//! With `κ(s, t) ≈ Φ(s)·Φ(t)` on a few hundred levels the machine is a linear one in `rank` hidden numbers
//! per column that nobody writes down: a visit of a non-zero reads `rank` weights and `rank` factors.

use mercer_spec::{Checked, Kind, Parameter, Spec};

use crate::solvers::{Method, Solver};
use crate::{FormulationRef, TrainError};

mod columns;
mod course;
mod dual;
mod factor;
mod folds;
mod keep;
mod lasso;
mod losses;
mod machines;
mod maps;
mod model;
mod newton;
mod pack;
mod part;
mod products;
mod quantise;
mod rows;
mod store;
mod transposed;
mod warm;

pub use factor::FactorReport;
pub use losses::Loss;
pub use maps::Nodes;
pub use quantise::BinPlacement;
pub use rows::Rows;

pub(crate) use course::{needs_tables, train};
pub(crate) use folds::cross_validate;
pub(crate) use maps::Map;

/// How a solver turns an additive kernel into look-up factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    spec: Spec,
    pub(crate) map: Map,
    /// Levels, zero included.
    pub(crate) levels: usize,
    pub(crate) wanted: BinPlacement,
    /// Value of a constant column; 0 for none.
    pub(crate) bias: f64,
    pub(crate) seed: u64,
    /// Passes over the examples after which a question is given up.
    pub(crate) passes: u64,
    pub(crate) space: Space,
}

/// Where a linear machine is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// Among the coefficients of the examples, one by one.
    Dual,
    /// Among the weights, by Newton's method.
    Primal,
    /// Among the weights, one by one, with a penalty on the sum of their sizes.
    Lasso,
}

/// Passes after which a question is given up where nothing else is said.
const MOST_PASSES: u64 = 4000;
/// The same for the paper's solvers: an interpolated kernel need not have a solution. LIBLINEAR gives up there.
const MOST_PAPER_PASSES: u64 = 1000;

/// Parameter of solvers that choose their levels.
pub(crate) const LEVELS: Parameter = Parameter {
    name: "levels",
    kind: Kind::Word(BinPlacement::WORDS),
    default: Some("auto"),
    help: "where the levels of values lie",
};

/// Parameter of the linear solver.
pub(crate) const LINEAR_LEVELS: Parameter = Parameter {
    name: "levels",
    kind: Kind::Word(BinPlacement::LINEAR_WORDS),
    default: Some("off"),
    help: "values as they are (off), or where the levels lie that they are rounded to",
};

/// Parameter of the linear solver.
pub(crate) const SPACE: Parameter = Parameter {
    name: "space",
    kind: Kind::Word(&["dual", "primal"]),
    default: Some("dual"),
    help: "coefficients one by one, or weights by Newton's method (squared_hinge and logistic)",
};

/// Parameter of the linear solver.
pub(crate) const PENALTY: Parameter = Parameter {
    name: "penalty",
    kind: Kind::Word(&["l2", "l1"]),
    default: Some("l2"),
    help: "½|w|², or the sum of all |w|, many of which it makes zero (squared_hinge and logistic; space=primal)",
};

/// Parameter of the linear solver.
pub(crate) const PASSES: Parameter = Parameter {
    name: "passes",
    kind: Kind::Integer { low: 1, high: 1 << 40 },
    default: Some("4000"),
    help: "passes over the examples, or steps of Newton's, after which it gives up",
};

/// Parameter of all these solvers.
pub(crate) const BIAS: Parameter = Parameter {
    name: "bias",
    kind: Kind::Number { low: 0.0, high: 1e6, closed: true },
    default: Some("1"),
    help: "value of a constant column; 0 for none",
};

/// Parameter of all these solvers.
pub(crate) const SEED: Parameter = Parameter {
    name: "seed",
    kind: Kind::Integer { low: 0, high: 1 << 40 },
    default: Some("1"),
    help: "order in which examples are visited",
};

impl Recipe {
    /// A solver with its own parameters in `spec`, as it was asked for with those that all take.
    pub(crate) fn new(spec: Spec, map: Map, levels: usize, checked: &Checked<'_>) -> Self {
        // The levels of the paper are uniform.
        let is_paper = matches!(map, Map::Polynomial { .. });
        let wanted = if is_paper {
            BinPlacement::Uniform
        } else {
            BinPlacement::named(checked.spec("levels").map_or("auto", |word| word.name()))
        };
        let (bias, seed) = (checked.number("bias"), checked.integer("seed") as u64);
        let spec = if is_paper { spec } else { spec.set("levels", wanted.name()) };
        let spec = spec.set("bias", bias).set("seed", seed as f64);
        let passes = if is_paper { MOST_PAPER_PASSES } else { MOST_PASSES };
        Self { spec, map, levels, wanted, bias, seed, passes, space: Space::Dual }
    }

    /// The same in this space, given up after so many passes.
    pub(crate) fn within(mut self, space: Space, passes: u64) -> Self {
        let (word, penalty) = match space {
            Space::Dual => ("dual", "l2"),
            Space::Primal => ("primal", "l2"),
            Space::Lasso => ("primal", "l1"),
        };
        let spec = self.spec.set("space", word).set("penalty", penalty);
        self.spec = spec.set("passes", passes as f64);
        (self.space, self.passes) = (space, passes);
        self
    }

    /// Its name, for messages.
    pub(crate) fn name(&self) -> &str {
        self.spec.name()
    }
}

impl Solver for Recipe {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn method(&self) -> Method<'_> {
        Method::Tables(self)
    }
}

/// A formulation without a loss of these solvers.
fn unsuited(recipe: &Recipe, formulation: &FormulationRef) -> TrainError {
    TrainError::Unsuited {
        solver: recipe.name().to_owned(),
        reason: format!(
            "it minimises c_svc, squared_hinge, logistic or epsilon_svr, not {}",
            formulation.spec().name()
        ),
    }
}

/// Coefficients of all examples in all questions, from which a training with another C can start.
#[derive(Debug, Clone, PartialEq)]
pub struct Duals {
    /// C.
    pub(crate) c: f64,
    /// As the losses store them.
    pub(crate) parts: Vec<Vec<f64>>,
}

/// What the training says of levels and factors.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearReport {
    /// `uniform`, `power`, `quantile`; for linear machines also `off`, or `signed` with values below zero.
    pub levels: &'static str,
    /// Numbers per column and level.
    pub rank: usize,
    /// How well the factors stand for the kernel.
    pub factor: FactorReport,
    /// Non-zero values of the examples.
    pub nonzeros: usize,
    /// Bytes of the packed examples and of the state of one question.
    pub example_bytes: usize,
    /// Weights that are not zero, of all questions, where a penalty makes others zero.
    pub weights: Option<usize>,
    /// Chunks of the file that holds the packed examples, where memory does not.
    pub chunks: Option<usize>,
    /// Seconds spent on making levels and factors.
    pub preparation: f64,
}
