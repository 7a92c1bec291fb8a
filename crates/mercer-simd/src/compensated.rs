//! Subtraction of rows from many sums, plain and compensated (the updates of a Cholesky factorisation).

use crate::isa::Isa;
use crate::vector::{SimdBackend, Task};

struct SubtractRows<'a> {
    factors: &'a [f64],
    rows: &'a [f64],
    stride: usize,
    out: &'a mut [f64],
}

impl Task for SubtractRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Self { factors, rows, stride, out } = self;
        let (fours, rest) = factors.as_chunks::<4>();
        // Four at a time: the same differences in the same order, with less memory traffic for `out`.
        for (group, [a, b, c, d]) in fours.iter().enumerate() {
            let [p, q, r, s] = [0, 1, 2, 3].map(|at| &rows[(4 * group + at) * stride..]);
            let length = out.len();
            let (first, second) = (p[..length].iter().zip(&q[..length]), r[..length].iter());
            for ((place, (p, q)), (r, s)) in out.iter_mut().zip(first).zip(second.zip(&s[..length]))
            {
                let sum = b.mul_add(-q, a.mul_add(-p, *place));
                *place = d.mul_add(-s, c.mul_add(-r, sum));
            }
        }
        for (at, factor) in rest.iter().enumerate() {
            let start = (4 * fours.len() + at) * stride;
            for (place, value) in out.iter_mut().zip(&rows[start..]) {
                *place = factor.mul_add(-value, *place);
            }
        }
    }
}

/// `out -= Σ_j factor_j row_j`, term by term in order; each row starts `stride` numbers after the one before.
///
/// # Panics
/// If a row would reach beyond the end.
pub fn subtract_rows(isa: Isa, factors: &[f64], rows: &[f64], stride: usize, out: &mut [f64]) {
    let last = factors.len().saturating_sub(1).checked_mul(stride);
    let end = last.and_then(|last| last.checked_add(out.len()));
    let is_within = end.is_some_and(|end| end <= rows.len());
    assert!(factors.is_empty() || is_within, "one row for each factor");
    isa.run(SubtractRows { factors, rows, stride, out });
}

/// Many compensated sums: each keeps its rounding errors apart (Ogita, Rump and Oishi: twice the precision).
#[derive(Debug, Clone)]
pub struct CompensatedSums {
    sums: Vec<f64>,
    errors: Vec<f64>,
    values: Vec<f64>,
}

impl CompensatedSums {
    /// Sums of one number each.
    pub fn new(values: Vec<f64>) -> Self {
        Self { sums: values.clone(), errors: vec![0.0; values.len()], values }
    }

    /// The sums so far, each rounded once.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Subtracts `factor row_i` from every sum, as if exactly.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn subtract(&mut self, isa: Isa, factor: f64, row: &[f64]) {
        assert_eq!(row.len(), self.values.len(), "one number each");
        isa.run(SubtractCompensated { sums: self, row, of: |_| factor });
    }

    /// Subtracts `row_i²` from every sum, as if exactly.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn subtract_squares(&mut self, isa: Isa, row: &[f64]) {
        assert_eq!(row.len(), self.values.len(), "one number each");
        isa.run(SubtractCompensated { sums: self, row, of: |x| x });
    }
}

struct SubtractCompensated<'a, F> {
    sums: &'a mut CompensatedSums,
    row: &'a [f64],
    of: F,
}

impl<F: Fn(f64) -> f64> Task for SubtractCompensated<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let CompensatedSums { sums, errors, values } = self.sums;
        let places = sums.iter_mut().zip(errors).zip(values);
        for (((sum, errors), value), x) in places.zip(self.row) {
            let factor = -(self.of)(*x);
            let product = factor * x;
            let new = *sum + product;
            let part = new - *sum;
            *errors += (*sum - (new - part)) + (product - part);
            *errors += factor.mul_add(*x, -product);
            *sum = new;
            *value = *sum + *errors;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: u32, step: f64) -> Vec<f64> {
        (0..count).map(|i| (f64::from(i) * step).sin()).collect()
    }

    #[test]
    fn rows_are_subtracted_term_by_term_and_give_the_same_bits_on_every_processor() {
        for (count, length) in [(0, 5), (1, 1), (4, 9), (7, 33), (3, 0)] {
            let (factors, rows) = (numbers(count, 0.7), numbers(count * length, 0.13));
            let mut plain = numbers(length, 0.31);
            for (factor, row) in factors.iter().zip(rows.chunks_exact(length.max(1) as usize)) {
                plain
                    .iter_mut()
                    .zip(row)
                    .for_each(|(place, x)| *place = (-factor).mul_add(*x, *place));
            }
            for isa in Isa::available() {
                let mut out = numbers(length, 0.31);
                subtract_rows(*isa, &factors, &rows, length as usize, &mut out);
                assert_eq!(out, plain, "{count} rows of {length}");
                // In parts, as threads share them.
                let mut parts = numbers(length, 0.31);
                let middle = parts.len() / 3;
                let (left, right) = parts.split_at_mut(middle);
                subtract_rows(*isa, &factors, &rows, length as usize, left);
                let after = rows.get(middle..).unwrap_or_default();
                subtract_rows(*isa, &factors, after, length as usize, right);
                assert_eq!(parts, plain);
            }
        }
    }

    #[test]
    fn cancelled_digits_are_kept() {
        for isa in Isa::available() {
            let mut sums = CompensatedSums::new(vec![1.0; 19]);
            let row = vec![0.1; 19];
            (0..100).for_each(|_| sums.subtract_squares(*isa, &row));
            // 1 - 100 (0.1)² where 0.1 is the nearest f64.
            let exact = -2.0 * (0.1f64.mul_add(10.0, -1.0));
            assert!(sums.values().iter().all(|x| (x - exact).abs() < 1e-27), "{sums:?} {exact}");
            sums.subtract(*isa, 2.0, &row);
            assert!(sums.values().iter().all(|x| (x + 0.2).abs() < 1e-15));
        }
    }
}
