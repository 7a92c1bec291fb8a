//! Examples that are read from the first to the last, as often as needed.
//! A matrix in memory is one; linear and additive solvers also take others. File formats are read in `mercer-data`.

use mercer_data::Matrix;

use crate::TrainError;

/// Examples that need not be in memory all at once.
pub trait RowSource: Sync {
    /// Number of examples.
    fn rows(&self) -> usize;

    /// Number of columns.
    fn columns(&self) -> usize;

    /// Number of non-zero values of all examples.
    fn nonzeros(&self) -> usize;

    /// The examples as a matrix, where they are all in memory.
    fn as_matrix(&self) -> Option<&Matrix> {
        None
    }

    /// Memory that they take for as long as the training lasts.
    fn bytes(&self) -> usize;

    /// Shows all examples, some at a time, in order, with the number of the first.
    ///
    /// # Errors
    /// Those of `see`, and its own where the examples cannot be read.
    fn each(
        &self,
        see: &mut dyn FnMut(usize, &Matrix) -> Result<(), TrainError>,
    ) -> Result<(), TrainError>;
}

impl RowSource for Matrix {
    fn rows(&self) -> usize {
        self.rows()
    }

    fn columns(&self) -> usize {
        self.columns()
    }

    fn nonzeros(&self) -> usize {
        self.nonzeros()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn as_matrix(&self) -> Option<&Matrix> {
        Some(self)
    }

    fn each(
        &self,
        see: &mut dyn FnMut(usize, &Matrix) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        see(0, self)
    }
}

/// Some examples in memory.
#[derive(Clone, Copy)]
pub(crate) struct RowPiece<'p> {
    matrix: &'p Matrix,
    first: usize,
    /// Numbers of those that are used.
    pub(crate) rows: &'p [u32],
    /// Position of the first of them among all that are used.
    pub(crate) position: usize,
}

impl<'p> RowPiece<'p> {
    /// The example of this number.
    pub(crate) fn row(&self, number: u32) -> mercer_data::Row<'p> {
        self.matrix.row(number as usize - self.first)
    }

    /// Non-zero values of all that are used, with the number of their example.
    pub(crate) fn nonzeros(self) -> impl Iterator<Item = (u32, u32, f64)> + 'p {
        let of = move |row: &'p u32| {
            self.row(*row).nonzeros().map(move |(column, value)| (*row, column, value))
        };
        self.rows.iter().flat_map(of)
    }

    /// Parts of so many rows.
    pub(crate) fn cut(self, size: usize) -> Vec<Self> {
        let part = |(number, rows): (usize, &'p [u32])| {
            let position = self.position + number * size;
            Self { rows, position, ..self }
        };
        self.rows.chunks(size.max(1)).enumerate().map(part).collect()
    }
}

/// Shows the examples `rows`, which increase, some at a time.
pub(crate) fn pieces(
    source: &dyn RowSource,
    rows: &[u32],
    mut see: impl FnMut(RowPiece<'_>) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    let mut position = 0;
    source.each(&mut |first, matrix| {
        let end = first + matrix.rows();
        let here = rows[position..].partition_point(|row| (*row as usize) < end);
        let rows = &rows[position..position + here];
        let piece = RowPiece { matrix, first, rows, position };
        position += here;
        see(piece)
    })
}
