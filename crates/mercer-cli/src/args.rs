use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Learn a machine from examples
    Train(Train),
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
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Kernel (see `mercer list`); `scale` and `auto` stand for numbers that fit the data
    #[arg(long, default_value = "rbf(gamma=scale)", value_name = "KERNEL")]
    pub(crate) kernel: String,
    /// What is minimised (see `mercer list`)
    #[arg(long, default_value = "c_svc(C=1)", value_name = "TEXT")]
    pub(crate) formulation: String,
    /// How it is minimised (see `mercer list`)
    #[arg(long, default_value = "smo", value_name = "TEXT")]
    pub(crate) solver: String,
    /// How several classes become binary questions
    #[arg(long, default_value = "one-vs-one")]
    pub(crate) scheme: SchemeName,
    /// Largest violation of the optimality conditions that is accepted
    #[arg(long, default_value_t = 1e-3, value_name = "X")]
    pub(crate) tolerance: f64,
    /// Memory for packed rows and kept kernel rows: 512MiB, 2GiB, ...
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = size)]
    pub(crate) memory: usize,
    /// Stop after this time with the best machine so far (exit code 3): 90s, 10m, 2h, ...
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) time_limit: Option<Duration>,
    /// Stop after this many steps with the best machine so far (exit code 3)
    #[arg(long, value_name = "N")]
    pub(crate) max_iterations: Option<u64>,
    /// Multiply the weight of a class; may be given several times
    #[arg(long, value_name = "LABEL=WEIGHT", value_parser = class_weight)]
    pub(crate) class_weight: Vec<(String, f64)>,
    /// A file with one weight per example and line
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// Save the training to this file now and then
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Time from one checkpoint to the next
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub(crate) checkpoint_every: Duration,
    /// Continue from the checkpoint if there is one
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    /// Start from this model's coefficients
    #[arg(long, value_name = "MODEL")]
    pub(crate) warm_start: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemeName {
    /// A duel for each pair of classes, then a vote
    OneVsOne,
    /// A score for each class; the largest wins
    OneVsRest,
}

/// `90`, `90s`, `1.5m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("h", 3600.0), ("m", 60.0), ("s", 1.0), ("", 1.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(ending, unit)| text.strip_suffix(ending).map(|number| (number, unit)))
        .unwrap_or((text, &1.0));
    let seconds = number.trim().parse::<f64>().ok().map(|number| number * unit);
    let valid = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    valid.ok_or_else(|| "write a time as 90s, 10m or 2h".to_owned())
}

/// `1000000`, `512MiB`, `2GiB`.
fn size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)];
    let (number, unit) = units
        .iter()
        .find_map(|(ending, unit)| text.strip_suffix(ending).map(|number| (number, *unit)))
        .unwrap_or((text, 1));
    let bytes = number.trim().parse::<f64>().ok().map(|number| number * unit as f64);
    match bytes {
        Some(bytes) if bytes >= 1.0 && bytes < 1e18 => Ok(bytes as usize),
        _ => Err("write a size as 512MiB or 2GiB".to_owned()),
    }
}

fn class_weight(text: &str) -> Result<(String, f64), String> {
    let parsed = text.rsplit_once('=').and_then(|(label, weight)| {
        let weight = weight.parse::<f64>().ok().filter(|w| w.is_finite() && *w >= 0.0)?;
        Some((label.to_owned(), weight))
    });
    parsed.ok_or_else(|| "write a class weight as LABEL=WEIGHT, at least 0".to_owned())
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
