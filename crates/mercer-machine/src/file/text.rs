//! Model texts: lines with their numbers, numbers that read back.

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

/// Whether a class name can stand where whole numbers are expected.
pub(super) fn is_label(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX)
}
