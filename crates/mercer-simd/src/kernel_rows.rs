//! Sums over rows of kernel values, f32 or f64, in f64: what training does with the rows of a Gram matrix.

use crate::Real;
use crate::isa::Isa;
use crate::vector::{SimdBackend, Task};

/// Partial sums of [`weighted_sum`], by index.
const LANES: usize = 16;

struct AddRows<'a, 'r, T> {
    rows: &'a [&'r [T]],
    weights: &'a [f64],
    sums: &'a mut [f64],
}

impl<T: Real> Task for AddRows<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Self { rows, weights, sums } = self;
        let length = sums.len();
        let fours = rows.len() / 4 * 4;
        for (rows, weights) in rows[..fours].chunks_exact(4).zip(weights.chunks_exact(4)) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|row| &rows[row][..length]);
            let w = [weights[0], weights[1], weights[2], weights[3]];
            for at in 0..length {
                let sum = (w[0] * a[at].to_f64() + w[1] * b[at].to_f64())
                    + (w[2] * c[at].to_f64() + w[3] * d[at].to_f64());
                sums[at] += sum;
            }
        }
        for (row, weight) in rows[fours..].iter().zip(&weights[fours..]) {
            for (sum, value) in sums.iter_mut().zip(*row) {
                *sum += *weight * value.to_f64();
            }
        }
    }
}

/// `sums[c] += Σ_i weights[i] rows[i][c]`, four rows at a time in the order given; no operation is fused.
///
/// # Panics
/// If there is not one weight for each row, or a row is shorter than the sums.
pub fn add_rows<T: Real>(isa: Isa, rows: &[&[T]], weights: &[f64], sums: &mut [f64]) {
    assert_eq!(rows.len(), weights.len(), "one weight for each row");
    assert!(rows.iter().all(|row| row.len() >= sums.len()), "one value for each sum");
    isa.run(AddRows { rows, weights, sums });
}

struct WeightedSum<'a> {
    values: &'a [f32],
    weights: &'a [f64],
}

impl Task for WeightedSum<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> f64 {
        let mut partials = [0.0f64; LANES];
        let (values, weights) = (self.values.chunks_exact(LANES), self.weights.chunks_exact(LANES));
        let rest = values.remainder().iter().zip(weights.remainder());
        for (values, weights) in values.zip(weights) {
            for lane in 0..LANES {
                partials[lane] = f64::from(values[lane]).mul_add(weights[lane], partials[lane]);
            }
        }
        for (partial, (value, weight)) in partials.iter_mut().zip(rest) {
            *partial = f64::from(*value).mul_add(*weight, *partial);
        }
        let mut half = [0.0; LANES / 2];
        for lane in 0..LANES / 2 {
            half[lane] = partials[lane] + partials[lane + LANES / 2];
        }
        crate::fold8(&half)
    }
}

/// `Σ_i values[i] weights[i]` in f64: sixteen chains of fused multiply-adds by index, folded by a fixed tree.
///
/// # Panics
/// If the lengths differ.
pub fn weighted_sum(isa: Isa, values: &[f32], weights: &[f64]) -> f64 {
    assert_eq!(values.len(), weights.len(), "one weight for each value");
    isa.run(WeightedSum { values, weights })
}
