//! Query rows read for a model: columns matched by name, number of columns checked, scaled as the training rows.
//! Training data are read in `training_input.rs`.

use std::path::Path;

use anyhow::Context;
use mercer::data::read::{self, Chunks, Missing, Options, TargetColumn};
use mercer::data::{DataError, Dataset};
use mercer::machine::Model;

use crate::console::Console;
use crate::training_input::tell_target;

/// Values of scaled rows in memory at a time, where scaling makes rows dense.
const DENSE_VALUES: usize = 1 << 20;

/// A data file being read for a model.
pub(crate) struct Queries<'a> {
    chunks: Box<dyn Chunks>,
    model: &'a Model,
    rows: usize,
    is_scaled: bool,
}

impl<'a> Queries<'a> {
    /// Opens a file; warns about columns that the model does not know.
    pub(crate) fn open(
        path: &Path,
        options: Options,
        model: &'a Model,
        console: &Console,
    ) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        anyhow::ensure!(
            options.missing != Missing::Mean || model.input.means.is_some(),
            "{}: the model contains no means: it was not trained with --missing mean",
            named()
        );
        let options = mercer_server::reading_options(model, options);
        let chunks = read::open(path, &options).with_context(named)?;
        tell_target(path, chunks.target().as_ref(), console);
        if !chunks.ignored().is_empty() {
            let columns = chunks.ignored().join(", ");
            console.warn(&format!(
                "{}: ignored columns, which the model does not know: {columns}",
                named()
            ));
        }
        Ok(Self { chunks, model, rows: 0, is_scaled: true })
    }

    /// The same rows as they are in the file: the caller scales them.
    pub(crate) fn unscaled(self) -> Self {
        Self { is_scaled: false, ..self }
    }

    /// Reads all rows.
    pub(crate) fn read_all(
        path: &Path,
        options: Options,
        model: &'a Model,
        console: &Console,
    ) -> anyhow::Result<Dataset> {
        let memory = options.row_memory;
        let mut queries = Self::open(path, options, model, console)?;
        let read = read::read_all_within(&mut queries, memory);
        Ok(read.with_context(|| path.display().to_string())?.0)
    }

    /// Rows at a time: a scaling that changes zeros makes sparse rows dense, however few values they have.
    fn most_rows(&self) -> usize {
        match &self.model.input.scaling {
            Some(scaling) if !scaling.keeps_zeros() => {
                (DENSE_VALUES / scaling.columns().unwrap_or(1).max(1)).max(1)
            }
            _ => usize::MAX,
        }
    }

    fn prepare(&self, chunk: Dataset) -> Result<Dataset, DataError> {
        let input = &self.model.input;
        let (found, is_sparse) = (chunk.examples.columns(), chunk.examples.is_sparse());
        if let Some(expected) = input.features {
            let fits = if is_sparse { found <= expected } else { found == expected };
            if !fits {
                return Err(DataError::Width { found, expected });
            }
        }
        if input.scaling.is_none() || !self.is_scaled {
            return Ok(chunk);
        }
        let examples = input.prepare(&chunk.examples).map_err(|error| match error {
            DataError::NotFiniteAt { row, column, value } => {
                DataError::NotFiniteAt { row: row + self.rows, column, value }
            }
            other => other,
        })?;
        Ok(Dataset { examples: examples.into_owned(), ..chunk })
    }
}

impl Chunks for Queries<'_> {
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError> {
        let Some(chunk) = self.chunks.next_chunk(rows.min(self.most_rows()))? else {
            return Ok(None);
        };
        let chunk = self.prepare(chunk)?;
        self.rows += chunk.examples.rows();
        Ok(Some(chunk))
    }

    fn ids(&self) -> Option<&[String]> {
        self.chunks.ids()
    }

    fn ignored(&self) -> &[String] {
        self.chunks.ignored()
    }

    fn target(&self) -> Option<TargetColumn> {
        self.chunks.target()
    }
}
