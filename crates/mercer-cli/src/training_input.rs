//! Training data and training options from the command line, for `train` and `search`. Rows to predict are read in
//! `queries.rs`.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use mercer::data::read::{Options, TargetColumn};
use mercer::data::scale::{self, Recipe};
use mercer::data::{DataError, Dataset, Scaling, Targets, label_number, read};
use mercer::kernel::{KERNELS, KernelRef, fit_words};
use mercer::machine::{self, ClassName, Machine, Model, Provenance, Scheme};
use mercer::spec::Spec;
use mercer::train::{Cancel, FormulationRef, Goal, RowSource as _, Training, solver};

use serde_json::{Value, json};

use crate::args::{Input, SchemeName, TrainingFlags};
use crate::commands::{StopSignal, input_options};
use crate::console::Console;
use crate::files::is_standard;
use crate::labels;

mod file_rows;

use file_rows::FileRead;
pub(crate) use file_rows::FileRows;

/// The examples to train on, with what is stored in the model beside the machine.
pub(crate) struct TrainingInput {
    /// Without rows if those stay in their file.
    pub(crate) data: Dataset,
    /// The rows, if they stay in their file.
    pub(crate) file_rows: Option<FileRows>,
    features: Option<usize>,
    scaling: Option<Scaling>,
    means: Option<Vec<f64>>,
    target: Option<TargetColumn>,
    zero_based: bool,
}

/// Reads a file; LIBSVM text with an index 0 is read again, counting columns from 0: LIBSVM takes an index 0 as one more
/// column. The options then say so.
pub(crate) fn in_either_base<T>(
    path: &Path,
    options: &mut Options,
    console: &Console,
    read: impl Fn(&Options) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let is_zero = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<DataError>().is_some_and(DataError::is_index_zero)
    };
    match read(options) {
        Err(error) if !is_standard(path) && error.chain().any(is_zero) => {
            options.zero_based = true;
            console.summary(&format!("{}: columns are counted from 0", path.display()));
            read(options)
        }
        read => read,
    }
}

/// Says which column of a table is the target, and why.
pub(crate) fn tell_target(path: &Path, target: Option<&TargetColumn>, console: &Console) {
    let Some(target) = target else { return };
    let text = format!("{}: {target}", path.display());
    match target.reason {
        read::TargetReason::AllNeeded | read::TargetReason::OtherFile => console.info(&text),
        _ => console.summary(&text),
    }
}

/// The target column as JSON.
pub(crate) fn target_object(target: &TargetColumn) -> Value {
    json!({ "column": target.column, "reason": target.reason.to_string() })
}

impl TrainingInput {
    /// Reads the examples and scales them if `--scale` is given.
    pub(crate) fn read(
        input: &Input,
        kernel: &str,
        flags: &TrainingFlags,
        stop: &StopSignal,
        console: &Console,
    ) -> anyhow::Result<Self> {
        let source = || input.data.display().to_string();
        let recipe = flags.scale.as_deref().map(scale::parse).transpose()?;
        let mut options = input_options(input);
        options.precomputed = kernel.trim() == "precomputed";
        let (mut data, means, target) =
            in_either_base(&input.data, &mut options, console, |options| {
                let mut chunks = read::open(&input.data, options).with_context(source)?;
                let data = read::read_all(&mut *chunks).with_context(source)?;
                Ok((data, chunks.means().map(<[f64]>::to_vec), chunks.target()))
            })?;
        tell_target(&input.data, target.as_ref(), console);
        // LIBSVM text does not state the number of columns: queries may have more.
        let is_table = data.names.is_some() || !input.one_hot.is_empty();
        let is_known = is_table || !data.examples.is_sparse();
        let features = is_known.then_some(data.examples.columns());
        stop.check()?;
        let scaling = recipe
            .map(|recipe| scaled(&recipe, &mut data, options.precomputed).with_context(source))
            .transpose()?;
        stop.check()?;
        let zero_based = options.zero_based;
        Ok(Self { data, file_rows: None, features, scaling, means, target, zero_based })
    }

    /// Leaves the examples in their file, which is read in chunks as often as needed.
    pub(crate) fn in_file(
        input: &Input,
        stop: &StopSignal,
        console: &Console,
    ) -> anyhow::Result<Self> {
        let mut options = input_options(input);
        let source = || input.data.display().to_string();
        let FileRead { rows, data, means, target } =
            in_either_base(&input.data, &mut options, console, |options| {
                FileRows::read(&input.data, options.clone(), stop).with_context(source)
            })?;
        tell_target(&input.data, target.as_ref(), console);
        let is_known = data.names.is_some() || !input.one_hot.is_empty() || rows.is_dense();
        let features = is_known.then_some(rows.columns());
        let zero_based = options.zero_based;
        let (file_rows, scaling) = (Some(rows), None);
        Ok(Self { data, file_rows, features, scaling, means, target, zero_based })
    }

    /// The same input; for a regression, labels that were kept as texts become numbers.
    ///
    /// # Errors
    /// If the targets of a classification look like values: there are very many of them.
    pub(crate) fn for_goal(mut self, goal: Goal, flags: &TrainingFlags) -> anyhow::Result<Self> {
        if goal == Goal::Value {
            let targets = std::mem::replace(&mut self.data.targets, Targets::Absent);
            self.data.targets = targets.into_values();
        }
        if goal == Goal::Classes && !flags.many_classes {
            labels::refuse_values(&self.data.targets)?;
        }
        Ok(self)
    }

    /// The target column, where the rows are a table.
    pub(crate) fn target(&self) -> Option<&TargetColumn> {
        self.target.as_ref()
    }

    /// The model of a machine that was trained on these examples.
    pub(crate) fn model(&self, machine: Machine, formulation: &FormulationRef) -> Model {
        Model {
            input: machine::Input {
                features: self.features,
                names: self.data.names.clone(),
                scaling: self.scaling.clone(),
                means: self.means.clone(),
                target: self.target.as_ref().and_then(|target| target.column.clone()),
                zero_based: self.zero_based,
            },
            provenance: Provenance {
                origin: "mercer".to_owned(),
                formulation: Some(formulation.spec().to_string()),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                source_supports: None,
                parent: None,
            },
            ..Model::from(machine)
        }
    }

    /// The folds of `--folds`, if given.
    pub(crate) fn folds(flags: &TrainingFlags) -> anyhow::Result<Option<Vec<u32>>> {
        flags.folds.as_deref().map(lines).transpose()
    }
}

/// Fits the scaling and scales the examples in place.
fn scaled(recipe: &Recipe, data: &mut Dataset, precomputed: bool) -> anyhow::Result<Scaling> {
    anyhow::ensure!(
        !precomputed,
        "--scale: the rows of a precomputed kernel are kernel values and cannot be scaled"
    );
    let scaling = recipe.fit(&data.examples)?;
    data.examples = scaling.apply(&data.examples)?;
    Ok(scaling)
}

/// A kernel; `scale` and `auto` become numbers computed from the examples.
pub(crate) fn kernel(text: &str, data: &Dataset) -> anyhow::Result<KernelRef> {
    let spec: Spec = text.parse()?;
    Ok(KERNELS.build(&fit_words(&spec, &data.examples))?)
}

/// The training options of the command line.
pub(crate) fn settings(flags: &TrainingFlags, stop: &StopSignal) -> anyhow::Result<Training> {
    let scheme = |name: SchemeName| match name {
        SchemeName::OneVsOne => Scheme::OneVsOne,
        SchemeName::OneVsRest => Scheme::OneVsRest,
    };
    let class = |(label, weight): &(String, f64)| {
        let text = || ClassName::Text(label.clone());
        let name = label_number(label).map_or_else(text, ClassName::Number);
        (name, *weight)
    };
    let mut training = Training::default();
    if let Some(name) = flags.scheme {
        training = training.scheme(scheme(name));
    }
    if let Some(tolerance) = flags.tolerance {
        training = training.tolerance(tolerance);
    }
    if let Some(text) = &flags.solver {
        training = training.solver(solver(text)?);
    }
    Ok(training
        .memory(flags.memory)
        .time_limit(flags.time_limit)
        .max_iterations(flags.max_iterations)
        .class_weights(flags.class_weight.iter().map(class).collect())
        .weights(flags.weights.as_deref().map(lines).transpose()?)
        .cancel(Cancel::from_flag(stop.flag())))
}

/// One number per line.
pub(crate) fn lines<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    path: &Path,
) -> anyhow::Result<Vec<T>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parse = |(number, line): (usize, &str)| {
        let place = || format!("{}: line {number}: '{line}' is not a valid number", path.display());
        line.trim().parse::<T>().with_context(place)
    };
    (1..).zip(text.lines()).map(parse).collect()
}
