//! The distance of a machine from all machines of a few vectors, and how it changes when they move.

use mercer_data::Matrix;
use mercer_kernel::cholesky::Cholesky;
use mercer_kernel::eigen::dot;
use mercer_kernel::{KernelRef, Profile};
use mercer_simd::{Isa, Real, Strided, StridedMut, add_row, gemm_nt, row_dot};
use rayon::prelude::*;

use super::super::Teacher;
use super::NEAR;
use super::lists::{Lists, Met};
use crate::kernel_gradient::{kernel_gradient, profile, self_gradient};

/// `E(Z)`.
pub(super) struct Joint {
    kernel: KernelRef,
    profile: Profile,
    /// Columns in which a support has a number, of all; in others vectors stay at zero.
    live: Vec<usize>,
    width: usize,
    columns: usize,
    size: usize,
    /// Supports less the centre, row after row.
    rows: Vec<f64>,
    squares: Vec<f64>,
    /// The supports as lists, where they have few numbers.
    lists: Option<Lists>,
    /// β, score after score.
    betas: Vec<f64>,
    whole: f64,
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

impl Joint {
    /// The machine's distance from machines of so many vectors.
    pub(super) fn new(teacher: &Teacher<'_>, size: usize) -> Self {
        let width = teacher.machine.columns();
        let mut is_live = vec![false; width];
        for row in teacher.supports.iter() {
            row.nonzeros().for_each(|(column, _)| is_live[column as usize] = true);
        }
        let live: Vec<usize> = (0..width).filter(|column| is_live[*column]).collect();
        let columns = live.len();
        let centre = teacher.machine.centre().map_or(vec![0.0; width], <[f64]>::to_vec);
        let mut valley = Self {
            kernel: teacher.machine.kernel().clone(),
            profile: profile(teacher.machine),
            live,
            width,
            columns,
            size,
            rows: Vec::new(),
            squares: Vec::new(),
            lists: None,
            betas: teacher.betas.concat(),
            whole: teacher.whole(),
            centre,
        };
        valley.rows = valley.written(&teacher.supports);
        valley.squares =
            valley.rows.chunks_exact(columns.max(1)).map(|row| dot(row, row)).collect();
        let kernel = (&valley.kernel, valley.profile);
        let rows = (valley.rows.as_slice(), valley.squares.as_slice());
        valley.lists = Lists::new(kernel, rows, columns, &valley.betas);
        valley
    }

    /// Whether no support has a number: then there is nowhere to go.
    pub(super) fn is_nowhere(&self) -> bool {
        self.live.is_empty()
    }

    /// Rows less the centre, live columns only, one after the other.
    pub(super) fn written(&self, rows: &Matrix) -> Vec<f64> {
        let mut all = vec![0.0; self.width];
        let mut out = Vec::with_capacity(rows.rows() * self.columns);
        for row in rows.iter() {
            row.write_dense(&mut all);
            out.extend(self.live.iter().map(|column| all[*column] - self.centre[*column]));
        }
        out
    }

    /// Vectors as rows of the machine.
    pub(super) fn read(&self, point: &[f64]) -> Option<Matrix> {
        let mut values = vec![0.0; self.size * self.width];
        let rows = values.chunks_exact_mut(self.width.max(1));
        for (row, own) in rows.zip(point.chunks_exact(self.columns.max(1))) {
            for (column, x) in self.live.iter().zip(own) {
                row[*column] = x + self.centre[*column];
            }
        }
        Matrix::dense(self.width, values).ok()
    }

    /// Kernel values of the vectors with some rows, and how they change.
    fn shapes(&self, z: &[f64], own: &[f64], rows: &[f64], squares: &[f64]) -> Shapes {
        let (count, inner) = (squares.len().max(1), self.columns);
        let mut values = vec![0.0; own.len() * count];
        let lines = values.par_chunks_mut(LINES * count).zip(own.par_chunks(LINES));
        let products = lines.zip(z.par_chunks((LINES * inner).max(1)));
        if let (Profile::Gaussian { gamma }, Some(finish)) =
            (self.profile, self.kernel.form().finish())
        {
            products.for_each(|((values, own), z)| {
                gemm_nt(own.len(), count, inner, z, rows, values);
                for (line, own) in values.chunks_exact_mut(count).zip(own) {
                    finish.finish(Isa::current(), line, *own, squares);
                }
            });
            return Shapes { values, slopes: Slopes::Width(2.0 * gamma) };
        }
        let slopes: Vec<(Vec<f64>, Vec<f64>)> = products
            .map(|((values, own), z)| {
                gemm_nt(own.len(), count, inner, z, rows, values);
                self.slopes(values, own, squares)
            })
            .collect();
        let (across, along): (Vec<_>, Vec<_>) = slopes.into_iter().unzip();
        Shapes { values, slopes: Slopes::Lists { across: across.concat(), along: along.concat() } }
    }

    /// Products become kernel values; returns how they change.
    fn slopes(&self, values: &mut [f64], own: &[f64], squares: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut across, mut along) = (Vec::new(), Vec::new());
        for (line, own) in values.chunks_exact_mut(squares.len().max(1)).zip(own) {
            for (value, square) in line.iter_mut().zip(squares) {
                let gradient = kernel_gradient(self.profile, *value, *square, *own);
                *value = gradient.value;
                across.push(gradient.across);
                along.push(gradient.along);
            }
        }
        (across, along)
    }

    /// Adds `factor Σ_i w_ai dk(a, i)` to the gradient, `w` being what `weigh` makes of a line of zeros; all
    /// but what goes along the vectors themselves, which is added to `along`.
    fn pull(
        &self,
        (shapes, factor): (&Shapes, f64),
        rows: &[f64],
        weigh: &(dyn Fn(usize, &mut [f64]) + Sync),
        (along, gradient): (&mut [f64], &mut [f64]),
    ) {
        let columns = self.columns;
        let count = shapes.values.len() / along.len().max(1);
        let parts = gradient.par_chunks_mut((LINES * columns).max(1)).enumerate();
        parts.zip(along.par_chunks_mut(LINES)).for_each(|((part, gradient), along)| {
            let mut weights = vec![0.0; along.len() * count];
            for (at, (line, along)) in weights.chunks_exact_mut(count).zip(&mut *along).enumerate()
            {
                weigh(part * LINES + at, line);
                *along += shapes.turn((part * LINES + at) * count, line, factor);
            }
            let weights = Strided { values: &weights[..], row: count, column: 1 };
            let rows = Strided { values: rows, row: columns, column: 1 };
            let out = StridedMut { values: gradient, row: columns, column: 1 };
            f64::product([along.len(), columns, count], weights, rows, out, 1.0, 1.0);
        });
    }
}

struct Shapes {
    values: Vec<f64>,
    slopes: Slopes,
}

/// How values change with the vector: `across u + along z`.
enum Slopes {
    /// Values times this, and times minus this.
    Width(f64),
    Lists {
        across: Vec<f64>,
        along: Vec<f64>,
    },
}

impl Shapes {
    /// Turns what the values of one vector count for into what the rows do; returns what the vector does.
    fn turn(&self, start: usize, counts: &mut [f64], factor: f64) -> f64 {
        let range = start..start + counts.len();
        match &self.slopes {
            Slopes::Width(width) => {
                let width = factor * width;
                let pairs = counts.iter_mut().zip(&self.values[range]);
                pairs.for_each(|(count, value)| *count *= width * value);
                -sum(counts)
            }
            Slopes::Lists { across, along } => {
                let mut own = 0.0;
                let slopes = across[range.clone()].iter().zip(&along[range]);
                for (count, (across, along)) in counts.iter_mut().zip(slopes) {
                    own += factor * *count * along;
                    *count *= factor * across;
                }
                own
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

impl Joint {
    /// `E(Z)` and its gradient; infinite where a vector lies in the span of the others.
    pub(super) fn value(&self, z: &[f64], gradient: &mut [f64]) -> f64 {
        let n = self.size;
        let row = |a: usize| &z[a * self.columns..(a + 1) * self.columns];
        let own: Vec<f64> = (0..n).map(|a| dot(row(a), row(a))).collect();
        let selves: Vec<_> = own.iter().map(|own| self_gradient(self.profile, *own)).collect();
        let mut among = self.shapes(z, &own, z, &own);
        (0..n).for_each(|a| among.values[a * n + a] = selves[a].value);
        let factor = || Cholesky::new(among.values.clone(), n, &mut |_| true).ok();
        let (factor, (with, met)) = if n * self.squares.len() < WORTH_SHARING {
            (factor(), self.met(z, &own))
        } else {
            rayon::join(factor, || self.met(z, &own))
        };
        let is_near = |factor: &Cholesky, a: usize| {
            factor.values()[a * n + a].powi(2) <= NEAR * selves[a].value
        };
        let factor = factor.filter(|factor| !(0..n).any(|a| is_near(factor, a)));
        let Some(factor) = factor else { return f64::INFINITY };
        let mut g = met.clone();
        g.chunks_exact_mut(n).for_each(|list| factor.solve(list));
        let value = self.whole - dot(&met, &g);
        let mut along = vec![0.0; n];
        gradient.fill(0.0);
        self.of_supports(&with, &g, &mut along, gradient);
        // A vector's value with itself moves as one.
        let mut alone = vec![0.0; n];
        let pair = |a: usize, line: &mut [f64]| {
            for list in g.chunks_exact(n) {
                add_row(Isa::current(), list[a], list, line);
            }
            line[a] = 0.0;
        };
        self.pull((&among, 2.0), z, &pair, (&mut alone, gradient));
        for (a, (along, alone)) in along.iter_mut().zip(&alone).enumerate() {
            let own: f64 = g.chunks_exact(n).map(|list| list[a] * list[a]).sum();
            *along += alone + own * selves[a].along;
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
enum With<'a> {
    Rows(Shapes),
    Lists(&'a Lists, Met),
}

impl Joint {
    /// Kernel values with the supports, and `<z, W>`, score after score.
    fn met(&self, z: &[f64], own: &[f64]) -> (With<'_>, Vec<f64>) {
        if let Some(lists) = &self.lists {
            let met = lists.meet(&transposed(z, self.size, self.columns), own);
            let products = met.products.clone();
            return (With::Lists(lists, met), products);
        }
        let count = self.squares.len();
        let with = self.shapes(z, own, &self.rows, &self.squares);
        let met = self.betas.chunks_exact(count).flat_map(|betas| {
            with.values.chunks_exact(count).map(|line| row_dot(Isa::current(), line, betas))
        });
        let met = met.collect();
        (With::Rows(with), met)
    }

    /// Adds the gradient of `-2 Σ_s g_s'c_s`, but for what the vectors count for along themselves.
    fn of_supports(&self, with: &With<'_>, g: &[f64], along: &mut [f64], gradient: &mut [f64]) {
        let (n, m) = (self.size, self.squares.len());
        match with {
            With::Lists(lists, met) => {
                let turned = lists.turn(met, g, along);
                gradient.copy_from_slice(&transposed(&turned, self.columns, n));
            }
            With::Rows(with) => {
                // What each pair of a vector and a row counts for.
                let mix = |a: usize, line: &mut [f64]| {
                    for (list, betas) in g.chunks_exact(n).zip(self.betas.chunks_exact(m)) {
                        add_row(Isa::current(), list[a], betas, line);
                    }
                };
                self.pull((with, -2.0), &self.rows, &mix, (along, gradient));
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
            // Few numbers take the other way.
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
            let teacher = Teacher::new(&machine, FittingData::default(), Watch::NOBODY).unwrap();
            let valley = Joint::new(&teacher, 3);
            assert_eq!(valley.lists.is_some(), is_sparse);
            let some = [0.1, -0.4, 0.7, 0.3, -0.6, 0.9].iter().copied().cycle();
            let z: Vec<f64> = some.take(3 * valley.columns).collect();
            let mut gradient = vec![0.0; z.len()];
            let value = valley.value(&z, &mut gradient);
            assert!(value > 0.0 && value < teacher.whole(), "{text}: {value}");
            for at in 0..z.len() {
                let step = |by: f64| {
                    let mut z = z.clone();
                    z[at] += by;
                    valley.value(&z, &mut vec![0.0; z.len()])
                };
                let slope = (step(1e-5) - step(-1e-5)) / 2e-5;
                let size = teacher.whole();
                assert!((slope - gradient[at]).abs() < 1e-7 * size, "{text}: {slope} {gradient:?}");
            }
        }
    }
}
