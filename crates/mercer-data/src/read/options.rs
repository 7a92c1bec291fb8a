//! Options of the readers.

use std::path::PathBuf;

/// Default of [`Options::unpacked_limit`].
const UNPACKED_LIMIT: u64 = 64 << 30;

/// How a file is to be read.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of the format; if not given, the first bytes or the name of the file decide.
    pub format: Option<String>,
    /// Which column of a table is the target.
    pub label: Label,
    /// A second file with one target per row.
    pub labels: Option<PathBuf>,
    /// A column of a table, by name or number from 1, that only names rows.
    pub id: Option<String>,
    /// How an empty field of a table is read.
    pub missing: Missing,
    /// Columns of a table, by name or number from 1, that hold categories: each category becomes a column.
    pub one_hot: Vec<String>,
    /// LIBSVM text whose indices count from 0.
    pub zero_based: bool,
    /// LIBSVM text whose indices may be in any order.
    pub sort: bool,
    /// LIBSVM text that starts each row with `0:serial`, as precomputed kernels do.
    pub precomputed: bool,
    /// Number of features expected: a table with one column more has its target in it.
    pub features: Option<usize>,
    /// Names of the features expected: a table with names gives these columns in this order, and
    /// `column=category` where that column holds categories.
    pub names: Option<Vec<String>>,
    /// The target column of the examples, by name, or by number from 1 where the table had no names.
    pub target: Option<String>,
    /// Text: rows are given as soon as their lines have come, and not kept back until a chunk is full.
    pub line_by_line: bool,
    /// Means of the examples, one per feature expected (unused where a column is a category). They replace
    /// empty numbers with [`Missing::Mean`] and [`Missing::Fitted`].
    pub means: Option<Vec<f64>>,
    /// Most bytes that rows may take where all of them are read at once; no limit by default.
    pub row_memory: usize,
    /// Largest size in bytes of a decompressed file.
    pub unpacked_limit: u64,
    /// Whether a file may be decompressed to very many times its size. Without, more than 8 MiB are refused beyond
    /// 400 times the compressed size: no usual data are compressed so much, and a small file could fill the memory.
    pub unpacked_any_ratio: bool,
}

/// Bytes that are unpacked whatever the size of the packed ones.
const SMALL: u64 = 8 << 20;
/// Beyond that, no usual data grow so many times.
pub(super) const MAX_RATIO: u64 = 400;

/// How much compressed bytes may be unpacked to.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnpackLimits {
    pub(super) bytes: u64,
    any_ratio: bool,
}

impl UnpackLimits {
    /// The largest size after decompression of so many bytes.
    pub(super) fn of(self, packed: u64) -> u64 {
        let usual =
            if self.any_ratio { u64::MAX } else { SMALL.max(packed.saturating_mul(MAX_RATIO)) };
        self.bytes.min(usual)
    }
}

impl Options {
    pub(super) fn unpack_limits(&self) -> UnpackLimits {
        UnpackLimits { bytes: self.unpacked_limit, any_ratio: self.unpacked_any_ratio }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            label: Label::default(),
            labels: None,
            id: None,
            missing: Missing::default(),
            one_hot: Vec::new(),
            zero_based: false,
            sort: false,
            precomputed: false,
            features: None,
            names: None,
            target: None,
            line_by_line: false,
            means: None,
            row_memory: usize::MAX,
            unpacked_limit: UNPACKED_LIMIT,
            unpacked_any_ratio: false,
        }
    }
}

/// How an empty field of a table is read. Unless it is refused, `?`, `NA`, `N/A`, `NaN` and `null` count
/// as empty too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missing {
    /// The mean of its column in the examples, where [`Options::means`] are given; else it is refused.
    #[default]
    Fitted,
    /// It is refused.
    Error,
    /// Zero.
    Zero,
    /// The mean of its column: one of [`Options::means`], or computed from this file, which is then held in memory.
    Mean,
    /// The row is left out.
    Drop,
}

/// Which column of a table is the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Label {
    /// The target column of the model, if it knows one; else a column named `label`, `target` or `class`; else, for
    /// a model, the only column that it does not need, and without a model the last column.
    #[default]
    Guess,
    /// There is none.
    Absent,
    /// The last column.
    Last,
    /// By name, or by number from 1.
    Column(String),
}

impl std::str::FromStr for Label {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "guess" => Self::Guess,
            "none" => Self::Absent,
            "last" => Self::Last,
            other => Self::Column(other.to_owned()),
        })
    }
}
