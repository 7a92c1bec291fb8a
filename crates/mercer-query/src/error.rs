//! Why a plan cannot be loaded, and why a query cannot be answered. What is wrong with a machine or a model file is in
//! `mercer_machine`.

/// Why the plan of a model cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A stage that does not fit the machine, or whose numbers are not sound.
    #[error("stage '{stage}' cannot be used: {reason}")]
    Unfit {
        /// The stage.
        stage: String,
        /// Why.
        reason: String,
    },
    /// A stage of that name does not exist.
    #[error("there is no stage '{stage}'; known are {known}")]
    Unknown {
        /// The name.
        stage: String,
        /// All names.
        known: String,
    },
    /// The calibration does not fit the stages.
    #[error("the plan's calibration does not fit its stages")]
    Uncalibrated,
    /// A constant that a certificate rests on is not what the machine gives.
    #[error(
        "stage '{stage}' cannot be believed: {reason}; the plan is forged, damaged or of another version, compile it again"
    )]
    NotProved {
        /// The stage.
        stage: String,
        /// What is wrong.
        reason: String,
    },
    /// The text of the plan is not that of its stages.
    #[error("the plan calls itself '{text}', but its stages are {stages}")]
    OtherStages {
        /// The text.
        text: String,
        /// Names of the stages.
        stages: String,
    },
    /// The caller ended the verification.
    #[error("interrupted")]
    Interrupted,
    /// The plan belongs to another machine.
    #[error("the plan was made for another machine")]
    OtherMachine,
}

impl LoadError {
    pub(crate) fn unfit(stage: &str, reason: &str) -> Self {
        Self::Unfit { stage: stage.to_owned(), reason: reason.to_owned() }
    }
}

/// Why queries could not be answered. Rows are counted from 1 within the rows of the call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// Attributions of rows that claim far more columns than they use.
    #[error(
        "attributions need a number for each column: {numbers} numbers here, more than the {limit} that the stored values justify"
    )]
    WideAttributions {
        /// Numbers needed.
        numbers: usize,
        /// The most.
        limit: usize,
    },
    /// Attributions of more rows and columns than memory holds.
    #[error(
        "attributions need a number for each column: {numbers} numbers here, more than this computer has memory for"
    )]
    NoMemory {
        /// Numbers needed.
        numbers: usize,
    },
    /// A threshold for a machine that does not answer by the sign of one score.
    #[error(
        "a threshold needs a machine that answers by one score (two classes, novelty); this one has several or is a regression"
    )]
    NoThreshold,
    /// A threshold that is not a number.
    #[error("the threshold is {threshold}; it must be a finite number")]
    BadThreshold {
        /// The threshold.
        threshold: f64,
    },
    /// Attributions without rows to compare with.
    #[error("attributions need background rows to compare with; there are none")]
    NoBackground,
    /// Background rows of another width.
    #[error("background rows have {found} columns, the rows to explain {expected}")]
    BackgroundWidth {
        /// Columns of the background.
        found: usize,
        /// Columns of the rows, or of the machine.
        expected: usize,
    },
    /// A kernel whose Shapley values are not known.
    #[error(
        "scores of {kernel} cannot be attributed to columns: that needs a sum over columns (linear, additive kernels), a product \
         over columns (rbf, laplacian, exponential of a sum) or a polynomial of degree {degree} at most"
    )]
    NotAttributable {
        /// The kernel.
        kernel: String,
        /// The largest degree.
        degree: u32,
    },
    /// A scaling that looks at all columns of a row.
    #[error(
        "scores cannot be attributed to columns: the scaling {scaling} divides each row by its length, so that every column depends \
         on all others"
    )]
    ScaledByRow {
        /// The scaling.
        scaling: String,
    },
    /// Prediction sets of a machine without targets.
    #[error("prediction sets need targets: classes, or values of a regression; novelty has none")]
    NoSets,
    /// Prediction sets whose calibration is that of a file, which nobody vouches for.
    #[error(
        "the prediction sets were calibrated elsewhere: their quantile is a number of the file, and was not tested here"
    )]
    UntestedSets,
    /// A score of a class, or of two, that the machine does not have.
    #[error(
        "the machine has no score of that class: one-vs-one scores are of two different classes, one-vs-rest scores of one class \
         against all others, and regression and novelty have none"
    )]
    NoScoreOfClass,
    /// A score overflowed.
    #[error("row {row}: its score is {value}; the kernel overflows on such values")]
    NotFinite {
        /// The row.
        row: usize,
        /// What came out.
        value: f64,
    },
    /// A negative value where the kernel needs histograms.
    #[error("row {row} holds {value} in column {column}; {kernel} needs values of at least 0")]
    Negative {
        /// The row.
        row: usize,
        /// The column, from 1.
        column: usize,
        /// The value.
        value: f64,
        /// The kernel.
        kernel: String,
    },
    /// Rows of another width than the machine's.
    #[error("rows have {found} columns, the machine expects {expected}")]
    Width {
        /// Columns of the rows.
        found: usize,
        /// Columns of the machine.
        expected: usize,
    },
}

impl QueryError {
    /// The same error if so many rows come before those of the call: a chunk of a file becomes the file.
    #[must_use]
    pub fn after_rows(self, rows: usize) -> Self {
        self.renumbered(|row| rows + row)
    }

    /// The same error with another number of the row; both count from 1.
    pub(crate) fn renumbered(mut self, number: impl FnOnce(usize) -> usize) -> Self {
        match &mut self {
            Self::NotFinite { row, .. } | Self::Negative { row, .. } => *row = number(*row),
            Self::Width { .. }
            | Self::NoThreshold
            | Self::BadThreshold { .. }
            | Self::NoBackground
            | Self::BackgroundWidth { .. }
            | Self::NotAttributable { .. }
            | Self::WideAttributions { .. }
            | Self::NoMemory { .. }
            | Self::ScaledByRow { .. }
            | Self::NoSets
            | Self::UntestedSets
            | Self::NoScoreOfClass => {}
        }
        self
    }
}
