//! Tables of any file format: chooses the columns, the label and the ids among the fields, and replaces
//! missing values and categories by numbers. The formats are `csv.rs`, `arrow.rs` and `parquet.rs`.

pub(super) mod columns;
pub(super) mod rows;

use std::borrow::Cow;

use super::{CHUNK_VALUES, Chunks, Label, Missing, Options, TargetColumn};
use crate::{DataError, Dataset, Targets, label_number};
use columns::{Fields, TableColumns};
use rows::TableRows;

/// One field of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    Missing,
    Number(f64),
    Text(&'a str),
}

impl<'a> Cell<'a> {
    /// The field as text.
    fn text(self) -> Cow<'a, str> {
        match self {
            Self::Missing => Cow::Borrowed(""),
            Self::Number(value) => Cow::Owned(value.to_string()),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }
}

/// Records of a file, one after the other.
pub(super) trait Records: Send {
    /// Goes to the next record and returns its line or row; `None` at the end.
    fn advance(&mut self) -> Result<Option<usize>, DataError>;

    /// Whether the next record has not come yet.
    fn waits(&self) -> bool {
        false
    }

    /// A field of the current record.
    fn cell(&self, field: usize) -> Cell<'_>;

    /// An error about a line, as this format reports it.
    fn place(&self, error: DataError) -> DataError {
        error
    }
}

/// Makes datasets of records.
pub(super) struct TableReader<R> {
    records: R,
    fields: Fields,
    columns: TableColumns,
    missing: Missing,
    /// Means of the columns of the matrix, given or computed from the file.
    means: Option<Vec<f64>>,
    /// All rows, if the whole file is needed before the first row is known.
    all_rows: Option<TableRows>,
    ids: Vec<String>,
}

impl<R: Records> TableReader<R> {
    pub(super) fn new(records: R, fields: Fields, options: &Options) -> Result<Self, DataError> {
        let columns = TableColumns::choose(&fields, options)?;
        // A file of labels has no features, and is read so on purpose.
        let is_labels = fields.count == 1 && options.label == Label::Last;
        if columns.numeric.is_empty() && columns.categorical.is_empty() && !is_labels {
            return Err(DataError::NoFeatures);
        }
        let means = options.means.clone();
        let missing = match options.missing {
            Missing::Fitted if means.is_some() => Missing::Mean,
            Missing::Fitted => Missing::Error,
            chosen => chosen,
        };
        if let Some(means) = means.as_ref().filter(|means| means.len() != columns.width()) {
            return Err(DataError::Width { found: columns.width(), expected: means.len() });
        }
        let (all_rows, ids) = (None, Vec::new());
        Ok(Self { records, fields, columns, missing, means, all_rows, ids })
    }

    /// Reads up to `rows` rows without changes, about `values` values.
    fn read_table(&mut self, rows: usize, values: usize) -> Result<TableRows, DataError> {
        let mut table = TableRows::default();
        while table.rows() < rows && table.values() < values {
            if table.rows() > 0 && self.records.waits() {
                break;
            }
            let Some(line) = self.records.advance()? else { break };
            let Self { records, fields, columns, missing, .. } = self;
            let pushed = table.push(line, records, fields, columns, *missing);
            pushed.map_err(|error| self.records.place(error))?;
        }
        Ok(table)
    }
}

impl<R: Records> Chunks for TableReader<R> {
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError> {
        let needs_means = self.missing == Missing::Mean && self.means.is_none();
        let needs_all =
            self.all_rows.is_some() || needs_means || self.columns.has_open_categories();
        let (mut table, used) = if needs_all {
            if self.all_rows.is_none() {
                let mut table = self.read_table(usize::MAX, usize::MAX)?;
                self.columns.close();
                if needs_means {
                    self.means = Some(table.means(&self.fields, &self.columns)?);
                }
                table.fill(self.means.as_deref().unwrap_or_default(), &self.columns);
                self.all_rows = Some(table);
            }
            let all_rows = self.all_rows.take().unwrap_or_default();
            (all_rows, rows.min(CHUNK_VALUES.div_ceil(self.columns.width().max(1))))
        } else {
            let mut table = self.read_table(rows, CHUNK_VALUES)?;
            table.fill(self.means.as_deref().unwrap_or_default(), &self.columns);
            (table, rows)
        };
        let used = used.min(table.rows());
        if used == 0 {
            return Ok(None);
        }
        let examples = table.examples(used, &self.columns)?;
        let labels = table.take_labels(used);
        self.ids = table.take_ids(used);
        table.forget(used, &self.columns);
        if needs_all {
            self.all_rows = Some(table);
        }
        let names = self.columns.names(&self.fields);
        let targets = if self.columns.label.is_some() { targets(labels) } else { Targets::Absent };
        Ok(Some(Dataset { examples, targets, names }))
    }

    fn ids(&self) -> Option<&[String]> {
        self.columns.id.map(|_| self.ids.as_slice())
    }

    fn ignored(&self) -> &[String] {
        &self.columns.ignored
    }

    fn target(&self) -> Option<TargetColumn> {
        self.columns.target(&self.fields)
    }

    fn means(&self) -> Option<&[f64]> {
        self.means.as_deref().filter(|_| self.missing == Missing::Mean)
    }
}

/// Numbers if all labels are numbers that come back as the same labels, names otherwise.
fn targets(labels: Vec<String>) -> Targets {
    match labels.iter().map(|label| label_number(label)).collect::<Option<Vec<f64>>>() {
        Some(numbers) => Targets::Numbers(numbers),
        None => Targets::Names(labels),
    }
}

/// An error about a row instead of a line, for formats without lines.
pub(super) fn by_row(format: &'static str, error: DataError) -> DataError {
    let (DataError::NotANumber { line, .. }
    | DataError::NotFinite { line, .. }
    | DataError::Missing { line, .. }
    | DataError::UnknownCategory { line, .. }) = error
    else {
        return error;
    };
    let text = error.to_string();
    let reason = text.strip_prefix(&format!("line {line}: ")).unwrap_or(&text);
    let reason = format!("row {line}: {reason}");
    match error {
        DataError::Missing { column, .. } => DataError::MissingAt { row: line, column },
        _ => DataError::Array { format, reason },
    }
}
