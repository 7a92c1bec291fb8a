//! Arrays of numbers: what the readers of NPY and IDX files share.

use std::io::Read;

use super::{CHUNK_VALUES, Chunks, Source};
use crate::{DataError, Dataset, Matrix, Targets};

/// How one number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
}

impl Scalar {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The number in `bytes`, little-endian; `None` if it is not exact in f64.
    pub(super) fn value(self, bytes: [u8; 8]) -> Option<f64> {
        let [a, b, c, d, ..] = bytes;
        Some(match self {
            Self::U8 => f64::from(a),
            Self::I8 => f64::from(a.cast_signed()),
            Self::U16 => f64::from(u16::from_le_bytes([a, b])),
            Self::I16 => f64::from(i16::from_le_bytes([a, b])),
            Self::U32 => f64::from(u32::from_le_bytes([a, b, c, d])),
            Self::I32 => f64::from(i32::from_le_bytes([a, b, c, d])),
            Self::F16 => half(u16::from_le_bytes([a, b])),
            Self::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
            Self::F64 => f64::from_le_bytes(bytes),
            Self::U64 => {
                let integer = u64::from_le_bytes(bytes);
                let value = integer as f64;
                return (value as u64 == integer && value < 2f64.powi(64)).then_some(value);
            }
            Self::I64 => {
                let integer = i64::from_le_bytes(bytes);
                let value = integer as f64;
                return (value as i64 == integer && value < 2f64.powi(63)).then_some(value);
            }
        })
    }
}

/// A 16-bit float: sign, five bits of exponent, ten of fraction.
pub fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// What the header of an array file says.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) format: &'static str,
    pub(super) scalar: Scalar,
    pub(super) big_endian: bool,
    /// Columns come one after the other, not rows.
    pub(super) by_columns: bool,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Header {
    /// Rows, and columns that multiply all further sizes.
    pub(super) fn shape(
        format: &'static str,
        sizes: &[usize],
    ) -> Result<(usize, usize), DataError> {
        let error = |reason: &str| DataError::Array { format, reason: reason.to_owned() };
        let (rows, rest) = sizes.split_first().ok_or_else(|| error("a single number, not rows"))?;
        let product = rest.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
        let columns = product.filter(|columns| columns.checked_mul(*rows).is_some());
        let columns = columns.ok_or_else(|| error("the sizes are too large"))?;
        if *rows == 0 || columns == 0 {
            return Err(DataError::Empty);
        }
        Ok((*rows, columns))
    }
}

/// An array being read.
pub(super) struct Array {
    header: Header,
    source: Source,
    row: usize,
    /// The whole array column by column, where the file stores it so.
    all: Option<Vec<f64>>,
}

impl Array {
    pub(super) fn new(header: Header, source: Source) -> Self {
        Self { header, source, row: 0, all: None }
    }

    fn error(&self, reason: String) -> DataError {
        DataError::Array { format: self.header.format, reason }
    }

    /// Reads `count` numbers to the end of `values`; memory grows with the size of the file, not with the sizes in its header.
    fn read(&mut self, count: usize, values: &mut Vec<f64>) -> Result<(), DataError> {
        let size = self.header.scalar.bytes();
        let mut left = count;
        let mut bytes = Vec::new();
        while left > 0 {
            let now = left.min(CHUNK_VALUES);
            bytes.clear();
            (&mut self.source).take((now * size) as u64).read_to_end(&mut bytes)?;
            if bytes.len() < now * size {
                let reason = format!("the file ends before its {} rows do", self.header.rows);
                return Err(self.error(reason));
            }
            for number in bytes.chunks_exact(size) {
                let mut ordered = [0; 8];
                ordered[..size].copy_from_slice(number);
                if self.header.big_endian {
                    ordered[..size].reverse();
                }
                let value = self.header.scalar.value(ordered).ok_or_else(|| {
                    self.error("an integer beyond 2^53 is not exact in f64".to_owned())
                })?;
                values.push(value);
            }
            left -= now;
        }
        Ok(())
    }

    fn next_values(&mut self, rows: usize) -> Result<Vec<f64>, DataError> {
        let Header { rows: row_count, columns, by_columns, .. } = self.header;
        let mut values = Vec::new();
        if !by_columns {
            self.read(rows * columns, &mut values)?;
            return Ok(values);
        }
        let all = if let Some(all) = &self.all {
            all
        } else {
            self.read(row_count * columns, &mut values)?;
            self.all.insert(values)
        };
        let range = self.row..self.row + rows;
        Ok(range
            .flat_map(|row| (0..columns).map(move |column| column * row_count + row))
            .map(|at| all[at])
            .collect())
    }
}

impl Chunks for Array {
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError> {
        let columns = self.header.columns;
        let rows = rows.min(CHUNK_VALUES.div_ceil(columns)).min(self.header.rows - self.row);
        if rows == 0 {
            let mut beyond = [0];
            let more = self.source.read(&mut beyond)?;
            return if more == 0 {
                Ok(None)
            } else {
                Err(self.error("more bytes follow after the last row".to_owned()))
            };
        }
        let values = self.next_values(rows)?;
        let examples = Matrix::dense(columns, values).map_err(|error| match error {
            DataError::NotFiniteAt { row, column, value } => {
                DataError::NotFiniteAt { row: row + self.row, column, value }
            }
            other => other,
        })?;
        self.row += rows;
        Ok(Some(Dataset { examples, targets: Targets::Absent, names: None }))
    }
}
