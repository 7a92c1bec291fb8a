//! One file per verb, and what several verbs share. The arguments are in `args.rs`; nothing here computes what a
//! library could.

mod bench;
mod check;
mod closing;
mod compile;
mod completions;
mod compress;
mod convert;
mod demo;
mod explain;
mod export;
mod fitting;
mod import;
mod inspect;
mod list;
mod man;
mod play;
mod predict;
mod query_options;
mod reproduce;
mod search;
mod serve;
mod train;
mod trust;
mod tune;
mod verify;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use mercer::data::read::{Missing, Options};
use mercer::machine::{Machine, Model, Score, file};
use mercer::query::Plan;

use crate::args::{Arguments, Input, MissingPolicy, Verb};
use crate::console::Console;
use crate::failure::Interrupted;
use crate::files::{Files, is_standard};
use crate::output;

pub(crate) fn run(arguments: Arguments, console: &Console) -> anyhow::Result<u8> {
    let files = Files::of(&arguments.verb);
    anyhow::ensure!(
        !(console.json && files.takes_stdout()),
        "--json prints its object on standard output; give the output `-` another name"
    );
    files.check()?;
    let seed = arguments.common.seed.unwrap_or(1);
    match arguments.verb {
        Verb::Import(import) => import::run(&import, console),
        Verb::Export(export) => export::run(&export, console),
        Verb::Inspect(inspect) => inspect::run(&inspect, console),
        Verb::Train(train) => train::run(&train, seed, console),
        Verb::Search(search) => search::run(&search, seed, console),
        Verb::Serve(serve) => serve::run(&serve, &arguments.common, console),
        Verb::Play(play) => play::run(&play, &arguments.common, console),
        Verb::Check(check) => check::run(&check, console),
        Verb::Verify(verify) => verify::run(&verify, console),
        Verb::Convert(convert) => convert::run(&convert, seed, console),
        Verb::Predict(predict) => predict::run(&predict, seed, console),
        Verb::Tune(tune) => tune::run(&tune, seed, console),
        Verb::Compile(compile) => compile::run(&compile, seed, console),
        Verb::Compress(compress) => compress::run(&compress, console),
        Verb::Explain(explain) => explain::run(&explain, console),
        Verb::Bench(bench) => bench::run(&bench, console),
        Verb::Reproduce(reproduce) => reproduce::run(&reproduce, console),
        Verb::Completions(completions) => completions::run(&completions, console),
        Verb::Man(man) => man::run(&man, console),
        Verb::SvmTrain(_) | Verb::SvmPredict(_) | Verb::SvmScale(_) => {
            anyhow::bail!(
                "flags must come after the name of a LIBSVM command: mercer svm-train ..."
            )
        }
        Verb::List => list::run(console),
        Verb::Demo(demo) => demo::run(&demo, seed, console),
    }
}

/// Loads a model file; errors name it.
fn load(path: &Path, console: &Console) -> anyhow::Result<Model> {
    let model = file::load(path).with_context(|| path.display().to_string())?;
    let machine = &model.machine;
    let (kernel, supports) = (machine.kernel().spec(), machine.supports().rows());
    console.info(&format!("{}: {kernel}, {supports} supports", path.display()));
    if machine
        .scores()
        .iter()
        .all(|score| matches!(score, Score::Expansion { supports, .. } if supports.is_empty()))
    {
        console.warn(&format!(
            "{}: the machine has no supports; all answers are equal",
            path.display()
        ));
    }
    Ok(model)
}

/// Writes a model in the mercer format; errors name the file.
fn save(model: &Model, path: &Path) -> anyhow::Result<()> {
    let mercer_format = file::format("mercer").context("the mercer format is always registered")?;
    save_as(model, mercer_format, path)
}

/// Writes a model to a file, or to standard output for `-`.
fn save_as(model: &Model, format: &file::Format, path: &Path) -> anyhow::Result<()> {
    let place = || path.display().to_string();
    if is_standard(path) {
        let bytes = file::to_bytes(model, format).with_context(place)?;
        return output::bytes(&bytes).with_context(place);
    }
    file::save(model, format, path).with_context(place)
}

/// The options of the reader, from the command line.
pub(crate) fn input_options(input: &Input) -> Options {
    let label = input.label.parse().unwrap_or_else(|never| match never {});
    let usual = Options::default();
    Options {
        format: input.input_format.clone(),
        label,
        labels: input.labels.clone(),
        id: input.id.clone(),
        missing: match input.missing {
            None => Missing::Fitted,
            Some(MissingPolicy::Error) => Missing::Error,
            Some(MissingPolicy::Zero) => Missing::Zero,
            Some(MissingPolicy::Mean) => Missing::Mean,
            Some(MissingPolicy::Drop) => Missing::Drop,
        },
        one_hot: input.one_hot.clone(),
        zero_based: input.zero_based,
        unpacked_limit: input.max_unpacked.map_or(usual.unpacked_limit, |limit| limit as u64),
        unpacked_any_ratio: input.max_unpacked.is_some(),
        ..usual
    }
}

/// Columns of a row that a model expects.
fn features(model: &Model) -> usize {
    model.input.features.unwrap_or(model.machine.columns())
}

/// Columns that scores depend on: those with values in supports, with weights, or with tables.
fn live_columns(machine: &Machine, exact: &Plan) -> usize {
    let mut weights: Vec<&[f64]> = Vec::new();
    for score in machine.scores() {
        match score {
            // Column numbers may be very large where supports are sparse.
            Score::Expansion { .. } => return exact.exact_stage().packed().live_columns(),
            Score::Linear { weights: own, .. } => weights.push(own),
            Score::Additive { .. } => return machine.columns(),
        }
    }
    let is_live = |column: &usize| weights.iter().any(|weights| weights[*column] != 0.0);
    (0..machine.columns()).filter(is_live).count()
}

/// The task of a machine in a few words.
fn describe(machine: &Machine) -> String {
    use mercer::machine::{Output, Scheme};
    match machine.output() {
        Output::Value => "regression".to_owned(),
        Output::Novelty => "novelty".to_owned(),
        Output::Classes { names, scheme } => {
            let scheme = match scheme {
                Scheme::OneVsOne => "one-vs-one",
                Scheme::OneVsRest => "one-vs-rest",
            };
            format!("{} classes, {scheme}", names.len())
        }
    }
}

/// Set by the first Ctrl-C or SIGTERM; the second ends the process at once.
#[derive(Debug, Clone)]
pub(crate) struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    pub(crate) fn install() -> anyhow::Result<Self> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let code = i32::from(crate::failure::INTERRUPTED);
            signal_hook::flag::register_conditional_shutdown(signal, code, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        Ok(Self(stop))
    }

    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
    }
}
