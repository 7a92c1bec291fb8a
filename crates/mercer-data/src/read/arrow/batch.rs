//! Record batches, and dictionaries of texts.

use std::collections::HashMap;
use std::io::Read;

use super::flat::FlatTable;
use super::schema::{ArrowKind, Field};
use super::{Cell, error};
use crate::DataError;
use crate::read::options::UnpackLimits;
use crate::read::unpack::too_much;

/// Kinds of messages.
pub(super) const DICTIONARY: u8 = 2;
pub(super) const RECORDS: u8 = 3;
/// Buffers may share bytes, but all together take no more than so many times the message.
const SHARED: usize = 4;
/// Bytes of a view.
const VIEW: usize = 16;

/// Words that numbers point to.
#[derive(Debug)]
pub(super) struct Words(Vec<String>);

impl Words {
    pub(super) fn read(
        data: FlatTable<'_>,
        fields: &[Field],
        id: i64,
        body: Vec<u8>,
        limits: UnpackLimits,
    ) -> Result<Self, DataError> {
        let user = fields.iter().find(|field| field.dictionary == Some(id));
        let user = user.ok_or_else(|| error("a dictionary that no column uses"))?;
        let (name, kind) = (format!("words of {}", user.name), user.words);
        let field = Field { name, kind, dictionary: None, words: kind };
        let batch = Batch::read(data, &[field], body, limits)?;
        let none = HashMap::new();
        let word = |row| match batch.cell(0, row, &none) {
            Cell::Text(text) => text.to_owned(),
            _ => String::new(),
        };
        Ok(Self((0..batch.rows()).map(word).collect()))
    }

    pub(super) fn append(&mut self, more: Self) {
        self.0.extend(more.0);
    }
}

/// A batch of rows.
#[derive(Debug, Default)]
pub(super) struct Batch {
    rows: usize,
    columns: Vec<ArrowColumn>,
}

#[derive(Debug)]
struct ArrowColumn {
    kind: ArrowKind,
    dictionary: Option<i64>,
    /// One bit per row; all rows are there if it is empty.
    valid: Vec<u8>,
    values: Vec<u8>,
    /// Where texts begin and end in `values`.
    offsets: Vec<u8>,
    /// Where views find longer texts.
    further: Vec<Vec<u8>>,
}

/// Buffers of a batch, in order.
struct Buffers<'a> {
    body: &'a [u8],
    places: std::vec::IntoIter<(i64, i64)>,
    codec: Option<u8>,
    /// Bytes that may still be unpacked.
    left: u64,
    /// Bytes that may still be copied: buffers that overlap would take more than the message has.
    plain: usize,
}

impl Buffers<'_> {
    fn next(&mut self) -> Result<Vec<u8>, DataError> {
        let damaged = || error("a buffer lies outside its message");
        let (offset, length) = self.places.next().ok_or_else(damaged)?;
        let start = usize::try_from(offset).map_err(|_| damaged())?;
        let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
        let end = end.ok_or_else(damaged)?;
        let bytes = self.body.get(start..end).ok_or_else(damaged)?;
        match self.codec {
            Some(codec) if !bytes.is_empty() => self.unpack(codec, bytes),
            _ => self.copied(bytes),
        }
    }

    fn copied(&mut self, bytes: &[u8]) -> Result<Vec<u8>, DataError> {
        let left = self.plain.checked_sub(bytes.len());
        self.plain = left.ok_or_else(|| error("buffers of a message overlap"))?;
        Ok(bytes.to_vec())
    }

    fn unpack(&mut self, codec: u8, bytes: &[u8]) -> Result<Vec<u8>, DataError> {
        let (length, packed) = bytes
            .split_first_chunk::<8>()
            .ok_or_else(|| error("a compressed buffer is cut off"))?;
        let length = i64::from_le_bytes(*length);
        if length == -1 {
            return self.copied(packed);
        }
        let length =
            u64::try_from(length).map_err(|_| error("a compressed buffer of negative length"))?;
        if length > self.left {
            return Err(error(too_much()));
        }
        self.left -= length;
        let mut out = Vec::new();
        let read = match codec {
            0 => lz4_flex::frame::FrameDecoder::new(packed).take(length + 1).read_to_end(&mut out),
            #[cfg(feature = "zstd")]
            1 => zstd::stream::read::Decoder::new(packed)
                .and_then(|decoder| decoder.take(length + 1).read_to_end(&mut out)),
            #[cfg(not(feature = "zstd"))]
            1 => return Err(DataError::NotBuiltIn { what: "zstd" }),
            _ => return Err(error("buffers have an unknown compression")),
        };
        read.map_err(|cause| error(format!("a compressed buffer is damaged: {cause}")))?;
        if out.len() as u64 == length {
            Ok(out)
        } else {
            Err(error("a compressed buffer does not have the length that it states"))
        }
    }
}

impl Batch {
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn read(
        header: FlatTable<'_>,
        fields: &[Field],
        body: Vec<u8>,
        limits: UnpackLimits,
    ) -> Result<Self, DataError> {
        let codec = header.table(3)?.map(|packing| packing.byte(0)).transpose()?;
        let places = header.pairs(2)?.into_iter();
        let limit = limits.of(body.len() as u64);
        let plain = body.len().saturating_mul(SHARED);
        let mut buffers = Buffers { body: &body, places, codec, left: limit, plain };
        let nodes = header.pairs(1)?;
        if nodes.len() != fields.len() {
            return Err(error(format!("a batch of {} columns, not {}", nodes.len(), fields.len())));
        }
        let length = header.long(0, 0)?;
        let rows = usize::try_from(length).map_err(|_| error("a batch of negative length"))?;
        let mut further_counts = header.longs(4)?.into_iter();
        let mut columns = Vec::new();
        for (field, (length, _)) in fields.iter().zip(nodes) {
            if length != rows as i64 {
                return Err(error(format!("column '{}' has {length} of {rows} rows", field.name)));
            }
            let valid = buffers.next()?;
            let offsets =
                if matches!(field.kind, ArrowKind::Text(_)) { buffers.next()? } else { Vec::new() };
            let values = buffers.next()?;
            let (kind, dictionary) = (field.kind, field.dictionary);
            let mut further = Vec::new();
            if kind == ArrowKind::View {
                // Each buffer is taken from a list of the message: their number is bounded by it.
                for _ in 0..further_counts.next().unwrap_or(0) {
                    further.push(buffers.next()?);
                }
            }
            let column = ArrowColumn { kind, dictionary, valid, values, offsets, further };
            column.check(rows, &field.name, limit)?;
            columns.push(column);
        }
        Ok(Self { rows, columns })
    }

    /// Every index of a dictionary has an entry.
    pub(super) fn check_words(&self, words: &HashMap<i64, Words>) -> Result<(), DataError> {
        for column in &self.columns {
            let Some(id) = column.dictionary else { continue };
            let known = words.get(&id).map_or(0, |words| words.0.len());
            for row in (0..self.rows).filter(|row| column.is_valid(*row)) {
                if column.number(row).is_none_or(|at| !(at >= 0.0 && at < known as f64)) {
                    return Err(error(format!("row {} names a word that is not there", row + 1)));
                }
            }
        }
        Ok(())
    }

    pub(super) fn cell<'a>(
        &'a self,
        field: usize,
        row: usize,
        words: &'a HashMap<i64, Words>,
    ) -> Cell<'a> {
        let column = &self.columns[field];
        if !column.is_valid(row) {
            return Cell::Missing;
        }
        match (column.kind, column.dictionary) {
            (ArrowKind::Text(_) | ArrowKind::View, _) => {
                column.text(row).map_or(Cell::Missing, Cell::Text)
            }
            (_, Some(id)) => {
                let word = words.get(&id).zip(column.number(row));
                let word = word.and_then(|(words, at)| words.0.get(at as usize));
                word.map_or(Cell::Missing, |word| Cell::Text(word))
            }
            // Checked in `check`: only integers beyond 2^53 are not exact in f64.
            (_, None) => column.number(row).map_or(Cell::Number(f64::NAN), Cell::Number),
        }
    }
}

impl ArrowColumn {
    /// Checks that all rows lie inside the buffers, texts are UTF-8 and integers are exact in f64.
    fn check(&self, rows: usize, name: &str, limit: u64) -> Result<(), DataError> {
        let short = || error(format!("column '{name}' is cut off"));
        if !self.valid.is_empty() && self.valid.len() < rows.div_ceil(8) {
            return Err(short());
        }
        let needed = match self.kind {
            ArrowKind::Number(scalar) => rows.checked_mul(scalar.bytes()),
            ArrowKind::Bool => Some(rows.div_ceil(8)),
            ArrowKind::View => rows.checked_mul(VIEW),
            ArrowKind::Text(width) => {
                let entries = if rows == 0 { 0 } else { rows.saturating_add(1) };
                if entries.checked_mul(width).is_none_or(|needed| self.offsets.len() < needed) {
                    return Err(short());
                }
                Some(0)
            }
        };
        if needed.is_none_or(|needed| self.values.len() < needed) {
            return Err(short());
        }
        // Texts may share their bytes: all of them together count as unpacked.
        let mut total = 0;
        for row in (0..rows).filter(|row| self.is_valid(*row)) {
            match self.kind {
                ArrowKind::Text(_) | ArrowKind::View => {
                    let text = self.text(row).ok_or_else(|| {
                        error(format!("column '{name}', row {} is not text", row + 1))
                    })?;
                    total += text.len() as u64;
                    if total > limit {
                        return Err(error(too_much()));
                    }
                }
                ArrowKind::Number(_) if self.number(row).is_none() => {
                    return Err(error("an integer beyond 2^53 is not exact in f64"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_valid(&self, row: usize) -> bool {
        self.valid.is_empty() || bit(&self.valid, row)
    }

    fn number(&self, row: usize) -> Option<f64> {
        let ArrowKind::Number(scalar) = self.kind else {
            return Some(f64::from(u8::from(bit(&self.values, row))));
        };
        let size = scalar.bytes();
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(self.values.get(row * size..(row + 1) * size)?);
        scalar.value(bytes)
    }

    fn text(&self, row: usize) -> Option<&str> {
        let width = match self.kind {
            ArrowKind::Text(width) => width,
            ArrowKind::View => return std::str::from_utf8(self.viewed(row)?).ok(),
            ArrowKind::Number(_) | ArrowKind::Bool => return None,
        };
        let offset = |at: usize| {
            let bytes = self.offsets.get(at * width..(at + 1) * width)?;
            let mut wide = [0; 8];
            wide[..width].copy_from_slice(bytes);
            usize::try_from(i64::from_le_bytes(wide)).ok()
        };
        std::str::from_utf8(self.values.get(offset(row)?..offset(row + 1)?)?).ok()
    }
}

/// What a view of 16 bytes stands for: a length, then up to 12 bytes of text; or four of them, the number of a
/// buffer and a place in it.
impl ArrowColumn {
    fn viewed(&self, row: usize) -> Option<&[u8]> {
        let view = self.values.get(row.checked_mul(VIEW)?..)?.get(..VIEW)?;
        let number = |at: usize| {
            let bytes = view[at..at + 4].try_into().ok()?;
            usize::try_from(i32::from_le_bytes(bytes)).ok()
        };
        let length = number(0)?;
        if length <= VIEW - 4 {
            return view.get(4..4 + length);
        }
        let (buffer, start) = (number(8)?, number(12)?);
        self.further.get(buffer)?.get(start..start.checked_add(length)?)
    }
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}
