//! Reduced-set methods: a machine with fewer vectors. `f = <W, Φ(x)> - b` becomes `f~ = <W~, Φ(x)> - b`, and `|W - W~|`
//! is known.
//!
//! A [`Compressor`] chooses vectors; their coefficients follow by projection (\[OG98\] and after). Every method is
//! measured in the same way: the distance in feature space, disagreements on a sample, and the share of a
//! sample whose label the small machine proves. The stage that uses such vectors in a plan is `fit/compressed.rs`.
//!
//! ```
//! use mercer_compile::{Compression, Goal, compressor};
//! use mercer_data::Matrix;
//! use mercer_machine::{Machine, Output, Score};
//! let kernel = mercer_kernel::parse("rbf(gamma=0.1)")?;
//! let supports = Matrix::dense(1, (0..60).map(|x| f64::from(x) / 10.0).collect())?;
//! let betas: Vec<f64> = (0..60).map(|x| if x < 30 { 1.0 } else { -1.0 }).collect();
//! let machine = Machine::new(kernel, supports, vec![Score::expansion(&betas, 0.0)], Output::Novelty)?;
//! let small = Compression::new(&machine, compressor("greedy")?).goal(Goal::Size(6)).run()?;
//! assert!(small.machine.supports().rows() <= 6 && small.report.error.relative < 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collapse;
mod exact_basis;
pub(crate) mod greedy;
mod lasso;
mod measure;
pub(crate) mod moved;
mod penalty_path;
mod primal;
mod problem;
mod quadratic;
mod reduced_set;
mod regression;
mod search;

use std::fmt::Debug;
use std::sync::Arc;

use mercer_data::Matrix;
use mercer_machine::Machine;
use mercer_spec::{Entry, Registry, Spec, SpecError};

pub use measure::{FeatureDistance, SampleAgreement};
pub use problem::CompressionProblem;
pub use reduced_set::ReducedSet;
pub(crate) use reduced_set::fit_coefficients;
pub use regression::Tube;

use crate::{CompileError, FittingData, Watch};
use search::SizeSearch;

/// A method that approximates a machine with fewer vectors.
pub trait Compressor: Debug + Send + Sync {
    /// Its text.
    fn spec(&self) -> Spec;

    /// Begins to compress a machine.
    ///
    /// # Errors
    /// If it does not fit the machine.
    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError>;
}

/// The run of a compressor on one machine.
pub trait CompressorRun {
    /// The best it can do with at most `size` vectors; fewer if the method finds no more.
    ///
    /// # Errors
    /// [`CompileError::Uncompressible`] if it finds nothing at this size, which says nothing of other sizes; or if the
    /// caller interrupts it.
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError>;

    /// The size that follows from the method's parameters, for methods that need no other goal.
    ///
    /// # Errors
    /// As [`CompressorRun::at_size`].
    fn by_parameters(&mut self) -> Result<Option<ReducedSet>, CompileError> {
        Ok(None)
    }

    /// A size that probably brings the relative error down to `error`, for methods that can predict it.
    ///
    /// # Errors
    /// As [`CompressorRun::at_size`].
    fn predict_size(&mut self, _error: f64) -> Result<Option<usize>, CompileError> {
        Ok(None)
    }

    /// The most vectors it can find at any size, where that is known by now.
    fn most(&self) -> Option<usize> {
        None
    }

    /// How accurate the last set is at the rows it was fitted to, for methods that promise that.
    fn tube(&self) -> Option<Tube> {
        None
    }

    /// Sizes and relative errors that are known by now, as estimated on the way.
    fn curve(&self) -> Vec<(usize, f64)> {
        Vec::new()
    }
}

/// A shared compressor.
pub type CompressorRef = Arc<dyn Compressor>;

/// What a compressor is in the registry.
pub type CompressorEntry = Entry<CompressorRef>;

/// All compressors; one line each.
pub static COMPRESSORS: Registry<CompressorRef> = Registry {
    noun: "compressor",
    entries: &[
        &greedy::ENTRY,
        &moved::ENTRY,
        &quadratic::ENTRY,
        &exact_basis::ENTRY,
        &regression::ENTRY,
        &primal::ENTRY,
        &lasso::ENTRY,
    ],
};

/// The compressor of that text.
///
/// # Errors
/// If there is none, or its parameters are wrong.
pub fn compressor(text: &str) -> Result<CompressorRef, SpecError> {
    COMPRESSORS.parse(text)
}

/// When a machine is small enough, or too small.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The size that follows from the method's parameters.
    ByParameters,
    /// This many vectors.
    Size(usize),
    /// The fewest vectors with `|W - W~| <= e |W|`.
    Error(f64),
    /// The fewest vectors that disagree with the machine on at most this share of the sample.
    Disagreement(f64),
    /// The fewest vectors that prove the label of at least this share of the sample.
    Certified(f64),
}

/// A machine to compress, and how.
#[derive(Debug, Clone)]
pub struct Compression<'a> {
    machine: &'a Machine,
    method: CompressorRef,
    goal: Goal,
    fitting_data: FittingData<'a>,
    tolerance: Option<f64>,
    keeps_vectors: bool,
    watch: Watch<'a>,
}

/// A smaller machine, and how far it is from the original.
#[derive(Debug, Clone)]
pub struct Compressed {
    /// The smaller machine.
    pub machine: Machine,
    /// What was done, and its error.
    pub report: CompressionReport,
}

/// How a machine was compressed.
#[derive(Debug, Clone)]
pub struct CompressionReport {
    /// The method, or `weights` where a linear machine became its weights.
    pub method: String,
    /// Distinct vectors before and after; zero where only weights are left.
    pub before: usize,
    /// Vectors of the smaller machine.
    pub after: usize,
    /// Distance in feature space.
    pub error: FeatureDistance,
    /// Agreement with the original on a sample, where there is one.
    pub agreement: Option<SampleAgreement>,
    /// The accuracy that was asked for and the one that was achieved, for `regression`.
    pub tube: Option<Tube>,
    /// Sizes that were tried, or that the method passed on its way, by size.
    pub curve: Vec<CurvePoint>,
}

/// One size of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Vectors.
    pub size: usize,
    /// `|W - W~| / |W|`: measured where there is an agreement too, else as the method estimates it.
    pub error: f64,
    /// Agreement with the original on the sample.
    pub agreement: Option<SampleAgreement>,
}

impl Compressed {
    /// Its agreement with the original on a sample.
    ///
    /// # Errors
    /// If a query cannot be answered.
    pub fn agreement(
        &self,
        machine: &Machine,
        fitting_data: FittingData<'_>,
        tolerance: Option<f64>,
    ) -> Result<Option<SampleAgreement>, CompileError> {
        let evaluator = measure::SampleEvaluator::new(machine, fitting_data.sample, tolerance)?;
        evaluator.evaluate(self.machine.supports(), &self.machine, &Watch::NOBODY)
    }
}

impl<'a> Compression<'a> {
    /// Compresses this machine with this method.
    pub fn new(machine: &'a Machine, method: CompressorRef) -> Self {
        let (fitting_data, watch) = (FittingData::default(), Watch::NOBODY);
        let (goal, tolerance, keeps_vectors) = (Goal::ByParameters, None, false);
        Self { machine, method, goal, fitting_data, tolerance, keeps_vectors, watch }
    }

    /// When it is small enough.
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goal = goal;
        self
    }

    /// Rows to use: a sample of queries, and the training rows for methods that need them.
    pub fn fitting_data(mut self, fitting_data: FittingData<'a>) -> Self {
        self.fitting_data = fitting_data;
        self
    }

    /// How far a value of a regression may be off and still be the same answer.
    pub fn tolerance(mut self, tolerance: Option<f64>) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Linear machines keep vectors instead of becoming their weights.
    pub fn keep_vectors(mut self, keeps_vectors: bool) -> Self {
        self.keeps_vectors = keeps_vectors;
        self
    }

    /// Called with progress; may interrupt the run.
    pub fn watch(mut self, watch: Watch<'a>) -> Self {
        self.watch = watch;
        self
    }

    /// Compresses the machine.
    ///
    /// # Errors
    /// If the method does not fit the machine, the goal lacks what it needs or cannot be reached, or the caller
    /// interrupts it.
    pub fn run(&self) -> Result<Compressed, CompileError> {
        self.machine.check_width("compressing a machine")?;
        let evaluator =
            measure::SampleEvaluator::new(self.machine, self.fitting_data.sample, self.tolerance)?;
        if !self.keeps_vectors
            && let Some(machine) = collapse::linear(self.machine)?
        {
            return self.collapsed(machine, &evaluator);
        }
        let problem = CompressionProblem::new(self.machine, self.fitting_data, self.watch)?;
        let mut run = self.method.begin(&problem)?;
        let mut search = SizeSearch { problem: &problem, run: run.as_mut(), evaluator: &evaluator };
        let smallest = search.find(self.goal)?;
        let smaller_sizes = search.smaller_sizes(&smallest)?;
        let error = smallest.error;
        let curve = search::curve(run.curve(), &smaller_sizes);
        let report = CompressionReport {
            method: self.method.spec().to_string(),
            before: self.machine.supports().rows(),
            after: smallest.machine.supports().rows(),
            error,
            agreement: smallest.agreement,
            tube: smallest.tube,
            curve,
        };
        Ok(Compressed { machine: smallest.machine, report })
    }

    fn collapsed(
        &self,
        machine: Machine,
        evaluator: &measure::SampleEvaluator<'_>,
    ) -> Result<Compressed, CompileError> {
        let agreement = evaluator.disagreement(&machine)?;
        let error = collapse::error(self.machine, &machine);
        let report = CompressionReport {
            method: "weights".to_owned(),
            before: self.machine.supports().rows(),
            after: 0,
            error,
            agreement,
            tube: None,
            curve: Vec::new(),
        };
        Ok(Compressed { machine, report })
    }
}

/// The error of a method that does not fit a machine.
fn unfit(method: &'static str, reason: impl Into<String>) -> CompileError {
    CompileError::Uncompressible { method, reason: reason.into() }
}

/// The rows of both matrices.
fn stacked(first: &Matrix, second: &Matrix) -> Matrix {
    let mut rows = mercer_data::MatrixBuilder::new();
    first.iter().chain(second.iter()).for_each(|row| rows.push_row(row));
    rows.finish(first.columns().max(second.columns())).compact()
}
