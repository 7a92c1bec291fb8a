//! A model: a machine with everything that a model file keeps beside it (plan, scaling, probabilities,
//! provenance). The machine alone is `machine.rs`; the files are `file/`.

use std::borrow::Cow;
use std::sync::Arc;

use mercer_data::{DataError, Matrix, Scaling};

use crate::{Conformal, Machine, MachineError, PlanSections, TrainingRows};

/// A machine with everything that is stored with it.
#[derive(Debug, Clone)]
pub struct Model {
    /// The trained machine.
    pub machine: Machine,
    /// The plan of its predictions; all are exact where there is none.
    pub plan: Option<PlanSections>,
    /// What rows it expects.
    pub input: Input,
    /// How scores are converted to probabilities, where known.
    pub probabilities: Option<Probabilities>,
    /// How prediction sets are made, where they were calibrated.
    pub conformal: Option<Conformal>,
    /// Its origin: digests and names, never paths.
    pub provenance: Provenance,
    /// The rows that the machine was trained on, where they are kept for updates.
    pub training: Option<Arc<TrainingRows>>,
}

impl From<Machine> for Model {
    /// A machine about which nothing else is known.
    fn from(machine: Machine) -> Self {
        let (input, provenance) = (Input::default(), Provenance::default());
        Self {
            machine,
            plan: None,
            input,
            probabilities: None,
            conformal: None,
            provenance,
            training: None,
        }
    }
}

impl Model {
    /// Checks the numbers beside the machine and its plan, as a file may hold any.
    ///
    /// # Errors
    /// If a parameter of probabilities, or a share, is outside its range.
    pub(crate) fn check(&self) -> Result<(), MachineError> {
        let wrong = |what: &'static str| Err(MachineError::OutOfRange { what });
        if let Some(probabilities) = &self.probabilities
            && !probabilities.is_sound()
        {
            return wrong("a parameter of its probabilities");
        }
        match &self.provenance.parent {
            Some(parent) if !(parent.error.is_finite() && parent.error >= 0.0) => {
                wrong("the error of its compression")
            }
            _ => Ok(()),
        }
    }
}

/// What rows a machine expects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// Number of columns, where known; LIBSVM files do not say, and any row then fits.
    pub features: Option<usize>,
    /// Names of the columns, where known.
    pub names: Option<Vec<String>>,
    /// The scaling of rows before the machine gets them; supports are stored scaled.
    pub scaling: Option<Scaling>,
    /// The value that replaces a missing one in each column: the mean of the examples, before scaling.
    pub means: Option<Vec<f64>>,
    /// The target column of the examples, by name, or by number from 1 where the table had no names.
    pub target: Option<String>,
    /// Whether LIBSVM text of such rows counts columns from 0, not from 1.
    pub zero_based: bool,
}

impl Input {
    /// Rows as the machine expects them: scaled if the examples were scaled.
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

/// How scores are converted to probabilities.
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
    /// Quantiles of the scores of a one-class machine on its training data (LIBSVM's density marks).
    Marks(Vec<f64>),
    /// An increasing curve for each score that never contradicts the label.
    Curves(Vec<Curve>),
}

/// An increasing function from a score to the probability of the first class. It is clamped at one half where
/// the score changes its sign, so that the label always has the larger probability.
#[derive(Debug, Clone, PartialEq)]
pub enum Curve {
    /// `1 / (1 + exp(A f + B))`, A below zero.
    Sigmoid {
        /// A.
        a: f64,
        /// B.
        b: f64,
    },
    /// Linear between points, constant beyond the first and the last (isotonic regression).
    PiecewiseLinear {
        /// Scores, increasing.
        scores: Vec<f64>,
        /// Probabilities at these scores, not decreasing.
        values: Vec<f64>,
    },
}

/// The origin of a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Provenance {
    /// The program that made it: `libsvm`, `mercer`, ...
    pub origin: String,
    /// What was minimised: `c_svc`, `nu_svr`, ...
    pub formulation: Option<String>,
    /// Version of the program that wrote the file.
    pub version: String,
    /// Vectors in the source before equal ones were merged.
    pub source_supports: Option<usize>,
    /// The machine that this one approximates, if it is a compressed one.
    pub parent: Option<Parent>,
}

/// The machine that a compressed one approximates.
#[derive(Debug, Clone, PartialEq)]
pub struct Parent {
    /// Digest of its machine, see [`crate::file::digest`].
    pub machine: String,
    /// The number of its supports.
    pub supports: usize,
    /// The compression method.
    pub method: String,
    /// `|W - W~| / |W|`.
    pub error: f64,
}
