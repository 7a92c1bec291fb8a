//! Rows in the live columns of a machine, centred as it centres, dense: what `projected` and `taylor` are fitted to and
//! verified on. Answers do not use them.

use mercer_data::{Matrix, Row};
use mercer_kernel::{Form, Profile};

use crate::Exact;

/// Dense rows of a machine's live columns.
#[derive(Debug)]
pub struct LiveRows {
    /// Number of rows.
    pub count: usize,
    /// Number of live columns.
    pub columns: usize,
    /// Row after row.
    pub values: Vec<f64>,
    /// Squared norms, all columns included.
    pub squares: Vec<f64>,
}

impl LiveRows {
    /// The supports; each coordinate carries at most one rounding, that of centring.
    pub fn of_supports(exact: &Exact) -> Self {
        let supports = exact.machine().supports();
        let squares = exact.packed().squared_norms().to_vec();
        Self { squares, ..Self::of_queries(exact, supports) }
    }

    /// Queries; columns that are not live are left out.
    pub fn of_queries(exact: &Exact, rows: &Matrix) -> Self {
        let (machine, packed) = (exact.machine(), exact.packed());
        let is_shifted = matches!(machine.kernel().form(), Form::Shift(_));
        let centre = machine.centre().filter(|_| is_shifted);
        let live = packed.live();
        let shift = |column: &u32| centre.map_or(0.0, |centre| centre[*column as usize]);
        let shifts: Vec<f64> = live.iter().map(shift).collect();
        let mut values = vec![0.0; rows.rows() * live.len()];
        for (row, out) in rows.iter().zip(values.chunks_exact_mut(usize::max(live.len(), 1))) {
            write_live(row, live, out);
            out.iter_mut().zip(&shifts).for_each(|(value, shift)| *value -= shift);
        }
        let squares = rows.iter().map(|row| packed.loose_squared_norm(row)).collect();
        Self { count: rows.rows(), columns: live.len(), values, squares }
    }

    /// `1 / t(x, x)^(p/2)` for normalised kernels (0 for rows of zeros without a constant), else 1.
    pub fn inverse_norms(&self, profile: Profile) -> Vec<f64> {
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

/// The values of a row in some columns, which increase.
pub(super) fn write_live(row: Row<'_>, live: &[u32], out: &mut [f64]) {
    out.fill(0.0);
    let mut slot = 0;
    for (column, value) in row.nonzeros() {
        slot += live[slot..].iter().take_while(|other| **other < column).count();
        match live.get(slot) {
            Some(other) if *other == column => out[slot] = value,
            Some(_) => {}
            None => break,
        }
    }
}

/// The transpose of a row-major matrix.
pub fn transposed(matrix: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows * columns];
    for (row, values) in matrix.chunks_exact(usize::max(columns, 1)).enumerate() {
        for (column, value) in values.iter().enumerate() {
            out[column * rows + row] = *value;
        }
    }
    out
}
