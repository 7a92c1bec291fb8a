//! Triangular systems, row-major, in f64; blocks of columns are one matrix product each.
//! The factors come from `cholesky` and `factor`.

use mercer_simd::{Isa, ProductShape, Real, Strided, StridedMut, add_row, row_dot};

/// Columns solved at once.
const BLOCK: usize = 48;

/// Solves `L x = b` in place; `lower` holds L in its lower triangle.
///
/// # Panics
/// If lengths do not fit.
pub fn solve_lower(lower: &[f64], size: usize, b: &mut [f64]) {
    assert_eq!(
        (lower.len(), b.len()),
        (size * size, size),
        "a square matrix and one number per row"
    );
    let isa = Isa::current();
    for row in 0..size {
        let factor = &lower[row * size..];
        let explained = row_dot(isa, &factor[..row], &b[..row]);
        b[row] = (b[row] - explained) / factor[row];
    }
}

/// Solves `L' x = b` in place.
///
/// # Panics
/// If lengths do not fit.
pub fn solve_transposed(lower: &[f64], size: usize, b: &mut [f64]) {
    assert_eq!(
        (lower.len(), b.len()),
        (size * size, size),
        "a square matrix and one number per row"
    );
    let isa = Isa::current();
    for row in (0..size).rev() {
        let factor = &lower[row * size..];
        b[row] /= factor[row];
        let value = b[row];
        add_row(isa, -value, &factor[..row], &mut b[..row]);
    }
}

/// Solves `L x = b` for every row `b` of `rows`, in place: `X L' = B`.
///
/// # Panics
/// If lengths do not fit.
pub fn solve_rows(lower: &[f64], size: usize, rows: &mut [f64]) {
    assert_eq!(lower.len(), size * size, "a square matrix");
    if size == 0 {
        return;
    }
    let count = rows.len() / size;
    assert_eq!(rows.len(), count * size, "whole rows");
    let mut update = Vec::new();
    for first in (0..size).step_by(BLOCK) {
        let width = BLOCK.min(size - first);
        update.clear();
        update.resize(count * width, 0.0);
        let left = Strided { values: &*rows, row: size, column: 1 };
        let right = Strided { values: &lower[first * size..], row: 1, column: size };
        let out = StridedMut { values: &mut update, row: width, column: 1 };
        let shape = ProductShape { rows: count, columns: width, inner: first };
        f64::product(shape, left, right, out, 0.0, 1.0);
        for (row, update) in rows.chunks_exact_mut(size).zip(update.chunks_exact(width)) {
            let block = &mut row[first..first + width];
            block.iter_mut().zip(update).for_each(|(value, explained)| *value -= explained);
            for at in 0..width {
                let other = &lower[(first + at) * size + first..][..=at];
                let explained: f64 = block[..at].iter().zip(other).map(|(a, b)| a * b).sum();
                block[at] = (block[at] - explained) / other[at];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cholesky::Cholesky;

    fn sample(size: usize) -> Vec<f64> {
        let value = |i: usize, j: usize| {
            let distance = (i as f64 - j as f64) / 7.0;
            (-distance * distance).exp() + if i == j { 0.01 } else { 0.0 }
        };
        (0..size * size).map(|at| value(at / size, at % size)).collect()
    }

    #[test]
    fn triangles_are_solved_forwards_backwards_and_for_many_rows() {
        for size in [1, 5, 48, 49, 131] {
            let matrix = sample(size);
            let lower = Cholesky::new(matrix.clone(), size, &mut |_| true).unwrap();
            let lower = lower.values();
            let x: Vec<f64> = (0..size).map(|i| (i as f64).sin()).collect();
            let mut b: Vec<f64> = matrix
                .chunks(size)
                .map(|row| row.iter().zip(&x).map(|(a, x)| a * x).sum())
                .collect();
            let mut rows = [b.clone(), b.clone()].concat();
            solve_lower(lower, size, &mut b);
            solve_rows(lower, size, &mut rows);
            let same = rows.iter().zip(b.iter().cycle()).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(same, "{size}");
            solve_transposed(lower, size, &mut b);
            assert!(x.iter().zip(&b).all(|(x, b)| (x - b).abs() < 1e-8), "{size}");
        }
    }
}
