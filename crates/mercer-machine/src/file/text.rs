//! Model texts: lines with their numbers, numbers that read back. The grammars are in the folders of the formats.

use crate::MachineError;

/// Lines with their numbers.
pub(super) struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, number: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<&'a str>, MachineError> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at += end + 1;
        self.number += 1;
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| self.error("not text"))?;
        Ok(Some(line))
    }

    /// Key and values of each line up to the line that starts with `end`.
    pub(super) fn header(
        &mut self,
        end: &str,
        missing: &str,
        mut set: impl FnMut(&Self, &str, &[&str]) -> Result<(), MachineError>,
    ) -> Result<(), MachineError> {
        loop {
            let Some(line) = self.next()? else { return Err(self.error(missing)) };
            let mut tokens = line.split_ascii_whitespace();
            match tokens.next() {
                None => {}
                Some(key) if key == end => return Ok(()),
                Some(key) => set(self, key, &tokens.collect::<Vec<_>>())?,
            }
        }
    }

    /// The only value of a key.
    pub(super) fn one<'v>(&self, key: &str, values: &[&'v str]) -> Result<&'v str, MachineError> {
        match values {
            [value] => Ok(value),
            _ => Err(self.error(format!("'{key}' takes one value, {} are given", values.len()))),
        }
    }

    /// The only value of a key, a whole number.
    pub(super) fn count(
        &self,
        key: &str,
        values: &[&str],
        limit: usize,
    ) -> Result<usize, MachineError> {
        let value = self.one(key, values)?.parse::<usize>().ok().filter(|value| *value <= limit);
        value.ok_or_else(|| self.error(format!("'{key}' must be a number up to {limit}")))
    }

    /// All values of a key.
    pub(super) fn numbers(&self, values: &[&str]) -> Result<Vec<f64>, MachineError> {
        values.iter().map(|value| self.number(value)).collect()
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> MachineError {
        MachineError::Text { line: self.number, reason: reason.into() }
    }

    pub(super) fn number(&self, token: &str) -> Result<f64, MachineError> {
        let value = token.parse::<f64>().ok().filter(|value| value.is_finite());
        value.ok_or_else(|| {
            let shown: String = token.chars().take(40).collect();
            self.error(format!("'{shown}' is not a finite number"))
        })
    }
}

/// The shortest text that reads back as the same f64; at most 17 significant digits.
pub(super) fn digits(value: f64) -> String {
    let plain = format!("{value}");
    if plain.len() <= 24 { plain } else { format!("{value:e}") }
}

/// Whether a class name is an integer that other programs accept.
pub(super) fn is_label(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX)
}
