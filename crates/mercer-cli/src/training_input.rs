//! Training data and training options from the command line, for `train` and `search`. Rows to predict are read in
//! `queries.rs`.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use mercer::data::scale::{self, Recipe};
use mercer::data::{Dataset, Scaling, Targets, label_number, read};
use mercer::kernel::{KERNELS, KernelRef, fit_words};
use mercer::machine::{self, ClassName, Machine, Model, Provenance, Scheme};
use mercer::spec::Spec;
use mercer::train::{Cancel, FormulationRef, Goal, RowSource as _, Training, solver};

use crate::args::{Input, SchemeName, TrainingFlags};
use crate::commands::{StopSignal, input_options};

mod file_rows;

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
}

impl TrainingInput {
    /// Reads the examples and scales them if `--scale` is given.
    pub(crate) fn read(
        input: &Input,
        kernel: &str,
        flags: &TrainingFlags,
        stop: &StopSignal,
    ) -> anyhow::Result<Self> {
        let source = || input.data.display().to_string();
        let recipe = flags.scale.as_deref().map(scale::parse).transpose()?;
        let mut options = input_options(input);
        options.precomputed = kernel.trim() == "precomputed";
        options.targets_needed = true;
        let mut chunks = read::open(&input.data, &options).with_context(source)?;
        let mut data = read::read_all(&mut *chunks).with_context(source)?;
        let means = chunks.means().map(<[f64]>::to_vec);
        // LIBSVM text does not state the number of columns: queries may have more.
        let is_table = data.names.is_some() || !input.one_hot.is_empty();
        let is_known = is_table || !data.examples.is_sparse();
        let features = is_known.then_some(data.examples.columns());
        stop.check()?;
        let scaling = recipe
            .map(|recipe| scaled(&recipe, &mut data, options.precomputed).with_context(source))
            .transpose()?;
        stop.check()?;
        Ok(Self { data, file_rows: None, features, scaling, means })
    }

    /// Leaves the examples in their file, which is read in chunks as often as needed.
    pub(crate) fn in_file(input: &Input, stop: &StopSignal) -> anyhow::Result<Self> {
        let mut options = input_options(input);
        options.targets_needed = true;
        let source = || input.data.display().to_string();
        let (rows, data, means) =
            FileRows::read(&input.data, options, stop).with_context(source)?;
        let is_known = data.names.is_some() || !input.one_hot.is_empty() || rows.is_dense();
        let features = is_known.then_some(rows.columns());
        Ok(Self { data, file_rows: Some(rows), features, scaling: None, means })
    }

    /// The same input; for a regression, labels that were kept as texts become numbers.
    pub(crate) fn for_goal(mut self, goal: Goal) -> Self {
        if goal == Goal::Value {
            let targets = std::mem::replace(&mut self.data.targets, Targets::Absent);
            self.data.targets = targets.into_values();
        }
        self
    }

    /// The model of a machine that was trained on these examples.
    pub(crate) fn model(&self, machine: Machine, formulation: &FormulationRef) -> Model {
        Model {
            input: machine::Input {
                features: self.features,
                names: self.data.names.clone(),
                scaling: self.scaling.clone(),
                means: self.means.clone(),
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
fn lines<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    path: &Path,
) -> anyhow::Result<Vec<T>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parse = |(number, line): (usize, &str)| {
        let place = || format!("{}: line {number}: '{line}' is not a valid number", path.display());
        line.trim().parse::<T>().with_context(place)
    };
    (1..).zip(text.lines()).map(parse).collect()
}
