use std::path::PathBuf;

use mercer_machine::MachineError;

/// Why nothing was learned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// No examples.
    #[error("there are no examples")]
    NoExamples,
    /// Examples without the targets they need.
    #[error("{formulation} needs a target for each of the {rows} examples, there are {found}")]
    TargetCount {
        /// What is minimised.
        formulation: String,
        /// Examples.
        rows: usize,
        /// Targets.
        found: usize,
    },
    /// Words where numbers are needed.
    #[error("{formulation} needs numbers as targets, example {row} has '{value}'")]
    NotANumber {
        /// What is minimised.
        formulation: String,
        /// The example, from 1.
        row: usize,
        /// Its target.
        value: String,
    },
    /// A question of two sides with a target of neither.
    #[error("row {row} of '{part}' has the target {value}; the sides of a question are 1 and -1")]
    NotASide {
        /// The question.
        part: String,
        /// The row of the question, from 1.
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
    /// More binary questions than anyone can want.
    #[error(
        "{classes} classes in {rows} examples would need {questions} binary questions; are the targets \
         values of a regression?"
    )]
    TooManyClasses {
        /// Number of classes.
        classes: usize,
        /// Number of examples.
        rows: usize,
        /// Number of questions.
        questions: usize,
    },
    /// ν too large for the class sizes.
    #[error("nu = {nu} is infeasible for {part}: the smaller class allows at most {limit}")]
    InfeasibleNu {
        /// The pair of classes.
        part: String,
        /// ν.
        nu: f64,
        /// Largest ν possible.
        limit: f64,
    },
    /// A ν-SVC whose solution does not separate the classes at all.
    #[error(
        "nu = {nu} leaves a margin of {margin}: the classes cannot be told apart, so no machine exists"
    )]
    NoMargin {
        /// ν.
        nu: f64,
        /// What was found.
        margin: f64,
    },
    /// A weight that is no weight.
    #[error("the weight of {place} is {value}; weights are finite and at least 0")]
    BadWeight {
        /// Example or class.
        place: String,
        /// The weight.
        value: f64,
    },
    /// Not one weight per example.
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
    /// Nothing of a class counts.
    #[error("all examples of class '{name}' have weight 0; leave the class out instead")]
    ZeroClass {
        /// The class.
        name: String,
    },
    /// Probabilities of what has no classes.
    #[error("only classes have probabilities")]
    NoClasses,
    /// Nothing counts at all.
    #[error("all examples have weight 0")]
    ZeroWeights,
    /// An option outside its range.
    #[error("{option} is {value}; it must be {range}")]
    Option {
        /// Its name.
        option: &'static str,
        /// The value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// Folds that are not those of the examples.
    #[error("folds are given for {found} examples, there are {rows}")]
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
    /// Formulations that cannot be compared.
    #[error("'{first}' and '{other}' answer different questions and cannot be compared")]
    MixedGoals {
        /// One of them.
        first: String,
        /// The other.
        other: String,
    },
    /// A search among nothing.
    #[error("there is nothing to choose from: no kernel or no formulation is given")]
    NoCandidates,
    /// A search that has nothing to go by.
    #[error("{formulation} has no targets to be judged by; give each example +1 (usual) or -1")]
    NothingToJudge {
        /// What is minimised.
        formulation: String,
    },
    /// A comparison that a limit or the cancel token ended.
    #[error("{}", .0.reason())]
    Stopped(crate::Stop),
    /// Rows of kernel values instead of examples.
    #[error(
        "machines of the kernel 'precomputed' can be imported and asked, but not trained here: two rows of \
         values do not say the value of the pair; Python's SVC(kernel=\"precomputed\") trains them"
    )]
    GivenValues,
    /// A kernel value that doubles cannot hold.
    #[error("the kernel value of example {row} with itself is {value}; scale the data")]
    KernelNotFinite {
        /// The example, from 1.
        row: usize,
        /// The value.
        value: f64,
    },
    /// A negative value where the kernel needs histograms.
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
    /// A negative value where levels start at zero.
    #[error(
        "example {row} holds {value} in column {column}; {kernel} needs values of at least 0: shift the \
         column, split it into a positive and a negative part, or take ranks instead of values \
         (levels=quantile)"
    )]
    NegativeLevels {
        /// The example, from 1.
        row: usize,
        /// The column, from 1.
        column: usize,
        /// The value.
        value: f64,
        /// The kernel.
        kernel: String,
    },
    /// Values that singles cannot hold the kernel of.
    #[error(
        "the largest value is {value:e}; levels need one between 1e-15 and 1e15: scale the data"
    )]
    LevelRange {
        /// The largest value.
        value: f64,
    },
    /// More than a solver can hold.
    #[error("the {what} need more than {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: &'static str,
    },
    /// A solver for other tasks.
    #[error("the solver {solver} does not fit: {reason}")]
    Unsuited {
        /// The solver.
        solver: String,
        /// Why.
        reason: String,
    },
    /// A formulation for other solvers.
    #[error(
        "{formulation} needs a solver of additive kernels: additive, linear, feature_map, pmsvm_lut"
    )]
    NeedsTables {
        /// The formulation.
        formulation: String,
    },
    /// A formulation that is a linear system.
    #[error("{formulation} is a linear system: the solver direct solves it")]
    NeedsDirect {
        /// The formulation.
        formulation: String,
    },
    /// A system without a solution.
    #[error(
        "{part}: kernel values and ridge are not positive definite in doubles; take a smaller C (a larger \
         lambda) or a semidefinite kernel"
    )]
    NotDefinite {
        /// What it is about.
        part: String,
    },
    /// A checkpoint that could not be read or written.
    #[error("checkpoint {path}: {reason}")]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A machine that cannot be a starting point.
    #[error("the machine cannot be a starting point: {reason}")]
    WarmStart {
        /// Why.
        reason: String,
    },
    /// The file that holds a factor too large for memory.
    #[error("the file that holds the factor: {reason}; give --memory more or ask for a lower rank")]
    FactorFile {
        /// What is wrong.
        reason: String,
    },
    /// The file that holds packed examples too many for memory.
    #[error("the file that holds the packed examples: {reason}; give --memory more")]
    ExampleFile {
        /// What is wrong.
        reason: String,
    },
    /// Examples that could be read once and not again.
    #[error("the examples cannot be read again: {reason}")]
    Rows {
        /// Why.
        reason: String,
    },
    /// The parts of the machine do not fit together.
    #[error("{0}")]
    Machine(#[from] MachineError),
}
