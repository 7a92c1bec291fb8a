//! The text of a C file as it grows: constants, definitions and pieces of code that are written once.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::Write;

use mercer_machine::MachineError;

/// A C file that is being written.
pub struct CFile<'a> {
    out: &'a mut dyn Write,
    pieces: Vec<&'static str>,
    /// Directions of chunks of coordinates that stages so far have charged, by the chunk.
    pub(crate) charged: HashMap<u64, usize>,
}

impl std::fmt::Debug for CFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CFile").finish_non_exhaustive()
    }
}

impl<'a> CFile<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, pieces: Vec::new(), charged: HashMap::new() }
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<(), MachineError> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// The text of a stage: `@` stands for its number.
    pub(crate) fn stage_text(&mut self, text: &str, stage: usize) -> Result<(), MachineError> {
        self.text(&text.replace('@', &stage.to_string()))
    }

    /// Text that several parts need; written once.
    pub(crate) fn piece(&mut self, text: &'static str) -> Result<(), MachineError> {
        if self.pieces.contains(&text) {
            return Ok(());
        }
        self.pieces.push(text);
        self.text(text)
    }

    pub(crate) fn define(&mut self, name: &str, value: impl Display) -> Result<(), MachineError> {
        Ok(writeln!(self.out, "#define {name} {value}")?)
    }

    /// An array of constants; C has no empty ones.
    fn list(
        &mut self,
        declaration: &str,
        values: impl Iterator<Item = String>,
    ) -> Result<(), MachineError> {
        write!(self.out, "static const {declaration}[] = {{")?;
        let mut count = 0usize;
        for value in values {
            write!(self.out, "{}{value},", if count.is_multiple_of(8) { "\n" } else { "" })?;
            count += 1;
        }
        Ok(writeln!(self.out, "{}\n}};\n", if count == 0 { "0" } else { "" })?)
    }

    pub(crate) fn f64s(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = f64>,
    ) -> Result<(), MachineError> {
        self.list(&format!("double {name}"), values.into_iter().map(number))
    }

    pub(crate) fn f32s(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = f32>,
    ) -> Result<(), MachineError> {
        self.list(&format!("float {name}"), values.into_iter().map(single))
    }

    pub(crate) fn integers<T: Display>(
        &mut self,
        kind: &str,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Result<(), MachineError> {
        self.list(&format!("{kind} {name}"), values.into_iter().map(|value| value.to_string()))
    }

    /// Rows side by side in groups of `lanes`, column by column; the last group is filled up with zeros.
    pub(crate) fn side_by_side<T: Copy + Default>(
        rows: &[T],
        columns: usize,
        lanes: usize,
    ) -> Vec<T> {
        let count = rows.len().checked_div(columns).unwrap_or(0);
        let mut out = vec![T::default(); count.next_multiple_of(lanes) * columns];
        for (row, values) in rows.chunks_exact(columns.max(1)).enumerate() {
            let start = row / lanes * lanes * columns + row % lanes;
            for (column, value) in values.iter().enumerate() {
                out[start + column * lanes] = *value;
            }
        }
        out
    }
}

pub(crate) fn inexpressible(what: impl Into<String>) -> MachineError {
    MachineError::Inexpressible { format: "C", what: what.into() }
}

/// A constant of the same bits: hexadecimal, or a small whole number.
pub(crate) fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "INFINITY".into() } else { "-INFINITY".into() };
    }
    if value == value.trunc() && value.abs() < 1e6 && !(value == 0.0 && value.is_sign_negative()) {
        return format!("{value:.1}");
    }
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
    // Subnormal numbers begin with 0 and have the exponent of the smallest normal ones.
    let (lead, exponent) = if exponent == 0 { (0, -1022) } else { (1, exponent - 1023) };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}0x{lead}{point}{digits}p{exponent}")
}

/// The same of a float.
pub(crate) fn single(value: f32) -> String {
    match number(f64::from(value)) {
        infinite if infinite.ends_with("INFINITY") => infinite,
        text => format!("{text}f"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_keep_their_bits() {
        assert_eq!(number(0.1), "0x1.999999999999ap-4");
        assert_eq!(number(-1.5), "-0x1.8p0");
        assert_eq!(number(3.0), "3.0");
        assert_eq!(number(-0.0), "-0x0p-1022");
        assert_eq!(number(f64::from_bits(1)), "0x0.0000000000001p-1022");
        assert_eq!(number(f64::NEG_INFINITY), "-INFINITY");
        assert_eq!(single(0.5), "0x1p-1f");
    }

    #[test]
    fn rows_side_by_side_are_filled_up() {
        let rows = [1, 2, 3, 4, 5, 6];
        assert_eq!(CFile::side_by_side(&rows, 2, 2), [1, 3, 2, 4, 5, 0, 6, 0]);
    }
}
