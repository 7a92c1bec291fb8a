//! Examples that stay in their file and are read in chunks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mercer::data::read::TargetColumn;
use mercer::data::{DataError, Dataset, Matrix, Targets, read};
use mercer::train::{RowSource, Stop, TrainError};

use crate::commands::StopSignal;

/// Rows in memory at a time.
const CHUNK: usize = 8192;

/// Rows of a file, read in chunks on every pass.
pub(crate) struct FileRows {
    path: PathBuf,
    options: read::Options,
    rows: usize,
    columns: usize,
    nonzeros: usize,
    is_dense: bool,
    stop: Arc<AtomicBool>,
}

/// What a first pass over a file finds.
pub(super) struct FileRead {
    pub(super) rows: FileRows,
    /// Targets and names, without rows.
    pub(super) data: Dataset,
    pub(super) means: Option<Vec<f64>>,
    pub(super) target: Option<TargetColumn>,
}

impl FileRows {
    /// Reads the file once: targets, names, means and size.
    pub(super) fn read(
        path: &Path,
        options: read::Options,
        stop: &StopSignal,
    ) -> anyhow::Result<FileRead> {
        let mut file = Self {
            path: path.to_owned(),
            options,
            rows: 0,
            columns: 0,
            nonzeros: 0,
            is_dense: true,
            stop: stop.flag(),
        };
        let mut chunks = read::open(path, &file.options)?;
        let (mut targets, mut names) = (None, None);
        while let Some(chunk) = chunks.next_chunk(CHUNK)? {
            stop.check()?;
            file.rows += chunk.examples.rows();
            file.columns = file.columns.max(chunk.examples.columns());
            file.nonzeros += chunk.examples.nonzeros();
            file.is_dense &= !chunk.examples.is_sparse();
            names = names.or(chunk.names);
            match &mut targets {
                None => targets = Some(chunk.targets),
                Some(all) => read::join_targets(all, &chunk.targets),
            }
        }
        let targets: Targets = targets.ok_or(DataError::Empty)?;
        let examples = Matrix::sparse(file.columns, &[0], &[], &[])?;
        let means = chunks.means().map(<[f64]>::to_vec);
        let target = chunks.target();
        Ok(FileRead { rows: file, data: Dataset { examples, targets, names }, means, target })
    }

    /// Whether every row states all its columns.
    pub(super) fn is_dense(&self) -> bool {
        self.is_dense
    }
}

impl RowSource for FileRows {
    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn nonzeros(&self) -> usize {
        self.nonzeros
    }

    /// Targets and one chunk are small compared with the rows.
    fn bytes(&self) -> usize {
        0
    }

    fn each(
        &self,
        see: &mut dyn FnMut(usize, &Matrix) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let failed = |error: DataError| TrainError::Rows { reason: error.to_string() };
        let changed =
            || TrainError::Rows { reason: "the file changed while it was read".to_owned() };
        let mut chunks = read::open(&self.path, &self.options).map_err(failed)?;
        let mut first = 0;
        while let Some(chunk) = chunks.next_chunk(CHUNK).map_err(failed)? {
            if self.stop.load(Ordering::SeqCst) {
                return Err(TrainError::Stopped(Stop::Cancelled));
            }
            let end = first + chunk.examples.rows();
            let is_same = end <= self.rows && chunk.examples.columns() <= self.columns;
            if !is_same {
                return Err(changed());
            }
            see(first, &chunk.examples)?;
            first = end;
        }
        if first < self.rows { Err(changed()) } else { Ok(()) }
    }
}
