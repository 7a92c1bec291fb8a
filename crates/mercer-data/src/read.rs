//! Files become datasets, whole or in chunks.

mod csv;
mod gather;
mod libsvm;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::{DataError, Dataset};

/// Rows per chunk when a whole file is read.
const CHUNK_ROWS: usize = 65_536;

/// How a file is to be read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The reader's name; by the file's name if not given.
    pub format: Option<String>,
    /// Which column of a table is the target.
    pub label: Label,
    /// LIBSVM text whose indices count from 0.
    pub zero_based: bool,
    /// LIBSVM text that starts each row with `0:serial`, as precomputed kernels do.
    pub precomputed: bool,
    /// Rows must carry targets: a table whose target column is neither named nor told takes the last.
    pub targets_needed: bool,
    /// Number of features expected: a table with one column more carries its target in the last one.
    pub features: Option<usize>,
}

/// Which column of a table is the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Label {
    /// A column named `label`, `target` or `class`; else the last one, if there is one more than features.
    #[default]
    Guess,
    /// There is none.
    Absent,
    /// The last column.
    Last,
    /// By name, or by number from 1.
    Column(String),
}

impl std::str::FromStr for Label {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "guess" => Self::Guess,
            "none" => Self::Absent,
            "last" => Self::Last,
            other => Self::Column(other.to_owned()),
        })
    }
}

/// A file format that yields rows.
#[derive(Debug)]
pub struct Format {
    /// Its name in `--input-format`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// File name endings, without the dot; a file with another ending is read as LIBSVM text.
    pub endings: &'static [&'static str],
    open: fn(Source, &Options) -> Result<Box<dyn Chunks>, DataError>,
}

/// All readers; one line each.
pub static FORMATS: &[&Format] = &[&libsvm::FORMAT, &csv::FORMAT];

type Source = Box<dyn Read + Send>;

/// A file being read in chunks of rows.
pub trait Chunks: Send {
    /// Up to `rows` further rows; `None` at the end.
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError>;
}

/// Opens a file (`-` for standard input; `.gz` is unpacked) for reading in chunks.
pub fn open(path: &Path, options: &Options) -> Result<Box<dyn Chunks>, DataError> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let name = name.unwrap_or_default();
    let raw: Source = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path)?)
    };
    let unpacked_name = name.strip_suffix(".gz");
    let source: Source = if unpacked_name.is_some() {
        Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(raw)))
    } else {
        raw
    };
    from_reader(source, unpacked_name.unwrap_or(&name), options)
}

/// Reads rows from any byte source; `name` decides the format where the options do not.
pub fn from_reader(
    source: impl Read + Send + 'static,
    name: &str,
    options: &Options,
) -> Result<Box<dyn Chunks>, DataError> {
    let format = match &options.format {
        Some(wanted) => FORMATS.iter().find(|format| format.name == wanted).ok_or_else(|| {
            let known: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
            let reason = format!("unknown format '{wanted}'; known are {}", known.join(", "));
            DataError::Malformed { line: 1, reason }
        })?,
        None => {
            let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
            let fits = FORMATS.iter().find(|format| format.endings.contains(&ending));
            fits.unwrap_or(&FORMATS[0])
        }
    };
    (format.open)(Box::new(source), options)
}

/// Reads a whole file.
pub fn dataset(path: &Path, options: &Options) -> Result<Dataset, DataError> {
    let mut chunks = open(path, options)?;
    let mut gathered: Option<gather::Gathered> = None;
    while let Some(chunk) = chunks.next_chunk(CHUNK_ROWS)? {
        match &mut gathered {
            None => gathered = Some(gather::Gathered::new(&chunk)),
            Some(gathered) => gathered.push(&chunk),
        }
    }
    gathered.ok_or(DataError::Empty)?.finish()
}
