//! Kernel values and gradients where supports have few numbers: row by row over the numbers that are there.

use mercer_kernel::{KernelRef, Profile};
use mercer_simd::{Isa, add_row};
use rayon::prelude::*;

use crate::kernel_gradient::kernel_gradient;

/// Rows that are lists of numbers pay up to this share of all numbers.
const MOST_SHARE: f64 = 0.15;
/// Supports whose sums are kept together: always the same, so that bits do not depend on threads.
const PART: usize = 256;

/// A machine whose supports are lists of the numbers that are not zero.
#[derive(Debug)]
pub(super) struct Lists {
    kernel: KernelRef,
    profile: Profile,
    width: usize,
    /// β, score after score.
    betas: Vec<f64>,
    squares: Vec<f64>,
    /// Where each support begins, and the end.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

/// What a part of the supports says of the vectors.
struct Part {
    /// `<z, W>`, score after score, as far as these supports go.
    met: Vec<f64>,
    /// Kernel values, support after support.
    values: Vec<f64>,
    /// How they change, `across u + along z`; nothing where it follows from the values.
    slopes: Vec<(f64, f64)>,
}

/// Kernel values of all supports with the vectors.
pub(super) struct Met {
    parts: Vec<Part>,
    /// `<z, W>`, score after score.
    pub(super) products: Vec<f64>,
}

impl Lists {
    /// The lists of rows, if they are short.
    pub(super) fn new(
        (kernel, profile): (&KernelRef, Profile),
        (rows, squares): (&[f64], &[f64]),
        width: usize,
        betas: &[f64],
    ) -> Option<Self> {
        let count = rows.iter().filter(|x| **x != 0.0).count();
        if count as f64 > MOST_SHARE * rows.len() as f64 {
            return None;
        }
        let (kernel, squares, betas) = (kernel.clone(), squares.to_vec(), betas.to_vec());
        let (starts, columns, values) = (vec![0], Vec::new(), Vec::new());
        let mut lists = Self { kernel, profile, width, betas, squares, starts, columns, values };
        for row in rows.chunks_exact(width.max(1)) {
            for (column, value) in (0u32..).zip(row).filter(|(_, value)| **value != 0.0) {
                lists.columns.push(column);
                lists.values.push(*value);
            }
            lists.starts.push(lists.columns.len());
        }
        Some(lists)
    }

    fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.starts[row]..self.starts[row + 1];
        let columns = self.columns[range.clone()].iter().map(|column| *column as usize);
        columns.zip(self.values[range].iter().copied())
    }

    /// Kernel values of the vectors, turned: column after column, with all supports.
    pub(super) fn meet(&self, turned: &[f64], own: &[f64]) -> Met {
        let (n, m) = (own.len(), self.squares.len());
        let scores = self.betas.len() / m.max(1);
        let starts: Vec<usize> = (0..m).step_by(PART).collect();
        let part = |start: &usize| {
            let rows = *start..(start + PART).min(m);
            let mut part = Part {
                met: vec![0.0; scores * n],
                values: vec![0.0; rows.len() * n],
                slopes: Vec::new(),
            };
            for (row, line) in rows.zip(part.values.chunks_exact_mut(n)) {
                for (column, value) in self.row(row) {
                    add_row(Isa::current(), value, &turned[column * n..(column + 1) * n], line);
                }
                self.finish(row, own, line, &mut part.slopes);
                for (score, met) in part.met.chunks_exact_mut(n).enumerate() {
                    add_row(Isa::current(), self.betas[score * m + row], line, met);
                }
            }
            part
        };
        let parts: Vec<Part> = starts.par_iter().map(part).collect();
        let mut products = vec![0.0; scores * n];
        for part in &parts {
            products.iter_mut().zip(&part.met).for_each(|(sum, own)| *sum += own);
        }
        Met { parts, products }
    }

    /// Products of one support become kernel values.
    fn finish(&self, row: usize, own: &[f64], line: &mut [f64], slopes: &mut Vec<(f64, f64)>) {
        let square = self.squares[row];
        if let (Profile::Gaussian { .. }, Some(finish)) =
            (self.profile, self.kernel.form().finish())
        {
            finish.finish(Isa::current(), line, square, own);
            return;
        }
        for (value, own) in line.iter_mut().zip(own) {
            let gradient = kernel_gradient(self.profile, *value, square, *own);
            *value = gradient.value;
            slopes.push((gradient.across, gradient.along));
        }
    }

    /// Adds `-2 Σ_s g_s dc_s` to the gradient, turned, and to what the vectors themselves count for.
    pub(super) fn turn(&self, met: &Met, g: &[f64], along: &mut [f64]) -> Vec<f64> {
        let (n, m) = (along.len(), self.squares.len());
        let one = |(number, part): (usize, &Part)| {
            let mut turned = vec![0.0; self.width * n];
            let (mut own, mut counts) = (vec![0.0; n], vec![0.0; n]);
            for (at, values) in part.values.chunks_exact(n).enumerate() {
                let row = number * PART + at;
                counts.fill(0.0);
                for (score, g) in g.chunks_exact(n).enumerate() {
                    add_row(Isa::current(), -2.0 * self.betas[score * m + row], g, &mut counts);
                }
                if let Profile::Gaussian { gamma } = self.profile {
                    for ((count, own), value) in counts.iter_mut().zip(&mut own).zip(values) {
                        *count *= 2.0 * gamma * value;
                        *own -= *count;
                    }
                } else {
                    let slopes = &part.slopes[at * n..(at + 1) * n];
                    for ((count, own), slope) in counts.iter_mut().zip(&mut own).zip(slopes) {
                        *own += *count * slope.1;
                        *count *= slope.0;
                    }
                }
                for (column, value) in self.row(row) {
                    let place = &mut turned[column * n..(column + 1) * n];
                    add_row(Isa::current(), value, &counts, place);
                }
            }
            (turned, own)
        };
        let parts: Vec<(Vec<f64>, Vec<f64>)> = met.parts.par_iter().enumerate().map(one).collect();
        let mut sum = vec![0.0; self.width * n];
        for (turned, own) in parts {
            sum.iter_mut().zip(&turned).for_each(|(sum, own)| *sum += own);
            along.iter_mut().zip(&own).for_each(|(sum, own)| *sum += own);
        }
        sum
    }
}
