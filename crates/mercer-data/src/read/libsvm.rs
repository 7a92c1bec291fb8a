//! LIBSVM text, read in blocks whose pieces are parsed in parallel.

mod line;

use std::collections::VecDeque;
use std::io::Read;

use rayon::prelude::*;

use super::{CHUNK_VALUES, Chunks, Options, ReadFormat, Source};
use crate::{DataError, Dataset, Matrix, MatrixBuilder, Targets};
use line::Syntax;

pub(super) static FORMAT: ReadFormat = ReadFormat {
    name: "libsvm",
    summary: "LIBSVM text: one row per line, 'label index:value ...', indices from 1, increasing",
    endings: &["svm", "libsvm", "svmlight", "dat"],
    recognise: |_| false,
    open: |source, options| Ok(Box::new(LibsvmReader::new(source, options))),
};

/// Bytes read at a time.
const BLOCK: usize = 4 << 20;
/// Bytes parsed by one thread at a time.
const PIECE: usize = 256 << 10;
/// No sensible row is longer.
const MAX_LINE: usize = 1 << 28;

struct LibsvmReader {
    source: Source,
    syntax: Syntax,
    /// Lines are parsed as they come; nothing is read ahead.
    line_by_line: bool,
    /// Bytes read and not parsed yet; they begin with a line.
    block: Vec<u8>,
    ended: bool,
    /// Lines before the block.
    lines: usize,
    /// Parsed rows that were not returned yet, in the order of the file.
    pieces: VecDeque<Piece>,
    /// Rows of the first piece that were returned.
    given: usize,
    /// An error found while reading ahead, returned after everything before it.
    failure: Option<DataError>,
    width: usize,
}

/// Some lines, parsed up to their end or to their first error.
struct Piece {
    rows: Matrix,
    targets: Vec<f64>,
    error: Option<DataError>,
}

impl LibsvmReader {
    fn new(source: Source, options: &Options) -> Self {
        Self {
            source,
            syntax: Syntax::new(options),
            line_by_line: options.line_by_line,
            block: Vec::new(),
            ended: false,
            lines: 0,
            pieces: VecDeque::new(),
            given: 0,
            failure: None,
            width: 0,
        }
    }

    /// Parses the lines of the block while the next bytes are read; false at the end of the file.
    fn advance(&mut self) -> Result<bool, DataError> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let mut searched = 0;
        let end = loop {
            if let Some(found) = memchr::memrchr(b'\n', &self.block[searched..]) {
                break searched + found + 1;
            }
            if self.ended {
                break self.block.len();
            }
            if self.block.len() > MAX_LINE {
                return Err(DataError::LineTooLong { line: self.lines + 1, limit: MAX_LINE });
            }
            searched = self.block.len();
            let read = if self.line_by_line { fill_once } else { fill };
            self.ended = read(&mut self.source, &mut self.block)? == 0;
        };
        if end == 0 {
            return Ok(false);
        }
        let stays = self.ended || self.line_by_line;
        let ahead = if stays { 0 } else { BLOCK };
        let mut rest = Vec::with_capacity(self.block.len() - end + ahead);
        rest.extend_from_slice(&self.block[end..]);
        let block = std::mem::replace(&mut self.block, rest);
        let (source, rest, before) = (&mut self.source, &mut self.block, usize::from(!self.ended));
        let (syntax, lines) = (self.syntax, self.lines);
        let mut more = || if stays { Ok(before) } else { fill(source, rest) };
        let ((pieces, lines), read) = if end <= PIECE {
            // Waking another thread would cost more than it saves.
            let piece = Piece::parse(syntax, &block[..end], lines);
            let count = memchr::memchr_iter(b'\n', &block[..end]).count();
            ((vec![piece], lines + count), more())
        } else {
            rayon::join(|| parse(syntax, &block[..end], lines), more)
        };
        self.pieces.extend(pieces);
        self.lines = lines;
        match read {
            Ok(read) => self.ended = read == 0,
            Err(error) => self.failure = Some(error.into()),
        }
        Ok(true)
    }
}

/// Reads up to a block more; 0 at the end.
fn fill(source: &mut Source, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    source.take(BLOCK as u64).read_to_end(buffer)
}

/// Reads what has come, and waits only if that is nothing; 0 at the end.
fn fill_once(source: &mut Source, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    let before = buffer.len();
    buffer.resize(before + PIECE, 0);
    let read = loop {
        match source.read(&mut buffer[before..]) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    buffer.truncate(before + read.as_ref().map_or(0, |count| *count));
    read
}

/// Parses complete lines; also returns the number of lines up to the end.
fn parse(syntax: Syntax, text: &[u8], lines: usize) -> (Vec<Piece>, usize) {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let from = PIECE.min(rest.len()) - 1;
        let end = memchr::memchr(b'\n', &rest[from..]).map_or(rest.len(), |at| from + at + 1);
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    let count = |part: &&[u8]| memchr::memchr_iter(b'\n', part).count();
    let counts: Vec<usize> = parts.par_iter().map(count).collect();
    let mut before = lines;
    let mut numbered = Vec::with_capacity(parts.len());
    for (part, count) in parts.into_iter().zip(counts) {
        numbered.push((part, before));
        before += count;
    }
    let pieces = numbered.into_par_iter().map(|(part, before)| Piece::parse(syntax, part, before));
    (pieces.collect(), before)
}

impl Piece {
    fn parse(syntax: Syntax, text: &[u8], before: usize) -> Self {
        let mut builder = MatrixBuilder::new();
        let mut targets = Vec::new();
        let mut error = None;
        let mut rest = text;
        let mut number = before;
        while !rest.is_empty() {
            number += 1;
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            match syntax.parse(&rest[..end], number, &mut builder) {
                Ok(target) => targets.extend(target),
                Err(found) => {
                    error = Some(found);
                    break;
                }
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        builder.abandon_row();
        Self { rows: builder.finish(0), targets, error }
    }
}

impl Chunks for LibsvmReader {
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError> {
        let mut builder = MatrixBuilder::new();
        let mut targets = Vec::new();
        while builder.rows() < rows && builder.entries() < CHUNK_VALUES {
            let Some(piece) = self.pieces.front_mut() else {
                if self.line_by_line && builder.rows() > 0 {
                    break;
                }
                if self.advance()? {
                    continue;
                }
                break;
            };
            let end = piece.rows.rows().min(self.given + rows - builder.rows());
            builder.append(&piece.rows, self.given..end);
            targets.extend_from_slice(&piece.targets[self.given..end]);
            self.given = end;
            // An error follows the last row: it is returned only if more rows are needed.
            if end == piece.rows.rows() && (piece.error.is_none() || builder.rows() < rows) {
                let piece = self.pieces.pop_front().expect("it was the front");
                self.given = 0;
                if let Some(error) = piece.error {
                    return Err(error);
                }
            }
        }
        if targets.is_empty() {
            return Ok(None);
        }
        self.width = self.width.max(builder.width());
        let examples = builder.finish(self.width);
        Ok(Some(Dataset { examples, targets: Targets::Numbers(targets), names: None }))
    }
}

#[cfg(test)]
mod tests;
