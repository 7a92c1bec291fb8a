//! Examples to learn from, and how: what `train` and `search` share.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use mercer::data::scale::{self, Recipe};
use mercer::data::{Dataset, Scaling, read};
use mercer::kernel::{KERNELS, KernelRef, fit_words};
use mercer::machine::{self, ClassName, Machine, Model, Provenance, Scheme, file};
use mercer::spec::Spec;
use mercer::train::{Cancel, FormulationRef, Rows as _, Training, solver};

use crate::args::{Input, Learning, SchemeName};
use crate::commands::{StopSignal, input_options};

mod outside;

pub(crate) use outside::FileRows;

/// Examples as machines see them.
pub(crate) struct Lesson {
    /// Without examples where those stay in their file.
    pub(crate) data: Dataset,
    pub(crate) outside: Option<FileRows>,
    features: Option<usize>,
    scaling: Option<Scaling>,
    means: Option<Vec<f64>>,
}

impl Lesson {
    /// Reads the examples and scales them if that was asked for.
    pub(crate) fn read(
        input: &Input,
        kernel: &str,
        learning: &Learning,
        stop: &StopSignal,
    ) -> anyhow::Result<Self> {
        let source = || input.data.display().to_string();
        let recipe = learning.scale.as_deref().map(scale::parse).transpose()?;
        let mut options = input_options(input);
        options.precomputed = kernel.trim() == "precomputed";
        options.targets_needed = true;
        let mut chunks = read::open(&input.data, &options).with_context(source)?;
        let mut data = read::whole(&mut *chunks).with_context(source)?;
        let means = chunks.means().map(<[f64]>::to_vec);
        // LIBSVM text does not say how wide rows are: wider ones fit too.
        let is_table = data.names.is_some() || !input.one_hot.is_empty();
        let is_known = is_table || !data.examples.is_sparse();
        let features = is_known.then_some(data.examples.columns());
        stop.check()?;
        let scaling = recipe
            .map(|recipe| scaled(&recipe, &mut data, options.precomputed).with_context(source))
            .transpose()?;
        stop.check()?;
        Ok(Self { data, outside: None, features, scaling, means })
    }

    /// Leaves the examples in their file, to be read in pieces as often as needed.
    pub(crate) fn outside(input: &Input, stop: &StopSignal) -> anyhow::Result<Self> {
        let mut options = input_options(input);
        options.targets_needed = true;
        let source = || input.data.display().to_string();
        let (rows, data, means) =
            FileRows::read(&input.data, options, stop).with_context(source)?;
        let is_known = data.names.is_some() || !input.one_hot.is_empty() || rows.is_dense();
        let features = is_known.then_some(rows.columns());
        Ok(Self { data, outside: Some(rows), features, scaling: None, means })
    }

    /// A machine with all that travels with it.
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

    /// The folds of a file, if one is given.
    pub(crate) fn folds(learning: &Learning) -> anyhow::Result<Option<Vec<u32>>> {
        learning.folds.as_deref().map(lines).transpose()
    }
}

/// Fits the scaling and puts the scaled examples in place of the examples.
fn scaled(recipe: &Recipe, data: &mut Dataset, precomputed: bool) -> anyhow::Result<Scaling> {
    anyhow::ensure!(
        !precomputed,
        "--scale: the rows of a precomputed kernel are kernel values and take no scaling"
    );
    let scaling = recipe.fit(&data.examples)?;
    data.examples = scaling.apply(&data.examples)?;
    Ok(scaling)
}

/// A kernel whose words are numbers that fit the examples.
pub(crate) fn kernel(text: &str, data: &Dataset) -> anyhow::Result<KernelRef> {
    let spec: Spec = text.parse()?;
    Ok(KERNELS.build(&fit_words(&spec, &data.examples))?)
}

/// How machines are trained, as the command line says.
pub(crate) fn settings(learning: &Learning, stop: &StopSignal) -> anyhow::Result<Training> {
    let scheme = |name: SchemeName| match name {
        SchemeName::OneVsOne => Scheme::OneVsOne,
        SchemeName::OneVsRest => Scheme::OneVsRest,
    };
    let class = |(label, weight): &(String, f64)| {
        let name = label.parse().map_or(ClassName::Text(label.clone()), ClassName::Number);
        (name, *weight)
    };
    let mut training = Training::default();
    if let Some(name) = learning.scheme {
        training = training.scheme(scheme(name));
    }
    if let Some(tolerance) = learning.tolerance {
        training = training.tolerance(tolerance);
    }
    if let Some(text) = &learning.solver {
        training = training.solver(solver(text)?);
    }
    Ok(training
        .memory(learning.memory)
        .time_limit(learning.time_limit)
        .max_iterations(learning.max_iterations)
        .class_weights(learning.class_weight.iter().map(class).collect())
        .weights(learning.weights.as_deref().map(lines).transpose()?)
        .cancel(Cancel::from_flag(stop.flag())))
}

/// Writes a model in our own format.
pub(crate) fn save(model: &Model, path: &Path) -> anyhow::Result<()> {
    let own = file::format("mercer").context("the mercer format is always registered")?;
    file::save(model, own, path).with_context(|| path.display().to_string())
}

/// One number per line.
fn lines<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    path: &Path,
) -> anyhow::Result<Vec<T>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parse = |(number, line): (usize, &str)| {
        let place = || format!("{}: line {number}: '{line}' is not such a number", path.display());
        line.trim().parse::<T>().with_context(place)
    };
    (1..).zip(text.lines()).map(parse).collect()
}
