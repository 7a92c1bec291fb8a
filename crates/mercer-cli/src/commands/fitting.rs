//! What verbs that fit a plan or a smaller machine share: the rows they read, and a run that shows its progress and ends at
//! Ctrl-C. What is fitted is decided in `compile.rs`, `compress.rs` and `tune.rs`.

use std::path::Path;
use std::time::Instant;

use mercer::compile::{CompileError, FittingData, Progress, Watch};
use mercer::data::Dataset;
use mercer::data::read::Options;
use mercer::machine::{Answer, Model};

use super::StopSignal;
use crate::args::MemoryFlag;
use crate::console::Console;
use crate::failure::Interrupted;
use crate::labels;
use crate::queries::Queries;

/// Rows for fitting, with their labels.
pub(super) struct FittingRows {
    sample: Option<LabelledRows>,
    training: Option<LabelledRows>,
}

struct LabelledRows {
    data: Dataset,
    labels: Option<Vec<Option<Answer>>>,
}

impl FittingRows {
    /// Reads the files that are given.
    pub(super) fn read(
        sample: Option<&Path>,
        training: Option<&Path>,
        memory: MemoryFlag,
        model: &Model,
        console: &Console,
    ) -> anyhow::Result<Self> {
        let read = |path: Option<&Path>| -> anyhow::Result<Option<LabelledRows>> {
            let Some(path) = path else { return Ok(None) };
            let options = memory.limit(Options::default());
            let data = Queries::read_all(path, options, model, console)?;
            let labels = labels::answers(&model.machine, &data.targets);
            Ok(Some(LabelledRows { data, labels }))
        };
        Ok(Self { sample: read(sample)?, training: read(training)? })
    }

    /// The rows as the library takes them.
    pub(super) fn data(&self) -> FittingData<'_> {
        let (sample, training) = (self.sample.as_ref(), self.training.as_ref());
        FittingData {
            sample: sample.map(|rows| &rows.data.examples),
            training: training.map(|rows| &rows.data.examples),
            sample_labels: sample.and_then(|rows| rows.labels.as_deref()),
            training_labels: training.and_then(|rows| rows.labels.as_deref()),
        }
    }
}

/// Runs a fit and shows its progress; with its seconds.
pub(super) fn watched<T>(
    console: &Console,
    stop: &StopSignal,
    fit: impl FnOnce(Watch<'_>) -> Result<T, CompileError>,
) -> anyhow::Result<(T, f64)> {
    let start = Instant::now();
    let status = console.status();
    let watch = |progress: Progress| {
        let Progress { what, done, most } = progress;
        status.set_message(format!("{what}: {done} of at most {most}"));
        stop.check().is_ok()
    };
    let fitted = fit(Watch::new(&watch));
    status.finish_and_clear();
    match fitted {
        Err(CompileError::Interrupted) => Err(Interrupted.into()),
        other => Ok((other?, start.elapsed().as_secs_f64())),
    }
}
