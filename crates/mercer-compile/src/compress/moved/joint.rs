//! The objective of `moved`: the squared distance of a machine from the span of a few vectors, and its gradient in
//! them. Sparse supports are in `sparse.rs`; the iteration is in `minimize.rs`.

use mercer_data::{LiveColumns, Matrix};
use mercer_kernel::cholesky::Cholesky;
use mercer_kernel::eigen::dot;
use mercer_kernel::{KernelRef, Profile};
use mercer_simd::{Isa, ProductShape, Real, Strided, StridedMut, add_row, gemm_nt, row_dot};
use rayon::prelude::*;

use super::super::CompressionProblem;
use super::NEAR;
use super::sparse::{DenseSupports, SparseSupports, SupportProducts};
use crate::kernel_gradient::{kernel_gradient, profile, self_gradient};

/// `E(Z)`.
pub(super) struct JointObjective {
    kernel: KernelRef,
    profile: Profile,
    /// Columns in which a support is not zero; in others vectors stay at zero.
    live: Vec<usize>,
    width: usize,
    columns: usize,
    size: usize,
    /// Supports less the centre, row after row.
    rows: Vec<f64>,
    squared_norms: Vec<f64>,
    /// The supports as sparse rows, where they have few nonzeros.
    sparse: Option<SparseSupports>,
    /// β, score after score.
    betas: Vec<f64>,
    /// `Σ|W_s|²`.
    machine_norm: f64,
    centre: Vec<f64>,
}

/// Rows become columns.
fn transposed(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; values.len()];
    for row in 0..rows {
        for column in 0..columns {
            out[column * rows + row] = values[row * columns + column];
        }
    }
    out
}

impl JointObjective {
    /// The machine's distance from the span of so many vectors.
    pub(super) fn new(problem: &CompressionProblem<'_>, size: usize) -> Self {
        let width = problem.machine.columns();
        let live = LiveColumns::of(&problem.supports);
        let live: Vec<usize> = live.columns().iter().map(|column| *column as usize).collect();
        let columns = live.len();
        let centre = problem.machine.centre().map_or(vec![0.0; width], <[f64]>::to_vec);
        let mut objective = Self {
            kernel: problem.machine.kernel().clone(),
            profile: profile(problem.machine),
            live,
            width,
            columns,
            size,
            rows: Vec::new(),
            squared_norms: Vec::new(),
            sparse: None,
            betas: problem.betas.concat(),
            machine_norm: problem.squared_norm(),
            centre,
        };
        objective.rows = objective.to_coordinates(&problem.supports);
        let rows = objective.rows.chunks_exact(columns.max(1));
        objective.squared_norms = rows.map(|row| dot(row, row)).collect();
        let (rows, squared_norms) = (&objective.rows[..], &objective.squared_norms[..]);
        let supports = DenseSupports { rows, squared_norms, columns };
        let (kernel, profile) = (&objective.kernel, objective.profile);
        objective.sparse = SparseSupports::new(kernel, profile, supports, &objective.betas);
        objective
    }

    /// Whether all supports are zero: then there is nothing to move.
    pub(super) fn has_no_columns(&self) -> bool {
        self.live.is_empty()
    }

    /// Rows less the centre, live columns only, one after the other.
    pub(super) fn to_coordinates(&self, rows: &Matrix) -> Vec<f64> {
        let mut all = vec![0.0; self.width];
        let mut out = Vec::with_capacity(rows.rows() * self.columns);
        for row in rows.iter() {
            row.write_dense(&mut all);
            out.extend(self.live.iter().map(|column| all[*column] - self.centre[*column]));
        }
        out
    }

    /// Vectors as rows of the machine.
    pub(super) fn to_rows(&self, point: &[f64]) -> Option<Matrix> {
        let mut values = vec![0.0; self.size * self.width];
        let rows = values.chunks_exact_mut(self.width.max(1));
        for (row, vector) in rows.zip(point.chunks_exact(self.columns.max(1))) {
            for (column, x) in self.live.iter().zip(vector) {
                row[*column] = x + self.centre[*column];
            }
        }
        Matrix::dense(self.width, values).ok()
    }

    /// Kernel values of the vectors with some rows and their gradients; `z_norms` and `row_norms` are squared norms.
    fn kernel_block(
        &self,
        z: &[f64],
        z_norms: &[f64],
        rows: &[f64],
        row_norms: &[f64],
    ) -> KernelBlock {
        let (count, inner) = (row_norms.len().max(1), self.columns);
        let mut values = vec![0.0; z_norms.len() * count];
        let lines = values.par_chunks_mut(LINES * count).zip(z_norms.par_chunks(LINES));
        let products = lines.zip(z.par_chunks((LINES * inner).max(1)));
        if let (Profile::Gaussian { gamma }, Some(finish)) =
            (self.profile, self.kernel.form().finish())
        {
            products.for_each(|((values, norms), z)| {
                gemm_nt(norms.len(), count, inner, z, rows, values);
                for (line, norm) in values.chunks_exact_mut(count).zip(norms) {
                    finish.finish(Isa::current(), line, *norm, row_norms);
                }
            });
            return KernelBlock { values, slopes: Slopes::Gaussian { two_gamma: 2.0 * gamma } };
        }
        let slopes: Vec<(Vec<f64>, Vec<f64>)> = products
            .map(|((values, norms), z)| {
                gemm_nt(norms.len(), count, inner, z, rows, values);
                self.slopes(values, norms, row_norms)
            })
            .collect();
        let (across, along): (Vec<_>, Vec<_>) = slopes.into_iter().unzip();
        let slopes = Slopes::Tables { across: across.concat(), along: along.concat() };
        KernelBlock { values, slopes }
    }

    /// Inner products become kernel values; returns their gradients.
    fn slopes(
        &self,
        values: &mut [f64],
        z_norms: &[f64],
        row_norms: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let (mut across, mut along) = (Vec::new(), Vec::new());
        for (line, norm) in values.chunks_exact_mut(row_norms.len().max(1)).zip(z_norms) {
            for (value, square) in line.iter_mut().zip(row_norms) {
                let slope = kernel_gradient(self.profile, *value, *square, *norm);
                *value = slope.value;
                across.push(slope.across);
                along.push(slope.along);
            }
        }
        (across, along)
    }

    /// Adds `factor Σ_i w_ai dk(a, i)` to the gradient; `weigh` writes the weights `w_a` of vector `a` into a line of
    /// zeros.
    fn add_gradient(
        &self,
        block: &KernelBlock,
        factor: f64,
        rows: &[f64],
        weigh: &(dyn Fn(usize, &mut [f64]) + Sync),
        sums: GradientSums<'_>,
    ) {
        let (columns, GradientSums { along, gradient }) = (self.columns, sums);
        let count = block.values.len() / along.len().max(1);
        let parts = gradient.par_chunks_mut((LINES * columns).max(1)).enumerate();
        parts.zip(along.par_chunks_mut(LINES)).for_each(|((part, gradient), along)| {
            let mut weights = vec![0.0; along.len() * count];
            for (at, (line, along)) in weights.chunks_exact_mut(count).zip(&mut *along).enumerate()
            {
                weigh(part * LINES + at, line);
                *along += block.apply_slopes((part * LINES + at) * count, line, factor);
            }
            let weights = Strided { values: &weights[..], row: count, column: 1 };
            let rows = Strided { values: rows, row: columns, column: 1 };
            let out = StridedMut { values: gradient, row: columns, column: 1 };
            let shape = ProductShape { rows: along.len(), columns, inner: count };
            f64::product(shape, weights, rows, out, 1.0, 1.0);
        });
    }
}

/// A gradient in the vectors: `gradient`, plus `along` times each vector itself.
struct GradientSums<'a> {
    along: &'a mut [f64],
    gradient: &'a mut [f64],
}

/// Kernel values of the vectors with some rows, and their gradients.
struct KernelBlock {
    values: Vec<f64>,
    slopes: Slopes,
}

/// The gradients of kernel values in z: `across u + along z`.
enum Slopes {
    /// Values times this, and times minus this.
    Gaussian {
        two_gamma: f64,
    },
    Tables {
        across: Vec<f64>,
        along: Vec<f64>,
    },
}

impl KernelBlock {
    /// Multiplies the weights of the values of one vector by their slopes, which gives the weights of the rows; returns
    /// the weight of the vector itself.
    fn apply_slopes(&self, start: usize, weights: &mut [f64], factor: f64) -> f64 {
        let range = start..start + weights.len();
        match &self.slopes {
            Slopes::Gaussian { two_gamma } => {
                let slope = factor * two_gamma;
                let pairs = weights.iter_mut().zip(&self.values[range]);
                pairs.for_each(|(weight, value)| *weight *= slope * value);
                -sum(weights)
            }
            Slopes::Tables { across, along } => {
                let mut total = 0.0;
                let slopes = across[range.clone()].iter().zip(&along[range]);
                for (weight, (across, along)) in weights.iter_mut().zip(slopes) {
                    total += factor * *weight * along;
                    *weight *= factor * across;
                }
                total
            }
        }
    }
}

/// Vectors whose products are computed at once: always the same, so that bits do not depend on threads.
const LINES: usize = 32;
/// Fewer kernel values than this are not worth a second thread.
const WORTH_SHARING: usize = 1 << 14;

/// Eight partial sums.
fn sum(values: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for chunk in values.chunks(8) {
        sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x);
    }
    sums.iter().sum()
}

impl JointObjective {
    /// `E(Z)` and its gradient; infinite where a vector lies in the span of the others.
    pub(super) fn value(&self, z: &[f64], gradient: &mut [f64]) -> f64 {
        let n = self.size;
        let row = |a: usize| &z[a * self.columns..(a + 1) * self.columns];
        let norms: Vec<f64> = (0..n).map(|a| dot(row(a), row(a))).collect();
        let diagonal: Vec<_> =
            norms.iter().map(|norm| self_gradient(self.profile, *norm)).collect();
        let mut block = self.kernel_block(z, &norms, z, &norms);
        (0..n).for_each(|a| block.values[a * n + a] = diagonal[a].value);
        let factor = || Cholesky::new(block.values.clone(), n, &mut |_| true).ok();
        let (factor, (with, c)) = if n * self.squared_norms.len() < WORTH_SHARING {
            (factor(), self.support_products(z, &norms))
        } else {
            rayon::join(factor, || self.support_products(z, &norms))
        };
        let is_near = |factor: &Cholesky, a: usize| {
            factor.values()[a * n + a].powi(2) <= NEAR * diagonal[a].value
        };
        let factor = factor.filter(|factor| !(0..n).any(|a| is_near(factor, a)));
        let Some(factor) = factor else { return f64::INFINITY };
        let mut g = c.clone();
        g.chunks_exact_mut(n).for_each(|list| factor.solve(list));
        let value = self.machine_norm - dot(&c, &g);
        let mut along = vec![0.0; n];
        gradient.fill(0.0);
        let sums = GradientSums { along: &mut along, gradient: &mut *gradient };
        self.add_support_gradient(&with, &g, sums);
        // K(z, z) is added apart, below.
        let mut among = vec![0.0; n];
        let pair = |a: usize, line: &mut [f64]| {
            for list in g.chunks_exact(n) {
                add_row(Isa::current(), list[a], list, line);
            }
            line[a] = 0.0;
        };
        let sums = GradientSums { along: &mut among, gradient: &mut *gradient };
        self.add_gradient(&block, 2.0, z, &pair, sums);
        for (a, (along, among)) in along.iter_mut().zip(&among).enumerate() {
            let squares: f64 = g.chunks_exact(n).map(|list| list[a] * list[a]).sum();
            *along += among + squares * diagonal[a].along;
        }
        let width = self.columns.max(1);
        let lines = gradient.chunks_exact_mut(width).zip(z.chunks_exact(width));
        for ((line, z), along) in lines.zip(&along) {
            add_row(Isa::current(), *along, z, line);
        }
        value
    }
}

/// Kernel values of the vectors with the supports.
enum SupportKernel<'a> {
    Dense(KernelBlock),
    Sparse(&'a SparseSupports, SupportProducts),
}

impl JointObjective {
    /// Kernel values with the supports, and `c = <z, W>`, score after score.
    fn support_products(&self, z: &[f64], norms: &[f64]) -> (SupportKernel<'_>, Vec<f64>) {
        if let Some(sparse) = &self.sparse {
            let with = sparse.kernel_products(&transposed(z, self.size, self.columns), norms);
            let products = with.products.clone();
            return (SupportKernel::Sparse(sparse, with), products);
        }
        let count = self.squared_norms.len();
        let with = self.kernel_block(z, norms, &self.rows, &self.squared_norms);
        let products = self.betas.chunks_exact(count).flat_map(|betas| {
            with.values.chunks_exact(count).map(|line| row_dot(Isa::current(), line, betas))
        });
        let products = products.collect();
        (SupportKernel::Dense(with), products)
    }

    /// Adds the gradient of `-2 Σ_s g_s'c_s`.
    fn add_support_gradient(&self, with: &SupportKernel<'_>, g: &[f64], sums: GradientSums<'_>) {
        let (n, m) = (self.size, self.squared_norms.len());
        match with {
            SupportKernel::Sparse(sparse, with) => {
                let columns = sparse.gradient(with, g, sums.along);
                sums.gradient.copy_from_slice(&transposed(&columns, self.columns, n));
            }
            SupportKernel::Dense(with) => {
                // The weight of each pair of a vector and a row.
                let mix = |a: usize, line: &mut [f64]| {
                    for (list, betas) in g.chunks_exact(n).zip(self.betas.chunks_exact(m)) {
                        add_row(Isa::current(), list[a], betas, line);
                    }
                };
                self.add_gradient(with, -2.0, &self.rows, &mix, sums);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FittingData, Watch};
    use mercer_machine::{Machine, Output, Score};

    #[test]
    fn the_gradient_is_that_of_the_value() {
        let kernels = [
            "rbf(gamma=0.3)",
            "polynomial(degree=3, gamma=0.5, coef0=1)",
            "normalized(polynomial(degree=2, gamma=0.7, coef0=1))",
        ];
        for (text, is_sparse) in kernels.iter().flat_map(|text| [(*text, false), (*text, true)]) {
            let kernel = mercer_kernel::parse(text).unwrap();
            // Sparse supports take the other path.
            let columns = if is_sparse { 8 } else { 2 };
            let number = |n: usize| (n * n % 17) as f64 / 8.0 - 1.0;
            let kept = |n: &usize| !is_sparse || n % 8 == n / 8 % 8;
            let values: Vec<f64> = (0..12 * columns)
                .map(|n| if kept(&n) { number(n / columns * 2 + n % columns) } else { 0.0 })
                .collect();
            let supports = Matrix::dense(columns, values).unwrap();
            let names = (0..3).map(|n| mercer_machine::ClassName::Number(f64::from(n))).collect();
            let scheme = mercer_machine::Scheme::OneVsOne;
            let output = Output::Classes { names, scheme };
            let betas = |s: u32| (0..12u32).map(|n| f64::from((n * (s + 3)) % 7) - 3.0).collect();
            let lists: [Vec<f64>; 3] = [betas(0), betas(1), betas(2)];
            let scores = lists.iter().map(|list| Score::expansion(list, 0.1)).collect();
            let machine = Machine::new(kernel, supports, scores, output).unwrap();
            let problem =
                CompressionProblem::new(&machine, FittingData::default(), Watch::NOBODY).unwrap();
            let objective = JointObjective::new(&problem, 3);
            assert_eq!(objective.sparse.is_some(), is_sparse);
            let some = [0.1, -0.4, 0.7, 0.3, -0.6, 0.9].iter().copied().cycle();
            let z: Vec<f64> = some.take(3 * objective.columns).collect();
            let mut gradient = vec![0.0; z.len()];
            let value = objective.value(&z, &mut gradient);
            assert!(value > 0.0 && value < problem.squared_norm(), "{text}: {value}");
            for at in 0..z.len() {
                let step = |by: f64| {
                    let mut z = z.clone();
                    z[at] += by;
                    objective.value(&z, &mut vec![0.0; z.len()])
                };
                let slope = (step(1e-5) - step(-1e-5)) / 2e-5;
                let size = problem.squared_norm();
                assert!((slope - gradient[at]).abs() < 1e-7 * size, "{text}: {slope} {gradient:?}");
            }
        }
    }
}
