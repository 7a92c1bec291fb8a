use std::borrow::Cow;

use mercer_data::{DataError, Matrix, Scaling};

use crate::{Machine, PlanSections};

/// A machine with all that travels with it.
#[derive(Debug, Clone)]
pub struct Model {
    /// What was learned.
    pub machine: Machine,
    /// How it is asked; exactly, where nothing is said.
    pub plan: Option<PlanSections>,
    /// What rows it expects.
    pub input: Input,
    /// How scores become probabilities, where known.
    pub probabilities: Option<Probabilities>,
    /// Where it comes from; digests and names, never paths.
    pub provenance: Provenance,
}

impl From<Machine> for Model {
    /// A machine with nothing known about it.
    fn from(machine: Machine) -> Self {
        let (input, provenance) = (Input::default(), Provenance::default());
        Self { machine, plan: None, input, probabilities: None, provenance }
    }
}

/// What rows a machine expects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// Number of columns, where known; LIBSVM files do not say, and any row then fits.
    pub features: Option<usize>,
    /// Names of the columns, where known.
    pub names: Option<Vec<String>>,
    /// What is done to rows before the machine sees them; supports are stored as they are after it.
    pub scaling: Option<Scaling>,
    /// What stands for a missing value of each column: the means of the examples, before any scaling.
    pub means: Option<Vec<f64>>,
}

impl Input {
    /// Rows as the machine sees them: scaled, where examples were.
    ///
    /// # Errors
    /// If a scaled value overflows.
    pub fn prepare<'a>(&self, rows: &'a Matrix) -> Result<Cow<'a, Matrix>, DataError> {
        match &self.scaling {
            Some(scaling) => scaling.apply(rows).map(Cow::Owned),
            None => Ok(Cow::Borrowed(rows)),
        }
    }
}

/// How scores become probabilities.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Probabilities {
    /// `1 / (1 + exp(A f + B))` for each score.
    Sigmoid {
        /// A of each score.
        a: Vec<f64>,
        /// B of each score.
        b: Vec<f64>,
    },
    /// Scale of the Laplace noise of a regression.
    Laplace {
        /// The scale.
        sigma: f64,
    },
    /// Quantiles of the scores of a novelty machine on its training data.
    Marks(Vec<f64>),
    /// A rising curve for each score, held to the side of the label.
    Curves(Vec<Curve>),
}

/// A rising curve from a score to the probability of the first class, cut at one half where the score
/// changes its sign: the larger probability is always that of the label.
#[derive(Debug, Clone, PartialEq)]
pub enum Curve {
    /// `1 / (1 + exp(A f + B))`, A below zero.
    Sigmoid {
        /// A.
        a: f64,
        /// B.
        b: f64,
    },
    /// Straight lines between points, level beyond the first and the last.
    Lines {
        /// Scores, increasing.
        scores: Vec<f64>,
        /// Probabilities at these scores, not falling.
        shares: Vec<f64>,
    },
}

/// Where a machine comes from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Provenance {
    /// What made it: `libsvm`, `mercer`, ...
    pub origin: String,
    /// What was minimised: `c_svc`, `nu_svr`, ...
    pub formulation: Option<String>,
    /// Version of the program that wrote the file.
    pub version: String,
    /// Vectors in the source before equal ones were merged.
    pub source_supports: Option<usize>,
    /// The machine that this one stands for, if it is a compressed one.
    pub parent: Option<Parent>,
}

/// A machine for which a smaller one stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Parent {
    /// Digest of its machine, see [`crate::file::digest`].
    pub machine: String,
    /// Its supports.
    pub supports: usize,
    /// How the smaller one was made.
    pub method: String,
    /// `|W - W~| / |W|`.
    pub error: f64,
}
