//! Delayed column generation: the penalty falls step by step, and only columns that a pricing step asks for take part.
//! What is left at zero penalty is found in `basis`.

use mercer_kernel::factor::KernelColumns;

use super::SparseDescent;
use crate::control::Control;
use crate::gram::{Source, kernel_sums};

/// Each penalty is this share of the one before.
const COOLING: f64 = 0.3;
/// Columns that enter after one pricing, at most, beside as many as there are.
const BATCH: usize = 64;
/// A column is asked for if its reduced cost exceeds the penalty by this share.
const EXCESS: f64 = 1e-3;
/// Sweeps after one pricing, at most: the basis at zero penalty does not rest on the last digits of a penalised solution.
const SWEEPS: usize = 20;
/// Pricings for one penalty, at most.
const PRICINGS: usize = 12;

/// W and the rows that may represent it.
pub(super) struct Candidates<'p> {
    pub(super) source: &'p Source<'p>,
    /// The rows, as numbers of examples.
    pub(super) examples: Vec<u32>,
    /// `<Φ_i, W>` of each row.
    pub(super) products: Vec<f64>,
    /// Weight of each row in the penalty.
    pub(super) weights: Vec<f64>,
    /// Bytes for kernel columns.
    pub(super) memory: usize,
}

/// What the annealing leaves.
pub(super) struct Annealed {
    /// Rows with a coefficient, and their coefficients.
    pub(super) rows: Vec<usize>,
    pub(super) coefficients: Vec<f64>,
    /// Columns that took part, and pricing steps.
    pub(super) priced: usize,
    pub(super) pricings: usize,
}

impl Candidates<'_> {
    /// Kernel columns of some rows.
    pub(super) fn columns(&self, rows: &[usize]) -> KernelColumns {
        let rows = rows.iter().map(|row| self.examples[*row] as usize);
        let matrix = self.source.examples.select(rows);
        let centre = self.source.centre.as_deref();
        KernelColumns::new(self.source.kernel.clone(), matrix, centre, self.memory)
    }

    /// `Σ c_i <Φ_i, Φ_row>` of some rows.
    pub(super) fn sums(&self, of: &[usize], rows: &[usize], coefficients: &[f64]) -> Vec<f64> {
        let named =
            |rows: &[usize]| -> Vec<u32> { rows.iter().map(|row| self.examples[*row]).collect() };
        kernel_sums(self.source, &named(of), &named(rows), coefficients)
    }

    /// Lets the penalty fall to `lambda` times the largest `|<Φ_i, W>|`; none if the control stops it.
    pub(super) fn anneal(&self, lambda: f64, control: &mut Control<'_>) -> Option<Annealed> {
        let pairs = || self.products.iter().zip(&self.weights);
        let largest = pairs().map(|(product, _)| product.abs()).fold(0.0, f64::max);
        let mut penalty =
            pairs().map(|(product, weight)| product.abs() / weight).fold(0.0, f64::max);
        let end = lambda * largest;
        let (mut pool, mut pricings): (Vec<usize>, usize) = (Vec::new(), 0);
        let empty = self.columns(&[]);
        let mut descent = SparseDescent::new(empty, vec![Vec::new()], Vec::new());
        while penalty > end {
            penalty = f64::max(COOLING * penalty, end);
            for _ in 0..PRICINGS {
                if control.stop().is_some() {
                    return None;
                }
                pricings += 1;
                let (entering, residual) = self.priced_out(&pool, &descent, penalty);
                let is_settled = entering.is_empty();
                if !is_settled {
                    let weights: Vec<f64> = entering.iter().map(|row| self.weights[*row]).collect();
                    pool.extend(entering);
                    descent = descent.extended(self.columns(&pool), &[residual], &weights);
                }
                if !descent.solve(penalty, SWEEPS, &mut |_, _| control.stop().is_none()) {
                    return None;
                }
                if is_settled {
                    break;
                }
            }
        }
        let kept = descent.kept();
        let coefficients = kept.iter().map(|place| descent.coefficients()[0][*place]).collect();
        let rows = kept.iter().map(|place| pool[*place]).collect();
        Some(Annealed { rows, coefficients, priced: pool.len(), pricings })
    }

    /// Rows outside the pool whose reduced cost `|<Φ_i, W - W~>|` exceeds their penalty, those that exceed it most, and
    /// their inner products with `W - W~`.
    fn priced_out(
        &self,
        pool: &[usize],
        descent: &SparseDescent<KernelColumns>,
        penalty: f64,
    ) -> (Vec<usize>, Vec<f64>) {
        let mut is_inside = vec![false; self.examples.len()];
        pool.iter().for_each(|row| is_inside[*row] = true);
        let outside: Vec<usize> = (0..is_inside.len()).filter(|row| !is_inside[*row]).collect();
        let kept = descent.kept();
        let rows: Vec<usize> = kept.iter().map(|place| pool[*place]).collect();
        let coefficients: Vec<f64> =
            kept.iter().map(|place| descent.coefficients()[0][*place]).collect();
        let sums = self.sums(&outside, &rows, &coefficients);
        let left = outside.iter().zip(sums).map(|(row, sum)| (*row, self.products[*row] - sum));
        let excess =
            |row: usize, left: f64| left.abs() - (1.0 + EXCESS) * penalty * self.weights[row];
        let mut asked: Vec<(usize, f64)> = left.filter(|(row, r)| excess(*row, *r) > 0.0).collect();
        asked.sort_by(|a, b| excess(b.0, b.1).total_cmp(&excess(a.0, a.1)).then(a.0.cmp(&b.0)));
        asked.truncate(BATCH.max(pool.len()));
        asked.into_iter().unzip()
    }
}
