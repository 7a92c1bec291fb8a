//! The error type of this crate: why a machine or a model file was refused. Errors of data files are in `mercer_data`,
//! errors of plans in `mercer_query`.

use std::io;

/// Why a machine or a model file was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The kernel text was refused.
    #[error(transparent)]
    Spec(#[from] mercer_spec::SpecError),
    /// The supports were refused.
    #[error("supports: {0}")]
    Data(#[from] mercer_data::DataError),
    /// Parts that do not fit together.
    #[error("the machine has {found} {what}, {expected} are needed")]
    Count {
        /// What was counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A coefficient or offset that is not finite.
    #[error("{what} of score {score} is {value}; values must be finite")]
    NotFinite {
        /// Which number.
        what: &'static str,
        /// Which score, from 1.
        score: usize,
        /// The value.
        value: f64,
    },
    /// A coverage of prediction sets that is no probability.
    #[error("the coverage is {coverage}; it must be between 0 and 1, such as 0.9")]
    BadCoverage {
        /// The coverage.
        coverage: f64,
    },
    /// A sample that cannot promise a coverage.
    #[error("{rows} rows are too few to promise a coverage of {coverage}: {needed} are needed")]
    SmallConformalSample {
        /// Rows of the sample.
        rows: u64,
        /// Rows that suffice.
        needed: u64,
        /// The coverage.
        coverage: f64,
    },
    /// A coefficient for a support that does not exist.
    #[error("score {score} names support {support}, there are {supports}")]
    NoSuchSupport {
        /// Which score, from 1.
        score: usize,
        /// The support named, from 1.
        support: usize,
        /// How many there are.
        supports: usize,
    },
    /// Bins or encodings that are not valid.
    #[error("the bins are not valid: {reason}")]
    Bins {
        /// What is wrong.
        reason: String,
    },
    /// Two classes of the same name.
    #[error("class '{name}' is named twice")]
    RepeatedClass {
        /// The name.
        name: String,
    },
    /// Fewer than two classes.
    #[error("a classifier needs at least two classes, there is {found}")]
    TooFewClasses {
        /// How many there are.
        found: usize,
    },
    /// A negative value where the kernel needs histograms.
    #[error(
        "support {support} holds {value} in column {column}; {kernel} needs values of at least 0"
    )]
    Negative {
        /// The support, from 1.
        support: usize,
        /// The column, from 1.
        column: usize,
        /// The value.
        value: f64,
        /// The kernel.
        kernel: String,
    },
    /// A number beside the machine that makes no sense.
    #[error("{what} is outside its range")]
    OutOfRange {
        /// Which number.
        what: &'static str,
    },
    /// A model text that breaks its grammar.
    #[error("line {line}: {reason}")]
    Text {
        /// Line of the file, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A model file of Mercer's own format that is damaged.
    #[error("the model file is damaged: {reason}")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// A model file of another version.
    #[error("this file is version {found}; this build reads {known}")]
    Version {
        /// Version of the file.
        found: u64,
        /// Version that this build reads.
        known: u64,
    },
    /// Not a model file of any known format.
    #[error("not a model file: {reason}")]
    Unrecognised {
        /// What was expected.
        reason: &'static str,
    },
    /// Something that the target format cannot hold.
    #[error("{format} cannot express {what}")]
    Inexpressible {
        /// The format.
        format: &'static str,
        /// What it cannot hold.
        what: String,
    },
}
