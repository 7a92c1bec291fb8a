//! Matrices of examples: dense or compressed sparse rows (CSR), all values finite.

use crate::{DataError, Row};

/// Rows with the same number of columns, all values finite; dense or compressed sparse rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    storage: Storage,
}

#[derive(Debug, Clone, PartialEq)]
enum Storage {
    Dense(Vec<f64>),
    Sparse { starts: Vec<usize>, indices: Vec<u32>, values: Vec<f64> },
}

/// The position of the first value that is not finite. Blocks are tested without branches, for speed.
pub fn not_finite(values: &[f64]) -> Option<usize> {
    const BLOCK: usize = 512;
    let is_bad = |block: &[f64]| block.iter().fold(false, |bad, value| bad | !value.is_finite());
    let at = values.chunks(BLOCK).position(is_bad)? * BLOCK;
    values[at..].iter().position(|value| !value.is_finite()).map(|within| at + within)
}

impl Matrix {
    /// Columns are numbered by 32 bits.
    pub const MAX_COLUMNS: usize = 1 << 32;

    /// Rows of `columns` values each, row after row.
    ///
    /// # Errors
    /// If the values do not fill whole rows or are not finite.
    pub fn dense(columns: usize, values: Vec<f64>) -> Result<Self, DataError> {
        let fits =
            if columns == 0 { values.is_empty() } else { values.len().is_multiple_of(columns) };
        if !fits {
            return Err(DataError::Shape { values: values.len(), columns });
        }
        if let Some(at) = not_finite(&values) {
            let (row, column) = (at / columns + 1, at % columns + 1);
            return Err(DataError::NotFiniteAt { row, column, value: values[at] });
        }
        let rows = values.len().checked_div(columns).unwrap_or(0);
        Ok(Self { rows, columns, storage: Storage::Dense(values) })
    }

    /// Compressed rows: row `i` holds entries `starts[i]..starts[i + 1]`. Zeros are dropped.
    ///
    /// # Errors
    /// If the parts contradict each other, columns do not increase within a row or reach `columns`, a value is not
    /// finite, or there are more than [`Matrix::MAX_COLUMNS`] columns.
    pub fn sparse(
        columns: usize,
        starts: &[usize],
        indices: &[u32],
        values: &[f64],
    ) -> Result<Self, DataError> {
        let bad = |row: usize, reason| DataError::BadSparseRow { row: row + 1, reason };
        if columns > Self::MAX_COLUMNS {
            return Err(DataError::TooManyColumns { columns, limit: Self::MAX_COLUMNS });
        }
        if starts.first() != Some(&0) || starts.last() != Some(&indices.len()) {
            return Err(bad(0, "row starts do not span the entries"));
        }
        if indices.len() != values.len() {
            return Err(bad(0, "as many columns as values are needed"));
        }
        let mut builder = MatrixBuilder::new();
        for (row, window) in starts.windows(2).enumerate() {
            if window[0] > window[1] || window[1] > indices.len() {
                return Err(bad(row, "row starts must not decrease"));
            }
            let entries = window[0]..window[1];
            let in_row = &indices[entries.clone()];
            if in_row.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(bad(row, "columns must increase"));
            }
            if in_row.last().is_some_and(|last| *last as usize >= columns) {
                return Err(bad(row, "a column number is too large"));
            }
            for (column, value) in in_row.iter().zip(&values[entries]) {
                if !value.is_finite() {
                    let (row, column) = (row + 1, *column as usize + 1);
                    return Err(DataError::NotFiniteAt { row, column, value: *value });
                }
                builder.push(*column, *value);
            }
            builder.end_row();
        }
        Ok(builder.finish(columns))
    }

    /// A matrix from rows that are already checked (rows of other matrices), in the storage of `self`.
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> Self {
        match &self.storage {
            Storage::Dense(values) => {
                let mut out = Vec::new();
                let mut count = 0;
                for row in rows {
                    out.extend_from_slice(&values[row * self.columns..(row + 1) * self.columns]);
                    count += 1;
                }
                Self { rows: count, columns: self.columns, storage: Storage::Dense(out) }
            }
            Storage::Sparse { .. } => {
                let mut builder = MatrixBuilder::new();
                for row in rows {
                    builder.push_row(self.row(row));
                }
                builder.finish(self.columns)
            }
        }
    }

    /// The same rows with every value stored.
    pub fn to_dense(&self) -> Self {
        let mut values = vec![0.0; self.rows * self.columns];
        for (row, out) in values.chunks_exact_mut(self.columns.max(1)).enumerate() {
            self.row(row).write_dense(out);
        }
        Self { rows: self.rows, columns: self.columns, storage: Storage::Dense(values) }
    }

    /// The same rows with zeros left out.
    pub fn to_sparse(&self) -> Self {
        let mut builder = MatrixBuilder::new();
        for row in 0..self.rows {
            builder.push_row(self.row(row));
        }
        builder.finish(self.columns)
    }

    /// Bytes of the stored values.
    pub fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Dense(_) => self.dense_bytes(),
            Storage::Sparse { .. } => self.sparse_bytes(),
        }
    }

    fn dense_bytes(&self) -> usize {
        self.rows.saturating_mul(self.columns).saturating_mul(8)
    }

    fn sparse_bytes(&self) -> usize {
        12 * self.nonzeros() + 8 * (self.rows + 1)
    }

    /// The smaller storage of the two, counting bytes. Rows without columns are kept sparse: dense values would not
    /// say how many there are.
    pub fn compact(self) -> Self {
        let is_sparse = self.sparse_bytes() < self.dense_bytes() || self.columns == 0;
        match (&self.storage, is_sparse) {
            (Storage::Dense(_), true) => self.to_sparse(),
            (Storage::Sparse { .. }, false) => self.to_dense(),
            _ => self,
        }
    }

    /// The same rows with another number of columns.
    ///
    /// # Errors
    /// If a non-zero entry lies outside.
    pub fn with_columns(mut self, columns: usize) -> Result<Self, DataError> {
        if columns == self.columns {
            return Ok(self);
        }
        let reach = (0..self.rows).map(|row| self.row(row).nonzeros().last());
        let reach = reach.flatten().map(|(column, _)| column as usize + 1).max().unwrap_or(0);
        if reach > columns {
            return Err(DataError::Shape { values: reach, columns });
        }
        if let Storage::Dense(_) = self.storage {
            let mut values = vec![0.0; self.rows * columns];
            for (row, out) in values.chunks_exact_mut(columns.max(1)).enumerate() {
                self.row(row).write_dense(out);
            }
            self.storage = Storage::Dense(values);
        }
        self.columns = columns;
        Ok(self)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether zeros are left out.
    pub fn is_sparse(&self) -> bool {
        matches!(self.storage, Storage::Sparse { .. })
    }

    /// Number of entries that are not zero.
    pub fn nonzeros(&self) -> usize {
        match &self.storage {
            Storage::Dense(values) => values.iter().filter(|value| **value != 0.0).count(),
            Storage::Sparse { values, .. } => values.len(),
        }
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Row<'_> {
        match &self.storage {
            Storage::Dense(values) => {
                Row::Dense(&values[row * self.columns..(row + 1) * self.columns])
            }
            Storage::Sparse { starts, indices, values } => {
                let entries = starts[row]..starts[row + 1];
                Row::Sparse { columns: &indices[entries.clone()], values: &values[entries] }
            }
        }
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.rows).map(|row| self.row(row))
    }

    /// All values row after row, if every value is stored.
    pub fn as_dense(&self) -> Option<&[f64]> {
        match &self.storage {
            Storage::Dense(values) => Some(values),
            Storage::Sparse { .. } => None,
        }
    }

    /// The vector of the values, if every value is stored.
    pub fn into_dense(self) -> Option<Vec<f64>> {
        match self.storage {
            Storage::Dense(values) => Some(values),
            Storage::Sparse { .. } => None,
        }
    }

    /// Row starts, columns and values, if zeros are left out.
    pub fn as_sparse(&self) -> Option<(&[usize], &[u32], &[f64])> {
        match &self.storage {
            Storage::Dense(_) => None,
            Storage::Sparse { starts, indices, values } => Some((starts, indices, values)),
        }
    }
}

/// Collects sparse rows one entry at a time. Callers have checked that values are finite and that columns
/// increase; zeros are dropped here.
#[derive(Debug)]
pub struct MatrixBuilder {
    starts: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f64>,
    width: usize,
}

impl Default for MatrixBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl MatrixBuilder {
    /// No rows yet.
    pub fn new() -> Self {
        Self { starts: vec![0], indices: Vec::new(), values: Vec::new(), width: 0 }
    }

    /// No rows yet, and memory for so many rows and entries.
    pub fn with_capacity(rows: usize, entries: usize) -> Self {
        let mut starts = Vec::with_capacity(rows + 1);
        starts.push(0);
        let (indices, values) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
        Self { starts, indices, values, width: 0 }
    }

    /// Adds an entry to the row being built.
    pub fn push(&mut self, column: u32, value: f64) {
        debug_assert!(value.is_finite(), "values were checked before");
        self.width = self.width.max(column as usize + 1);
        if value != 0.0 {
            self.indices.push(column);
            self.values.push(value);
        }
    }

    /// Adds a row of entries that were checked: values are finite, columns increase.
    pub fn push_entries(
        &mut self,
        columns: impl ExactSizeIterator<Item = u32>,
        values: impl ExactSizeIterator<Item = f64>,
    ) {
        let start = self.indices.len();
        self.indices.extend(columns);
        self.values.extend(values);
        let last = self.indices[start..].last();
        self.width = self.width.max(last.map_or(0, |column| *column as usize + 1));
        // No early end: the loop is vectorised.
        let zeros: usize =
            self.values[start..].iter().map(|value| usize::from(*value == 0.0)).sum();
        if zeros > 0 {
            let mut kept = start;
            for at in start..self.values.len() {
                if self.values[at] != 0.0 {
                    self.indices[kept] = self.indices[at];
                    self.values[kept] = self.values[at];
                    kept += 1;
                }
            }
            self.indices.truncate(kept);
            self.values.truncate(kept);
        }
        self.end_row();
    }

    /// Ends the row being built.
    pub fn end_row(&mut self) {
        self.starts.push(self.indices.len());
    }

    /// Adds a row.
    pub fn push_row(&mut self, row: Row<'_>) {
        for (column, value) in row.nonzeros() {
            self.push(column, value);
        }
        self.end_row();
    }

    /// Adds some rows of a matrix.
    pub fn append(&mut self, matrix: &Matrix, rows: std::ops::Range<usize>) {
        let Some((starts, indices, values)) = matrix.as_sparse() else {
            rows.for_each(|row| self.push_row(matrix.row(row)));
            return;
        };
        let entries = starts[rows.start]..starts[rows.end];
        let before = self.indices.len();
        self.starts.extend(
            starts[rows.start + 1..=rows.end].iter().map(|start| start - entries.start + before),
        );
        self.indices.extend_from_slice(&indices[entries.clone()]);
        self.values.extend_from_slice(&values[entries]);
        self.width = self.width.max(matrix.columns);
    }

    /// Entries of all rows so far.
    pub fn entries(&self) -> usize {
        self.indices.len()
    }

    /// Forgets the entries of the row being built; `width` is what it was when the row began.
    pub(crate) fn restart_row(&mut self, width: usize) {
        self.width = width;
        self.abandon_row();
    }

    /// Forgets the entries of a row that was not ended.
    pub(crate) fn abandon_row(&mut self) {
        let kept = self.starts[self.starts.len() - 1];
        self.indices.truncate(kept);
        self.values.truncate(kept);
    }

    /// Rows ended so far.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// One more than the largest column named so far, zeros included.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The matrix, at least `columns` wide.
    pub fn finish(self, columns: usize) -> Matrix {
        let rows = self.rows();
        let Self { starts, indices, values, width } = self;
        let storage = Storage::Sparse { starts, indices, values };
        Matrix { rows, columns: columns.max(width), storage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_entries_are_those_of_single_pushes() {
        let rows: [&[(u32, f64)]; 4] =
            [&[(0, 1.0), (2, 0.0), (5, -2.0)], &[], &[(1, 0.0), (3, -0.0)], &[(4, 3.0)]];
        let (mut whole, mut single) = (MatrixBuilder::new(), MatrixBuilder::new());
        for row in rows {
            whole.push_entries(row.iter().map(|entry| entry.0), row.iter().map(|entry| entry.1));
            row.iter().for_each(|(column, value)| single.push(*column, *value));
            single.end_row();
        }
        assert_eq!(whole.width(), single.width());
        assert_eq!(whole.finish(6), single.finish(6));
    }

    fn sample() -> Matrix {
        Matrix::dense(3, vec![1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, -3.0, 0.0]).unwrap()
    }

    #[test]
    fn dense_and_sparse_hold_the_same_rows() {
        let dense = sample();
        let sparse = dense.to_sparse();
        assert_eq!(sparse.nonzeros(), 3);
        assert_eq!(sparse.to_dense(), dense);
        assert_eq!(sparse.row(0).get(2), 2.0);
        assert_eq!(sparse.select([2, 0]).to_dense(), dense.select([2, 0]));
    }

    #[test]
    fn malformed_parts_are_refused() {
        assert!(Matrix::dense(2, vec![1.0; 3]).is_err());
        assert!(Matrix::dense(1, vec![f64::NAN]).is_err());
        assert!(Matrix::sparse(3, &[0, 2], &[1, 1], &[1.0, 2.0]).is_err());
        assert!(Matrix::sparse(3, &[0, 1], &[3], &[1.0]).is_err());
        assert!(Matrix::sparse(3, &[0, 5, 1], &[0], &[1.0]).is_err());
        assert!(Matrix::sparse(3, &[0, 1], &[0], &[f64::INFINITY]).is_err());
    }

    #[test]
    fn the_number_of_columns_changes_without_the_values() {
        assert_eq!(sample().with_columns(5).unwrap().row(2).get(1), -3.0);
        assert!(sample().with_columns(2).is_err());
    }
}
