//! A kernel whose values were computed in Python.

use mercer::data::{DataError, Matrix, MatrixBuilder, Row};
use mercer::kernel::{Form, Kernel};
use mercer::spec::Spec;

/// A Gram matrix as a kernel: a row is its serial number in the only column.
#[derive(Debug)]
pub(crate) struct Gram {
    values: Matrix,
}

impl Gram {
    /// A square matrix of kernel values.
    pub(crate) fn new(values: Matrix) -> Self {
        Self { values }
    }

    /// The serial numbers of all rows.
    pub(crate) fn serials(rows: usize) -> Result<Matrix, DataError> {
        Matrix::dense(1, (0..rows).map(|row| row as f64).collect())
    }

    /// Supports as machines with given kernel values keep them: the unit vectors of their serial numbers.
    pub(crate) fn units(serials: &[usize], rows: usize) -> Matrix {
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
        self.values.row(u.get(0) as usize).get(v.get(0) as usize)
    }
}
