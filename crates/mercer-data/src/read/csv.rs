//! Tables: comma, semicolon or tab separated, with or without a header line.

mod columns;
mod table;

use std::io::{BufRead, BufReader, Cursor, Read};

use super::{CHUNK_VALUES, Chunks, Format, Missing, Options, Source};
use crate::{DataError, Dataset, Targets};
use columns::{Columns, Fields};
use table::{Table, number};

pub(super) static FORMAT: Format = Format {
    name: "csv",
    summary: "comma, semicolon or tab separated table, with or without a header line",
    endings: &["csv", "tsv", "tab"],
    recognise: |_| false,
    open: |source, options| Ok(Box::new(Reader::open(source, options)?)),
};

struct Reader {
    records: csv::Reader<Source>,
    /// The first row of a table without header, read while looking for one.
    pending: Option<csv::StringRecord>,
    fields: Fields,
    columns: Columns,
    missing: Missing,
    /// All rows, where the whole file must be known before the first row is.
    whole: Option<Table>,
    ids: Vec<String>,
}

impl Reader {
    fn open(source: Source, options: &Options) -> Result<Self, DataError> {
        let mut buffered = BufReader::new(source);
        let mut head = Vec::new();
        (&mut buffered).take(1 << 24).read_until(b'\n', &mut head)?;
        let delimiter = guess_delimiter(&head);
        let rest: Source = Box::new(Cursor::new(head).chain(buffered));
        let mut records = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(rest);
        let mut first = csv::StringRecord::new();
        if !records.read_record(&mut first).map_err(|error| from_csv(&error))? {
            return Err(DataError::Empty);
        }
        // A header holds no number at all; a row of words only cannot be an example, unless the words are
        // categories or a label without features.
        let has_header = first.len() > 1 || options.label != super::Label::Last;
        let has_header = has_header
            && options.one_hot.len() < first.len()
            && first.iter().all(|field| number(field).is_none());
        let names = has_header.then(|| first.iter().map(str::to_owned).collect());
        let fields = Fields { count: first.len(), names };
        let columns = Columns::choose(&fields, options)?;
        // A file of labels has no features, and is read so on purpose.
        let is_labels = fields.count == 1 && options.label == super::Label::Last;
        if columns.numeric.is_empty() && columns.categorical.is_empty() && !is_labels {
            return Err(DataError::NoFeatures);
        }
        let pending = (!has_header).then_some(first);
        let (missing, whole, ids) = (options.missing, None, Vec::new());
        Ok(Self { records, pending, fields, columns, missing, whole, ids })
    }

    fn next_record(&mut self) -> Result<Option<(usize, csv::StringRecord)>, DataError> {
        let record = match self.pending.take() {
            Some(first) => first,
            None => {
                let mut record = csv::StringRecord::new();
                if !self.records.read_record(&mut record).map_err(|error| from_csv(&error))? {
                    return Ok(None);
                }
                record
            }
        };
        let line = record.position().map_or(1, |position| position.line() as usize);
        if record.len() != self.fields.count {
            let (found, expected) = (record.len(), self.fields.count);
            return Err(DataError::RaggedRow { line, found, expected });
        }
        Ok(Some((line, record)))
    }

    /// Reads up to `rows` rows as they stand, about `values` values.
    fn read_table(&mut self, rows: usize, values: usize) -> Result<Table, DataError> {
        let mut table = Table::default();
        while table.rows() < rows && table.values() < values {
            let Some((line, record)) = self.next_record()? else { break };
            let Self { fields, columns, missing, .. } = self;
            table.push(line, &record, fields, columns, *missing)?;
        }
        Ok(table)
    }
}

impl Chunks for Reader {
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError> {
        let needs_whole = self.missing == Missing::Mean || self.columns.has_open_categories();
        let (mut table, used) = if needs_whole {
            if self.whole.is_none() {
                let mut table = self.read_table(usize::MAX, usize::MAX)?;
                self.columns.close();
                table.fill(&self.fields, &self.columns)?;
                self.whole = Some(table);
            }
            let whole = self.whole.take().unwrap_or_default();
            (whole, rows.min(CHUNK_VALUES.div_ceil(self.columns.width().max(1))))
        } else {
            (self.read_table(rows, CHUNK_VALUES)?, rows)
        };
        let used = used.min(table.rows());
        if used == 0 {
            return Ok(None);
        }
        let examples = table.examples(used, &self.columns)?;
        let labels = table.take_labels(used);
        self.ids = table.take_ids(used);
        table.forget(used, &self.columns);
        if needs_whole {
            self.whole = Some(table);
        }
        let names = self.columns.names(&self.fields);
        let targets = if self.columns.label.is_some() { targets(labels) } else { Targets::Absent };
        Ok(Some(Dataset { examples, targets, names }))
    }

    fn ignored(&self) -> &[String] {
        &self.columns.ignored
    }

    fn ids(&self) -> Option<&[String]> {
        self.columns.id.map(|_| self.ids.as_slice())
    }
}

/// Numbers if all labels are finite numbers, names otherwise.
fn targets(labels: Vec<String>) -> Targets {
    let finite = |label: &String| number(label).filter(|value| value.is_finite());
    match labels.iter().map(finite).collect::<Option<Vec<f64>>>() {
        Some(numbers) => Targets::Numbers(numbers),
        None => Targets::Names(labels),
    }
}

fn guess_delimiter(head: &[u8]) -> u8 {
    let count = |wanted: u8| head.iter().filter(|byte| **byte == wanted).count();
    [b',', b'\t', b';'].into_iter().rev().max_by_key(|byte| count(*byte)).unwrap_or(b',')
}

fn from_csv(error: &csv::Error) -> DataError {
    let line = error.position().map_or(1, |position| position.line() as usize);
    DataError::Malformed { line, reason: error.to_string() }
}

#[cfg(test)]
mod tests;
