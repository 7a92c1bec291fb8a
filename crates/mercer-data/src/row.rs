//! One row of a matrix, borrowed; dense or sparse.

/// One example: its values, or its non-zero values with their columns in increasing order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Row<'a> {
    /// All values.
    Dense(&'a [f64]),
    /// Non-zero values; columns increase and count from 0.
    Sparse {
        /// Columns of the values.
        columns: &'a [u32],
        /// The values.
        values: &'a [f64],
    },
}

impl<'a> Row<'a> {
    /// Non-zero entries in column order.
    pub fn nonzeros(self) -> impl Iterator<Item = (u32, f64)> + 'a {
        let (dense, columns, values): (&[f64], &[u32], &[f64]) = match self {
            Row::Dense(values) => (values, &[], &[]),
            Row::Sparse { columns, values } => (&[], columns, values),
        };
        let dense = (0u32..).zip(dense.iter().copied());
        let sparse = columns.iter().copied().zip(values.iter().copied());
        dense.chain(sparse).filter(|(_, value)| *value != 0.0)
    }

    /// One more than the last column that may be non-zero.
    pub fn width(self) -> usize {
        match self {
            Row::Dense(values) => values.len(),
            Row::Sparse { columns, .. } => columns.last().map_or(0, |last| *last as usize + 1),
        }
    }

    /// The value in `column`; zero where nothing is stored.
    pub fn get(self, column: usize) -> f64 {
        match self {
            Row::Dense(values) => values.get(column).copied().unwrap_or(0.0),
            Row::Sparse { columns, values } => u32::try_from(column)
                .ok()
                .and_then(|column| columns.binary_search(&column).ok())
                .map_or(0.0, |at| values[at]),
        }
    }

    /// Writes the first `out.len()` columns, zeros included.
    pub fn write_dense(self, out: &mut [f64]) {
        match self {
            Row::Dense(values) => {
                let shared = values.len().min(out.len());
                out[..shared].copy_from_slice(&values[..shared]);
                out[shared..].fill(0.0);
            }
            Row::Sparse { columns, values } => {
                out.fill(0.0);
                for (column, value) in columns.iter().zip(values) {
                    if let Some(place) = out.get_mut(*column as usize) {
                        *place = *value;
                    }
                }
            }
        }
    }
}
