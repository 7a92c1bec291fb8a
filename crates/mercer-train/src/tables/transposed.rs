//! Examples by columns, for solvers that visit one weight after the other.

use super::columns::{Columns, Places};
use super::rows::{Rows, pieces};
use crate::TrainError;

/// Values of the examples, column by column; the constant is the last column.
#[derive(Debug)]
pub(super) struct Transposed {
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f64>,
    /// The sum of the squares of each column.
    squares: Vec<f64>,
}

impl Transposed {
    /// The columns of these rows and a constant one (empty if it is 0); where they take more than `most` bytes,
    /// only how many.
    pub(super) fn new(
        (examples, rows): (&dyn Rows, &[u32]),
        (columns, places): (&Columns, &Places),
        bias: f64,
        most: usize,
    ) -> Result<Result<Self, usize>, TrainError> {
        let count = columns.kept();
        let mut starts = vec![0usize; count + 2];
        pieces(examples, rows, |piece| {
            for (_, column, _) in piece.nonzeros() {
                starts[places.of(column) as usize + 1] += 1;
            }
            Ok(())
        })?;
        starts[count + 1] = if bias == 0.0 { 0 } else { rows.len() };
        for column in 0..=count {
            starts[column + 1] += starts[column];
        }
        let bytes = bytes(starts[count + 1], count);
        if bytes > most {
            return Ok(Err(bytes));
        }
        let (mut own, mut values) = (vec![0u32; starts[count + 1]], vec![bias; starts[count + 1]]);
        let mut next = starts.clone();
        pieces(examples, rows, |piece| {
            for (position, row) in (piece.position as u32..).zip(piece.rows) {
                for (column, value) in piece.row(*row).nonzeros() {
                    let place = &mut next[places.of(column) as usize];
                    (own[*place], values[*place]) = (position, value);
                    *place += 1;
                }
            }
            Ok(())
        })?;
        (0u32..).zip(&mut own[starts[count]..]).for_each(|(row, place)| *place = row);
        let mut made = Self { starts, rows: own, values, squares: Vec::new() };
        let square = |column| made.column(column).map(|(_, value)| value * value).sum();
        made.squares = (0..made.columns()).map(square).collect();
        Ok(Ok(made))
    }

    /// Columns, the constant included.
    pub(super) fn columns(&self) -> usize {
        self.starts.len() - 1
    }

    /// Rows and values of a column.
    #[inline]
    pub(super) fn column(&self, column: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.starts[column]..self.starts[column + 1];
        let rows = self.rows[range.clone()].iter().map(|row| *row as usize);
        rows.zip(self.values[range].iter().copied())
    }

    /// The sum of the squares of a column.
    pub(super) fn square(&self, column: usize) -> f64 {
        self.squares[column]
    }

    /// Memory in use.
    pub(super) fn bytes(&self) -> usize {
        bytes(self.values.len(), self.columns() - 1)
    }
}

/// Memory of so many entries and columns.
fn bytes(entries: usize, columns: usize) -> usize {
    entries * (size_of::<u32>() + size_of::<f64>()) + (columns + 2) * 16
}
