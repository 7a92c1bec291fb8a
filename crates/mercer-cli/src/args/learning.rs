//! How `train` and `search` are asked.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Input;

/// How machines are trained, whoever asks.
#[derive(Debug, Args)]
pub(crate) struct Learning {
    /// Scaling of the rows (see `mercer list`): fitted on the examples, kept with the model, applied to queries
    #[arg(long, value_name = "SCALING")]
    pub(crate) scale: Option<String>,
    /// How it is minimised (see `mercer list`); `direct` for linear systems and `smo` for the rest if not given
    #[arg(long, value_name = "TEXT")]
    pub(crate) solver: Option<String>,
    /// How several classes become binary questions
    ///
    /// Solvers of tables and direct take one-vs-rest unless told otherwise, smo one-vs-one.
    #[arg(long)]
    pub(crate) scheme: Option<SchemeName>,
    /// Largest violation of the optimality conditions that is accepted
    ///
    /// Unless given, 1e-3 for smo, 0.1 for solvers of tables, 1e-6 for direct. low_rank takes it as the duality
    /// gap, a share of the objective (1e-3).
    #[arg(long, value_name = "X")]
    pub(crate) tolerance: Option<f64>,
    /// Memory of the whole training, data included: 512MiB, 2GiB, ...
    ///
    /// Solvers of tables keep packed rows that it does not hold in a temporary file without a name, and leave a file
    /// larger than half of it unread: its rows come in pieces.
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = size)]
    pub(crate) memory: usize,
    /// Stop after this time with the best so far (exit code 3): 90s, 10m, 2h, ...
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) time_limit: Option<Duration>,
    /// Stop a training after this many steps with the best so far (exit code 3)
    #[arg(long, value_name = "N")]
    pub(crate) max_iterations: Option<u64>,
    /// Multiply the weight of a class; may be given several times
    #[arg(long, value_name = "LABEL=WEIGHT", value_parser = class_weight)]
    pub(crate) class_weight: Vec<(String, f64)>,
    /// A file with one weight per example and line
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// Cross-validate in these folds: a file with the fold of each example, from 0, one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) folds: Option<PathBuf>,
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
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Cross-validate in this many folds first
    #[arg(long, value_name = "N")]
    pub(crate) cv: Option<usize>,
    /// Fit probabilities of the classes to scores of cross-validation (five folds unless --cv says more)
    #[arg(long, value_name = "KIND")]
    pub(crate) probabilities: Option<CalibratorName>,
    /// Save the training to this file now and then
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Time from one checkpoint to the next
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub(crate) checkpoint_every: Duration,
    /// Continue from the checkpoint if there is one
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    /// Lead a low-rank solution on to the exact machine
    #[arg(long)]
    pub(crate) polish: bool,
    /// Start from this model's coefficients
    #[arg(long, value_name = "MODEL")]
    pub(crate) warm_start: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Kernels: values in braces, {0.1, 1, 10} or {2^-15..2^3; 7} for 7 values of equal ratio
    #[arg(long, default_value = "rbf(gamma={2^-15..2^3; 7})", value_name = "GRID")]
    pub(crate) kernel: String,
    /// Formulations, with values in braces
    #[arg(long, default_value = "c_svc(C={2^-5..2^15; 6})", value_name = "GRID")]
    pub(crate) formulation: String,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Number of folds
    #[arg(long, default_value_t = 5, value_name = "N", conflicts_with = "folds")]
    pub(crate) cv: usize,
    /// Begin on few examples; of each N candidates the best goes on, with N times as many examples
    #[arg(long, value_name = "N")]
    pub(crate) halving: Option<usize>,
    /// Keep what was found in this file, and continue from it
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Train the best on all examples and write that model
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write all candidates as a table (CSV)
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
    /// Write a heat map of kernels and formulations
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CalibratorName {
    /// A sigmoid for each score, held to the side of the label: for few examples
    Sigmoid,
    /// The rising curve that fits best, held to the side of the label: for thousands of examples
    Isotonic,
    /// The sigmoid as LIBSVM has it: the larger probability may be another than that of the label
    Platt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemeName {
    /// A duel for each pair of classes, then a vote
    OneVsOne,
    /// A score for each class; the largest wins
    OneVsRest,
}

/// `90`, `90s`, `1.5m`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
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
pub(super) fn size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)];
    let (number, unit) = units
        .iter()
        .find_map(|(ending, unit)| text.strip_suffix(ending).map(|number| (number, *unit)))
        .unwrap_or((text, 1));
    let bytes = number.trim().parse::<f64>().ok().map(|number| number * unit as f64);
    match bytes {
        // Megabytes were meant, most likely.
        Some(bytes) if unit == 1 && bytes < f64::from(1 << 20) => {
            Err(format!("{text} without a unit is bytes; write a size as 100MiB or 2GiB"))
        }
        Some(bytes) if (1.0..1e18).contains(&bytes) => Ok(bytes as usize),
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

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_a_unit_or_are_large() {
        assert_eq!(size("40KiB"), Ok(40 << 10));
        assert_eq!(size("1.5 GiB"), Ok(3 << 29));
        assert_eq!(size("1048576"), Ok(1 << 20));
        for small in ["100", "0", "1048575", "-5"] {
            assert!(size(small).unwrap_err().contains("100MiB"), "{small}");
        }
        assert!(size("0MiB").is_err() && size("many").is_err());
    }
}
