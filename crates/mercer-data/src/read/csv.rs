//! Tables: comma, semicolon or tab separated, with or without a header line.

use std::io::{BufRead, BufReader, Cursor, Read};

use super::table::columns::Fields;
use super::table::rows::number;
use super::table::{Cell, Records, TableReader};
use super::{Label, Options, ReadFormat, Source};
use crate::DataError;

pub(super) static FORMAT: ReadFormat = ReadFormat {
    name: "csv",
    summary: "comma, semicolon or tab separated table, with or without a header line",
    endings: &["csv", "tsv", "tab"],
    recognise: |_| false,
    open: |source, options| Ok(Box::new(open(source, options)?)),
};

/// Lines of a table.
struct Lines {
    records: csv::Reader<Source>,
    /// The first row of a table without header, read while looking for one.
    pending: Option<csv::StringRecord>,
    record: csv::StringRecord,
    fields: usize,
}

fn open(source: Source, options: &Options) -> Result<TableReader<Lines>, DataError> {
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
    let has_header = first.len() > 1 || options.label != Label::Last;
    let has_header = has_header
        && options.one_hot.len() < first.len()
        && first.iter().all(|field| number(field).is_none());
    let names = has_header.then(|| first.iter().map(str::to_owned).collect());
    let fields = Fields { count: first.len(), names };
    let pending = (!has_header).then_some(first);
    let record = csv::StringRecord::new();
    let lines = Lines { records, pending, record, fields: fields.count };
    TableReader::new(lines, fields, options)
}

impl Records for Lines {
    fn advance(&mut self) -> Result<Option<usize>, DataError> {
        if let Some(first) = self.pending.take() {
            self.record = first;
        } else if !self.records.read_record(&mut self.record).map_err(|error| from_csv(&error))? {
            return Ok(None);
        }
        let line = self.record.position().map_or(1, |position| position.line() as usize);
        if self.record.len() != self.fields {
            let (found, expected) = (self.record.len(), self.fields);
            return Err(DataError::RaggedRow { line, found, expected });
        }
        Ok(Some(line))
    }

    fn cell(&self, field: usize) -> Cell<'_> {
        Cell::Text(&self.record[field])
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
