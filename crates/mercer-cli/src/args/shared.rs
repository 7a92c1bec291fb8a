//! Groups of options that several verbs share: how data are read, query options, and trust in plans.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mercer::data::read::Options;

use super::headings::{DATA, LIMITS, PLAN, SERVER};
use super::training::size;

/// How a data file is read.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The data file; `-` is standard input; .gz, .bz2, .xz and .zst files are decompressed
    pub(crate) data: PathBuf,
    /// Format of the data file (see `mercer list`); chosen by the file's name if not given
    #[arg(long, value_name = "FORMAT", help_heading = DATA, hide_short_help = true)]
    pub(crate) input_format: Option<String>,
    /// Target column of a table: a name, a number starting at 1, `last`, `none` or `guess`
    #[arg(long, default_value = "guess", value_name = "COLUMN", help_heading = DATA)]
    pub(crate) label: String,
    /// Column indices in LIBSVM text start at 0, not at 1
    #[arg(long, help_heading = DATA, hide_short_help = true)]
    pub(crate) zero_based: bool,
    /// A file with one target per row, for formats without targets
    #[arg(long, value_name = "FILE", help_heading = DATA, hide_short_help = true)]
    pub(crate) labels: Option<PathBuf>,
    /// Column of a table that holds ids of the rows: a name or a number starting at 1
    #[arg(long, value_name = "COLUMN", help_heading = DATA, hide_short_help = true)]
    pub(crate) id: Option<String>,
    /// What to do with missing values of a table; an error if not given, unless the model contains means
    #[arg(long, value_name = "POLICY", help_heading = DATA, hide_short_help = true)]
    pub(crate) missing: Option<MissingPolicy>,
    /// Columns of a table that hold categories: each category becomes a column of zeros and ones
    #[arg(
        long, value_name = "COLUMN,...", value_delimiter = ',',
        help_heading = DATA, hide_short_help = true
    )]
    pub(crate) one_hot: Vec<String>,
    /// Refuse compressed files that are larger than this after decompression; if not given, 64GiB, and above 8MiB 400
    /// times the size of the file
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = LIMITS, hide_short_help = true)]
    pub(crate) max_unpacked: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MissingPolicy {
    /// They are an error
    Error,
    /// They become zero
    Zero,
    /// They become the mean of their column in the training data; the means are stored in the model
    Mean,
    /// Their rows are left out
    Drop,
}

/// How much memory rows may take.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct MemoryFlag {
    /// Memory for rows that are read at once: 512MiB, 2GiB, ...; more rows are an error
    #[arg(
        long = "memory", default_value = "1GiB", value_name = "SIZE", value_parser = size,
        help_heading = LIMITS, hide_short_help = true
    )]
    pub(crate) rows: usize,
}

impl MemoryFlag {
    /// The same limit for a reader with these options.
    pub(crate) fn limit(self, options: Options) -> Options {
        Options { row_memory: self.rows, ..options }
    }
}

/// How far the plan of a model file is believed.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct PlanFlags {
    /// Believe the plan of the file without verification: only for files whose maker you trust
    #[arg(long, help_heading = PLAN, hide_short_help = true)]
    pub(crate) trust_plan: bool,
}

/// A server that answers instead of this program.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RemoteFlags {
    /// Take the answers from a server (`mercer serve`), such as http://127.0.0.1:8000
    #[arg(long, value_name = "URL", conflicts_with = "trust_plan", help_heading = SERVER)]
    pub(crate) server: Option<String>,
    /// A file with the token that the server wants
    #[arg(long, value_name = "FILE", requires = "server", help_heading = SERVER, hide_short_help = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate authorities (PEM) that the server's certificate must be of; needed for https
    #[arg(long, value_name = "FILE", requires = "server", help_heading = SERVER, hide_short_help = true)]
    pub(crate) server_ca: Option<PathBuf>,
}

/// Query options: budget, tolerance and required certainty.
#[derive(Debug, Args)]
pub(crate) struct QueryFlags {
    /// Most multiply-adds that a query may cost; a query that needs more gets the best answer so far, marked unsettled
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(crate) budget: Option<u64>,
    /// Time limit per query, in microseconds: converted once to multiply-adds, by the times that `tune` stored or else by
    /// times measured now, and printed as the --budget that gives the same answers
    #[arg(long, value_name = "T", conflicts_with = "budget", help_heading = LIMITS)]
    pub(crate) budget_us: Option<f64>,
    /// For regression: largest error of a value; a plan may stop when the value is proved to be this close
    #[arg(long, value_name = "T", help_heading = PLAN, hide_short_help = true)]
    pub(crate) value_tolerance: Option<f64>,
    /// With `certified`, every answer is certified or exact, even if that costs more than the budget
    #[arg(long, value_name = "CERTAINTY", help_heading = PLAN, hide_short_help = true)]
    pub(crate) require: Option<RequireName>,
    /// What the score is compared with in place of 0, for two classes and novelty: proved or exact, never calibrated
    #[arg(long, value_name = "T", allow_negative_numbers = true, help_heading = PLAN)]
    pub(crate) threshold: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequireName {
    /// Every answer is certified or exact
    Certified,
}
