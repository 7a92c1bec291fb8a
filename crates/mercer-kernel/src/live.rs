//! Live columns: the columns in which at least one packed row is non-zero, and rows restricted to them.
//!
//! Every kernel value of packed rows is computed in these columns only.

use mercer_data::{LiveColumns, Matrix, Row};

/// The columns in which at least one packed row is non-zero, after centring.
#[derive(Debug)]
pub(crate) struct PackedColumns {
    live: LiveColumns,
    /// Columns that are shifted, with the shift; increasing.
    shifts: Vec<(u32, f64)>,
}

impl PackedColumns {
    /// All columns of `rows` that are not zero throughout; all columns if `keep_all`.
    pub(crate) fn new(rows: &Matrix, centre: Option<&[f64]>, keep_all: bool) -> Self {
        let centre = centre.unwrap_or(&[]);
        let shifts: Vec<(u32, f64)> =
            (0u32..).zip(centre.iter().copied()).filter(|(_, shift)| *shift != 0.0).collect();
        let all = rows.columns();
        let live = if keep_all {
            LiveColumns::every(all)
        } else if shifts.is_empty() {
            LiveColumns::of(rows)
        } else {
            // The centre has a number for each column, so they are not too many.
            let mut shifted = CentredRow::default();
            let mut is_live = vec![false; all];
            for row in rows.iter() {
                for column in shifted.apply(row, &shifts).columns {
                    is_live[*column as usize] = true;
                }
            }
            let live = (0u32..).zip(is_live).filter(|(_, live)| *live);
            LiveColumns::new(all, live.map(|(column, _)| column).collect())
        };
        Self { live, shifts }
    }

    /// Whether every column of the rows is live.
    pub(crate) fn has_all(&self) -> bool {
        self.live.len() == self.live.all()
    }

    /// Number of live columns.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// The live columns, in increasing order.
    pub(crate) fn columns(&self) -> &[u32] {
        self.live.columns()
    }

    /// Whether no column is shifted.
    pub(crate) fn is_unshifted(&self) -> bool {
        self.shifts.is_empty()
    }

    pub(crate) fn shifts(&self) -> &[(u32, f64)] {
        &self.shifts
    }

    /// Position of a column among the live ones.
    pub(crate) fn slot(&self, column: u32) -> Option<u32> {
        self.live.slot(column)
    }

    /// Writes slots and converted values of the entries in live columns, and drops the others.
    pub(crate) fn keep_live<T: Copy + Default>(
        &self,
        entries: SparseEntries<'_>,
        convert: impl Fn(f64) -> T,
        slots: &mut Vec<u32>,
        kept_values: &mut Vec<T>,
    ) {
        let SparseEntries { columns, values } = entries;
        slots.resize(columns.len(), 0);
        kept_values.resize(columns.len(), T::default());
        let mut kept = 0;
        // Each entry is written, and kept only if live: no branch to mispredict.
        for (column, value) in columns.iter().zip(values) {
            let slot = self.live.slot_or_dead(*column);
            slots[kept] = slot;
            kept_values[kept] = convert(*value);
            kept += usize::from(slot != LiveColumns::DEAD);
        }
        slots.truncate(kept);
        kept_values.truncate(kept);
    }

    /// Whether all columns of a dense row are live and unshifted.
    pub(crate) fn covers(&self, row: &[f64]) -> bool {
        self.is_unshifted() && self.live.len() == row.len() && self.live.all() == row.len()
    }

    /// Writes the live columns of a dense unshifted row; returns whether all other columns are zero.
    pub(crate) fn gather(&self, row: &[f64], out: &mut [f64]) -> bool {
        if self.covers(row) {
            out.copy_from_slice(row);
            return true;
        }
        for (place, column) in out.iter_mut().zip(self.columns()) {
            *place = row.get(*column as usize).copied().unwrap_or(0.0);
        }
        let nonzeros = |values: &[f64]| values.iter().map(|v| u32::from(*v != 0.0)).sum::<u32>();
        nonzeros(row) == nonzeros(out)
    }
}

impl PackedColumns {
    /// See [`crate::block::Packed::loose_squared_norm`].
    pub(crate) fn loose_norm(&self, row: Row<'_>) -> f64 {
        let mut sums = [0.0; 8];
        if self.shifts.is_empty() {
            match row {
                Row::Dense(values) => {
                    let (eights, rest) = values.as_chunks::<8>();
                    for eight in eights {
                        for (sum, x) in sums.iter_mut().zip(eight) {
                            *sum += x * x;
                        }
                    }
                    for (sum, x) in sums.iter_mut().zip(rest) {
                        *sum += x * x;
                    }
                }
                Row::Sparse { columns, values } => {
                    for (column, x) in columns.iter().zip(values) {
                        sums[*column as usize % 8] += x * x;
                    }
                }
            }
        } else {
            // A value that equals its shift adds a zero, as if it were left out.
            let mut add = |column: u32, x: f64| sums[column as usize % 8] += x * x;
            let mut shifts = self.shifts.iter().copied().peekable();
            for (column, value) in row.nonzeros() {
                while let Some((before, shift)) = shifts.next_if(|(at, _)| *at < column) {
                    add(before, -shift);
                }
                let shift = shifts.next_if(|(at, _)| *at == column).map_or(0.0, |(_, shift)| shift);
                add(column, value - shift);
            }
            shifts.for_each(|(column, shift)| add(column, -shift));
        }
        mercer_simd::fold8(&sums)
    }
}

/// Columns and values of the non-zero entries of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SparseEntries<'a> {
    pub(crate) columns: &'a [u32],
    pub(crate) values: &'a [f64],
}

/// A buffer for the non-zero entries of a row after centring.
#[derive(Debug, Default)]
pub(crate) struct CentredRow {
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl CentredRow {
    /// Columns and values of the non-zero entries of `row - centre`, in column order.
    pub(crate) fn apply<'a>(
        &'a mut self,
        row: Row<'a>,
        shifts: &[(u32, f64)],
    ) -> SparseEntries<'a> {
        match (row, shifts.is_empty()) {
            (Row::Sparse { columns, values }, true) => return SparseEntries { columns, values },
            (Row::Dense(row), true) => return self.nonzeros(row),
            _ => {}
        }
        self.columns.clear();
        self.values.clear();
        let mut shifts = shifts.iter().copied().peekable();
        for (column, value) in row.nonzeros() {
            while let Some((before, shift)) = shifts.next_if(|(at, _)| *at < column) {
                self.push(before, -shift);
            }
            let shift = shifts.next_if(|(at, _)| *at == column).map_or(0.0, |(_, shift)| shift);
            if value != shift {
                self.push(column, value - shift);
            }
        }
        for (column, shift) in shifts {
            self.push(column, -shift);
        }
        SparseEntries { columns: &self.columns, values: &self.values }
    }

    /// The same of a dense row that is not shifted: each entry is written, and kept only if not zero, so that no branch
    /// is mispredicted.
    fn nonzeros(&mut self, row: &[f64]) -> SparseEntries<'_> {
        if self.columns.len() < row.len() {
            self.columns.resize(row.len(), 0);
        }
        self.values.resize(self.columns.len(), 0.0);
        let (columns, values) = (self.columns.as_mut_slice(), self.values.as_mut_slice());
        let mut kept = 0;
        for (column, value) in (0u32..).zip(row) {
            columns[kept] = column;
            values[kept] = *value;
            kept += usize::from(*value != 0.0);
        }
        SparseEntries { columns: &self.columns[..kept], values: &self.values[..kept] }
    }

    fn push(&mut self, column: u32, value: f64) {
        self.columns.push(column);
        self.values.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifted_rows_keep_column_order_and_drop_zeros() {
        let mut scratch = CentredRow::default();
        let row = Row::Dense(&[0.0, 5.0, 2.0, 0.0]);
        let entries = scratch.apply(row, &[(0, 1.0), (1, 5.0), (3, -4.0)]);
        assert_eq!((entries.columns, entries.values), (&[0, 2, 3][..], &[-1.0, 2.0, 4.0][..]));
        // Whatever the scratch was used for before.
        for row in [&[3.0, 0.0, -0.0, 4.0, 5.0][..], &[0.0, 7.0], &[]] {
            let expected: (Vec<u32>, Vec<f64>) = Row::Dense(row).nonzeros().unzip();
            let found = scratch.apply(Row::Dense(row), &[]);
            assert_eq!((found.columns, found.values), (&expected.0[..], &expected.1[..]));
        }
    }

    #[test]
    fn columns_that_are_zero_throughout_are_dead() {
        let rows = Matrix::dense(3, vec![1.0, 0.0, 7.0, 2.0, 0.0, 7.0]).unwrap();
        let live = PackedColumns::new(&rows, Some(&[0.0, 0.0, 7.0]), false);
        assert_eq!(
            (live.len(), live.slot(0), live.slot(1), live.slot(2)),
            (1, Some(0), None, None)
        );
    }
}
