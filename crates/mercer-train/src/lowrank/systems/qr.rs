use mercer_kernel::factor::Store;
use mercer_kernel::triangle;
use mercer_simd::{Isa, Real, add_row, row_dot};

use super::wide_rows;

/// Householder's QR of `[D^-1/2 V; I]` with the rows in the order of increasing D: without the sort up to ten
/// digits of single components are lost.
///
/// With `y = Q' [D^-1/2 w; -r]`: `p = R^-1 y` of its first k numbers, and `u = D^-1/2 (Q y)` after they are set to
/// zero.
#[derive(Debug)]
pub(crate) struct Qr {
    rank: usize,
    /// Variables by increasing D.
    order: Vec<u32>,
    /// `D^-1/2`, in that order.
    roots: Vec<f64>,
    /// Reflectors, one after the other, each of length variables + rank.
    reflectors: Vec<f64>,
    /// `R'`, row-major: a lower triangle.
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
        let rows = wide_rows(store, &order);
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
            let own = &mut before[j * length..];
            lower[j * rank..j * rank + j].copy_from_slice(&own[..j]);
            lower[j * rank + j] = reflector(&mut own[j..]);
            own[..j].fill(0.0);
            for column in rest.chunks_exact_mut(length) {
                let factor = -2.0 * row_dot(isa, &own[j..], &column[j..]);
                add_row(isa, factor, &own[j..], &mut column[j..]);
            }
        }
        Self { rank, order, roots, reflectors: columns, lower, variables: d.len() }
    }

    pub(super) fn solve(&self, w: &[f64], r: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let isa = Isa::current();
        let length = self.order.len() + self.rank;
        let mut y = vec![0.0; length];
        for ((place, v), root) in y.iter_mut().zip(&self.order).zip(&self.roots) {
            *place = root * w[*v as usize];
        }
        y[self.order.len()..].iter_mut().zip(r).for_each(|(place, r)| *place = -r);
        let reflect = |y: &mut [f64], j: usize| {
            let own = &self.reflectors[j * length + j..(j + 1) * length];
            let factor = -2.0 * row_dot(isa, own, &y[j..]);
            add_row(isa, factor, own, &mut y[j..]);
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

/// Turns a column into the unit vector whose reflection takes it to its first axis; returns where it comes to
/// lie there.
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
