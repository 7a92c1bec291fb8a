//! Tables: comma, semicolon or tab separated, with or without a header line.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::table::columns::Fields;
use super::table::{Cell, Records, TableReader};
use super::{Label, Options, ReadFormat, Source};
use crate::DataError;
use crate::dataset::number;

pub(super) static FORMAT: ReadFormat = ReadFormat {
    name: "csv",
    summary: "comma, semicolon or tab separated table, with or without a header line",
    endings: &["csv", "tsv", "tab"],
    recognise: |_| false,
    open: |source, options| Ok(Box::new(open(source, options)?)),
};

/// Bytes of one record at most; no sensible row is longer.
const MAX_RECORD: usize = 1 << 24;

/// Bytes that are read at once where rows come line by line.
const LIVE_BUFFER: usize = 1 << 18;

/// Passes bytes on, up to an allowance that is renewed for every record: a record without end takes no more memory.
struct Metered {
    /// The first line, which was read to find the delimiter.
    head: Cursor<Vec<u8>>,
    source: BufReader<Source>,
    left: Arc<AtomicUsize>,
    /// Where rows come line by line: whether no further line has come. Lines are then passed on one by one.
    waits: Option<Arc<AtomicBool>>,
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let Self { head, source, waits, .. } = self;
        let has_head = !head.fill_buf()?.is_empty();
        let bytes = if has_head { head.fill_buf()? } else { source.fill_buf()? };
        let mut count = bytes.len().min(buffer.len()).min(left);
        if waits.is_some() {
            count = memchr::memchr(b'\n', &bytes[..count]).map_or(count, |end| end + 1);
        }
        buffer[..count].copy_from_slice(&bytes[..count]);
        if has_head {
            head.consume(count);
        } else {
            source.consume(count);
        }
        if let Some(waits) = waits {
            let is_empty = memchr::memchr(b'\n', source.buffer()).is_none();
            waits.store(is_empty, Ordering::Relaxed);
        }
        self.left.store(left - count, Ordering::Relaxed);
        Ok(count)
    }
}

/// Lines of a table.
struct Lines {
    records: csv::Reader<Metered>,
    /// Bytes that the current record may still take.
    left: Arc<AtomicUsize>,
    waits: Option<Arc<AtomicBool>>,
    /// The first row of a table without header, read while looking for one.
    pending: Option<csv::StringRecord>,
    record: csv::StringRecord,
    fields: usize,
}

fn open(source: Source, options: &Options) -> Result<TableReader<Lines>, DataError> {
    let waits = options.line_by_line.then(Arc::<AtomicBool>::default);
    let mut buffered = match waits {
        Some(_) => BufReader::with_capacity(LIVE_BUFFER, source),
        None => BufReader::new(source),
    };
    let mut head = Vec::new();
    (&mut buffered).take(MAX_RECORD as u64).read_until(b'\n', &mut head)?;
    let delimiter = guess_delimiter(&head);
    let left = Arc::new(AtomicUsize::new(MAX_RECORD));
    let rest = Metered {
        head: Cursor::new(head),
        source: buffered,
        left: Arc::clone(&left),
        waits: waits.clone(),
    };
    let mut records = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(rest);
    let mut first = csv::StringRecord::new();
    if !records.read_record(&mut first).map_err(|error| from_csv(&error, &left))? {
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
    let lines = Lines { records, left, waits, pending, record, fields: fields.count };
    TableReader::new(lines, fields, options)
}

impl Records for Lines {
    fn advance(&mut self) -> Result<Option<usize>, DataError> {
        if let Some(first) = self.pending.take() {
            self.record = first;
            return self.checked();
        }
        self.left.store(MAX_RECORD, Ordering::Relaxed);
        let Self { records, record, left, .. } = self;
        if !records.read_record(record).map_err(|error| from_csv(&error, left))? {
            return Ok(None);
        }
        self.checked()
    }

    fn waits(&self) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.load(Ordering::Relaxed))
    }

    fn cell(&self, field: usize) -> Cell<'_> {
        Cell::Text(&self.record[field])
    }
}

impl Lines {
    /// The line of the record, which has as many fields as the first one.
    fn checked(&self) -> Result<Option<usize>, DataError> {
        let line = self.record.position().map_or(1, |position| position.line() as usize);
        if self.record.len() != self.fields {
            let (found, expected) = (self.record.len(), self.fields);
            return Err(DataError::RaggedRow { line, found, expected });
        }
        Ok(Some(line))
    }
}

fn guess_delimiter(head: &[u8]) -> u8 {
    let count = |wanted: u8| head.iter().filter(|byte| **byte == wanted).count();
    [b',', b'\t', b';'].into_iter().rev().max_by_key(|byte| count(*byte)).unwrap_or(b',')
}

/// An error of the reader of records; `left` are the bytes that the record might still have taken.
fn from_csv(error: &csv::Error, left: &AtomicUsize) -> DataError {
    let line = error.position().map_or(1, |position| position.line() as usize);
    if matches!(error.kind(), csv::ErrorKind::Io(_)) && left.load(Ordering::Relaxed) == 0 {
        return DataError::LineTooLong { line, limit: MAX_RECORD };
    }
    DataError::Malformed { line, reason: error.to_string() }
}

#[cfg(test)]
mod tests;
