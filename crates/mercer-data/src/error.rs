use std::io;

/// Why data were refused. Places are counted from 1, as editors do.
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
        /// What stood there.
        token: String,
    },
    /// NaN or an infinity.
    #[error("line {line}: {place} is {value}; values must be finite")]
    NotFinite {
        /// Line of the file.
        line: usize,
        /// Column or "the label".
        place: String,
        /// What stood there.
        value: f64,
    },
    /// A token that is not `index:value`.
    #[error("line {line}: '{token}' is not of the form index:value")]
    NotAPair {
        /// Line of the file.
        line: usize,
        /// What stood there.
        token: String,
    },
    /// An index outside 1 to 2^32 - 2.
    #[error("line {line}: index '{token}' is outside {low} to {high}")]
    BadIndex {
        /// Line of the file.
        line: usize,
        /// What stood there.
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
    /// A row of another width than the rows before.
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
    /// The label column asked for does not exist.
    #[error("there is no column '{name}'; the columns are {known}")]
    NoSuchColumn {
        /// What was asked for.
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
    /// Values do not fill whole rows.
    #[error("{values} values do not fill rows of {columns} columns")]
    Shape {
        /// Number of values.
        values: usize,
        /// Number of columns.
        columns: usize,
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
    /// Not text, or text in the wrong encoding.
    #[error("line {line}: {reason}")]
    Malformed {
        /// Line of the file.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}
