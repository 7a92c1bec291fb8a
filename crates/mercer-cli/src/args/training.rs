//! The command line of `train` and `search`. What these verbs do is in `commands/`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Input;
use super::headings::{DATA, KERNEL, LIMITS, OUTPUT, SOLVER, UPDATE, VALIDATION};

/// Options of training that `train` and `search` share.
#[derive(Debug, Args)]
pub(crate) struct TrainingFlags {
    /// Scaling (see `mercer list`): fitted to the examples, stored in the model, applied to queries
    #[arg(long, value_name = "SCALING", help_heading = DATA)]
    pub(crate) scale: Option<String>,
    /// Solver (see `mercer list`); if not given, `smo`, and `direct` for linear systems
    #[arg(long, value_name = "TEXT", help_heading = SOLVER)]
    pub(crate) solver: Option<String>,
    /// How several classes are reduced to binary subproblems
    ///
    /// The default is one-vs-one for smo, and one-vs-rest for direct and for linear and additive solvers.
    #[arg(long, help_heading = KERNEL, hide_short_help = true)]
    pub(crate) scheme: Option<SchemeName>,
    /// Largest violation of the optimality conditions that is accepted
    ///
    /// The default is 1e-3 for smo, 0.1 for linear and additive solvers, 1e-6 for direct. For low_rank it is the
    /// duality gap relative to the objective (1e-3).
    #[arg(long, value_name = "X", help_heading = SOLVER, hide_short_help = true)]
    pub(crate) tolerance: Option<f64>,
    /// Memory for training, data included: 512MiB, 2GiB, ...
    ///
    /// The program itself and its buffers for reading take some 20 MiB in addition.
    ///
    /// Linear and additive solvers keep packed rows that do not fit in an unnamed temporary file. A data file larger
    /// than half of this memory is read in chunks and never loaded completely.
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = size, help_heading = LIMITS)]
    pub(crate) memory: usize,
    /// Stop after this time with the best machine so far (exit code 3): 90s, 2h, ...
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = LIMITS)]
    pub(crate) time_limit: Option<Duration>,
    /// Stop after this many iterations with the best machine so far (exit code 3)
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(crate) max_iterations: Option<u64>,
    /// Multiply C of a class by this weight, like -wi of svm-train; may be given several times
    #[arg(
        long, value_name = "LABEL=WEIGHT", value_parser = class_weight, help_heading = KERNEL,
        hide_short_help = true
    )]
    pub(crate) class_weight: Vec<(String, f64)>,
    /// The target names classes, however many there are; without, more than 20 classes and more than one for every 10
    /// rows are refused, because such a target is probably a value (regression) or names rows
    #[arg(long, help_heading = DATA, hide_short_help = true)]
    pub(crate) many_classes: bool,
    /// A file with one weight per line for each example
    #[arg(long, value_name = "FILE", help_heading = DATA, hide_short_help = true)]
    pub(crate) weights: Option<PathBuf>,
    /// Cross-validate with these folds: a file with the fold of each example, starting at 0, one per line
    #[arg(long, value_name = "FILE", help_heading = VALIDATION, hide_short_help = true)]
    pub(crate) folds: Option<PathBuf>,
}

/// What stands for the data file where an update only forgets rows.
pub(crate) const NO_DATA: &str = "\u{1}";

/// Options of an update: rows are added to a model, or forgotten.
#[derive(Debug, Args)]
pub(crate) struct UpdateFlags {
    /// Update this model: DATA are new rows; kernel and formulation are the model's
    ///
    /// So is the scaling. The rows that it was trained on are needed: by --data, or kept in the model.
    #[arg(
        long, value_name = "MODEL", help_heading = UPDATE,
        conflicts_with_all = [
            "kernel", "scale", "scheme", "warm_start", "checkpoint", "cv", "folds", "probabilities", "polish", "labels"
        ]
    )]
    pub(crate) from: Option<PathBuf>,
    /// The rows that the model was trained on, unless it keeps them
    #[arg(long = "data", id = "original", value_name = "FILE", requires = "from", help_heading = UPDATE)]
    pub(crate) data: Option<PathBuf>,
    /// Rows to forget, with their targets; DATA may then be left out
    #[arg(long, value_name = "FILE", requires = "from", help_heading = UPDATE)]
    pub(crate) forget: Option<PathBuf>,
    /// A file with one weight per line for each row of --data; --weights are those of the rows to add
    #[arg(long, value_name = "FILE", requires = "original", help_heading = UPDATE, hide_short_help = true)]
    pub(crate) data_weights: Option<PathBuf>,
    /// Train the same rows from the start as well, to the same gap, and compare
    #[arg(long, requires = "from", help_heading = UPDATE, hide_short_help = true)]
    pub(crate) compare: bool,
    /// Write a page about the update: supports that stayed, came and left
    #[arg(long, value_name = "FILE", requires = "from", help_heading = UPDATE, hide_short_help = true)]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(mut_arg("data", |data| {
    data.required(false)
        .required_unless_present("forget")
        .default_value_if("forget", clap::builder::ArgPredicate::IsPresent, NO_DATA)
}))]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The model file to write
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    /// Kernel (see `mercer list`); gamma may be `scale` or `auto`, as in scikit-learn
    #[arg(long, default_value = "rbf(gamma=scale)", value_name = "KERNEL", help_heading = KERNEL)]
    pub(crate) kernel: String,
    /// Formulation (see `mercer list`); c_svc(C=1) if not given
    #[arg(long, value_name = "TEXT", help_heading = KERNEL)]
    pub(crate) formulation: Option<String>,
    #[command(flatten)]
    pub(crate) training: TrainingFlags,
    #[command(flatten)]
    pub(crate) update: UpdateFlags,
    /// Keep the rows in the model, for updates; it then holds all training data
    #[arg(long, help_heading = UPDATE)]
    pub(crate) keep_rows: bool,
    /// Cross-validate with this many folds before training
    #[arg(long, value_name = "N", help_heading = VALIDATION)]
    pub(crate) cv: Option<usize>,
    /// Fit class probabilities to scores of a cross-validation (--cv, else five folds)
    #[arg(long, value_name = "KIND", help_heading = VALIDATION)]
    pub(crate) probabilities: Option<CalibratorName>,
    /// Save checkpoints of the training to this file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Time between checkpoints
    #[arg(
        long, default_value = "60s", value_name = "TIME", value_parser = duration,
        help_heading = OUTPUT, hide_short_help = true
    )]
    pub(crate) checkpoint_every: Duration,
    /// Continue from the checkpoint file if it exists
    #[arg(long, requires = "checkpoint", help_heading = SOLVER, hide_short_help = true)]
    pub(crate) resume: bool,
    /// With the solver low_rank: continue from its solution until the machine of the exact kernel is reached
    #[arg(long, help_heading = SOLVER, hide_short_help = true)]
    pub(crate) polish: bool,
    /// Start from the coefficients of this model
    #[arg(long, value_name = "MODEL", help_heading = SOLVER, hide_short_help = true)]
    pub(crate) warm_start: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Kernels, with values in braces: {0.1, 1, 10}, or {2^-15..2^3; 7} for 7 values with equal ratios
    #[arg(long, default_value = "rbf(gamma={2^-15..2^3; 7})", value_name = "GRID", help_heading = KERNEL)]
    pub(crate) kernel: String,
    /// Formulations, with values in braces
    #[arg(long, default_value = "c_svc(C={2^-5..2^15; 6})", value_name = "GRID", help_heading = KERNEL)]
    pub(crate) formulation: String,
    #[command(flatten)]
    pub(crate) training: TrainingFlags,
    /// Number of folds
    #[arg(long, default_value_t = 5, value_name = "N", conflicts_with = "folds", help_heading = VALIDATION)]
    pub(crate) cv: usize,
    /// Successive halving: start with few examples; after each round keep one of N candidates, the best ones, and use N
    /// times as many examples
    #[arg(long, value_name = "N", help_heading = VALIDATION)]
    pub(crate) halving: Option<usize>,
    /// Save the results to this file, and continue from it if it exists
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) journal: Option<PathBuf>,
    /// Train the best candidate on all examples and write the model
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: Option<PathBuf>,
    /// Write all candidates as a CSV table
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) table: Option<PathBuf>,
    /// Draw a heat map of kernels and formulations into this SVG file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CalibratorName {
    /// A sigmoid per score, for hundreds of examples; of two classes, the label has the larger probability
    Sigmoid,
    /// Isotonic regression, for thousands of examples; of two classes, the label has the larger probability
    Isotonic,
    /// LIBSVM's sigmoid; the label may have the smaller probability
    Platt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemeName {
    /// One classifier for each pair of classes, then a vote
    OneVsOne,
    /// One classifier for each class; the largest score wins
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
    valid.ok_or_else(|| "write a time such as 90s, 10m or 2h".to_owned())
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
        // Probably meant as megabytes.
        Some(bytes) if unit == 1 && bytes < f64::from(1 << 20) => {
            Err(format!("{text} without a unit is bytes; write a size such as 100MiB or 2GiB"))
        }
        Some(bytes) if (1.0..1e18).contains(&bytes) => Ok(bytes as usize),
        _ => Err("write a size such as 512MiB or 2GiB".to_owned()),
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
