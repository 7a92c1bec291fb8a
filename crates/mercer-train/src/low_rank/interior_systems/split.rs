//! The default method: variables with small D are handled separately, the rest by one Cholesky factor.
//! When it applies and what replaces it is decided in [`super`].

use mercer_kernel::cholesky::Cholesky;
use mercer_kernel::factor::Store;
use mercer_kernel::triangle;
use mercer_simd::{Isa, ProductShape, Real, Strided, StridedMut, add_row, row_dot};

use super::{ProductForm, folded, rows_f64, squared_norms};

/// A variable is separated if its D is below this share of the squared norm of its row.
const SMALL: f64 = 1e-2;

/// Variables B with small D are separated from the others N, so that nothing is divided by a small D.
///
/// `S = I + V_N' D_N^-1 V_N = L L'`, `W = V_B L^-T`, `A = D_B + W W'`. For a right-hand side `w`:
/// `z = w_N / D_N`, `h = V_N' z - r`, `u_B = A^-1 (w_B - V_B S^-1 h)`, `p = S^-1 (h + V_B' u_B)`,
/// `u_N = z - D_N^-1 V_N p`. At most `2 k + 2` variables are in B; a generic optimum has `k + 1` free
/// variables.
#[derive(Debug)]
pub(crate) struct Split {
    rank: usize,
    /// `1 / D` of N, zero elsewhere.
    inverse: Vec<f64>,
    lower: Cholesky,
    /// B.
    separated: Vec<u32>,
    /// `V_B`, row-major.
    rows: Vec<f64>,
    inner: InnerFactor,
}

/// The factor of `A = D_B + W W'`.
#[derive(Debug)]
enum InnerFactor {
    Cholesky(Cholesky),
    Product(ProductForm),
}

impl Split {
    pub(super) fn new<T: Real>(store: &Store<T>, d: &[f64]) -> Option<Self> {
        let rank = store.rank();
        let norms = squared_norms(store);
        let mut separated: Vec<u32> = (0..d.len() as u32)
            .filter(|v| d[*v as usize] < SMALL * norms[*v as usize % norms.len()])
            .collect();
        separated.sort_by(|a, b| d[*a as usize].total_cmp(&d[*b as usize]));
        separated.truncate(2 * rank + 2);
        let mut inverse: Vec<f64> = d.iter().map(|d| 1.0 / d).collect();
        separated.iter().for_each(|v| inverse[*v as usize] = 0.0);
        if inverse.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut lower = store.weighted_square(&folded(&inverse, store.rows()));
        (0..rank).for_each(|at| lower[at * rank + at] += 1.0);
        let lower = Cholesky::new(lower, rank, &mut |_| true).ok()?;
        let rows = rows_f64(store, &separated);
        let mut w_rows = rows.clone();
        triangle::solve_rows(lower.values(), rank, &mut w_rows);
        let small: Vec<f64> = separated.iter().map(|v| d[*v as usize]).collect();
        let inner = if separated.len() <= rank {
            InnerFactor::Cholesky(inner_cholesky(&w_rows, rank, &small)?)
        } else {
            InnerFactor::Product(ProductForm::new(w_rows, rank, &small))
        };
        Some(Self { rank, inverse, lower, separated, rows, inner })
    }

    pub(super) fn solve<T: Real>(
        &self,
        store: &Store<T>,
        w: &[f64],
        r: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let isa = Isa::current();
        let mut u: Vec<f64> = w.iter().zip(&self.inverse).map(|(w, i)| w * i).collect();
        let mut h = store.transposed_times(&folded(&u, store.rows()));
        h.iter_mut().zip(r).for_each(|(h, r)| *h -= r);
        let mut s_inv_h = h.clone();
        self.solve_s(&mut s_inv_h);
        let mut u_b: Vec<f64> = self
            .separated
            .iter()
            .zip(self.rows.chunks_exact(self.rank.max(1)))
            .map(|(v, row)| w[*v as usize] - row_dot(isa, row, &s_inv_h))
            .collect();
        match &self.inner {
            InnerFactor::Cholesky(lower) => {
                triangle::solve_lower(lower.values(), u_b.len(), &mut u_b);
                triangle::solve_transposed(lower.values(), u_b.len(), &mut u_b);
            }
            InnerFactor::Product(form) => form.solve(&mut u_b),
        }
        for (value, row) in u_b.iter().zip(self.rows.chunks_exact(self.rank.max(1))) {
            add_row(isa, *value, row, &mut h);
        }
        self.solve_s(&mut h);
        let v_p = store.times(&h);
        for (v, (u, inverse)) in u.iter_mut().zip(&self.inverse).enumerate() {
            *u -= inverse * v_p[v % v_p.len()];
        }
        self.separated.iter().zip(&u_b).for_each(|(v, value)| u[*v as usize] = *value);
        (u, h)
    }

    /// Solves `S x = h` in place.
    fn solve_s(&self, h: &mut [f64]) {
        triangle::solve_lower(self.lower.values(), self.rank, h);
        triangle::solve_transposed(self.lower.values(), self.rank, h);
    }
}

/// The factor of `D_B + W W'`.
fn inner_cholesky(w_rows: &[f64], rank: usize, d: &[f64]) -> Option<Cholesky> {
    let size = d.len();
    let mut square = vec![0.0; size * size];
    let left = Strided { values: w_rows, row: rank, column: 1 };
    let right = Strided { values: w_rows, row: 1, column: rank };
    let out = StridedMut { values: &mut square, row: size.max(1), column: 1 };
    let shape = ProductShape { rows: size, columns: size, inner: rank };
    f64::product(shape, left, right, out, 0.0, 1.0);
    d.iter().enumerate().for_each(|(at, d)| square[at * size + at] += d);
    Cholesky::new(square, size, &mut |_| true).ok()
}
