//! `mercer convert`: data files in other formats, or some of their rows.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use mercer::data::read::{self, Chunks};
use mercer::data::write::{self, AtomicFile};
use mercer::data::{Dataset, Targets, draw};
use serde_json::json;

use super::{StopSignal, input_options, load};
use crate::args::Convert;
use crate::console::Console;
use crate::failure::DONE;
use crate::files::{is_standard, labels_beside};
use crate::output;
use crate::queries::Queries;
use crate::training_input::{in_either_base, target_object, tell_target};

pub(super) fn run(convert: &Convert, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let output = convert.destination();
    let named = || output.display().to_string();
    anyhow::ensure!(
        convert.format.is_some() || !is_standard(output),
        "standard output has no name that says a format: give --format"
    );
    let format = write::format(convert.format.as_deref(), output).with_context(named)?;
    let selects_rows = convert.split.is_some() || convert.sample.is_some();
    anyhow::ensure!(selects_rows || convert.rest.is_none(), "--rest needs --split or --sample");
    let mut options = input_options(&convert.input);
    options.sort = convert.sort;
    let source = || convert.input.data.display().to_string();
    let model = convert.scaled_by.as_ref().map(|path| load(path, console)).transpose()?;
    let path = &convert.input.data;
    let (data, ids, target) = in_either_base(path, &mut options, console, |options| {
        let mut chunks: Box<dyn Chunks + '_> = match &model {
            Some(model) => Box::new(Queries::open(path, options.clone(), model, console)?),
            None => read::open(path, options).with_context(source)?,
        };
        let (data, ids) =
            read::read_all_within(&mut *chunks, convert.memory.rows).with_context(source)?;
        Ok((data, ids, chunks.target()))
    })?;
    if model.is_none() {
        tell_target(path, target.as_ref(), console);
    }
    stop.check()?;
    let rows = data.examples.rows();
    let kept = match (convert.split, convert.sample) {
        (Some(share), _) => draw(rows, (share * rows as f64).round() as usize, seed),
        (None, Some(count)) => draw(rows, count.get(), seed),
        (None, None) => (0..rows).collect(),
    };
    anyhow::ensure!(!kept.is_empty(), "{}: none of the {rows} rows is selected", source());
    let mut files = OutputFiles { format, pending: Vec::new() };
    let labels = convert.labels_output.as_deref();
    if kept.len() == rows {
        files.add(&data, ids.as_deref(), output, labels)?;
    } else {
        files.add_some(&data, ids.as_deref(), &kept, output, labels)?;
    }
    if let Some(rest) = &convert.rest {
        let others: Vec<usize> = (0..rows).filter(|row| kept.binary_search(row).is_err()).collect();
        anyhow::ensure!(!others.is_empty(), "{}: no row is left for --rest", source());
        files.add_some(&data, ids.as_deref(), &others, rest, None)?;
    }
    stop.check()?;
    files.commit()?;
    let (kept, columns) = (kept.len(), data.examples.columns());
    if console.json {
        let target = target.as_ref().map(target_object);
        println!("{}", json!({ "rows": rows, "kept": kept, "columns": columns, "target": target }));
    }
    console.summary(&format!("{}: {kept} of {rows} rows, {columns} columns", named()));
    Ok(DONE)
}

/// Output files; none replaces an old file before all are complete.
struct OutputFiles {
    format: &'static write::WriteFormat,
    pending: Vec<(PendingFile, PathBuf)>,
}

impl OutputFiles {
    fn add_some(
        &mut self,
        data: &Dataset,
        ids: Option<&[String]>,
        rows: &[usize],
        path: &Path,
        labels: Option<&Path>,
    ) -> anyhow::Result<()> {
        let ids: Option<Vec<String>> =
            ids.map(|ids| rows.iter().map(|row| ids[*row].clone()).collect());
        self.add(&data.select(rows), ids.as_deref(), path, labels)
    }

    fn add(
        &mut self,
        data: &Dataset,
        ids: Option<&[String]>,
        path: &Path,
        labels: Option<&Path>,
    ) -> anyhow::Result<()> {
        let mut file = PendingFile::create(path)?;
        write::dataset(data, ids, self.format, file.writer())
            .with_context(|| path.display().to_string())?;
        self.pending.push((file, path.to_owned()));
        if !self.format.labels_apart || data.targets == Targets::Absent {
            anyhow::ensure!(labels.is_none(), "there are no labels to write to a separate file");
            return Ok(());
        }
        anyhow::ensure!(
            labels.is_some() || !is_standard(path),
            "{} cannot hold labels: give --labels-output, or --label none",
            self.format.name
        );
        let beside = labels_beside(path);
        let path = labels.unwrap_or(&beside);
        let mut file = PendingFile::create(path)?;
        write::labels(&data.targets, file.writer()).with_context(|| path.display().to_string())?;
        self.pending.push((file, path.to_owned()));
        Ok(())
    }

    fn commit(self) -> anyhow::Result<()> {
        for (file, path) in self.pending {
            file.commit().with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// A file that is being written, or what goes to standard output when all files are complete.
enum PendingFile {
    File(Box<AtomicFile>),
    Standard(Vec<u8>),
}

impl PendingFile {
    fn create(path: &Path) -> anyhow::Result<Self> {
        if is_standard(path) {
            return Ok(Self::Standard(Vec::new()));
        }
        let file = AtomicFile::create(path).with_context(|| path.display().to_string())?;
        Ok(Self::File(Box::new(file)))
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::File(file) => file,
            Self::Standard(bytes) => bytes,
        }
    }

    fn commit(self) -> io::Result<()> {
        match self {
            Self::File(file) => file.commit(),
            Self::Standard(bytes) => output::bytes(&bytes),
        }
    }
}
