//! Groups of options that several verbs share: how data are read, and query options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::training::size;

/// How a data file is read.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The data file; `-` is standard input; .gz, .bz2, .xz and .zst files are decompressed
    pub(crate) data: PathBuf,
    /// Format of the data file (see `mercer list`); chosen by the file's name if not given
    #[arg(long, value_name = "FORMAT")]
    pub(crate) input_format: Option<String>,
    /// Target column of a table: a name, a number starting at 1, `last`, `none` or `guess`
    #[arg(long, default_value = "guess", value_name = "COLUMN")]
    pub(crate) label: String,
    /// Indices of LIBSVM text start at 0
    #[arg(long)]
    pub(crate) zero_based: bool,
    /// A file with one target per row, for formats without targets
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// Column of a table that holds ids of the rows: a name or a number starting at 1
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Option<String>,
    /// How missing values of a table are treated; an error if not given, unless the model contains means
    #[arg(long, value_name = "POLICY")]
    pub(crate) missing: Option<MissingPolicy>,
    /// Columns of a table that hold categories: each category becomes a column of zeros and ones
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub(crate) one_hot: Vec<String>,
    /// Largest size of a compressed file after decompression
    #[arg(long, default_value = "64GiB", value_name = "SIZE", value_parser = size)]
    pub(crate) max_unpacked: usize,
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

/// Query options: budget, tolerance and required certainty.
#[derive(Debug, Args)]
pub(crate) struct QueryFlags {
    /// Most kernel values per query; queries that need more are marked unsettled
    #[arg(long, value_name = "K")]
    pub(crate) budget_kernels: Option<u64>,
    /// Most microseconds per query; converted to multiply-adds at the rate of this computer, which is measured
    /// and printed
    #[arg(long, value_name = "N", conflicts_with = "budget_kernels")]
    pub(crate) budget_us: Option<f64>,
    /// Multiply-adds per microsecond, instead of measuring: gives the same answers on every computer
    #[arg(long, value_name = "R", requires = "budget_us")]
    pub(crate) rate: Option<f64>,
    /// Half-width at which the value of a regression is settled
    #[arg(long, value_name = "T")]
    pub(crate) value_tolerance: Option<f64>,
    /// `certified`: a query whose budget is too small is answered exactly anyway
    #[arg(long, value_name = "CERTAINTY")]
    pub(crate) require: Option<RequireName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequireName {
    /// Every answer is certified or exact
    Certified,
}
