//! A matrix of kernel values as a kernel, to train on; machines that are stored have the kernel `precomputed`, whose queries
//! are rows of values.

use mercer_data::{DataError, Matrix, MatrixBuilder, Row};
use mercer_spec::Spec;

use crate::{Form, Kernel};

/// Kernel values of all pairs: an example is its row number in the only column.
#[derive(Debug)]
pub struct Gram {
    values: Matrix,
    /// The column with the values of each example.
    columns: Option<Vec<usize>>,
}

impl Gram {
    /// Row and column numbers of examples are the same.
    pub fn new(values: Matrix) -> Self {
        Self { values, columns: None }
    }

    /// The values of each example, as the second of a pair, are in a column of its own.
    pub fn with_columns(values: Matrix, columns: Vec<usize>) -> Self {
        Self { values, columns: Some(columns) }
    }

    /// The examples to train on: the numbers of all rows.
    ///
    /// # Errors
    /// None that can occur; the numbers are finite.
    pub fn serials(rows: usize) -> Result<Matrix, DataError> {
        Matrix::dense(1, (0..rows).map(|row| row as f64).collect())
    }

    /// Supports as machines with the kernel `precomputed` keep them: the unit vectors of their serial numbers, from 0.
    pub fn units(serials: &[usize], rows: usize) -> Matrix {
        let mut builder = MatrixBuilder::new();
        for serial in serials {
            builder.push(*serial as u32, 1.0);
            builder.end_row();
        }
        builder.finish(rows)
    }
}

impl Kernel for Gram {
    fn form(&self) -> Form<'_> {
        Form::Opaque
    }

    fn is_positive_semidefinite(&self) -> bool {
        false
    }

    fn spec(&self) -> Spec {
        Spec::new("precomputed")
    }

    fn value(&self, u: Row<'_>, v: Row<'_>) -> f64 {
        let second = v.get(0) as usize;
        let column = self.columns.as_ref().map_or(second, |columns| columns[second]);
        self.values.row(u.get(0) as usize).get(column)
    }
}
