//! [`TrainError`]: every reason why a training fails, with the place and the value.
//!
//! Reasons why a training ends early but still returns a machine are in `control.rs` ([`crate::Stop`]).

use std::path::PathBuf;

use mercer_machine::MachineError;

/// Why a training failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// No examples.
    #[error("there are no examples")]
    NoExamples,
    /// The number of targets is not the number of examples.
    #[error("{formulation} needs a target for each of the {rows} examples, there are {found}")]
    TargetCount {
        /// The formulation.
        formulation: String,
        /// Examples.
        rows: usize,
        /// Targets.
        found: usize,
    },
    /// A target that is text where a number is needed.
    #[error("{formulation} needs numbers as targets, example {row} has '{value}'")]
    NotANumber {
        /// The formulation.
        formulation: String,
        /// The example, from 1.
        row: usize,
        /// Its target.
        value: String,
    },
    /// A target of a binary subproblem that is neither 1 nor -1.
    #[error(
        "row {row} of '{subproblem}' has the target {value}; a binary subproblem needs 1 or -1"
    )]
    NotASign {
        /// Name of the subproblem.
        subproblem: String,
        /// The row of the subproblem, from 1.
        row: usize,
        /// Its target.
        value: f64,
    },
    /// A target that is not finite.
    #[error("the target of example {row} is {value}; targets must be finite")]
    TargetNotFinite {
        /// The example, from 1.
        row: usize,
        /// Its target.
        value: f64,
    },
    /// A classifier needs two classes.
    #[error("all examples belong to class '{name}'; a classifier needs at least two classes")]
    OneClass {
        /// The only class.
        name: String,
    },
    /// So many classes that the targets are probably values of a regression.
    #[error(
        "{classes} classes in {rows} examples would need {subproblems} binary subproblems; are the targets \
         values of a regression?"
    )]
    TooManyClasses {
        /// Number of classes.
        classes: usize,
        /// Number of examples.
        rows: usize,
        /// Number of binary subproblems.
        subproblems: usize,
    },
    /// ν too large for the class sizes.
    #[error("nu = {nu} is infeasible for {subproblem}: the smaller class allows at most {limit}")]
    InfeasibleNu {
        /// The pair of classes.
        subproblem: String,
        /// ν.
        nu: f64,
        /// Largest ν possible.
        limit: f64,
    },
    /// A ν-SVC whose solution has no margin: it cannot be scaled to a machine.
    #[error(
        "nu = {nu} gives a margin of {margin}: the classes are not separated; try a smaller nu"
    )]
    NoMargin {
        /// ν.
        nu: f64,
        /// Half the distance between the two multipliers.
        margin: f64,
    },
    /// A weight that is negative, infinite or NaN.
    #[error("the weight of {place} is {value}; weights must be finite and at least 0")]
    BadWeight {
        /// Example or class.
        place: String,
        /// The weight.
        value: f64,
    },
    /// The number of weights is not the number of examples.
    #[error("there are {found} weights for {rows} examples")]
    WeightCount {
        /// Weights.
        found: usize,
        /// Examples.
        rows: usize,
    },
    /// A weight for a class that no example has.
    #[error("a weight is given for class '{name}', which no example has; the classes are {known}")]
    UnknownClass {
        /// The class.
        name: String,
        /// The classes there are.
        known: String,
    },
    /// All examples of a class have weight 0.
    #[error("all examples of class '{name}' have weight 0; leave the class out instead")]
    ZeroClass {
        /// The class.
        name: String,
    },
    /// Probabilities of a machine that is not a classifier.
    #[error("only classifiers have probabilities; this formulation has no classes")]
    NoClasses,
    /// All examples have weight 0.
    #[error("all examples have weight 0")]
    ZeroWeights,
    /// An option outside its range.
    #[error("{option} is {value}; it must be {range}")]
    Option {
        /// Its name.
        option: &'static str,
        /// The value.
        value: f64,
        /// The allowed range, in words.
        range: &'static str,
    },
    /// The number of fold indices is not the number of examples.
    #[error("folds are given for {found} examples, but there are {rows} examples")]
    FoldCount {
        /// Examples with a fold.
        found: usize,
        /// Examples.
        rows: usize,
    },
    /// A fold without examples.
    #[error("no example is in fold {fold}; folds are numbered from 0 without gaps")]
    EmptyFold {
        /// Its number.
        fold: usize,
    },
    /// Formulations of different tasks in one search.
    #[error(
        "'{first}' and '{other}' are formulations of different tasks (classification, regression, \
         novelty detection) and cannot be compared"
    )]
    MixedGoals {
        /// One of them.
        first: String,
        /// The other.
        other: String,
    },
    /// A search without candidates.
    #[error("the search has no candidates: no kernel or no formulation is given")]
    NoCandidates,
    /// A search over more candidates than anyone can want.
    #[error(
        "the search has {candidates} candidates; at most {limit} are accepted: use fewer values"
    )]
    TooManyCandidates {
        /// Kernels times formulations.
        candidates: usize,
        /// The limit.
        limit: usize,
    },
    /// A search over a formulation without targets, so that no score can be computed.
    #[error(
        "a search over {formulation} needs targets to score its candidates; give each example +1 (normal) \
         or -1 (novel)"
    )]
    NoTargetsToScore {
        /// The formulation.
        formulation: String,
    },
    /// A cross-validation or search that a limit or the cancel token ended.
    #[error("{}", .0.reason())]
    Stopped(crate::Stop),
    /// Rows of precomputed kernel values instead of examples.
    #[error(
        "machines with the kernel 'precomputed' can be imported and used, but not trained here: two rows \
         of kernel values do not give the kernel value of the pair; Python's \
         SVC(kernel=\"precomputed\") trains them"
    )]
    PrecomputedKernel,
    /// A kernel value that overflows.
    #[error("the kernel value of example {row} with itself is {value}; scale the data")]
    KernelNotFinite {
        /// The example, from 1.
        row: usize,
        /// The value.
        value: f64,
    },
    /// A negative value where the kernel needs histograms (values of at least 0).
    #[error("example {row} holds {value} in column {column}; {kernel} needs values of at least 0")]
    Negative {
        /// The example, from 1.
        row: usize,
        /// The column, from 1.
        column: usize,
        /// The value.
        value: f64,
        /// The kernel.
        kernel: String,
    },
    /// A negative value where the bins of a column start at zero.
    #[error(
        "example {row} holds {value} in column {column}; {kernel} needs values of at least 0: shift the \
         column, split it into a positive and a negative part, or bin by quantiles (bins=quantile)"
    )]
    NegativeForBins {
        /// The example, from 1.
        row: usize,
        /// The column, from 1.
        column: usize,
        /// The value.
        value: f64,
        /// The kernel.
        kernel: String,
    },
    /// Values whose kernel f32 cannot represent.
    #[error(
        "the largest value is {value:e}; additive solvers need it between 1e-15 and 1e15: scale the data"
    )]
    BinRange {
        /// The largest value.
        value: f64,
    },
    /// More data than a solver can index.
    #[error("the {what} need more than {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: &'static str,
    },
    /// A solver that cannot solve this problem.
    #[error("the solver {solver} does not fit this problem: {reason}")]
    Unsuited {
        /// The solver.
        solver: String,
        /// Why.
        reason: String,
    },
    /// A formulation that only the linear and additive solvers minimise.
    #[error(
        "{formulation} needs a linear or additive solver: linear, additive, feature_map or pmsvm_lut"
    )]
    NeedsAdditiveSolver {
        /// The formulation.
        formulation: String,
    },
    /// A formulation that is a linear system.
    #[error("{formulation} is a linear system; use the solver direct")]
    NeedsDirect {
        /// The formulation.
        formulation: String,
    },
    /// A linear system whose matrix has no Cholesky factor.
    #[error(
        "{subproblem}: the kernel matrix plus ridge is not positive definite in f64; use a smaller C (a \
         larger lambda) or a positive semidefinite kernel"
    )]
    NotPositiveDefinite {
        /// Name of the subproblem.
        subproblem: String,
    },
    /// A checkpoint that could not be read or written.
    #[error("checkpoint {path}: {reason}")]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A machine that cannot be used as a warm start.
    #[error("the warm start is not possible with this machine: {reason}")]
    WarmStart {
        /// Why.
        reason: String,
    },
    /// Original rows that do not belong to the machine of an update.
    #[error(
        "the original rows are not those of the machine: {reason}; give the rows that it was trained on, prepared (scaled) \
         in the same way"
    )]
    NotTheRows {
        /// What does not fit.
        reason: String,
    },
    /// A row to forget that is none of the original rows.
    #[error("row {row} of the rows to forget {reason}")]
    NoSuchRow {
        /// The row, from 1.
        row: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Rows of another width, or with other targets, in an update.
    #[error("the {what} do not fit the original rows: {reason}")]
    OtherRows {
        /// Which rows.
        what: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// The temporary file of a low-rank factor that is too large for memory.
    #[error(
        "the temporary file of the low-rank factor: {reason}; raise the memory limit (--memory) or choose \
         a lower rank"
    )]
    FactorFile {
        /// What is wrong.
        reason: String,
    },
    /// The temporary file of packed examples that are too large for memory.
    #[error(
        "the temporary file of the packed examples: {reason}; raise the memory limit (--memory)"
    )]
    ExampleFile {
        /// What is wrong.
        reason: String,
    },
    /// Examples that could be read the first time, but not a second time.
    #[error("the examples cannot be read a second time: {reason}")]
    Rows {
        /// Why.
        reason: String,
    },
    /// The parts of the machine do not fit together.
    #[error("{0}")]
    Machine(#[from] MachineError),
}
