//! One line of LIBSVM text.

use super::super::Options;
use crate::dataset::is_held;
use crate::{DataError, MatrixBuilder};

/// Columns are stored as u32 counted from 0.
const MAX_INDEX: u32 = u32::MAX - 1;

/// Whole numbers below this are f64 numbers; 2^53 is what its successor is rounded to.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// How lines are to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Syntax {
    first: u32,
    precomputed: bool,
    sort: bool,
}

impl Syntax {
    pub(super) fn new(options: &Options) -> Self {
        let first = u32::from(!options.zero_based);
        Self { first, precomputed: options.precomputed, sort: options.sort }
    }

    /// Adds the row of a line to `builder` and returns its label; `None` for empty and comment lines.
    pub(super) fn parse(
        self,
        line: &[u8],
        number: usize,
        builder: &mut MatrixBuilder,
    ) -> Result<Option<f64>, DataError> {
        let width = builder.width();
        if let Some(label) = self.plain(line, builder) {
            builder.end_row();
            return Ok(Some(label));
        }
        builder.restart_row(width);
        self.careful(line, number, builder)
    }

    /// As [`Syntax::parse`], for lines of any kind.
    pub(super) fn careful(
        self,
        line: &[u8],
        number: usize,
        builder: &mut MatrixBuilder,
    ) -> Result<Option<f64>, DataError> {
        Line { number, syntax: self }.parse(line, builder)
    }

    /// The quick way for lines of numbers, colons and blanks; `None` means: read it the careful way, which
    /// also finds the error message.
    fn plain(self, line: &[u8], builder: &mut MatrixBuilder) -> Option<f64> {
        let (label, mut at) = real(line)?;
        if label.abs() >= EXACT {
            return None;
        }
        let mut least = self.first;
        loop {
            match line.get(at) {
                None => return Some(label),
                Some(b' ' | b'\t') => at += 1,
                Some(_) => return None,
            }
            match line.get(at) {
                None => return Some(label),
                Some(b' ' | b'\t') => continue,
                Some(_) => {}
            }
            let mut index = 0u32;
            let mut digits = 0;
            while let Some(digit) = line.get(at).map(|byte| byte.wrapping_sub(b'0'))
                && digit < 10
            {
                index = index.wrapping_mul(10).wrapping_add(u32::from(digit));
                digits += 1;
                at += 1;
            }
            // Nine digits cannot overflow; ten are left to the careful way.
            if !(1..=9).contains(&digits) || index < least || line.get(at) != Some(&b':') {
                return None;
            }
            let (value, length) = real(&line[at + 1..])?;
            at += 1 + length;
            builder.push(index - self.first, value);
            least = index + 1;
        }
    }
}

/// A finite number at the start of `text`, and its length.
fn real(text: &[u8]) -> Option<(f64, usize)> {
    let first = *text.first()?;
    if first.is_ascii_digit() && matches!(text.get(1), None | Some(b' ')) {
        return Some((f64::from(first - b'0'), 1));
    }
    let sign = usize::from(first == b'+');
    if sign == 1 && !text.get(1)?.is_ascii_digit() {
        return None;
    }
    let (value, length) = fast_float2::parse_partial::<f64, _>(&text[sign..]).ok()?;
    value.is_finite().then_some((value, sign + length))
}

/// A line read with care.
struct Line {
    number: usize,
    syntax: Syntax,
}

impl Line {
    fn parse(&self, line: &[u8], builder: &mut MatrixBuilder) -> Result<Option<f64>, DataError> {
        let end = memchr::memchr(b'#', line).unwrap_or(line.len());
        let mut tokens =
            line[..end].split(u8::is_ascii_whitespace).filter(|token| !token.is_empty());
        let Some(label) = tokens.next() else {
            return Ok(None);
        };
        let token = label;
        let label = self.number(token, || "the label".to_owned())?;
        if label.abs() >= EXACT && !is_held(&String::from_utf8_lossy(token), label) {
            return Err(DataError::LabelNotHeld { line: self.number, token: show(token) });
        }
        let mut entries = Vec::new();
        for (position, token) in tokens.enumerate() {
            let Some(colon) = memchr::memchr(b':', token) else {
                return Err(DataError::NotAPair { line: self.number, token: show(token) });
            };
            let (index, value) = (&token[..colon], &token[colon + 1..]);
            let is_serial = self.syntax.precomputed && position == 0 && index == b"0";
            if index == b"qid" || is_serial {
                continue;
            }
            let index = self.index(index)?;
            if !self.syntax.sort {
                self.check_order(entries.last(), index)?;
            }
            let value = self.number(value, || format!("column {index}"))?;
            entries.push((index, value));
        }
        if self.syntax.sort {
            entries.sort_by_key(|(index, _)| *index);
            for pair in entries.windows(2) {
                self.check_order(pair.first(), pair[1].0)?;
            }
        }
        for (index, value) in entries {
            builder.push(index - self.syntax.first, value);
        }
        builder.end_row();
        Ok(Some(label))
    }

    fn check_order(&self, previous: Option<&(u32, f64)>, index: u32) -> Result<(), DataError> {
        match previous {
            Some((previous, _)) if index <= *previous => Err(DataError::UnsortedColumn {
                line: self.number,
                column: index,
                previous: *previous,
            }),
            _ => Ok(()),
        }
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
        // Columns are written counted from 1, whatever they were read as.
        let (low, high) = (self.syntax.first, MAX_INDEX - 1 + self.syntax.first);
        match u32::try_from(value) {
            Ok(index) if digits && (low..=high).contains(&index) => Ok(index),
            _ => Err(DataError::BadIndex { line: self.number, token: show(token), low, high }),
        }
    }
}

/// A token as text, cut to a sensible length.
fn show(token: &[u8]) -> String {
    String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned()
}
