//! Rows as bytes: blocks that travel between processes or wait in a file. Rows keep their f64 bits.
//! How rows are packed for products is in `mercer-kernel`.

use mercer_data::{Matrix, Row};

/// First bytes of a block: name and version.
const MAGIC: &[u8; 8] = b"MERCERb1";
/// Bytes before the rows: the magic, then three numbers.
const HEAD: usize = 8 + 3 * 8;

/// Rows of one block, and how they become bytes.
#[derive(Debug, Clone)]
pub struct RowBlock {
    rows: Matrix,
}

/// Bytes that are no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The first bytes are not those of a block.
    #[error("the bytes are not a block of rows")]
    NotABlock,
    /// The lengths in the block do not fit its bytes, or its rows are not valid.
    #[error("the block of rows is damaged")]
    Damaged,
}

impl RowBlock {
    /// A block of these rows.
    pub fn new(rows: Matrix) -> Self {
        Self { rows }
    }

    /// The rows.
    pub fn rows(&self) -> &Matrix {
        &self.rows
    }

    /// The rows.
    pub fn into_rows(self) -> Matrix {
        self.rows
    }

    /// The bytes: magic, 1 for sparse rows, rows, columns; then values of dense rows, or the number of values of each
    /// sparse row, its columns and its values. All numbers are little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let rows = &self.rows;
        let mut out = Vec::with_capacity(HEAD + 12 * rows.nonzeros() + 4 * rows.rows());
        out.extend_from_slice(MAGIC);
        for number in [u64::from(rows.is_sparse()), rows.rows() as u64, rows.columns() as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        match rows.as_sparse() {
            Some((starts, columns, values)) => {
                let lengths = starts.windows(2).map(|pair| (pair[1] - pair[0]) as u32);
                lengths.for_each(|length| out.extend_from_slice(&length.to_le_bytes()));
                columns.iter().for_each(|column| out.extend_from_slice(&column.to_le_bytes()));
                values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
            }
            None => {
                for row in rows.iter() {
                    let Row::Dense(values) = row else { unreachable!("rows are dense") };
                    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
                }
            }
        }
        out
    }

    /// Reads bytes that [`RowBlock::to_bytes`] made.
    ///
    /// # Errors
    /// If they are not.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BlockError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(BlockError::NotABlock)?;
        let damaged = || BlockError::Damaged;
        let number = |at: usize| -> Option<usize> {
            let bytes = rest.get(8 * at..8 * at + 8)?;
            usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
        };
        let is_sparse = number(0).ok_or_else(damaged)?;
        let (rows, columns) = number(1).zip(number(2)).ok_or_else(damaged)?;
        let body = &rest[HEAD - MAGIC.len()..];
        let matrix = match is_sparse {
            0 => dense(body, rows, columns),
            1 => sparse(body, rows, columns),
            _ => None,
        };
        matrix.map(Self::new).ok_or_else(damaged)
    }
}

fn f64s(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks::<8>().0.iter().map(|word| f64::from_le_bytes(*word)).collect()
}

fn u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn dense(body: &[u8], rows: usize, columns: usize) -> Option<Matrix> {
    if columns == 0 || rows.checked_mul(columns)?.checked_mul(8)? != body.len() {
        return None;
    }
    Matrix::dense(columns, f64s(body)).ok()
}

fn sparse(body: &[u8], rows: usize, columns: usize) -> Option<Matrix> {
    let lengths = u32s(body.get(..rows.checked_mul(4)?)?);
    let mut starts = Vec::with_capacity(rows + 1);
    starts.push(0usize);
    for length in lengths {
        starts.push(starts.last()?.checked_add(length as usize)?);
    }
    let count = *starts.last()?;
    let body = &body[4 * rows..];
    if count.checked_mul(12)? != body.len() {
        return None;
    }
    let (indices, values) = body.split_at(4 * count);
    Matrix::sparse(columns, &starts, &u32s(indices), &f64s(values)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_every_bit_and_damaged_ones_are_refused() {
        let dense = Matrix::dense(3, vec![1.5, -0.0, 1e-300, 2.0, 0.0, -7.25]).unwrap();
        let sparse = dense.to_sparse();
        for rows in [dense, sparse] {
            let bytes = RowBlock::new(rows.clone()).to_bytes();
            let read = RowBlock::from_bytes(&bytes).unwrap().into_rows();
            assert_eq!((read.rows(), read.columns(), read.is_sparse()), (2, 3, rows.is_sparse()));
            for row in 0..2 {
                for column in 0..3 {
                    let bits = |matrix: &Matrix| matrix.row(row).get(column).to_bits();
                    assert_eq!(bits(&read), bits(&rows));
                }
            }
            for end in 0..bytes.len() {
                assert!(RowBlock::from_bytes(&bytes[..end]).is_err(), "{end}");
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert_eq!(RowBlock::from_bytes(&longer).unwrap_err(), BlockError::Damaged);
        }
        assert_eq!(RowBlock::from_bytes(b"anything").unwrap_err(), BlockError::NotABlock);
    }
}
