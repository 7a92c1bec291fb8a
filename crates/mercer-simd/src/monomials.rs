//! Monomials of columns, each an earlier one times a column, and their weighted sums.

use crate::isa::Isa;
use crate::vector::{SimdBackend, Task};

/// How one product comes from an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Factor {
    /// The earlier product.
    pub of: u32,
    /// The column it is multiplied with.
    pub column: u32,
}

struct MonomialsTask<'a> {
    columns: &'a [[f64; 8]],
    factors: &'a [Factor],
    weights: &'a [f64],
    terms: &'a mut [[f64; 8]],
    sums: &'a mut [[f64; 8]],
}

impl Task for MonomialsTask<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Self { columns, factors, weights, terms, sums } = self;
        let scores = sums.len();
        terms[0] = [1.0; 8];
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum = [*weight; 8];
        }
        for (number, factor) in (1..).zip(factors) {
            let weights = &weights[number * scores..(number + 1) * scores];
            let (earlier, column) = (&terms[factor.of as usize], &columns[factor.column as usize]);
            let mut term = [0.0; 8];
            for lane in 0..8 {
                term[lane] = earlier[lane] * column[lane];
            }
            terms[number] = term;
            for (sum, weight) in sums.iter_mut().zip(weights) {
                for lane in 0..8 {
                    sum[lane] = weight.mul_add(term[lane], sum[lane]);
                }
            }
        }
    }
}

/// Products of the columns of eight rows, and their sums: product 0 is 1, product `n` is an earlier one times
/// a column (`factors[n - 1]`). `weights` has one number for each sum, product after product; each sum is one
/// chain of fused multiply-adds in that order, so a row gives the same bits beside any others.
///
/// # Panics
/// If lengths do not fit, or a factor names a later product or a column that is not there.
pub fn monomials(
    isa: Isa,
    columns: &[[f64; 8]],
    factors: &[Factor],
    weights: &[f64],
    terms: &mut [[f64; 8]],
    sums: &mut [[f64; 8]],
) {
    assert_eq!(terms.len(), factors.len() + 1, "one element per product");
    assert_eq!(weights.len(), terms.len() * sums.len(), "a weight for each product and sum");
    isa.run(MonomialsTask { columns, factors, weights, terms, sums });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_plain_products_on_every_instruction_set() {
        // 1, x, y, x², xy, y² in two sums.
        let factor = |of, column| Factor { of, column };
        let factors = [factor(0, 0), factor(0, 1), factor(1, 0), factor(1, 1), factor(2, 1)];
        let weights: Vec<f64> = (0..12).map(|n| f64::from(n) * 0.25 - 1.0).collect();
        let lane = |scale: f64| std::array::from_fn(|lane| (lane as f64 - 3.0) * scale);
        let columns: [[f64; 8]; 2] = [lane(0.5), lane(-0.25)];
        for isa in Isa::available() {
            let (mut terms, mut sums) = ([[0.0; 8]; 6], [[7.0; 8]; 2]);
            monomials(*isa, &columns, &factors, &weights, &mut terms, &mut sums);
            for lane in 0..8 {
                let (x, y) = (columns[0][lane], columns[1][lane]);
                let products = [1.0, x, y, x * x, x * y, y * y];
                for (score, sums) in sums.iter().enumerate() {
                    let pairs = products.iter().zip(weights.iter().skip(score).step_by(2));
                    // Every number here is a small multiple of a power of two: nothing is rounded.
                    let sum: f64 = pairs.map(|(x, w)| x * w).sum();
                    assert_eq!(sums[lane].to_bits(), sum.to_bits());
                }
            }
        }
    }
}
