use std::path::PathBuf;

/// Packed files may unpack to this many bytes unless told otherwise.
const UNPACKED_LIMIT: u64 = 64 << 30;

/// How a file is to be read.
#[derive(Debug, Clone)]
pub struct Options {
    /// The reader's name; by the file's first bytes or its name if not given.
    pub format: Option<String>,
    /// Which column of a table is the target.
    pub label: Label,
    /// A second file with one target per row.
    pub labels: Option<PathBuf>,
    /// A column of a table, by name or number from 1, that only names rows.
    pub id: Option<String>,
    /// What an empty field of a table stands for.
    pub missing: Missing,
    /// Columns of a table, by name or number from 1, that hold categories: each category becomes a column.
    pub one_hot: Vec<String>,
    /// LIBSVM text whose indices count from 0.
    pub zero_based: bool,
    /// LIBSVM text whose indices may stand in any order.
    pub sort: bool,
    /// LIBSVM text that starts each row with `0:serial`, as precomputed kernels do.
    pub precomputed: bool,
    /// Rows must carry targets: a table whose target column is neither named nor told takes the last.
    pub targets_needed: bool,
    /// Number of features expected: a table with one column more carries its target in the last one.
    pub features: Option<usize>,
    /// Names of the features expected: a table with names gives these columns in this order, and
    /// `column=category` where that column holds categories.
    pub names: Option<Vec<String>>,
    /// Means of the examples, one per feature expected (any number where a column holds a category): what
    /// [`Missing::Mean`] and [`Missing::Fitted`] put into the place of empty numbers.
    pub means: Option<Vec<f64>>,
    /// Bytes a packed file may unpack to.
    pub unpacked_limit: u64,
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
            targets_needed: false,
            features: None,
            names: None,
            means: None,
            unpacked_limit: UNPACKED_LIMIT,
        }
    }
}

/// What an empty field of a table stands for. Where it is not refused, `?`, `NA`, `N/A`, `NaN` and `null` count
/// as empty too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missing {
    /// The mean of its column in the examples, where [`Options::means`] are given; else it is refused.
    #[default]
    Fitted,
    /// Nothing: it is refused.
    Error,
    /// Zero.
    Zero,
    /// The mean of its column: one of [`Options::means`], or learned from this file, which is then held whole.
    Mean,
    /// The row is left out.
    Drop,
}

/// Which column of a table is the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Label {
    /// A column named `label`, `target` or `class`; else the last one, if there is one more than features.
    #[default]
    Estimate,
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
            "guess" => Self::Estimate,
            "none" => Self::Absent,
            "last" => Self::Last,
            other => Self::Column(other.to_owned()),
        })
    }
}
