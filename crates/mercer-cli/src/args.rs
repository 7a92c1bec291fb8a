//! The command line: one struct per verb, with the help texts.
//!
//! What a verb does is in `commands/`.

mod headings;
mod play;
mod serve;
mod shared;
mod training;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mercer::compile::tune::Contract;

use headings::{ATTRIBUTION, CHOICE, DATA, GENERAL, LIMITS, METHOD, OUTPUT, PLAN};
pub(crate) use play::Play;
pub(crate) use serve::Serve;
pub(crate) use shared::{
    Input, MemoryFlag, MissingPolicy, PlanFlags, QueryFlags, RemoteFlags, RequireName,
};
use training::duration;
pub(crate) use training::{CalibratorName, NO_DATA, SchemeName, Search, Train, TrainingFlags};

/// Kernel machines that answer fast, with the same decisions.
#[derive(Debug, Parser)]
#[command(name = "mercer", version = version(), propagate_version = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Threads to use, at most four for each core; all cores if not given
    #[arg(long, global = true, value_name = "N", help_heading = GENERAL)]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Seed of all random choices; the same seed gives the same result [default: 1]
    #[arg(long, global = true, value_name = "N", help_heading = GENERAL, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    /// Print nothing but results and errors
    #[arg(long, short, global = true, help_heading = GENERAL, hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Print one JSON object instead of text
    #[arg(long, global = true, help_heading = GENERAL)]
    pub(crate) json: bool,
    /// Which messages go to standard error
    #[arg(
        long, global = true, value_name = "LEVEL", default_value = "warn",
        help_heading = GENERAL, hide_short_help = true
    )]
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
    /// Convert a model file of another program to a mercer model
    Import(Import),
    /// Convert a model to the file format of another program
    Export(Export),
    /// Show what a model file contains
    Inspect(Inspect),
    /// Train a kernel machine (SVM) on examples
    Train(Train),
    /// Find the best kernel and formulation by cross-validation
    Search(Search),
    /// Predict the labels or values of queries
    Predict(Predict),
    /// Answer queries over HTTP (Open Inference Protocol)
    Serve(Serve),
    /// Train in the browser: points by clicking or a table of your own, and see every answer explained
    Play(Play),
    /// Check data before training, or a model before it is deployed
    Check(Check),
    /// Verify the plan of a model that comes from elsewhere: recompute what its certificates rest on
    Verify(Verify),
    /// Convert a data file to another format, or select some of its rows
    Convert(Convert),
    /// Make a model answer faster: find the fastest plan with a given guarantee
    Tune(Tune),
    /// Fit a plan of your choice to a model; a plan is a list of stages, cheap ones first
    Compile(Compile),
    /// Replace a machine by one with fewer vectors, and report the error
    Compress(Compress),
    /// Show step by step how one query is answered
    Explain(Explain),
    /// Measure how fast a model answers on this computer
    Bench(Bench),
    /// Compute the tables of a paper again and print them beside the published numbers
    Reproduce(Reproduce),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write one for each verb into a folder
    Man(Man),
    /// As LIBSVM's svm-train: the same flags and output, also when mercer is called by the name svm-train
    #[command(name = "svm-train", disable_help_flag = true)]
    SvmTrain(LibsvmArguments),
    /// As LIBSVM's svm-predict
    #[command(name = "svm-predict", disable_help_flag = true)]
    SvmPredict(LibsvmArguments),
    /// As LIBSVM's svm-scale
    #[command(name = "svm-scale", disable_help_flag = true)]
    SvmScale(LibsvmArguments),
    /// List kernels, solvers, stages, file formats, papers and instruction sets
    List,
    /// Show import, training and tuning on data that are built into the program
    Demo(Demo),
}

impl Verb {
    /// How its data file is read, for verbs with these options.
    pub(crate) fn input(&self) -> Option<&Input> {
        match self {
            Self::Train(train) => Some(&train.input),
            Self::Search(search) => Some(&search.input),
            Self::Predict(predict) => Some(&predict.input),
            Self::Check(check) => Some(&check.input),
            Self::Convert(convert) => Some(&convert.input),
            Self::Explain(explain) => Some(&explain.input),
            Self::Bench(bench) => Some(&bench.input),
            _ => None,
        }
    }
}

/// The arguments of LIBSVM's commands.
#[derive(Debug, Args)]
pub(crate) struct LibsvmArguments {
    /// Flags and files; without any, the usage is printed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The model file to read
    pub(crate) source: PathBuf,
    /// The model file to write
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The model file to read
    pub(crate) model: PathBuf,
    /// Format to write (see `mercer list`); by default that of the file's ending (.onnx, .c, .mercer), else libsvm
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) format: Option<String>,
    /// The file to write
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    /// Queries: count how many of their labels change if the written model is used instead
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub(crate) sample: Option<PathBuf>,
    /// How much of the plan goes into a C file; other formats hold the machine alone
    #[arg(long, value_name = "PART", default_value = "whole", help_heading = PLAN)]
    pub(crate) plan: PlanPart,
    #[command(flatten)]
    pub(crate) trust: PlanFlags,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
}

/// How much of a plan is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanPart {
    /// All of it: a stage that has no C is an error
    Whole,
    /// The stages that have C; all answers are then certified or exact
    Possible,
    /// Nothing: the machine alone
    None,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell; its start-up file can say `source <(mercer completions bash)`
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder to write `mercer.1`, `mercer-train.1`, ... into
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The model file to read
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) plan: PlanFlags,
}

/// Verify the plan of a model that comes from elsewhere.
///
/// Every constant that a certificate of the plan rests on is recomputed from the machine; one that is too small is an error.
/// A calibration cannot be recomputed: it is tested on --sample. What holds is remembered in the cache folder of the user
/// ($MERCER_CACHE_DIR, else `mercer` in $XDG_CACHE_HOME or ~/.cache), so that `predict` and other programs of this user
/// use the plan from then on. Models that this user compiled or tuned on this computer need no verification.
///
/// Exit codes: 0 verified; 1 a constant or the calibration is wrong, or the file cannot be read; 4 the constants are
/// verified, the calibration was not tested; 130 interrupted.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The model file to read
    pub(crate) model: PathBuf,
    /// Queries like those of later use, unknown to whoever made the file: the calibration is tested on them
    #[arg(long, value_name = "DATA", help_heading = DATA)]
    pub(crate) sample: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) input: Input,
    /// For a model: queries on which its labels are compared with those of exported models; its support vectors if
    /// not given
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub(crate) sample: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The file to write; `-` is standard output
    #[arg(required_unless_present = "output", value_name = "OUTPUT")]
    pub(crate) destination: Option<PathBuf>,
    /// The same as an option, as other verbs have it
    #[arg(short, long, value_name = "FILE", conflicts_with = "destination", help_heading = OUTPUT)]
    pub(crate) output: Option<PathBuf>,
    /// Format to write; chosen by the output's name if not given
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) format: Option<String>,
    /// File for the labels, if the format cannot hold them
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) labels_output: Option<PathBuf>,
    /// Apply the scaling of this model to the rows
    #[arg(long, value_name = "MODEL", help_heading = DATA, hide_short_help = true)]
    pub(crate) scaled_by: Option<PathBuf>,
    /// Sort the columns of each row of LIBSVM text
    #[arg(long, help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) sort: bool,
    /// Keep this fraction of the rows, drawn at random; --rest gets the others
    #[arg(
        long, value_name = "FRACTION", value_parser = fraction, conflicts_with = "sample",
        help_heading = OUTPUT
    )]
    pub(crate) split: Option<f64>,
    /// Keep this many rows, drawn at random; --rest gets the others
    #[arg(long, value_name = "N", help_heading = OUTPUT)]
    pub(crate) sample: Option<NonZero<usize>>,
    /// File for the rows that --split or --sample leave out
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) rest: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
}

impl Convert {
    /// Where the rows go.
    pub(crate) fn destination(&self) -> &Path {
        self.destination.as_ref().or(self.output.as_ref()).map_or(Path::new("-"), PathBuf::as_path)
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| *value > 0.0 && *value < 1.0);
    value.ok_or_else(|| "write a fraction between 0 and 1, such as 0.8".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Predict {
    /// The model file; with --server the name of a model there, or NAME/VERSION
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) input: Input,
    /// File for the answers; standard output if not given, none with --json
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: Option<PathBuf>,
    /// Format of the answers; chosen by the output's name if not given
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) format: Option<OutputFormat>,
    /// Also write the probability of each class, if the model was trained with --probabilities
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) probabilities: bool,
    /// Answer the other rows if a row has no answer (a value or a score overflows, or the kernel needs values of at
    /// least 0); such rows are reported, and left out of csv and jsonl, or an empty line in libsvm
    #[arg(long, conflicts_with = "server", help_heading = DATA, hide_short_help = true)]
    pub(crate) skip_bad_rows: bool,
    /// Write prediction sets, or intervals of a regression, in place of answers: they hold the true target with the
    /// probability that `tune --coverage` calibrated; csv or jsonl
    #[arg(
        long, help_heading = OUTPUT, hide_short_help = true,
        conflicts_with_all = ["probabilities", "skip_bad_rows", "audit", "server", "budget", "budget_us", "threshold"]
    )]
    pub(crate) sets: bool,
    /// With --sets: a row that fits no class well enough gets an empty set, so that the coverage is the one asked; without, the
    /// label always belongs to its set, and accurate machines cover more
    #[arg(long, requires = "sets", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) empty_sets: bool,
    #[command(flatten)]
    pub(crate) query: QueryFlags,
    /// Also evaluate this fraction of the queries exactly (chosen at random, by --seed), and warn if calibrated answers
    /// disagree with exact ones more often than the contract allows
    #[arg(long, value_name = "FRACTION", conflicts_with = "server", help_heading = PLAN)]
    pub(crate) audit: Option<f64>,
    /// Rows like those that are expected: queries are audited in proportion to their distance from these rows as a whole
    #[arg(long, value_name = "DATA", requires = "audit", help_heading = PLAN, hide_short_help = true)]
    pub(crate) audit_sample: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteFlags,
    #[command(flatten)]
    pub(crate) plan: PlanFlags,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
}

#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// The model file to read
    pub(crate) model: PathBuf,
    /// Queries like those of later use, none of them a training row
    #[arg(long, value_name = "DATA", help_heading = DATA)]
    pub(crate) sample: PathBuf,
    /// The guarantee for answers: exact, certified, or 'calibrated(eps=1e-3, delta=0.05)'
    #[arg(
        long, default_value = "certified", value_name = "CONTRACT", value_parser = contract,
        help_heading = PLAN
    )]
    pub(crate) contract: Contract,
    /// What must be fast
    #[arg(long = "for", default_value = "throughput", value_name = "AIM", help_heading = PLAN)]
    pub(crate) aim: AimName,
    /// Time limit per query, in microseconds; a query that needs more gets the best answer so far, marked unsettled
    #[arg(long, value_name = "T", help_heading = LIMITS)]
    pub(crate) budget_us: Option<f64>,
    /// Share of the queries that --budget-us may leave unsettled; if it leaves more, nothing is written
    #[arg(
        long, default_value_t = 0.01, value_name = "SHARE", requires = "budget_us",
        help_heading = LIMITS, hide_short_help = true
    )]
    pub(crate) unsettled: f64,
    /// For regression: largest error of a value; a plan may stop when the value is proved to be this close
    #[arg(long, value_name = "T", help_heading = PLAN, hide_short_help = true)]
    pub(crate) tolerance: Option<f64>,
    /// Also calibrate prediction sets that hold the true target with this probability, on a third of the sample, which needs
    /// targets; the plan is tuned on the rest (`predict --sets`)
    #[arg(long, value_name = "C", help_heading = PLAN, hide_short_help = true)]
    pub(crate) coverage: Option<f64>,
    /// Training rows of the machine: some stages are fitted to them; nothing is tested on them
    #[arg(long, value_name = "DATA", help_heading = DATA)]
    pub(crate) training: Option<PathBuf>,
    /// Accept the sample even if many of its rows equal support vectors of the machine
    #[arg(long, help_heading = DATA, hide_short_help = true)]
    pub(crate) trust_sample: bool,
    /// Stop the search after this time and keep the best plan so far
    #[arg(long, default_value = "120s", value_name = "TIME", value_parser = duration, help_heading = LIMITS)]
    pub(crate) time_limit: Duration,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
    /// The model file to write
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
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
    /// The plan: `exact`, one stage, or `cascade(stage, ..., exact)`; `mercer list` shows the stages
    #[arg(long, value_name = "PLAN", help_heading = PLAN)]
    pub(crate) plan: String,
    /// Queries like those of later use, none of them a training row; plans with estimates are calibrated on them
    #[arg(long, value_name = "DATA", help_heading = DATA)]
    pub(crate) sample: Option<PathBuf>,
    /// Training rows of the machine: some stages select from them or are fitted to them; nothing is calibrated
    /// on them
    #[arg(long, value_name = "DATA", help_heading = DATA)]
    pub(crate) training: Option<PathBuf>,
    /// Largest fraction of queries whose label may disagree with the exact one (or of excess errors, see --risk)
    #[arg(long, default_value_t = 1e-3, value_name = "X", help_heading = PLAN)]
    pub(crate) eps: f64,
    /// Probability that the guarantee fails because the sample was not representative
    #[arg(long, default_value_t = 0.05, value_name = "X", help_heading = PLAN)]
    pub(crate) delta: f64,
    /// What the limit --eps is for
    #[arg(
        long, default_value = "disagreements", value_name = "RISK",
        help_heading = PLAN, hide_short_help = true
    )]
    pub(crate) risk: RiskName,
    /// Generate this many rows across the decision boundary, near supports of the other side, and take the errors of
    /// estimates and the thresholds of `nearest` from them too; nothing is tested on them
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = PLAN, hide_short_help = true)]
    pub(crate) boundary: usize,
    /// Accept the sample even if many of its rows equal support vectors of the machine
    #[arg(long, help_heading = DATA, hide_short_help = true)]
    pub(crate) trust_sample: bool,
    /// The model file to write
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RiskName {
    /// Disagreements with the exact labels; the sample needs no labels
    Disagreements,
    /// Errors in addition to those of exact labels; the sample must have labels
    ExcessError,
}

#[derive(Debug, Args)]
pub(crate) struct Compress {
    /// The model file to read
    pub(crate) model: PathBuf,
    /// Compression method (see `mercer list`)
    #[arg(long, default_value = "greedy", value_name = "METHOD", help_heading = METHOD)]
    pub(crate) method: String,
    /// Keep this many vectors
    #[arg(long, value_name = "K", group = "goal", help_heading = METHOD)]
    pub(crate) size: Option<NonZero<usize>>,
    /// Use the fewest vectors with |W - W~| at most this fraction of |W|; W and W~ are the weight vectors (in feature
    /// space) of the machine and of the smaller one
    #[arg(long, value_name = "E", group = "goal", value_parser = share, help_heading = METHOD)]
    pub(crate) error: Option<f64>,
    /// Use the fewest vectors with at most this fraction of disagreements on --sample
    #[arg(
        long, value_name = "P", group = "goal", requires = "sample", value_parser = share,
        help_heading = METHOD
    )]
    pub(crate) disagreement: Option<f64>,
    /// Use the fewest vectors that certify at least this fraction of the labels of --sample
    #[arg(
        long, value_name = "Q", group = "goal", requires = "sample", value_parser = share,
        help_heading = METHOD
    )]
    pub(crate) certified: Option<f64>,
    /// Queries like those of later use: disagreements and certified labels are counted on them
    #[arg(long, value_name = "DATA", help_heading = DATA)]
    pub(crate) sample: Option<PathBuf>,
    /// Training rows of the machine, for methods that use them
    #[arg(long, value_name = "DATA", help_heading = DATA)]
    pub(crate) training: Option<PathBuf>,
    /// For regression: two values that differ by at most this count as the same answer
    #[arg(long, value_name = "T", help_heading = METHOD, hide_short_help = true)]
    pub(crate) value_tolerance: Option<f64>,
    /// For linear kernels: keep vectors, instead of one weight vector
    #[arg(long, help_heading = METHOD, hide_short_help = true)]
    pub(crate) keep_vectors: bool,
    /// Write an HTML page with sizes and errors
    #[arg(long, value_name = "HTML", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
    /// Draw sizes and errors into this SVG file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) svg: Option<PathBuf>,
    /// The model file to write
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
}

fn share(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| "write a fraction from 0 to 1, such as 0.01".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper (see `mercer list`), or `all` for one page with all papers
    pub(crate) paper: String,
    /// Folder with data that are not part of the program (`mnist/t10k-images-idx3-ubyte.gz`);
    /// $MERCER_DATA if not given
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub(crate) data: Option<PathBuf>,
    /// Only these machines or parts: for decoste03 Sonar, Haberman, 'MNIST 3v8', 'MNIST 0v1', 'low rank'; for dm03
    /// 0v1 to 8v9, 'ten classes', 'even odd'; for og98 'Ripley linear', 'Ripley RBF', Sonar,
    /// digits, banana, Abalone, Adult, 'MNIST 3v8', 'MNIST 3v8 2k', and the parts results, goals, sizes, cascades; for fs01 'example 1', toy, factorisation, pivots, Abalone, problems, rank; for yw12
    /// MNIST, gradients, covtype, Adult, '20 Newsgroups', sector, 'visual words', interpolation, sweeps, growth
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = CHOICE)]
    pub(crate) only: Vec<String>,
    /// For dm03: only this method, paper, 'paper, no filter', 'paper, cross-validated', held-out, 'held-out, no
    /// filter', default, or tuned (the plan of `mercer tune` on 3v8, 'ten classes', 'even odd'); for yw12 'ours,
    /// chi2', 'ours, intersection', 'PmSVM-LUT, chi2', ... or linear; may be given several times
    #[arg(long, value_name = "NAME", help_heading = CHOICE, hide_short_help = true)]
    pub(crate) method: Vec<String>,
    /// How often each measurement is repeated; the shortest time is reported
    #[arg(long, default_value = "5", value_name = "N", help_heading = CHOICE, hide_short_help = true)]
    pub(crate) repeats: u32,
    /// For fs01 and yw12: largest number of training rows of a set, and of the part `growth` of yw12
    #[arg(long, default_value = "10000000", value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(crate) rows: usize,
    /// For yw12: instead of measuring, write the rows of the sets into this folder as LIBSVM text
    #[arg(long, value_name = "DIR", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) write_rows: Option<PathBuf>,
    /// Folder for the paper's figures, KEY-NAME.svg each
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) figures: Option<PathBuf>,
    /// Only the smaller machines of each paper, from at most 5,000 rows, each timed once: at most two minutes on two
    /// cores for each paper
    #[arg(long, conflicts_with = "only", help_heading = CHOICE)]
    pub(crate) quick: bool,
    /// For `all`: the folder for the page and the tables
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// File for the report, one HTML page [default: mercer-demo.html, in the folder target/ of a clone of the sources]
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The model file
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) input: Input,
    /// Number of the row in the data, starting at 1
    #[arg(long, default_value = "1", value_name = "N", help_heading = DATA)]
    pub(crate) row: NonZero<usize>,
    /// Draw the range of the score after each step, or the contributions of columns, into this SVG file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) svg: Option<PathBuf>,
    /// Write the steps, or the contributions of columns, as one HTML page
    #[arg(long, value_name = "HTML", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) attribution: AttributionFlags,
    #[command(flatten)]
    pub(crate) query: QueryFlags,
    #[command(flatten)]
    pub(crate) plan: PlanFlags,
}

/// Which columns moved the score.
#[derive(Debug, Args)]
pub(crate) struct AttributionFlags {
    /// Print how much each column moved the score away from its mean over the background rows (Shapley values)
    #[arg(long, requires = "background", help_heading = ATTRIBUTION)]
    pub(crate) attribute: bool,
    /// Rows to compare with, read like the data: rows of the training set, or typical ones; cost grows with their number
    #[arg(long, value_name = "FILE", requires = "attribute", help_heading = ATTRIBUTION)]
    pub(crate) background: Option<PathBuf>,
    /// Use the first N background rows only
    #[arg(long, value_name = "N", requires = "attribute", help_heading = ATTRIBUTION, hide_short_help = true)]
    pub(crate) background_rows: Option<NonZero<usize>>,
    /// Explain the score of this class: against --against, or with one-vs-rest against all others. If not given, the score
    /// that decides: that of the winner against the runner-up, or of the winner
    #[arg(long, value_name = "LABEL", requires = "attribute", help_heading = ATTRIBUTION, hide_short_help = true)]
    pub(crate) class: Option<String>,
    /// The other class of the score to explain
    #[arg(long, value_name = "LABEL", requires = "class", help_heading = ATTRIBUTION, hide_short_help = true)]
    pub(crate) against: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
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
    /// How often each measurement is repeated; the shortest time is reported
    #[arg(
        long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000),
        help_heading = CHOICE
    )]
    pub(crate) repeats: u32,
    /// Number of queries to time one at a time; all if the data have fewer
    #[arg(long, default_value_t = 1000, value_name = "N", help_heading = CHOICE)]
    pub(crate) single_queries: usize,
    #[command(flatten)]
    pub(crate) plan: PlanFlags,
    #[command(flatten)]
    pub(crate) memory: MemoryFlag,
}

fn version() -> &'static str {
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    TEXT.get_or_init(|| {
        let isa = mercer::simd::Isa::current();
        format!("{} (instruction set: {isa})", env!("CARGO_PKG_VERSION"))
    })
}
