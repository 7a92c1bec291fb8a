//! Kernel values and gradients for sparse supports: row by row over their nonzeros. Dense ones are in `joint.rs`.

use mercer_kernel::{KernelRef, Profile};
use mercer_simd::{Isa, add_row};
use rayon::prelude::*;

use crate::kernel_gradient::kernel_gradient;

/// Sparse rows are faster up to this share of nonzeros.
const MOST_DENSITY: f64 = 0.15;
/// Supports of a block: always the same, so that bits do not depend on threads.
const BLOCK: usize = 256;

/// Supports as rows of dense numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct DenseSupports<'a> {
    /// One row after the other.
    pub rows: &'a [f64],
    pub squared_norms: &'a [f64],
    pub columns: usize,
}

/// A machine whose supports are sparse rows.
#[derive(Debug)]
pub(super) struct SparseSupports {
    kernel: KernelRef,
    profile: Profile,
    width: usize,
    /// β, score after score.
    betas: Vec<f64>,
    squared_norms: Vec<f64>,
    /// Where each support begins, and the end.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

/// Kernel values of some supports with the vectors.
struct SupportBlock {
    /// What these supports add to `<z, W>`, score after score.
    products: Vec<f64>,
    /// Kernel values, support after support.
    values: Vec<f64>,
    /// Their gradients in z, `across u + along z`; empty where they follow from the values.
    slopes: Vec<(f64, f64)>,
}

/// Kernel values of all supports with the vectors.
pub(super) struct SupportProducts {
    blocks: Vec<SupportBlock>,
    /// `<z, W>`, score after score.
    pub(super) products: Vec<f64>,
}

impl SparseSupports {
    /// The supports as sparse rows, if they have few nonzeros.
    pub(super) fn new(
        kernel: &KernelRef,
        profile: Profile,
        supports: DenseSupports<'_>,
        betas: &[f64],
    ) -> Option<Self> {
        let DenseSupports { rows, squared_norms, columns: width } = supports;
        let count = rows.iter().filter(|x| **x != 0.0).count();
        if count as f64 > MOST_DENSITY * rows.len() as f64 {
            return None;
        }
        let (kernel, squared_norms) = (kernel.clone(), squared_norms.to_vec());
        let betas = betas.to_vec();
        let (starts, columns, values) = (vec![0], Vec::new(), Vec::new());
        let mut sparse =
            Self { kernel, profile, width, betas, squared_norms, starts, columns, values };
        for row in rows.chunks_exact(width.max(1)) {
            for (column, value) in (0u32..).zip(row).filter(|(_, value)| **value != 0.0) {
                sparse.columns.push(column);
                sparse.values.push(*value);
            }
            sparse.starts.push(sparse.columns.len());
        }
        Some(sparse)
    }

    fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.starts[row]..self.starts[row + 1];
        let columns = self.columns[range.clone()].iter().map(|column| *column as usize);
        columns.zip(self.values[range].iter().copied())
    }

    /// Kernel values of all supports with the vectors, which are given column after column, with their squared norms.
    pub(super) fn kernel_products(&self, columns: &[f64], norms: &[f64]) -> SupportProducts {
        let (n, m) = (norms.len(), self.squared_norms.len());
        let scores = self.betas.len() / m.max(1);
        let starts: Vec<usize> = (0..m).step_by(BLOCK).collect();
        let block = |start: &usize| {
            let rows = *start..(start + BLOCK).min(m);
            let mut block = SupportBlock {
                products: vec![0.0; scores * n],
                values: vec![0.0; rows.len() * n],
                slopes: Vec::new(),
            };
            for (row, line) in rows.zip(block.values.chunks_exact_mut(n)) {
                for (column, value) in self.row(row) {
                    add_row(Isa::current(), value, &columns[column * n..(column + 1) * n], line);
                }
                self.finish(row, norms, line, &mut block.slopes);
                for (score, sum) in block.products.chunks_exact_mut(n).enumerate() {
                    add_row(Isa::current(), self.betas[score * m + row], line, sum);
                }
            }
            block
        };
        let blocks: Vec<SupportBlock> = starts.par_iter().map(block).collect();
        let mut products = vec![0.0; scores * n];
        for block in &blocks {
            products.iter_mut().zip(&block.products).for_each(|(sum, part)| *sum += part);
        }
        SupportProducts { blocks, products }
    }

    /// Inner products of one support become kernel values.
    fn finish(&self, row: usize, norms: &[f64], line: &mut [f64], slopes: &mut Vec<(f64, f64)>) {
        let square = self.squared_norms[row];
        if let (Profile::Gaussian { .. }, Some(finish)) =
            (self.profile, self.kernel.form().finish())
        {
            finish.finish(Isa::current(), line, square, norms);
            return;
        }
        for (value, norm) in line.iter_mut().zip(norms) {
            let slope = kernel_gradient(self.profile, *value, square, *norm);
            *value = slope.value;
            slopes.push((slope.across, slope.along));
        }
    }

    /// The gradient of `-2 Σ_s g_s'c_s`, column after column; the factors of the vectors themselves are added to `along`.
    pub(super) fn gradient(
        &self,
        with: &SupportProducts,
        g: &[f64],
        along: &mut [f64],
    ) -> Vec<f64> {
        let (n, m) = (along.len(), self.squared_norms.len());
        let of_block = |(number, block): (usize, &SupportBlock)| {
            let mut gradient = vec![0.0; self.width * n];
            let (mut along, mut weights) = (vec![0.0; n], vec![0.0; n]);
            for (at, values) in block.values.chunks_exact(n).enumerate() {
                let row = number * BLOCK + at;
                weights.fill(0.0);
                for (score, g) in g.chunks_exact(n).enumerate() {
                    add_row(Isa::current(), -2.0 * self.betas[score * m + row], g, &mut weights);
                }
                if let Profile::Gaussian { gamma } = self.profile {
                    for ((weight, along), value) in weights.iter_mut().zip(&mut along).zip(values) {
                        *weight *= 2.0 * gamma * value;
                        *along -= *weight;
                    }
                } else {
                    let slopes = &block.slopes[at * n..(at + 1) * n];
                    for ((weight, along), slope) in weights.iter_mut().zip(&mut along).zip(slopes) {
                        *along += *weight * slope.1;
                        *weight *= slope.0;
                    }
                }
                for (column, value) in self.row(row) {
                    let place = &mut gradient[column * n..(column + 1) * n];
                    add_row(Isa::current(), value, &weights, place);
                }
            }
            (gradient, along)
        };
        let parts: Vec<(Vec<f64>, Vec<f64>)> =
            with.blocks.par_iter().enumerate().map(of_block).collect();
        let mut sum = vec![0.0; self.width * n];
        for (gradient, part) in parts {
            sum.iter_mut().zip(&gradient).for_each(|(sum, x)| *sum += x);
            along.iter_mut().zip(&part).for_each(|(sum, x)| *sum += x);
        }
        sum
    }
}
