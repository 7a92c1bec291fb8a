//! Writers of data files, and atomic files. Readers are in `read.rs`.

mod arrow;
mod atomic;
mod csv;
mod idx;
mod libsvm;
mod npy;
#[cfg_attr(not(feature = "parquet"), path = "write/no_parquet.rs")]
mod parquet;

use std::io::Write;
use std::path::Path;

pub use atomic::AtomicFile;

use crate::{DataError, Dataset, Targets};

/// Formats that store every value refuse rows wider than this.
const MAX_DENSE_COLUMNS: usize = 1 << 24;
const SMALL_DENSE_COLUMNS: usize = 1 << 14;
const DENSE_GROWTH: usize = 64;

/// A file format that datasets can be written in.
#[derive(Debug)]
pub struct WriteFormat {
    /// Its name in `--format`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// File name endings, without the dot.
    pub endings: &'static [&'static str],
    /// Whether targets are written to a second file.
    pub labels_apart: bool,
    write: fn(&Dataset, Option<&[String]>, &mut dyn Write) -> Result<(), DataError>,
}

/// All writers; one line each.
pub static FORMATS: &[&WriteFormat] = &[
    &libsvm::FORMAT,
    &csv::FORMAT,
    &csv::TABS,
    &npy::FORMAT,
    &idx::FORMAT,
    &arrow::FORMAT,
    &parquet::FORMAT,
];

/// The format of that name; by the ending of `path` if none is named.
///
/// # Errors
/// If there is no such format, or the ending is not known.
pub fn format(name: Option<&str>, path: &Path) -> Result<&'static WriteFormat, DataError> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let found = FORMATS.iter().copied().find(|format| match name {
        Some(name) => format.name == name,
        None => format.endings.contains(&ending.as_str()),
    });
    found.ok_or_else(|| {
        let known: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        let name = name.map_or(ending, ToOwned::to_owned);
        let nearest = mercer_spec::suggestion(&name, known.iter().copied());
        DataError::UnknownFormat { name, nearest, known: known.join(", ") }
    })
}

/// Writes a dataset, with an id for each row if there are ids.
///
/// # Errors
/// If the format cannot hold something, or writing fails.
pub fn dataset(
    data: &Dataset,
    ids: Option<&[String]>,
    format: &WriteFormat,
    out: &mut dyn Write,
) -> Result<(), DataError> {
    (format.write)(data, ids, out)
}

/// Writes targets alone: an NPY array of numbers.
///
/// # Errors
/// If they are texts, or writing fails.
pub fn labels(targets: &Targets, out: &mut dyn Write) -> Result<(), DataError> {
    npy::labels(targets, out)
}

fn inexpressible(format: &'static str, what: impl Into<String>) -> DataError {
    DataError::Inexpressible { format, what: what.into() }
}

/// Formats that store every value refuse more columns than [`MAX_DENSE_COLUMNS`]; and more than
/// [`DENSE_GROWTH`] for each value that is not zero, above a small number.
fn check_dense(format: &'static str, data: &Dataset) -> Result<(), DataError> {
    let (columns, stored) = (data.examples.columns(), data.examples.nonzeros());
    let few = SMALL_DENSE_COLUMNS.max(stored.saturating_mul(DENSE_GROWTH));
    let limit = MAX_DENSE_COLUMNS.min(few);
    if columns <= limit {
        return Ok(());
    }
    let rows = format!("rows of {stored} values in all");
    let what = format!("{columns} columns (every value is stored; at most {limit} for {rows})");
    Err(inexpressible(format, what))
}

/// Names of all fields of a table: ids first, the label last. A header of text holds no number: names that
/// look like one get a letter.
fn header(data: &Dataset, has_ids: bool) -> Vec<String> {
    let name = |column: usize| match data.names.as_ref().map(|names| &names[column]) {
        Some(name) if !name.is_empty() && fast_float2::parse::<f64, _>(name).is_err() => {
            name.clone()
        }
        Some(name) => format!("x{name}"),
        None => format!("x{}", column + 1),
    };
    let names = (0..data.examples.columns()).map(name);
    let ids = has_ids.then(|| "id".to_owned()).into_iter();
    let label = (data.targets != Targets::Absent).then(|| "label".to_owned());
    ids.chain(names).chain(label).collect()
}

/// The shortest text that reads back as the same f64.
fn digits(value: f64) -> String {
    let plain = format!("{value}");
    if plain.len() <= 24 { plain } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests;
