use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Kernel machines that answer fast, with the same decisions.
#[derive(Debug, Parser)]
#[command(name = "mercer", version = version(), propagate_version = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every verb takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Threads to use; all cores if not given
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Seed of everything random; the same seed gives the same result
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print nothing but results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How much to tell on standard error
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log_level: LogLevel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Turn a model file of another program into a mercer model
    Import(Import),
    /// Turn a model into a file of another program
    Export(Export),
    /// Tell what a model file holds
    Inspect(Inspect),
    /// Answer queries
    Predict(Predict),
    /// Measure how fast a model answers on this machine
    Bench(Bench),
    /// List kernels, file formats and instruction sets
    List,
    /// Show the main job end to end on data that come with the program
    Demo,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The model file to read
    pub(crate) source: PathBuf,
    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The model file to read
    pub(crate) model: PathBuf,
    /// Format to write (see `mercer list`)
    #[arg(long, default_value = "libsvm")]
    pub(crate) format: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The model file to read
    pub(crate) model: PathBuf,
}

/// How a data file is read.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The data file; `-` reads standard input, `.gz` is unpacked
    pub(crate) data: PathBuf,
    /// Reader to use; by the file's name if not given (see `mercer list`)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) input_format: Option<String>,
    /// Target column of a table: a name, a number from 1, `last`, `none` or `guess`
    #[arg(long, default_value = "guess", value_name = "COLUMN")]
    pub(crate) label: String,
    /// Indices of LIBSVM text count from 0
    #[arg(long)]
    pub(crate) zero_based: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Predict {
    /// The model file
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) input: Input,
    /// Where answers go; standard output if not given, nowhere with --json
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// How answers are written; by the output's name if not given
    #[arg(long)]
    pub(crate) format: Option<OutputFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table with label, range, certainty and cost
    Csv,
    /// One JSON object per line
    Jsonl,
    /// One label or value per line, as svm-predict writes
    Libsvm,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// The model file
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) input: Input,
    /// Repeats of each measurement; the best counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    /// Queries asked one at a time; fewer if the data hold fewer
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) single_queries: usize,
}

fn version() -> &'static str {
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    TEXT.get_or_init(|| {
        let isa = mercer::simd::Isa::current();
        format!("{} (instruction set: {isa})", env!("CARGO_PKG_VERSION"))
    })
}
