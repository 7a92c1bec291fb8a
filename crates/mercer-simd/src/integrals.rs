//! Integrals of products of linear functions, one factor left out at a time: what Shapley values of products need.

use crate::isa::Isa;
use crate::sums::fold8;
use crate::vector::{SimdBackend, Task};

/// A quadrature rule on [0, 1]. Its length is a multiple of 8; nodes that only fill up have weight 0.
#[derive(Debug, Clone, Copy)]
pub struct QuadratureRule<'a> {
    /// The nodes t.
    pub nodes: &'a [f64],
    /// `1 - t` of each node.
    pub complements: &'a [f64],
    /// The weights.
    pub weights: &'a [f64],
}

struct ProductIntegrals<'a> {
    at_one: &'a [f64],
    at_zero: &'a [f64],
    rule: QuadratureRule<'a>,
    prefixes: &'a mut Vec<f64>,
    out: &'a mut [f64],
}

impl ProductIntegrals<'_> {
    /// Adds the nodes from `first` on: products of the factors before each column, then of those after it.
    #[inline(always)]
    fn add_nodes<const N: usize>(&mut self, first: usize) {
        let lanes = |values: &[f64]| -> [f64; N] { std::array::from_fn(|at| values[first + at]) };
        let (t, c) = (lanes(self.rule.nodes), lanes(self.rule.complements));
        let mut product = lanes(self.rule.weights);
        self.prefixes.clear();
        self.prefixes.resize(N * self.out.len(), 0.0);
        let (prefixes, _) = self.prefixes.as_chunks_mut::<N>();
        for ((prefix, a), b) in prefixes.iter_mut().zip(self.at_one).zip(self.at_zero) {
            *prefix = product;
            for lane in 0..N {
                product[lane] *= t[lane].mul_add(*a, c[lane] * *b);
            }
        }
        let mut product = [1.0; N];
        let columns = self.at_one.iter().zip(self.at_zero).zip(&mut *self.out);
        for (((a, b), out), prefix) in columns.zip(prefixes).rev() {
            let mut partial = [0.0; 8];
            for lane in 0..N {
                partial[lane % 8] = prefix[lane].mul_add(product[lane], partial[lane % 8]);
            }
            *out += fold8(&partial);
            for lane in 0..N {
                product[lane] *= t[lane].mul_add(*a, c[lane] * *b);
            }
        }
    }
}

impl Task for ProductIntegrals<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(mut self) {
        self.out.fill(0.0);
        let count = self.rule.nodes.len();
        let mut first = 0;
        while first + 16 <= count {
            self.add_nodes::<16>(first);
            first += 16;
        }
        if first < count {
            self.add_nodes::<8>(first);
        }
    }
}

/// `out_j = Σ_i w_i Π_(k ≠ j) (t_i a_k + (1 - t_i) b_k)`, with `a = at_one` and `b = at_zero`: by the rule,
/// `∫ Π_(k ≠ j) (t a_k + (1 - t) b_k) dt` over [0, 1].
///
/// Nothing is divided, and where all numbers are positive nothing cancels: each product meets two roundings a factor
/// for the factor itself and one for the product.
///
/// # Panics
/// If lengths differ, or that of the rule is no multiple of 8.
pub fn product_integrals(
    isa: Isa,
    at_one: &[f64],
    at_zero: &[f64],
    rule: QuadratureRule<'_>,
    prefixes: &mut Vec<f64>,
    out: &mut [f64],
) {
    assert!(at_one.len() == out.len() && at_zero.len() == out.len(), "one of each for a column");
    let count = rule.nodes.len();
    assert!(
        rule.complements.len() == count && rule.weights.len() == count,
        "one of each for a node"
    );
    assert!(count.is_multiple_of(8), "nodes come in eights");
    isa.run(ProductIntegrals { at_one, at_zero, rule, prefixes, out });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_scalar_code_and_the_defining_sum() {
        let numbers = |seed: f64, count: usize| -> Vec<f64> {
            (0..count).map(|at| ((at as f64 + seed) * 0.618).fract()).collect()
        };
        for (columns, nodes) in [(1, 8), (5, 8), (7, 16), (20, 24), (33, 48)] {
            let (a, b) = (numbers(0.3, columns), numbers(0.9, columns));
            let (t, weights) = (numbers(0.1, nodes), numbers(0.7, nodes));
            let c: Vec<f64> = t.iter().map(|t| 1.0 - t).collect();
            let rule = QuadratureRule { nodes: &t, complements: &c, weights: &weights };
            let of = |isa: Isa| {
                let mut out = vec![0.0; columns];
                product_integrals(isa, &a, &b, rule, &mut Vec::new(), &mut out);
                out
            };
            let expected = of(Isa::SCALAR);
            for isa in Isa::available() {
                assert_eq!(of(*isa), expected, "{isa}");
            }
            for (column, found) in expected.iter().enumerate() {
                let factor = |i: usize, k: usize| t[i] * a[k] + c[i] * b[k];
                let others =
                    |i: usize| (0..columns).filter(|k| *k != column).map(move |k| factor(i, k));
                let sum: f64 = (0..nodes).map(|i| weights[i] * others(i).product::<f64>()).sum();
                assert!((found - sum).abs() <= 1e-13 * sum, "{found} for {sum}");
            }
        }
    }
}
