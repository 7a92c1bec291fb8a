//! Solves the systems by Householder QR: the most robust method, and the fallback when another breaks down.

use mercer_kernel::factor::Store;
use mercer_kernel::triangle;
use mercer_simd::{Isa, Real, add_row, row_dot};

use super::rows_f64;

/// Householder QR of `[D^-1/2 V; I]` with the rows sorted by increasing D: without the sort up to ten digits of some
/// components are lost.
///
/// With `y = Q' [D^-1/2 w; -r]`: p is `R^-1` times the first k entries of y; `u = D^-1/2 (Q y)` after these entries are
/// set to zero.
#[derive(Debug)]
pub(crate) struct Qr {
    rank: usize,
    /// Variables sorted by increasing D.
    order: Vec<u32>,
    /// `D^-1/2`, in that order.
    roots: Vec<f64>,
    /// Householder vectors, each of length variables + rank.
    reflectors: Vec<f64>,
    /// `R'`, row-major: lower triangular.
    lower: Vec<f64>,
    variables: usize,
}

impl Qr {
    pub(super) fn new<T: Real>(store: &Store<T>, d: &[f64]) -> Self {
        let isa = Isa::current();
        let rank = store.rank();
        let mut order: Vec<u32> =
            (0..d.len() as u32).filter(|v| d[*v as usize].is_finite()).collect();
        order.sort_by(|a, b| d[*a as usize].total_cmp(&d[*b as usize]));
        let largest = order.last().map_or(1.0, |v| d[*v as usize]);
        let floor = (1e-200 * largest).max(f64::MIN_POSITIVE);
        let roots: Vec<f64> =
            order.iter().map(|v| 1.0 / d[*v as usize].max(floor).sqrt()).collect();
        let length = order.len() + rank;
        let rows = rows_f64(store, &order);
        let mut columns = vec![0.0; rank * length];
        for (j, column) in columns.chunks_exact_mut(length.max(1)).enumerate() {
            for (at, root) in roots.iter().enumerate() {
                column[at] = root * rows[at * rank + j];
            }
            column[order.len() + j] = 1.0;
        }
        let mut lower = vec![0.0; rank * rank];
        for j in 0..rank {
            let (before, rest) = columns.split_at_mut((j + 1) * length);
            let pivot = &mut before[j * length..];
            lower[j * rank..j * rank + j].copy_from_slice(&pivot[..j]);
            lower[j * rank + j] = reflector(&mut pivot[j..]);
            pivot[..j].fill(0.0);
            for column in rest.chunks_exact_mut(length) {
                let factor = -2.0 * row_dot(isa, &pivot[j..], &column[j..]);
                add_row(isa, factor, &pivot[j..], &mut column[j..]);
            }
        }
        Self { rank, order, roots, reflectors: columns, lower, variables: d.len() }
    }

    pub(super) fn solve(&self, w: &[f64], r: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let isa = Isa::current();
        let length = self.order.len() + self.rank;
        let mut y = vec![0.0; length];
        for ((out, v), root) in y.iter_mut().zip(&self.order).zip(&self.roots) {
            *out = root * w[*v as usize];
        }
        y[self.order.len()..].iter_mut().zip(r).for_each(|(out, r)| *out = -r);
        let reflect = |y: &mut [f64], j: usize| {
            let vector = &self.reflectors[j * length + j..(j + 1) * length];
            let factor = -2.0 * row_dot(isa, vector, &y[j..]);
            add_row(isa, factor, vector, &mut y[j..]);
        };
        (0..self.rank).for_each(|j| reflect(&mut y, j));
        let mut p = y[..self.rank].to_vec();
        triangle::solve_transposed(&self.lower, self.rank, &mut p);
        y[..self.rank].fill(0.0);
        (0..self.rank).rev().for_each(|j| reflect(&mut y, j));
        let mut u = vec![0.0; self.variables];
        for ((v, root), value) in self.order.iter().zip(&self.roots).zip(&y) {
            u[*v as usize] = root * value;
        }
        (u, p)
    }
}

/// Replaces a column by the unit Householder vector that maps it to a multiple of the first axis; returns the multiple.
fn reflector(column: &mut [f64]) -> f64 {
    let largest = column.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    column.iter_mut().for_each(|x| *x /= largest);
    let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
    let onto = -norm.copysign(column[0]);
    column[0] -= onto;
    let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
    column.iter_mut().for_each(|x| *x /= norm);
    largest * onto
}
