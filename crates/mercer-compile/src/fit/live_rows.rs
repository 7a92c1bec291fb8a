//! Rows in the live columns of a machine, centred as it centres, dense. Packed rows for prediction are in
//! `mercer_kernel::block`.

use mercer_data::{Matrix, Row};
use mercer_kernel::{Form, Profile};
use mercer_query::Exact;

#[derive(Debug)]
pub(super) struct LiveRows {
    pub count: usize,
    pub columns: usize,
    pub values: Vec<f64>,
    /// Squared norms, all columns included.
    pub squares: Vec<f64>,
}

impl LiveRows {
    /// The supports; each coordinate carries at most one rounding, that of centring.
    pub(super) fn of_supports(exact: &Exact) -> Self {
        let supports = exact.machine().supports();
        let squares = exact.packed().squared_norms().to_vec();
        Self { squares, ..Self::of_queries(exact, supports) }
    }

    pub(super) fn of_queries(exact: &Exact, rows: &Matrix) -> Self {
        let (machine, packed) = (exact.machine(), exact.packed());
        let is_shifted = matches!(machine.kernel().form(), Form::Shift(_));
        let centre = machine.centre().filter(|_| is_shifted);
        let live = packed.live();
        let mut buffer = Vec::new();
        let mut values = Vec::with_capacity(rows.rows() * live.len());
        for row in rows.iter() {
            buffer.clear();
            buffer.resize(machine.columns().max(row_width(row)), 0.0);
            row.write_dense(&mut buffer);
            for column in live {
                let shift = centre.map_or(0.0, |centre| centre[*column as usize]);
                values.push(buffer[*column as usize] - shift);
            }
        }
        let squares = rows.iter().map(|row| packed.loose_squared_norm(row)).collect();
        Self { count: rows.rows(), columns: live.len(), values, squares }
    }

    /// `1 / t(x, x)^(p/2)` for normalised kernels (0 for rows of zeros without a constant), else 1.
    pub(super) fn inverse_norms(&self, profile: Profile) -> Vec<f64> {
        let Profile::NormalizedPower { scale, shift, degree } = profile else {
            return vec![1.0; self.count];
        };
        let inverse = |squared_norm: &f64| {
            let t = scale * squared_norm + shift;
            if t == 0.0 { 0.0 } else { 1.0 / t.powi(degree as i32).sqrt() }
        };
        self.squares.iter().map(inverse).collect()
    }
}

fn row_width(row: Row<'_>) -> usize {
    row.width()
}

/// The transpose of a row-major matrix.
pub(super) fn transposed(matrix: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows * columns];
    for (row, values) in matrix.chunks_exact(columns.max(1)).enumerate() {
        for (column, value) in values.iter().enumerate() {
            out[column * rows + row] = *value;
        }
    }
    out
}
