//! Readers of data files: a whole dataset or chunks of rows. Writers are in `write.rs`.

mod array;
mod arrow;
mod csv;
mod gather;
mod idx;
mod labels;
mod libsvm;
mod live;
mod npy;
mod options;
#[cfg_attr(not(feature = "parquet"), path = "read/no_parquet.rs")]
mod parquet;
mod table;
mod target;
mod unpack;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use array::half;
pub use gather::join_targets;
pub use options::{Label, Missing, Options};
pub use target::{TargetColumn, TargetReason};
pub use unpack::{Unpacked, unpacked};

pub(crate) use arrow::{CONTINUATION as ARROW_CONTINUATION, MAGIC as ARROW_MAGIC};
pub(crate) use npy::MAGIC as NPY_MAGIC;

use crate::{DataError, Dataset};

/// Rows per chunk when a whole file is read.
const CHUNK_ROWS: usize = 65_536;
/// A chunk ends early when it holds this many values, so that wide rows need no more memory than narrow ones.
const CHUNK_VALUES: usize = 1 << 20;

/// A file format that yields rows.
#[derive(Debug)]
pub struct ReadFormat {
    /// Its name in `--input-format`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// File name endings, without the dot; a file with another ending is read as LIBSVM text.
    pub endings: &'static [&'static str],
    /// Whether the first bytes can only be of this format.
    recognise: fn(&[u8]) -> bool,
    open: fn(Source, &Options) -> Result<Box<dyn Chunks>, DataError>,
}

/// All readers; one line each.
pub static FORMATS: &[&ReadFormat] =
    &[&libsvm::FORMAT, &csv::FORMAT, &npy::FORMAT, &idx::FORMAT, &arrow::FORMAT, &parquet::FORMAT];

type Source = Box<dyn Read + Send>;

/// A file being read in chunks of rows.
pub trait Chunks: Send {
    /// Up to `rows` further rows, fewer where rows are wide; `None` at the end.
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError>;

    /// The id of each row of the last chunk, where a column of ids was named.
    fn ids(&self) -> Option<&[String]> {
        None
    }

    /// The mean of each column, with [`Missing::Mean`] and after the first chunk.
    fn means(&self) -> Option<&[f64]> {
        None
    }

    /// Named columns that are left out because [`Options::names`] does not name them.
    fn ignored(&self) -> &[String] {
        &[]
    }

    /// The target column of a table and why it is that one; `None` for formats whose rows carry their targets.
    fn target(&self) -> Option<TargetColumn> {
        None
    }
}

/// Opens a file for reading in chunks: `-` is standard input; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked.
pub fn open(path: &Path, options: &Options) -> Result<Box<dyn Chunks>, DataError> {
    let rows = open_alone(path, options)?;
    match &options.labels {
        Some(labels) => labels::join(rows, labels, options),
        None => Ok(rows),
    }
}

fn open_alone(path: &Path, options: &Options) -> Result<Box<dyn Chunks>, DataError> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let raw: Source = if path.as_os_str() == "-" && options.line_by_line {
        Box::new(live::LiveSource::new(std::io::stdin()))
    } else if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path)?)
    };
    from_packed(raw, &name.unwrap_or_default(), options)
}

/// As [`from_reader`], for bytes that may be compressed.
pub fn from_packed(
    source: impl Read + Send + 'static,
    name: &str,
    options: &Options,
) -> Result<Box<dyn Chunks>, DataError> {
    let Unpacked { source, name, .. } = unpacked(source, name, options)?;
    from_reader(source, &name, options)
}

/// Reads rows from any byte source; where the options name no format, the first bytes or the ending of
/// `name` do.
pub fn from_reader(
    source: impl Read + Send + 'static,
    name: &str,
    options: &Options,
) -> Result<Box<dyn Chunks>, DataError> {
    if let Some(name) = &options.format {
        let format = FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
            let known: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
            let nearest = mercer_spec::suggestion(name, known.iter().copied());
            DataError::UnknownFormat { name: name.clone(), nearest, known: known.join(", ") }
        })?;
        return (format.open)(Box::new(source), options);
    }
    let (head, source) = unpack::peek(Box::new(source))?;
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let by_bytes = FORMATS.iter().find(|format| (format.recognise)(&head));
    let by_name = || FORMATS.iter().find(|format| format.endings.contains(&ending));
    let format = by_bytes.or_else(by_name).unwrap_or(&FORMATS[0]);
    (format.open)(source, options)
}

/// Reads a whole file.
pub fn dataset(path: &Path, options: &Options) -> Result<Dataset, DataError> {
    let mut chunks = open(path, options)?;
    read_all_within(&mut *chunks, options.row_memory).map(|(data, _)| data)
}

/// Reads all remaining chunks, whatever memory they take.
pub fn read_all(chunks: &mut dyn Chunks) -> Result<Dataset, DataError> {
    read_all_within(chunks, usize::MAX).map(|(data, _)| data)
}

/// Reads all remaining chunks, and the ids of their rows where a column of ids was named; an error once the rows take more
/// than `memory` bytes.
pub fn read_all_within(
    chunks: &mut dyn Chunks,
    memory: usize,
) -> Result<(Dataset, Option<Vec<String>>), DataError> {
    read_first_within(chunks, usize::MAX, memory)
}

/// The same of the first `most` rows: what follows them is not read.
pub fn read_first_within(
    chunks: &mut dyn Chunks,
    most: usize,
    memory: usize,
) -> Result<(Dataset, Option<Vec<String>>), DataError> {
    let mut gathered: Option<gather::Gathered> = None;
    let mut ids: Option<Vec<String>> = None;
    let (mut bytes, mut left) = (0usize, most);
    while left > 0
        && let Some(chunk) = chunks.next_chunk(CHUNK_ROWS.min(left))?
    {
        left = left.saturating_sub(chunk.examples.rows());
        bytes = bytes.saturating_add(chunk.examples.bytes());
        if bytes > memory {
            return Err(DataError::RowsTooLarge { limit: memory });
        }
        match &mut gathered {
            None => gathered = Some(gather::Gathered::new(&chunk)),
            Some(gathered) => gathered.push(&chunk),
        }
        if let Some(more) = chunks.ids() {
            ids.get_or_insert_default().extend_from_slice(more);
        }
    }
    Ok((gathered.ok_or(DataError::Empty)?.finish()?, ids))
}
