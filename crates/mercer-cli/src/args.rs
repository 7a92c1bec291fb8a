mod learning;

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mercer::compile::tune::Contract;

pub(crate) use learning::{CalibratorName, Learning, SchemeName, Search, Train};
use learning::{duration, size};

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
    /// Find the kernel and the formulation that answer best, by cross-validation
    Search(Search),
    /// Answer queries
    Predict(Predict),
    /// Look at data before training, or at a model before it is shipped
    Check(Check),
    /// Turn a data file into another format, or take some of its rows
    Convert(Convert),
    /// Find the fastest plan that honours a contract, and see why
    Tune(Tune),
    /// Fit a plan of stages to a model, so that easy queries cost little
    Compile(Compile),
    /// Turn a machine into one of fewer vectors, and tell how far it is from the first
    Compress(Compress),
    /// Show how one query is answered, step by step
    Explain(Explain),
    /// Measure how fast a model answers on this machine
    Bench(Bench),
    /// Make the tables of a paper anew, beside what it prints
    Reproduce(Reproduce),
    /// Print what a shell needs to complete commands and options
    Completions(Completions),
    /// Print the manual page, or write one for each verb into a folder
    Man(Man),
    /// LIBSVM's svm-train with its flags and its lines; a link to mercer of that name does the same
    #[command(name = "svm-train", disable_help_flag = true)]
    SvmTrain(LibsvmWords),
    /// LIBSVM's svm-predict
    #[command(name = "svm-predict", disable_help_flag = true)]
    SvmPredict(LibsvmWords),
    /// LIBSVM's svm-scale
    #[command(name = "svm-scale", disable_help_flag = true)]
    SvmScale(LibsvmWords),
    /// List kernels, file formats and instruction sets
    List,
    /// Show the main job end to end on data that come with the program
    Demo(Demo),
}

/// Words as LIBSVM's commands take them.
#[derive(Debug, Args)]
pub(crate) struct LibsvmWords {
    /// Flags and files; without any, the usage is printed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    pub(crate) words: Vec<String>,
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
    /// Queries on which the labels of the written file are compared
    #[arg(long, value_name = "FILE")]
    pub(crate) sample: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell; its start-up file reads what is printed: `source <(mercer completions bash)`
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder to write `mercer.1`, `mercer-train.1`, ... into
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The model file to read
    pub(crate) model: PathBuf,
}

/// How a data file is read.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The data file; `-` reads standard input; .gz, .bz2, .xz and .zst are unpacked
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
    /// A file with one target per row, for formats that hold none
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// Column of a table that only names rows: a name or a number from 1
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Option<String>,
    /// What an empty field of a table stands for; refused if not given, unless a model carries means
    #[arg(long, value_name = "POLICY")]
    pub(crate) missing: Option<MissingPolicy>,
    /// Columns of a table that hold categories: each category becomes a column of zeros and ones
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub(crate) one_hot: Vec<String>,
    /// How much a packed file may unpack to
    #[arg(long, default_value = "64GiB", value_name = "SIZE", value_parser = size)]
    pub(crate) max_unpacked: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MissingPolicy {
    /// It is refused
    Error,
    /// Zero
    Zero,
    /// The mean of its column among the examples; it travels with the model
    Mean,
    /// The row is left out
    Drop,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) input: Input,
    /// For a model: queries on which exports are compared; its supports if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) sample: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The file to write
    pub(crate) output: PathBuf,
    /// Format to write; by the output's name if not given
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Where labels go if the format holds none
    #[arg(long, value_name = "FILE")]
    pub(crate) labels_output: Option<PathBuf>,
    /// Scale the rows as this model scales its queries
    #[arg(long, value_name = "MODEL")]
    pub(crate) scaled_by: Option<PathBuf>,
    /// Sort the columns of each row of LIBSVM text
    #[arg(long)]
    pub(crate) sort: bool,
    /// Keep this share of the rows, drawn at random; --rest takes the others
    #[arg(long, value_name = "FRACTION", value_parser = fraction, conflicts_with = "sample")]
    pub(crate) split: Option<f64>,
    /// Keep this many rows, drawn at random; --rest takes the others
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<NonZero<usize>>,
    /// Where the rows go that --split or --sample leave out
    #[arg(long, value_name = "FILE")]
    pub(crate) rest: Option<PathBuf>,
}

fn fraction(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| *value > 0.0 && *value < 1.0);
    value.ok_or_else(|| "write a share between 0 and 1, as 0.8".to_owned())
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
    /// Write the probability of each class too, as the model's training fitted it
    #[arg(long)]
    pub(crate) probabilities: bool,
    #[command(flatten)]
    pub(crate) demands: Demands,
    /// Ask this share of the queries again exactly, drawn by --seed, and warn if calibrated answers are wrong
    /// more often than promised
    #[arg(long, value_name = "SHARE")]
    pub(crate) audit: Option<f64>,
    /// Audit queries far from these rows up to eight times as often
    #[arg(long, value_name = "DATA", requires = "audit")]
    pub(crate) audit_sample: Option<PathBuf>,
}

/// What answers may cost and must be.
#[derive(Debug, Args)]
pub(crate) struct Demands {
    /// Most kernel values that one query may cost; queries that need more are marked unsettled
    #[arg(long, value_name = "K")]
    pub(crate) budget_kernels: Option<u64>,
    /// Most microseconds that one query may cost: they become multiply-adds at the rate of this machine,
    /// which is measured and printed
    #[arg(long, value_name = "N", conflicts_with = "budget_kernels")]
    pub(crate) budget_us: Option<f64>,
    /// Multiply-adds in a microsecond, instead of measuring them: gives the same answers anywhere
    #[arg(long, value_name = "R", requires = "budget_us")]
    pub(crate) rate: Option<f64>,
    /// Half-width at which the value of a regression is settled
    #[arg(long, value_name = "T")]
    pub(crate) value_tolerance: Option<f64>,
    /// `certified`: queries whose budget does not suffice are answered exactly all the same
    #[arg(long, value_name = "WORD")]
    pub(crate) require: Option<RequireName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequireName {
    /// Every answer is certified or exact
    Certified,
}

#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// The model file to read
    pub(crate) model: PathBuf,
    /// Queries such as will be asked, none a training row
    #[arg(long, value_name = "DATA")]
    pub(crate) sample: PathBuf,
    /// What answers must be: exact, certified, or 'calibrated(eps=1e-3, delta=0.05)'
    #[arg(long, default_value = "certified", value_name = "CONTRACT", value_parser = contract)]
    pub(crate) contract: Contract,
    /// What is to be fast
    #[arg(long = "for", default_value = "throughput", value_name = "AIM")]
    pub(crate) aim: AimName,
    /// Most microseconds that one query may take; what needs longer is marked unsettled
    #[arg(long, value_name = "N")]
    pub(crate) budget_us: Option<f64>,
    /// Half-width at which the value of a regression is settled
    #[arg(long, value_name = "T")]
    pub(crate) tolerance: Option<f64>,
    /// Rows the machine was trained on: some stages learn from them; nothing is tested on them
    #[arg(long, value_name = "DATA")]
    pub(crate) training: Option<PathBuf>,
    /// Take the sample even if many of its rows equal supports of the machine
    #[arg(long)]
    pub(crate) trust_sample: bool,
    /// End the search after this time with the best so far
    #[arg(long, default_value = "120s", value_name = "TIME", value_parser = duration)]
    pub(crate) time_limit: Duration,
    /// Write a report for people: one HTML page, no network needed
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AimName {
    /// One query at a time, on one thread
    Latency,
    /// Batches, on all threads
    Throughput,
}

fn contract(text: &str) -> Result<Contract, String> {
    text.parse().map_err(|error: mercer::spec::SpecError| error.to_string())
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    /// The model file to read
    pub(crate) model: PathBuf,
    /// The plan: `exact`, `cascade(stage, ..., exact)` with stages of `mercer list`, or one stage
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: String,
    /// Queries such as will be asked, none a training row; plans that estimate are calibrated on them
    #[arg(long, value_name = "DATA")]
    pub(crate) sample: Option<PathBuf>,
    /// Rows the machine was trained on: some stages choose among them or learn from them; nothing is
    /// calibrated on them
    #[arg(long, value_name = "DATA")]
    pub(crate) training: Option<PathBuf>,
    /// Share of queries that may get another label than the exact one, or be wrong in excess of it
    #[arg(long, default_value_t = 1e-3, value_name = "X")]
    pub(crate) eps: f64,
    /// How probably the sample may mislead
    #[arg(long, default_value_t = 0.05, value_name = "X")]
    pub(crate) delta: f64,
    /// What the promise counts
    #[arg(long, default_value = "other-labels", value_name = "RISK")]
    pub(crate) risk: RiskName,
    /// Make up this many rows near the boundary for the scales of estimates; nothing is tested on them
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) boundary: usize,
    /// Take the sample even if many of its rows equal supports of the machine
    #[arg(long)]
    pub(crate) trust_sample: bool,
    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RiskName {
    /// Labels other than the exact one; the sample needs no labels
    Disagreements,
    /// Errors beyond those of exact answers; the sample must be labelled
    ExcessError,
}

#[derive(Debug, Args)]
pub(crate) struct Compress {
    /// The model file to read
    pub(crate) model: PathBuf,
    /// How vectors are found (see `mercer list`)
    #[arg(long, default_value = "greedy", value_name = "METHOD")]
    pub(crate) method: String,
    /// Keep this many vectors
    #[arg(long, value_name = "K", group = "goal")]
    pub(crate) size: Option<NonZero<usize>>,
    /// The fewest vectors with |W - W~| at most this share of |W|
    #[arg(long, value_name = "E", group = "goal", value_parser = share)]
    pub(crate) error: Option<f64>,
    /// The fewest vectors that give at most this share of --sample another label
    #[arg(long, value_name = "P", group = "goal", requires = "sample", value_parser = share)]
    pub(crate) disagreement: Option<f64>,
    /// The fewest vectors that prove the label of at least this share of --sample
    #[arg(long, value_name = "Q", group = "goal", requires = "sample", value_parser = share)]
    pub(crate) certified: Option<f64>,
    /// Queries such as will be asked: other labels and certified ones are counted on them
    #[arg(long, value_name = "DATA")]
    pub(crate) sample: Option<PathBuf>,
    /// Rows the machine was trained on, for methods that use them
    #[arg(long, value_name = "DATA")]
    pub(crate) training: Option<PathBuf>,
    /// How far a value of a regression may be off and still count as the same answer
    #[arg(long, value_name = "T")]
    pub(crate) value_tolerance: Option<f64>,
    /// Linear machines keep vectors instead of becoming their weights
    #[arg(long)]
    pub(crate) keep_vectors: bool,
    /// Write a page with the curve of sizes and errors
    #[arg(long, value_name = "HTML")]
    pub(crate) report: Option<PathBuf>,
    /// Draw the curve of sizes and errors
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

fn share(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| "write a share from 0 to 1, as 0.01".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper (see `mercer list`), or `all` for every one on one page
    pub(crate) paper: String,
    /// Folder with the data that do not come with the program (`mnist/t10k-images-idx3-ubyte.gz`);
    /// $MERCER_DATA if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Only these machines: for decoste03 Sonar, Haberman, 'MNIST 3v8', 'MNIST 0v1', 'low rank'; for dm03
    /// 0v1 to 8v9, 'ten classes', 'even odd'; for og98 'Ripley linear', 'Ripley RBF', banana, Abalone,
    /// Adult, 'MNIST 3v8'; for fs01 'example 1', toy, factorisation, pivots, Abalone, problems, rank; for yw12
    /// MNIST, gradients, covtype, Adult, '20 Newsgroups', sector, 'visual words', interpolation, sweeps, growth
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// For dm03: only this method, paper, 'paper, no filter', 'paper, cross-validated', held-out, 'held-out, no
    /// filter', default, or tuned (what `mercer tune` finds on 3v8, 'ten classes', 'even odd'); for yw12 'ours,
    /// chi2', 'ours, intersection', 'PmSVM-LUT, chi2', ... or linear; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Vec<String>,
    /// Timings of which the best counts
    #[arg(long, default_value = "5", value_name = "N")]
    pub(crate) repeats: u32,
    /// For fs01 and yw12: at most so many rows to learn from in every set; yw12's growth goes up to it
    #[arg(long, default_value = "10000000", value_name = "N")]
    pub(crate) rows: usize,
    /// For yw12: instead of measuring, write the rows of the sets into this folder as LIBSVM text
    #[arg(long, value_name = "DIR")]
    pub(crate) write_rows: Option<PathBuf>,
    /// A picture: bounds against steps for a few queries of the first machine, its steps against scores,
    /// sizes and errors, or ranks and errors
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// For `all`: only the smaller machines of each paper, from at most 5,000 rows, each timed once
    #[arg(long, conflicts_with = "only")]
    pub(crate) quick: bool,
    /// For `all`: the folder in which the page and the tables go
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where the report goes: one HTML page
    #[arg(long, default_value = "mercer-demo.html", value_name = "FILE")]
    pub(crate) report: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The model file
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) input: Input,
    /// Which row of the data, from 1
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) row: NonZero<usize>,
    /// Draw the ranges against the cost into this SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) demands: Demands,
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
