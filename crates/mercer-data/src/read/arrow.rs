//! Arrow IPC: the stream format, and the file format, which is a stream between two marks (Feather 2).
//!
//! The reader is our own: it decodes as much of flatbuffers as schema, batches and dictionaries need, and
//! checks every offset, so that memory is bounded by the size of the file and a limit.

mod batch;
mod flat;
mod footer;
mod schema;

use std::collections::HashMap;
use std::io::Read;

use super::options::UnpackLimits;
use super::table::columns::Fields;
use super::table::{Cell, Records, TableReader, by_row};
use super::{Options, ReadFormat, Source};
use crate::DataError;
use batch::{Batch, Words};
use flat::FlatTable;
use schema::Field;

pub(super) static FORMAT: ReadFormat = ReadFormat {
    name: "arrow",
    summary: "Arrow IPC file (Feather 2) or stream; numbers, booleans, texts and dictionaries of texts",
    endings: &["arrow", "feather", "ipc", "arrows"],
    recognise: |head| head.starts_with(MAGIC) || head.starts_with(&CONTINUATION),
    open: |source, options| Ok(Box::new(open(source, options)?)),
};

/// First and last bytes of a file.
pub(crate) const MAGIC: &[u8] = b"ARROW1";
/// Before each message.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];
/// Longest description of a message.
const MAX_DESCRIPTION: usize = 1 << 26;

pub(super) fn error(reason: impl Into<String>) -> DataError {
    DataError::Array { format: "Arrow", reason: reason.into() }
}

/// A stream of messages.
struct Messages {
    source: Source,
    limits: UnpackLimits,
    fields: Vec<Field>,
    words: HashMap<i64, Words>,
    batch: Batch,
    /// Row in the current batch, and rows of the batches before it.
    row: usize,
    before: usize,
    /// A file, which ends with a mark, not a stream.
    is_file: bool,
    ended: bool,
}

fn open(mut source: Source, options: &Options) -> Result<TableReader<Messages>, DataError> {
    let mut start = [0; 4];
    source.read_exact(&mut start).map_err(|_| error("the file is cut off"))?;
    let mut is_file = start == MAGIC[..4];
    let (mut fields, mut needs_footer) = (Vec::new(), false);
    if is_file {
        let mut rest = [0; 4];
        source.read_exact(&mut rest).map_err(|_| error("the file is cut off"))?;
        if rest[..2] != MAGIC[4..] {
            return Err(error("the file does not begin with ARROW1"));
        }
        source.read_exact(&mut start).map_err(|_| error("the file is cut off"))?;
        needs_footer = start != CONTINUATION;
        if needs_footer {
            let read = [MAGIC, &rest[2..], &start].concat();
            (fields, source) = footer::stream(&read, source)?;
            is_file = false;
        }
    }
    let (words, batch) = (HashMap::new(), Batch::default());
    let limits = options.unpack_limits();
    let (row, before, ended) = (0, 0, false);
    let mut messages =
        Messages { source, limits, fields, words, batch, row, before, is_file, ended };
    if !needs_footer {
        messages.read_schema(start)?;
    }
    let names: Vec<String> = messages.fields.iter().map(|field| field.name.clone()).collect();
    if names.is_empty() {
        return Err(DataError::NoFeatures);
    }
    TableReader::new(messages, Fields { count: names.len(), names: Some(names) }, options)
}

impl Messages {
    /// The message that begins with these four bytes: its description and its body; `None` at the end.
    fn message(&mut self, start: [u8; 4]) -> Result<Option<(Vec<u8>, Vec<u8>)>, DataError> {
        let mut length = start;
        if start == CONTINUATION {
            self.source.read_exact(&mut length).map_err(|_| error("a message is cut off"))?;
        }
        let length = u32::from_le_bytes(length) as usize;
        if length == 0 {
            return Ok(None);
        }
        if length > MAX_DESCRIPTION {
            return Err(error(format!(
                "a description of {length} bytes is longer than any schema"
            )));
        }
        let description = self.exactly(length as u64)?;
        let body = FlatTable::root(&description)?.long(3, 0)?;
        let body = u64::try_from(body).map_err(|_| error("a body of negative length"))?;
        let body = self.exactly(body)?;
        Ok(Some((description, body)))
    }

    /// The first message of a stream is the schema.
    fn read_schema(&mut self, start: [u8; 4]) -> Result<(), DataError> {
        let Some((description, _)) = self.message(start)? else {
            return Err(error("there is no schema"));
        };
        let message = FlatTable::root(&description)?;
        if message.byte(1)? != schema::HEADER {
            return Err(error("the first message is not a schema"));
        }
        let header = message.table(2)?.ok_or_else(|| error("there is no schema"))?;
        self.fields = schema::fields(header)?;
        Ok(())
    }

    /// Memory grows with the size of the file, not with the sizes it states.
    fn exactly(&mut self, count: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        (&mut self.source).take(count).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < count {
            return Err(error("a message is cut off"));
        }
        Ok(bytes)
    }

    /// After the last message a file repeats where its batches are, and its mark.
    fn end(&mut self) -> Result<bool, DataError> {
        self.ended = true;
        self.before += self.batch.rows();
        self.batch = Batch::default();
        if !self.is_file {
            return Ok(false);
        }
        let (mut tail, mut buffer) = (Vec::new(), vec![0; 1 << 12]);
        loop {
            let count = self.source.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            tail.extend_from_slice(&buffer[..count]);
            tail.drain(..tail.len().saturating_sub(MAGIC.len()));
        }
        if tail == MAGIC { Ok(false) } else { Err(error("the file is cut off")) }
    }

    /// Goes to the next batch of rows; false at the end.
    fn next_batch(&mut self) -> Result<bool, DataError> {
        while !self.ended {
            let mut start = [0; 4];
            let mut filled = 0;
            while filled < 4 {
                match self.source.read(&mut start[filled..])? {
                    0 if filled == 0 => return self.end(),
                    0 => return Err(error("a message is cut off")),
                    count => filled += count,
                }
            }
            let Some((description, body)) = self.message(start)? else { return self.end() };
            let message = FlatTable::root(&description)?;
            let header = message.table(2)?.ok_or_else(|| error("a message without contents"))?;
            match message.byte(1)? {
                batch::DICTIONARY => {
                    let id = header.long(0, 0)?;
                    let data = header.table(1)?.ok_or_else(|| error("an empty dictionary"))?;
                    let words = Words::read(data, &self.fields, id, body, self.limits)?;
                    match self.words.get_mut(&id) {
                        Some(known) if header.byte(2)? != 0 => known.append(words),
                        _ => {
                            self.words.insert(id, words);
                        }
                    }
                }
                batch::RECORDS => {
                    self.before += self.batch.rows();
                    self.row = 0;
                    self.batch = Batch::read(header, &self.fields, body, self.limits)?;
                    self.batch.check_words(&self.words)?;
                    if self.batch.rows() > 0 {
                        return Ok(true);
                    }
                }
                other => return Err(error(format!("a message of unknown kind {other}"))),
            }
        }
        Ok(false)
    }
}

impl Records for Messages {
    fn advance(&mut self) -> Result<Option<usize>, DataError> {
        self.row += 1;
        if self.row >= self.batch.rows() {
            if !self.next_batch()? {
                return Ok(None);
            }
            self.row = 0;
        }
        Ok(Some(self.before + self.row + 1))
    }

    fn cell(&self, field: usize) -> Cell<'_> {
        self.batch.cell(field, self.row, &self.words)
    }

    fn place(&self, error: DataError) -> DataError {
        by_row("Arrow", error)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) mod views;
