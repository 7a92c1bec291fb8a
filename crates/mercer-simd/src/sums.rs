//! Sums: the reference dot product, scattered columns, weighted sums over supports.

#![expect(unsafe_code, reason = "vector loads inside slices of checked lengths")]
#![expect(clippy::needless_range_loop, reason = "plain indices into register arrays unroll fully")]

use crate::isa::Isa;
use crate::vector::{SimdBackend, Task, Vector};

struct Dot<'a>(&'a [f64], &'a [f64]);

impl Task for Dot<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> f64 {
        let mut sum = 0.0;
        for (a, b) in self.0.iter().zip(self.1) {
            sum = a.mul_add(*b, sum);
        }
        sum + 0.0
    }
}

/// The reference dot product: `s ← fma(a_c, b_c, s)` in order, from +0, and finally `s + 0`.
///
/// # Panics
/// If the lengths differ.
pub fn dot(isa: Isa, a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "rows differ in columns");
    isa.run(Dot(a, b))
}

struct DotSparse<'a> {
    a: (&'a [u32], &'a [f64]),
    b: (&'a [u32], &'a [f64]),
}

impl Task for DotSparse<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> f64 {
        let (mut i, mut j, mut sum) = (0, 0, 0.0_f64);
        while i < self.a.0.len() && j < self.b.0.len() {
            let (left, right) = (self.a.0[i], self.b.0[j]);
            if left == right {
                sum = self.a.1[i].mul_add(self.b.1[j], sum);
            }
            i += usize::from(left <= right);
            j += usize::from(right <= left);
        }
        sum + 0.0
    }
}

/// [`dot`] of two sparse rows with increasing columns: the same bits as their dense forms.
///
/// # Panics
/// If a row has not one value per column.
pub fn dot_sparse(isa: Isa, ac: &[u32], av: &[f64], bc: &[u32], bv: &[f64]) -> f64 {
    assert_eq!(ac.len(), av.len(), "one value per column");
    assert_eq!(bc.len(), bv.len(), "one value per column");
    isa.run(DotSparse { a: (ac, av), b: (bc, bv) })
}

struct Scatter<'a> {
    x: f64,
    rows: &'a [u32],
    values: &'a [f64],
    acc: &'a mut [f64],
}

impl Task for Scatter<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        for (&row, value) in self.rows.iter().zip(self.values) {
            let sum = &mut self.acc[row as usize];
            // Adding 0 at each step instead of at the end changes no later step.
            *sum = self.x.mul_add(*value, *sum) + 0.0;
        }
    }
}

/// `acc[r] = fma(x, v, acc[r])` over one column of an inverted index of sparse rows.
///
/// Called for the columns of a query in increasing order on zeroed `acc`, it yields [`dot`] bit for
/// bit.
///
/// # Panics
/// If the lengths differ or a row is out of range.
pub fn scatter_column(isa: Isa, x: f64, rows: &[u32], values: &[f64], acc: &mut [f64]) {
    assert_eq!(rows.len(), values.len(), "one value per row");
    isa.run(Scatter { x, rows, values, acc });
}

struct WeightedSums<'a> {
    values: &'a [f64],
    first_index: usize,
    coefficients: &'a [&'a [f64]],
    partials: &'a mut [[f64; 8]],
}

impl WeightedSums<'_> {
    /// `S` scores from `first` on share the loads of the values.
    #[inline(always)]
    fn scores<B: SimdBackend, const S: usize>(&mut self, first: usize) {
        let mut rows = [self.values; S];
        for s in 0..S {
            rows[s] = &self.coefficients[first + s][self.first_index..][..self.values.len()];
        }
        add_rows::<B, S>(self.values, rows, &mut self.partials[first..][..S]);
    }
}

/// Adds the values times `S` rows to `S` times eight partial sums.
#[inline(always)]
fn add_rows<B: SimdBackend, const S: usize>(
    values: &[f64],
    rows: [&[f64]; S],
    partials: &mut [[f64; 8]],
) {
    assert!(rows.iter().all(|row| row.len() == values.len()) && partials.len() == S, "checked");
    // SAFETY: each row is as long as the values, there are `S` partial sums, and `B` is the
    // backend of the target features this body was inlined into.
    unsafe {
        if B::V64::LANES == 8 {
            add_blocks::<B::V64, 1, S>(values, rows, partials);
        } else {
            add_blocks::<B::V64, 2, S>(values, rows, partials);
        }
    }
    let done = values.len() / 8 * 8;
    for s in 0..S {
        let pairs = values[done..].iter().zip(&rows[s][done..]);
        for (sum, (value, coefficient)) in partials[s].iter_mut().zip(pairs) {
            *sum = value.mul_add(*coefficient, *sum);
        }
    }
}

/// The whole blocks of eight, as `N` registers each.
#[inline(always)]
unsafe fn add_blocks<V: Vector<Element = f64>, const N: usize, const S: usize>(
    values: &[f64],
    rows: [&[f64]; S],
    partials: &mut [[f64; 8]],
) {
    // SAFETY: the caller gives rows as long as the values, `S` partial sums, `N * LANES = 8` and
    // the backend of `V`.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; S];
        for s in 0..S {
            for n in 0..N {
                sums[s][n] = V::load(partials[s].as_ptr().add(n * V::LANES));
            }
        }
        for block in 0..values.len() / 8 {
            for n in 0..N {
                let at = 8 * block + n * V::LANES;
                let value = V::load(values.as_ptr().add(at));
                for s in 0..S {
                    let row = V::load(rows[s].as_ptr().add(at));
                    sums[s][n] = value.fma(row, sums[s][n]);
                }
            }
        }
        for s in 0..S {
            for n in 0..N {
                sums[s][n].store(partials[s].as_mut_ptr().add(n * V::LANES));
            }
        }
    }
}

impl Task for WeightedSums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(mut self) {
        let scores = self.coefficients.len();
        for first in (0..scores).step_by(4) {
            match scores - first {
                1 => self.scores::<B, 1>(first),
                2 => self.scores::<B, 2>(first),
                3 => self.scores::<B, 3>(first),
                _ => self.scores::<B, 4>(first),
            }
        }
    }
}

/// Adds `values[i] * coefficients[s][first_index + i]` to `partials[s][i mod 8]`.
///
/// Each partial sum is a chain of fused multiply-adds in index order, so cutting `values` into
/// pieces at multiples of eight changes no bit. [`fold8`] turns the partial sums into the score.
///
/// # Panics
/// If `first_index` is not a multiple of 8, a row of coefficients is too short, or there is not one
/// row of coefficients per partial sum.
pub fn weighted_sums(
    isa: Isa,
    values: &[f64],
    first_index: usize,
    coefficients: &[&[f64]],
    partials: &mut [[f64; 8]],
) {
    assert!(first_index.is_multiple_of(8), "pieces start at multiples of eight");
    assert_eq!(coefficients.len(), partials.len(), "one row of coefficients per score");
    isa.run(WeightedSums { values, first_index, coefficients, partials });
}

struct ScatteredSums<'a> {
    values: &'a [f64],
    rows: &'a [f64],
    stride: usize,
    scores: &'a [u32],
    partials: &'a mut [[f64; 8]],
}

impl ScatteredSums<'_> {
    /// `S` scores from `first` on share the loads of the values.
    #[inline(always)]
    fn scores<B: SimdBackend, const S: usize>(&mut self, first: usize) {
        let mut rows = [self.values; S];
        let mut sums = [[0.0; 8]; S];
        for s in 0..S {
            rows[s] = &self.rows[(first + s) * self.stride..][..self.values.len()];
            sums[s] = self.partials[self.scores[first + s] as usize];
        }
        add_rows::<B, S>(self.values, rows, &mut sums);
        for s in 0..S {
            self.partials[self.scores[first + s] as usize] = sums[s];
        }
    }
}

impl Task for ScatteredSums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(mut self) {
        let scores = self.scores.len();
        for first in (0..scores).step_by(4) {
            match scores - first {
                1 => self.scores::<B, 1>(first),
                2 => self.scores::<B, 2>(first),
                3 => self.scores::<B, 3>(first),
                _ => self.scores::<B, 4>(first),
            }
        }
    }
}

/// As [`weighted_sums`], for rows of coefficients that lie `stride` apart: row `s` belongs to the partial sums number
/// `scores[s]`. The bits are those of one call for each row; a score is named once.
///
/// # Panics
/// If a row is shorter than the values, or a score has no partial sums.
pub fn scattered_sums(
    isa: Isa,
    values: &[f64],
    rows: &[f64],
    stride: usize,
    scores: &[u32],
    partials: &mut [[f64; 8]],
) {
    isa.run(ScatteredSums { values, rows, stride, scores, partials });
}

/// The sum of eight partial sums by a fixed tree.
///
/// `((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7))`
pub fn fold8(p: &[f64; 8]) -> f64 {
    ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}
