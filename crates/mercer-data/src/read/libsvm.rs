use std::io::Read;

use super::{Chunks, Format, Options, Source};
use crate::{DataError, Dataset, MatrixBuilder, Targets};

pub(super) static FORMAT: Format = Format {
    name: "libsvm",
    summary: "LIBSVM text: one row per line, 'label index:value ...', indices from 1, increasing",
    endings: &["svm", "libsvm", "svmlight", "dat"],
    open: |source, options| Ok(Box::new(Reader::new(source, options))),
};

/// Bytes read at a time.
const BLOCK: usize = 1 << 20;
/// No sensible row is longer.
const MAX_LINE: usize = 1 << 30;
/// Columns are stored as u32 counted from 0.
const MAX_INDEX: u32 = u32::MAX - 1;

struct Reader {
    source: Source,
    buffer: Vec<u8>,
    /// Unread bytes of the buffer start here.
    at: usize,
    ended: bool,
    line: usize,
    first_index: u32,
    precomputed: bool,
    width: usize,
}

impl Reader {
    fn new(source: Source, options: &Options) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            at: 0,
            ended: false,
            line: 0,
            first_index: u32::from(!options.zero_based),
            precomputed: options.precomputed,
            width: 0,
        }
    }

    /// The next line without its end, as a range of the buffer; `None` at the end of the file.
    fn next_line(&mut self) -> Result<Option<std::ops::Range<usize>>, DataError> {
        let mut searched = self.at;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                let range = self.at..searched + found;
                self.at = range.end + 1;
                self.line += 1;
                return Ok(Some(range));
            }
            if self.ended {
                let range = self.at..self.buffer.len();
                self.at = range.end;
                self.line += 1;
                return Ok((!range.is_empty()).then_some(range));
            }
            if self.buffer.len() - self.at > MAX_LINE {
                return Err(DataError::LineTooLong { line: self.line + 1, limit: MAX_LINE });
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            searched = self.buffer.len();
            let read = (&mut self.source).take(BLOCK as u64).read_to_end(&mut self.buffer)?;
            self.ended = read == 0;
        }
    }
}

impl Chunks for Reader {
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError> {
        let mut builder = MatrixBuilder::new();
        let mut targets = Vec::new();
        while builder.rows() < rows
            && let Some(range) = self.next_line()?
        {
            let syntax =
                Line { number: self.line, first: self.first_index, precomputed: self.precomputed };
            if let Some(target) = syntax.parse(&self.buffer[range], &mut builder)? {
                targets.push(target);
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

/// How one line is to be read.
struct Line {
    number: usize,
    first: u32,
    precomputed: bool,
}

impl Line {
    /// Adds the row of a line to `builder` and returns its label; `None` for empty and comment lines.
    fn parse(&self, line: &[u8], builder: &mut MatrixBuilder) -> Result<Option<f64>, DataError> {
        let end = memchr::memchr(b'#', line).unwrap_or(line.len());
        let mut tokens =
            line[..end].split(u8::is_ascii_whitespace).filter(|token| !token.is_empty());
        let Some(label) = tokens.next() else {
            return Ok(None);
        };
        let label = self.number(label, || "the label".to_owned())?;
        let mut previous: Option<u32> = None;
        for (position, token) in tokens.enumerate() {
            let Some(colon) = memchr::memchr(b':', token) else {
                return Err(self.not_a_pair(token));
            };
            let (index, value) = (&token[..colon], &token[colon + 1..]);
            if index == b"qid" || (self.precomputed && position == 0 && index == b"0") {
                continue;
            }
            let index = self.index(index)?;
            if let Some(previous) = previous.filter(|previous| index <= *previous) {
                let line = self.number;
                return Err(DataError::UnsortedColumn { line, column: index, previous });
            }
            previous = Some(index);
            let value = self.number(value, || format!("column {index}"))?;
            builder.push(index - self.first, value);
        }
        builder.end_row();
        Ok(Some(label))
    }

    fn number(&self, token: &[u8], place: impl Fn() -> String) -> Result<f64, DataError> {
        let unsigned = token.strip_prefix(b"+").unwrap_or(token);
        let doubly_signed = unsigned.len() < token.len() && unsigned.starts_with(b"-");
        match fast_float2::parse::<f64, _>(unsigned) {
            Ok(value) if value.is_finite() && !doubly_signed => Ok(value),
            Ok(value) if !value.is_finite() => {
                Err(DataError::NotFinite { line: self.number, place: place(), value })
            }
            _ => Err(DataError::NotANumber { line: self.number, token: show(token) }),
        }
    }

    fn index(&self, token: &[u8]) -> Result<u32, DataError> {
        let digits = !token.is_empty() && token.len() <= 10 && token.iter().all(u8::is_ascii_digit);
        let value = token.iter().fold(0u64, |sum, digit| {
            sum.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        });
        match u32::try_from(value) {
            Ok(index) if digits && (self.first..=MAX_INDEX).contains(&index) => Ok(index),
            _ => Err(DataError::BadIndex {
                line: self.number,
                token: show(token),
                low: self.first,
                high: MAX_INDEX,
            }),
        }
    }

    fn not_a_pair(&self, token: &[u8]) -> DataError {
        DataError::NotAPair { line: self.number, token: show(token) }
    }
}

/// A token as text, cut to a sensible length.
fn show(token: &[u8]) -> String {
    String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{Options, from_reader};
    use super::*;

    fn read(text: &'static str, options: &Options) -> Result<Option<Dataset>, DataError> {
        from_reader(text.as_bytes(), "x.svm", options)?.next_chunk(1000)
    }

    #[test]
    fn rows_labels_comments_and_query_ids_are_understood() {
        let text = "# head\n+1 qid:3 1:0.5 3:-2e0 # tail\n\n-1\r\n2.5 2:1";
        let data = read(text, &Options::default()).unwrap().unwrap();
        assert_eq!(data.targets, Targets::Numbers(vec![1.0, -1.0, 2.5]));
        let expected = vec![0.5, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        assert_eq!(data.examples.to_dense().as_dense().unwrap(), expected);
    }

    #[test]
    fn chunks_end_where_asked_and_keep_the_width() {
        let mut chunks =
            from_reader("1 4:1\n2 1:1\n3 1:1".as_bytes(), "x.svm", &Options::default()).unwrap();
        assert_eq!(chunks.next_chunk(2).unwrap().unwrap().examples.rows(), 2);
        let last = chunks.next_chunk(2).unwrap().unwrap();
        assert_eq!((last.examples.rows(), last.examples.columns()), (1, 4));
        assert!(chunks.next_chunk(2).unwrap().is_none());
    }

    #[test]
    fn zero_based_and_precomputed_rows_are_read_on_request() {
        let zero_based = Options { zero_based: true, ..Options::default() };
        assert_eq!(read("1 0:5", &zero_based).unwrap().unwrap().examples.row(0).get(0), 5.0);
        let precomputed = Options { precomputed: true, ..Options::default() };
        assert_eq!(read("1 0:7 1:5", &precomputed).unwrap().unwrap().examples.row(0).get(0), 5.0);
    }

    #[test]
    fn errors_name_the_line_and_what_stands_there() {
        for (text, message) in [
            ("1 2:1 2:1", "line 1: column 2 comes after 2; columns must increase"),
            ("1\n1 3:1 2:1", "line 2: column 2 comes after 3; columns must increase"),
            ("1 0:1", "line 1: index '0' is outside 1 to 4294967294"),
            ("1 99999999999:1", "line 1: index '99999999999' is outside 1 to 4294967294"),
            ("1 a", "line 1: 'a' is not of the form index:value"),
            ("x 1:1", "line 1: 'x' is not a number"),
            ("1 1:", "line 1: '' is not a number"),
            ("1 1:+-2", "line 1: '+-2' is not a number"),
            ("1 1:nan", "line 1: column 1 is NaN; values must be finite"),
            ("inf 1:1", "line 1: the label is inf; values must be finite"),
            ("1 1:1e999", "line 1: column 1 is inf; values must be finite"),
        ] {
            let error = read(text, &Options::default()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
