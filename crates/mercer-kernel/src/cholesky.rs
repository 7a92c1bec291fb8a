//! Dense positive definite systems: `A = L Lᵀ` in tiles, solutions, and the diagonal of the inverse.
//!
//! Tiles are cut by the size of the matrix alone, so the result does not depend on the number of threads.
//! The upper triangle is not touched until [`Cholesky::inverse_diagonal`], so that a caller may keep the
//! matrix itself there.

use mercer_simd::{Isa, gemm_nt, subtract_rows};
use rayon::prelude::*;
use std::ops::Range;

/// Rows and columns of a tile.
const TILE: usize = 96;
/// Rows of a panel solved together.
const GROUP: usize = 32;

/// The factor `L` of a symmetric matrix, in the lower triangle of a square, row after row.
#[derive(Debug, Clone)]
pub struct Cholesky {
    size: usize,
    values: Vec<f64>,
}

/// Why a factorisation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CholeskyError {
    /// The pivot of this row is not above zero: the matrix is not positive definite in f64.
    NotPositiveDefinite(usize),
    /// The caller cancelled it.
    Cancelled,
}

impl Cholesky {
    /// Factorises a matrix given by its lower triangle. `go_on` is called with the rows done, tile after tile, and
    /// may cancel.
    ///
    /// # Errors
    /// If a pivot is not above zero, or `go_on` returns false.
    ///
    /// # Panics
    /// If there are not `size²` values.
    pub fn new(
        mut values: Vec<f64>,
        size: usize,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Self, CholeskyError> {
        assert_eq!(values.len(), size * size, "a square");
        for start in (0..size).step_by(TILE) {
            if !go_on(start) {
                return Err(CholeskyError::Cancelled);
            }
            let width = TILE.min(size - start);
            let (above, below) = values.split_at_mut((start + width) * size);
            let top = &mut above[start * size..];
            corner(top, size, start, width).map_err(CholeskyError::NotPositiveDefinite)?;
            let top = &*top;
            // The panel below the corner, then its products are subtracted from all tiles to its right.
            let groups = below.par_chunks_mut(GROUP * size);
            groups.for_each_init(Vec::new, |transposed, rows| {
                panel(top, size, start..start + width, rows, transposed);
            });
            let panel: Vec<f64> = below
                .chunks(size)
                .flat_map(|row| row[start..start + width].iter().copied())
                .collect();
            let panel = &panel;
            let tiles = below.par_chunks_mut(TILE * size).enumerate();
            tiles.for_each_init(Vec::new, |out, (tile, work)| {
                let tile = TileRows { tile, rows: work, size };
                subtract_products(tile, start + width, width, panel, out);
            });
        }
        Ok(Self { size, values })
    }

    /// The square, with `L` in its lower triangle.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// `x = A⁻¹ b`, in place.
    ///
    /// # Panics
    /// If there is not one value per row.
    pub fn solve(&self, b: &mut [f64]) {
        self.forward(b);
        for (at, row) in self.values.chunks_exact(self.size).enumerate().rev() {
            b[at] /= row[at];
            let value = b[at];
            b[..at].iter_mut().zip(row).for_each(|(x, l)| *x -= l * value);
        }
    }

    /// `x = L⁻¹ b`, in place.
    ///
    /// # Panics
    /// If there is not one value per row.
    pub fn forward(&self, b: &mut [f64]) {
        assert_eq!(b.len(), self.size, "one value per row");
        for (at, row) in self.values.chunks_exact(self.size).enumerate() {
            b[at] = (b[at] - dot(&row[..at], &b[..at])) / row[at];
        }
    }

    /// The diagonal of `A⁻¹`: sums of squares of the columns of `L⁻¹`, whose transpose overwrites
    /// the upper triangle.
    pub fn inverse_diagonal(mut self, go_on: &mut dyn FnMut(usize) -> bool) -> Option<Vec<f64>> {
        let size = self.size;
        for start in (0..size).step_by(TILE) {
            if !go_on(start) {
                return None;
            }
            let width = TILE.min(size - start);
            let rows: Vec<f64> = self.values[start * size..(start + width) * size].to_vec();
            let done = &mut self.values[..(start + width) * size];
            let rows = &rows;
            done.par_chunks_mut(TILE * size).enumerate().for_each(|(tile, work)| {
                invert_tile(TileRows { tile, rows: work, size }, rows, start);
            });
        }
        let sum = |(at, row): (usize, &[f64])| {
            1.0 / (row[at] * row[at]) + row[at + 1..].iter().map(|x| x * x).sum::<f64>()
        };
        Some(self.values.chunks_exact(size).enumerate().map(sum).collect())
    }
}

/// Factorises the corner of a panel, column by column; on failure the row of the pivot.
fn corner(top: &mut [f64], size: usize, start: usize, width: usize) -> Result<(), usize> {
    let mut transposed = vec![0.0; width * width];
    for (at, row) in top.chunks_exact(size).enumerate() {
        for (column, value) in row[start..=start + at].iter().enumerate() {
            transposed[column * width + at] = *value;
        }
    }
    let (isa, mut factors) = (Isa::current(), Vec::with_capacity(width));
    for at in 0..width {
        let (before, current) = transposed.split_at_mut(at * width);
        let current = &mut current[..width];
        factors.clear();
        factors.extend(before.chunks_exact(width).map(|column| column[at]));
        subtract_rows(isa, &factors, before, width, current);
        let pivot = current[at];
        if pivot.is_nan() || pivot <= 0.0 {
            return Err(start + at);
        }
        let root = pivot.sqrt();
        current.iter_mut().for_each(|value| *value /= root);
        current[at] = root;
    }
    for (at, row) in top.chunks_exact_mut(size).enumerate() {
        for (column, value) in row[start..=start + at].iter_mut().enumerate() {
            *value = transposed[column * width + at];
        }
    }
    Ok(())
}

/// Some rows of the panel below a corner: solves against the corner's factor, column by column.
fn panel(
    top: &[f64],
    size: usize,
    columns: Range<usize>,
    rows: &mut [f64],
    transposed: &mut Vec<f64>,
) {
    let (start, width) = (columns.start, columns.len());
    let count = rows.len() / size;
    transposed.clear();
    transposed.resize(width * count, 0.0);
    for (at, row) in rows.chunks_exact(size).enumerate() {
        for (column, value) in row[start..start + width].iter().enumerate() {
            transposed[column * count + at] = *value;
        }
    }
    let isa = Isa::current();
    for (column, factor) in top.chunks_exact(size).enumerate() {
        let factor = &factor[start..=start + column];
        let (before, current) = transposed.split_at_mut(column * count);
        let current = &mut current[..count];
        subtract_rows(isa, &factor[..column], before, count, current);
        current.iter_mut().for_each(|value| *value /= factor[column]);
    }
    for (at, row) in rows.chunks_exact_mut(size).enumerate() {
        for (column, value) in row[start..start + width].iter_mut().enumerate() {
            *value = transposed[column * count + at];
        }
    }
}

/// Whole rows of a matrix, one tile of them.
struct TileRows<'a> {
    tile: usize,
    rows: &'a mut [f64],
    /// Columns of the matrix.
    size: usize,
}

/// Subtracts the products of panel rows from the tiles of some rows, up to the diagonal. `first` is the row at
/// which the panel begins.
fn subtract_products(
    tile: TileRows<'_>,
    first: usize,
    width: usize,
    panel: &[f64],
    out: &mut Vec<f64>,
) {
    let TileRows { tile, rows: work, size } = tile;
    let rows = work.len() / size;
    let left = &panel[tile * TILE * width..(tile * TILE + rows) * width];
    for other in 0..=tile {
        let begin = other * TILE;
        let columns = TILE.min(panel.len() / width - begin);
        let others = &panel[begin * width..(begin + columns) * width];
        out.clear();
        out.resize(rows * columns, 0.0);
        gemm_nt(rows, columns, width, left, others, out);
        for (at, (row, products)) in
            work.chunks_mut(size).zip(out.chunks_exact(columns)).enumerate()
        {
            let kept = if other == tile { at + 1 } else { columns };
            let place = &mut row[first + begin..first + begin + kept];
            place.iter_mut().zip(products).for_each(|(value, product)| *value -= product);
        }
    }
}

/// Columns `begin..` of `L⁻¹` in the rows `start..start + width`, written as rows above the diagonal.
///
/// `W_I = L_II⁻¹ (E_I - Σ_(K<I) L_IK W_K)`
fn invert_tile(tile: TileRows<'_>, rows: &[f64], start: usize) {
    let TileRows { tile, rows: work, size } = tile;
    let (begin, width) = (tile * TILE, rows.len() / size);
    let columns = work.len() / size;
    let mut sums = vec![0.0; columns * width];
    if start > begin {
        let inner = start - begin;
        let solved: Vec<f64> = work
            .chunks_exact(size)
            .enumerate()
            .flat_map(|(at, row)| {
                (begin..start).map(move |column| match column.cmp(&(begin + at)) {
                    std::cmp::Ordering::Less => 0.0,
                    std::cmp::Ordering::Equal => 1.0 / row[column],
                    std::cmp::Ordering::Greater => row[column],
                })
            })
            .collect();
        let factor: Vec<f64> =
            rows.chunks_exact(size).flat_map(|row| row[begin..start].iter().copied()).collect();
        gemm_nt(columns, width, inner, &solved, &factor, &mut sums);
    }
    for (at, (row, sums)) in work.chunks_mut(size).zip(sums.chunks_exact_mut(width)).enumerate() {
        for k in 0..width {
            let unit = if start + k == begin + at { 1.0 } else { 0.0 };
            let factor = &rows[k * size + start..k * size + start + width];
            sums[k] = (unit - sums[k] - dot(&factor[..k], &sums[..k])) / factor[k];
        }
        for (k, value) in sums.iter().enumerate() {
            if start + k > begin + at {
                row[start + k] = *value;
            }
        }
    }
}

/// Dot product in eight partial sums, to hide the latency of additions.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b[..a.len()].chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    mercer_simd::fold8(&sums) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `B Bᵀ + I` of pseudo-random numbers.
    fn matrix(size: usize) -> Vec<f64> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f64 / (1u64 << 24) as f64 - 0.5
        };
        let b: Vec<f64> = (0..size * size).map(|_| next()).collect();
        let mut a = vec![0.0; size * size];
        gemm_nt(size, size, size, &b, &b, &mut a);
        (0..size).for_each(|at| a[at * size + at] += 1.0);
        a
    }

    #[test]
    fn systems_of_any_size_are_solved_and_the_upper_triangle_is_kept() {
        for size in [1, 2, 95, 96, 97, 250] {
            let a = matrix(size);
            let factor = Cholesky::new(a.clone(), size, &mut |_| true).unwrap();
            let mut x: Vec<f64> = (0..size).map(|at| at as f64 - 3.0).collect();
            let expected = x.clone();
            factor.solve(&mut x);
            for at in 0..size {
                let found = dot(&a[at * size..(at + 1) * size], &x);
                assert!((found - expected[at]).abs() < 1e-9 * size as f64, "{size}: row {at}");
                let upper = at * size + at + 1..(at + 1) * size;
                assert_eq!(factor.values()[upper.clone()], a[upper]);
            }
        }
    }

    #[test]
    fn the_diagonal_of_the_inverse_is_that_of_its_columns() {
        for size in [1, 96, 200] {
            let a = matrix(size);
            let factor = Cholesky::new(a, size, &mut |_| true).unwrap();
            let diagonal = factor.clone().inverse_diagonal(&mut |_| true).unwrap();
            for at in 0..size {
                let mut unit = vec![0.0; size];
                unit[at] = 1.0;
                factor.solve(&mut unit);
                assert!((unit[at] - diagonal[at]).abs() < 1e-12, "{size}: row {at}");
            }
        }
    }

    #[test]
    fn indefinite_matrices_are_an_error_and_the_caller_may_cancel() {
        let mut a = matrix(150);
        a[120 * 150 + 120] = -1.0;
        assert_eq!(
            Cholesky::new(a, 150, &mut |_| true).unwrap_err(),
            CholeskyError::NotPositiveDefinite(120)
        );
        let cancelled = Cholesky::new(matrix(150), 150, &mut |done| done < 96).unwrap_err();
        assert_eq!(cancelled, CholeskyError::Cancelled);
    }

    #[test]
    fn the_factor_does_not_depend_on_the_number_of_threads() {
        let a = matrix(300);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Cholesky::new(a.clone(), 300, &mut |_| true).unwrap().values)
        };
        assert_eq!(with(1), with(3));
    }
}
