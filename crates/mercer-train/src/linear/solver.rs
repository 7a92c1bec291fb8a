//! The options of linear and additive solvers, and the parameters of their texts.
//! What they do is in [`super::backend`].

use mercer_spec::{Checked, Kind, Parameter, Spec};

use crate::additive::{BinPlacement, FeatureMap};
use crate::solvers::{Method, Solver};

/// A solver of linear machines: in the values of the columns, or in look-up factors of an additive kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearSolver {
    spec: Spec,
    pub(crate) map: FeatureMap,
    /// Number of bins, zero included.
    pub(crate) bin_count: usize,
    pub(crate) bins: BinPlacement,
    /// Value of a constant column; 0 for none.
    pub(crate) bias: f64,
    pub(crate) seed: u64,
    /// Passes over the examples after which a subproblem is given up.
    pub(crate) passes: u64,
    pub(crate) space: Space,
}

/// Which variables a linear machine is optimised in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// The coefficients of the examples, by dual coordinate descent.
    Dual,
    /// The weights, by Newton's method.
    Primal,
    /// The weights with an L1 penalty, by coordinate descent.
    Lasso,
}

/// Passes after which a subproblem is given up by default.
const MOST_PASSES: u64 = 4000;
/// The same for the paper's solvers: with an interpolated kernel there may be no solution. LIBLINEAR gives up there.
const MOST_PAPER_PASSES: u64 = 1000;

/// Parameter of solvers that choose their bins.
pub(crate) const BINS: Parameter = Parameter {
    name: "bins",
    kind: Kind::Word(BinPlacement::WORDS),
    default: Some("auto"),
    help: "where the bins of values lie",
};

/// Parameter of the linear solver.
pub(crate) const LINEAR_BINS: Parameter = Parameter {
    name: "bins",
    kind: Kind::Word(BinPlacement::LINEAR_WORDS),
    default: Some("off"),
    help: "values as they are (off), or where the bins lie that they are rounded to",
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
    help: "seed of the random order of the examples",
};

impl LinearSolver {
    /// A solver with its own parameters in `spec`, and with those that all of them take.
    pub(crate) fn new(
        spec: Spec,
        map: FeatureMap,
        bin_count: usize,
        checked: &Checked<'_>,
    ) -> Self {
        // The bins of the paper are uniform.
        let is_paper = matches!(map, FeatureMap::Polynomial { .. });
        let bins = if is_paper {
            BinPlacement::Uniform
        } else {
            BinPlacement::named(checked.spec("bins").map_or("auto", |word| word.name()))
        };
        let (bias, seed) = (checked.number("bias"), checked.integer("seed") as u64);
        let spec = if is_paper { spec } else { spec.set("bins", bins.name()) };
        let spec = spec.set("bias", bias).set("seed", seed as f64);
        let passes = if is_paper { MOST_PAPER_PASSES } else { MOST_PASSES };
        Self { spec, map, bin_count, bins, bias, seed, passes, space: Space::Dual }
    }

    /// The same in this space, with this limit of passes.
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

impl Solver for LinearSolver {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn method(&self) -> Method<'_> {
        Method::Linear(self)
    }
}
