//! The error type of this crate: why data were refused, with the position in the file.

use std::io;

/// Why data were refused. Lines, rows and columns count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Nothing to read.
    #[error("the file holds no rows")]
    Empty,
    /// A token that should be a number.
    #[error("line {line}: '{token}' is not a number")]
    NotANumber {
        /// Line of the file.
        line: usize,
        /// The text or value found.
        token: String,
    },
    /// NaN or an infinity.
    #[error("line {line}: {place} is {value}; values must be finite")]
    NotFinite {
        /// Line of the file.
        line: usize,
        /// Column or "the label".
        place: String,
        /// The text or value found.
        value: f64,
    },
    /// A whole number that f64 rounds.
    #[error(
        "line {line}: the label {token} is a whole number that f64 rounds; smaller ones are exact, and CSV files \
         hold labels as texts"
    )]
    LabelNotHeld {
        /// Line of the file.
        line: usize,
        /// The label.
        token: String,
    },
    /// A token that is not `index:value`.
    #[error("line {line}: '{token}' is not of the form index:value")]
    NotAPair {
        /// Line of the file.
        line: usize,
        /// The text or value found.
        token: String,
    },
    /// An index outside 1 to 2^32 - 2.
    #[error("line {line}: index '{token}' is outside {low} to {high}")]
    BadIndex {
        /// Line of the file.
        line: usize,
        /// The text or value found.
        token: String,
        /// Smallest index allowed.
        low: u32,
        /// Largest index allowed.
        high: u32,
    },
    /// Indices of a sparse row must increase.
    #[error("line {line}: column {column} comes after {previous}; columns must increase")]
    UnsortedColumn {
        /// Line of the file.
        line: usize,
        /// The offending index, as written.
        column: u32,
        /// The one before it.
        previous: u32,
    },
    /// A row with another number of fields than the first row.
    #[error("line {line}: {found} fields where the first row has {expected}")]
    RaggedRow {
        /// Line of the file.
        line: usize,
        /// Fields in this row.
        found: usize,
        /// Fields in the first row.
        expected: usize,
    },
    /// An empty field.
    #[error("line {line}: column '{column}' is empty; missing values are not accepted")]
    Missing {
        /// Line of the file.
        line: usize,
        /// Column name or number.
        column: String,
    },
    /// An empty field of a file without lines.
    #[error("row {row}: column '{column}' is empty; missing values are not accepted")]
    MissingAt {
        /// Row, from 1.
        row: usize,
        /// Column name.
        column: String,
    },
    /// The requested column does not exist.
    #[error("there is no column '{name}'; the columns are {known}")]
    NoSuchColumn {
        /// The requested name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A column that a machine expects by name.
    #[error("there is no column '{name}', which the machine needs; the columns are {known}")]
    ColumnNeeded {
        /// Its name.
        name: String,
        /// What there is.
        known: String,
    },
    /// A line longer than any sensible row.
    #[error("line {line} is longer than {limit} bytes")]
    LineTooLong {
        /// Line of the file.
        line: usize,
        /// The limit.
        limit: usize,
    },
    /// The number of values is not a multiple of the number of columns.
    #[error("{values} values do not fill rows of {columns} columns")]
    Shape {
        /// Number of values.
        values: usize,
        /// Number of columns.
        columns: usize,
    },
    /// More columns than a sparse row can number.
    #[error("{columns} columns are claimed; at most {limit} can be numbered")]
    TooManyColumns {
        /// Columns claimed.
        columns: usize,
        /// The limit.
        limit: usize,
    },
    /// A table with a number for each column that the stored values do not justify.
    #[error(
        "{what} would take {numbers} numbers, one or more for each column; for so few values at most {limit} are \
         accepted: number the columns consecutively"
    )]
    TableTooLarge {
        /// What the table is for.
        what: &'static str,
        /// Numbers in it.
        numbers: usize,
        /// Numbers allowed.
        limit: usize,
    },
    /// Rows that take more memory than the caller allows.
    #[error("the rows take more than {:.1} MiB of memory, the limit for reading them at once", *.limit as f64 / f64::from(1 << 20))]
    RowsTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// Memory that cannot be allocated.
    #[error("{what} takes {:.1} GiB, which this computer does not give", *.bytes as f64 / f64::from(1 << 30))]
    OutOfMemory {
        /// What the memory is for.
        what: &'static str,
        /// How much was asked for.
        bytes: usize,
    },
    /// A value in memory that is not finite.
    #[error("row {row}, column {column} is {value}; values must be finite")]
    NotFiniteAt {
        /// Row, from 1.
        row: usize,
        /// Column, from 1.
        column: usize,
        /// The value.
        value: f64,
    },
    /// Sparse parts that contradict each other.
    #[error("row {row}: {reason}")]
    BadSparseRow {
        /// Row, from 1.
        row: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// A reader that does not exist.
    #[error("unknown format '{name}'{nearest}; known are {known}")]
    UnknownFormat {
        /// The requested name.
        name: String,
        /// What was probably meant.
        nearest: String,
        /// The names that exist.
        known: String,
    },
    /// Something that the target format cannot hold.
    #[error("{format} cannot express {what}")]
    Inexpressible {
        /// The format.
        format: &'static str,
        /// What it cannot hold.
        what: String,
    },
    /// A file name that says the file is compressed when it is not.
    #[error("the name says {codec}, but the contents are not compressed with {codec}")]
    NotPacked {
        /// The name of the compression.
        codec: &'static str,
    },
    /// A reader or codec that this build leaves out.
    #[error(
        "this program was built without {what}; the cargo features parquet, xz and zstd add readers"
    )]
    NotBuiltIn {
        /// What is missing.
        what: &'static str,
    },
    /// An array file that breaks its format.
    #[error("{format}: {reason}")]
    Array {
        /// The format.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Rows and labels in two files that do not agree.
    #[error("{rows} rows, but {labels} labels")]
    LabelCount {
        /// Rows read so far.
        rows: usize,
        /// Labels read so far.
        labels: usize,
    },
    /// A labels file of more than one column.
    #[error("the labels file has {columns} columns, one is needed")]
    LabelColumns {
        /// How many there are.
        columns: usize,
    },
    /// A table of targets alone.
    #[error("there are no columns beside the label")]
    NoFeatures,
    /// A column without values, which has no mean.
    #[error("column '{column}' has no values at all")]
    NoValues {
        /// The column.
        column: String,
    },
    /// A category that the machine was not trained on.
    #[error("line {line}: column '{column}' holds '{value}', which the machine does not know")]
    UnknownCategory {
        /// Line of the file.
        line: usize,
        /// The column.
        column: String,
        /// The text or value found.
        value: String,
    },
    /// A column with too many categories for one column each.
    #[error("column '{column}' holds more than {limit} different values; one-hot is for few")]
    TooManyCategories {
        /// The column.
        column: String,
        /// The limit.
        limit: usize,
    },
    /// Rows with another number of columns than the machine expects.
    #[error("rows have {found} columns, the machine expects {expected}")]
    Width {
        /// Columns of the rows.
        found: usize,
        /// Columns expected.
        expected: usize,
    },
    /// Sparse rows that would become dense ones.
    #[error(
        "{scaling} moves zeros: these sparse rows would take {gib:.1} GiB; max_abs, unit_norm and \
         standard(centre=no) keep zeros"
    )]
    MovesZeros {
        /// The scaling.
        scaling: String,
        /// Size of the dense rows.
        gib: f64,
    },
    /// A scaling that is not valid.
    #[error("scaling: {reason}")]
    BadScaling {
        /// What is wrong.
        reason: String,
    },
    /// Not text, or text in the wrong encoding.
    #[error("line {line}: {reason}")]
    Malformed {
        /// Line of the file.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

impl DataError {
    /// Whether LIBSVM text that should count columns from 1 holds an index 0.
    pub fn is_index_zero(&self) -> bool {
        matches!(self, Self::BadIndex { low: 1, token, .. } if token == "0")
    }

    /// The same error for rows that come after so many other rows.
    #[must_use]
    pub fn behind(mut self, rows: usize) -> Self {
        if let Self::NotFiniteAt { row, .. } | Self::BadSparseRow { row, .. } = &mut self {
            *row += rows;
        }
        self
    }
}
