//! Vectors anywhere in input space: those of `greedy`, moved all together until `|W - W~|` is least.
//!
//! With coefficients eliminated, `E(Z) = |W|² - Σ_s c_s'K^-1 c_s`, `c_s = K_ZS β_s`, `K = K_ZZ`. Because
//! `g_s = K^-1 c_s` is the best for each Z, only Z is differentiated:
//!
//! `dE = Σ_s (g_s' dK g_s - 2 g_s' dc_s)`,
//!
//! four matrix products a step. L-BFGS goes down. This is Burges' reduced set, begun where it is good to
//! begin; the fixed-point iteration that is often used instead divides by sums that vanish.

mod lists;

use std::cell::Cell;
use std::sync::Arc;

use mercer_data::Matrix;
use mercer_kernel::cholesky::Cholesky;
use mercer_kernel::eigen::dot;
use mercer_kernel::{KernelRef, Profile};
use mercer_machine::Machine;
use mercer_simd::{Isa, gemm_nt};
use mercer_spec::{Kind, Parameter, Spec};
use rayon::prelude::*;

use self::lists::{Lists, Met};
use super::greedy::{Greedy, Pursuit};
use super::{Compressor, CompressorEntry, Points, Run, Teacher, fitted, unfit};
use crate::minimize::{Valley, descend};
use crate::shape::{profile, self_shape, shape};
use crate::{CompileError, Watch};

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "moved",
    summary: "vectors of greedy, moved in input space until W is met best; dense rows, smooth kernels",
    parameters: &[
        Parameter {
            name: "iterations",
            kind: Kind::Integer { low: 1, high: 10_000 },
            default: Some("80"),
            help: "steps of the descent, at most",
        },
        Parameter {
            name: "ahead",
            kind: Kind::Number { low: 1.0, high: 16.0, closed: true },
            default: Some("3"),
            help: "as for greedy",
        },
    ],
    variadic: false,
    build: |checked| {
        let iterations = checked.integer("iterations") as usize;
        Ok(Arc::new(Moved { iterations, ahead: checked.number("ahead") }))
    },
};

/// Wider machines would take too long, and their rows are sparse.
const MOST_COLUMNS: usize = 4096;
/// A vector nearer than this to the span of the others, of its own square, is forbidden.
const NEAR: f64 = 1e-9;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub iterations: usize,
    pub ahead: f64,
}

impl Default for Moved {
    fn default() -> Self {
        Self { iterations: 80, ahead: 3.0 }
    }
}

/// Why vectors cannot be moved, if they cannot.
pub(crate) fn refusal(machine: &Machine) -> Option<String> {
    if matches!(profile(machine), Profile::Other | Profile::Sigmoid { .. }) {
        let kernel = machine.kernel().spec();
        return Some(format!("vectors cannot be moved under {kernel}: greedy can"));
    }
    let columns = machine.columns();
    (columns > MOST_COLUMNS)
        .then(|| format!("{columns} columns are more than {MOST_COLUMNS} to move in: greedy can"))
}

impl Compressor for Moved {
    fn spec(&self) -> Spec {
        Spec::new("moved").set("iterations", self.iterations as f64).set("ahead", self.ahead)
    }

    fn begin<'a>(&'a self, teacher: &'a Teacher<'a>) -> Result<Box<dyn Run + 'a>, CompileError> {
        if let Some(reason) = refusal(teacher.machine) {
            return Err(unfit("moved", reason));
        }
        Ok(Box::new(Journey::new(teacher, *self)))
    }
}

pub(crate) struct Journey<'a> {
    teacher: &'a Teacher<'a>,
    settings: Moved,
    pursuit: Pursuit<'a>,
}

impl<'a> Journey<'a> {
    pub(crate) fn new(teacher: &'a Teacher<'a>, settings: Moved) -> Self {
        let greedy = Greedy { ahead: settings.ahead, pivot: 10.0 * NEAR };
        Self { teacher, settings, pursuit: Pursuit::new(teacher, greedy) }
    }

    /// The best vectors found; those of `greedy` if moving them gains nothing.
    pub(crate) fn rows(&mut self, size: usize) -> Result<Matrix, CompileError> {
        let start = self.teacher.supports.select(self.pursuit.rows(size.max(1))?);
        let valley = Joint::new(self.teacher, start.rows(), self.settings.iterations);
        let from = valley.written(&start);
        let before = valley.value(&from, &mut vec![0.0; from.len()]);
        let (after, point) = descend(&valley, from, self.settings.iterations);
        if valley.is_ended.get() {
            return Err(CompileError::Ended);
        }
        let is_better = after.is_finite() && (after < before || !before.is_finite());
        Ok(if is_better { valley.read(&point).unwrap_or(start) } else { start })
    }
}

impl Run for Journey<'_> {
    fn at(&mut self, size: usize) -> Result<Points, CompileError> {
        let rows = self.rows(size)?;
        fitted(self.teacher, &rows)
    }
}

/// `E(Z)`.
struct Joint<'a> {
    kernel: KernelRef,
    profile: Profile,
    columns: usize,
    size: usize,
    /// Supports less the centre, row after row, and the same turned.
    rows: Vec<f64>,
    turned: Vec<f64>,
    squares: Vec<f64>,
    /// The supports as lists, where they have few numbers.
    lists: Option<Lists>,
    /// β, score after score, and the same turned.
    betas: Vec<f64>,
    turned_betas: Vec<f64>,
    scores: usize,
    whole: f64,
    centre: Vec<f64>,
    watch: Watch<'a>,
    iterations: usize,
    asked: Cell<usize>,
    is_ended: Cell<bool>,
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

impl<'a> Joint<'a> {
    fn new(teacher: &'a Teacher<'a>, size: usize, iterations: usize) -> Self {
        let (count, columns) = (teacher.len(), teacher.machine.columns());
        let centre = teacher.machine.centre().map_or(vec![0.0; columns], <[f64]>::to_vec);
        let mut valley = Self {
            kernel: teacher.machine.kernel().clone(),
            profile: profile(teacher.machine),
            columns,
            size,
            rows: Vec::new(),
            turned: Vec::new(),
            squares: Vec::new(),
            lists: None,
            betas: teacher.betas.concat(),
            turned_betas: Vec::new(),
            scores: teacher.betas.len(),
            whole: teacher.whole(),
            centre,
            watch: teacher.watch,
            iterations,
            asked: Cell::new(0),
            is_ended: Cell::new(false),
        };
        valley.rows = valley.written(&teacher.supports);
        valley.turned = transposed(&valley.rows, count, columns);
        valley.squares =
            valley.rows.chunks_exact(columns.max(1)).map(|row| dot(row, row)).collect();
        let kernel = (&valley.kernel, valley.profile);
        let rows = (valley.rows.as_slice(), valley.squares.as_slice());
        valley.lists = Lists::new(kernel, rows, columns, &valley.betas);
        valley.turned_betas = transposed(&valley.betas, valley.scores, count);
        valley
    }

    /// Rows less the centre, one after the other.
    fn written(&self, rows: &Matrix) -> Vec<f64> {
        let mut out = vec![0.0; rows.rows() * self.columns];
        for (row, place) in rows.iter().zip(out.chunks_exact_mut(self.columns.max(1))) {
            row.write_dense(place);
            place.iter_mut().zip(&self.centre).for_each(|(x, c)| *x -= c);
        }
        out
    }

    fn read(&self, point: &[f64]) -> Option<Matrix> {
        let add = |row: &[f64]| -> Vec<f64> {
            row.iter().zip(&self.centre).map(|(x, c)| x + c).collect()
        };
        let values = point.chunks_exact(self.columns.max(1)).flat_map(add).collect();
        Matrix::dense(self.columns, values).ok()
    }

    /// Kernel values of the vectors with some rows, and how they change.
    fn shapes(&self, z: &[f64], own: &[f64], rows: &[f64], squares: &[f64]) -> Shapes {
        let count = squares.len();
        let mut values = vec![0.0; self.size * count];
        products(self.size, count, self.columns, z, rows, &mut values);
        if let (Profile::Gaussian { gamma }, Some(finish)) =
            (self.profile, self.kernel.form().finish())
        {
            let lines = values.par_chunks_exact_mut(count.max(1)).zip(own);
            lines.for_each(|(line, own)| finish.finish(Isa::current(), line, *own, squares));
            return Shapes { values, slopes: Slopes::Width(2.0 * gamma) };
        }
        let (mut across, mut along) = (Vec::new(), Vec::new());
        for (line, own) in values.chunks_exact_mut(count.max(1)).zip(own) {
            for (value, square) in line.iter_mut().zip(squares) {
                let shape = shape(self.profile, *value, *square, *own);
                *value = shape.value;
                across.push(shape.across);
                along.push(shape.along);
            }
        }
        Shapes { values, slopes: Slopes::Lists { across, along } }
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
const LINES: usize = 16;

/// As [`gemm_nt`], by all threads.
fn products(lines: usize, others: usize, inner: usize, a: &[f64], b: &[f64], out: &mut [f64]) {
    debug_assert_eq!(out.len(), lines * others, "one product per pair");
    let parts = out.par_chunks_mut((LINES * others).max(1));
    parts.zip(a.par_chunks((LINES * inner).max(1))).for_each(|(out, a)| {
        gemm_nt(a.len() / inner.max(1), others, inner, a, b, out);
    });
}

/// Eight partial sums.
fn sum(values: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for chunk in values.chunks(8) {
        sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x);
    }
    sums.iter().sum()
}

impl Valley for Joint<'_> {
    fn value(&self, z: &[f64], gradient: &mut [f64]) -> f64 {
        self.asked.set(self.asked.get() + 1);
        let is_watched =
            self.watch.step("moving vectors", self.asked.get(), 2 * self.iterations).is_ok();
        if !is_watched {
            self.is_ended.set(true);
        }
        if self.is_ended.get() {
            return f64::INFINITY;
        }
        let n = self.size;
        let own: Vec<f64> = z.chunks_exact(self.columns.max(1)).map(|row| dot(row, row)).collect();
        let selves: Vec<_> = own.iter().map(|own| self_shape(self.profile, *own)).collect();
        let mut among = self.shapes(z, &own, z, &own);
        (0..n).for_each(|a| among.values[a * n + a] = selves[a].value);
        let Ok(factor) = Cholesky::new(among.values.clone(), n, &mut |_| true) else {
            return f64::INFINITY;
        };
        let is_near = |a: usize| factor.values()[a * n + a].powi(2) <= NEAR * selves[a].value;
        if (0..n).any(is_near) {
            return f64::INFINITY;
        }
        let turned_z = transposed(z, n, self.columns);
        let (with, met) = self.met(z, &turned_z, &own);
        let mut g = met.clone();
        g.chunks_exact_mut(n).for_each(|list| factor.solve(list));
        let value = self.whole - dot(&met, &g);
        let mut along = vec![0.0; n];
        self.of_supports(&with, &g, &mut along, gradient);
        let turned = transposed(&g, self.scores, n);
        let mut pairs = vec![0.0; n * n];
        gemm_nt(n, n, self.scores, &turned, &turned, &mut pairs);
        for a in 0..n {
            let line = &mut pairs[a * n..(a + 1) * n];
            // A vector's value with itself moves as one.
            along[a] += line[a] * selves[a].along;
            line[a] = 0.0;
            along[a] += among.turn(a * n, line, 2.0);
        }
        let mut other = vec![0.0; gradient.len()];
        gemm_nt(n, self.columns, n, &pairs, &turned_z, &mut other);
        for (at, (place, other)) in gradient.iter_mut().zip(&other).enumerate() {
            *place += other + along[at / self.columns.max(1)] * z[at];
        }
        value
    }
}

/// Kernel values of the vectors with the supports.
enum With<'a> {
    Rows(Shapes),
    Lists(&'a Lists, Met),
}

impl Joint<'_> {
    /// Kernel values with the supports, and `<z, W>`, score after score.
    fn met(&self, z: &[f64], turned: &[f64], own: &[f64]) -> (With<'_>, Vec<f64>) {
        if let Some(lists) = &self.lists {
            let met = lists.meet(turned, own);
            let products = met.products.clone();
            return (With::Lists(lists, met), products);
        }
        let with = self.shapes(z, own, &self.rows, &self.squares);
        let mut met = vec![0.0; self.scores * self.size];
        gemm_nt(self.scores, self.size, self.squares.len(), &self.betas, &with.values, &mut met);
        (With::Rows(with), met)
    }

    /// The gradient of `-2 Σ_s g_s'c_s`, but for what the vectors count for along themselves.
    fn of_supports(&self, with: &With<'_>, g: &[f64], along: &mut [f64], gradient: &mut [f64]) {
        let (n, m) = (self.size, self.squares.len());
        match with {
            With::Lists(lists, met) => {
                let turned = lists.turn(met, g, along);
                gradient.copy_from_slice(&transposed(&turned, self.columns, n));
            }
            With::Rows(with) => {
                // What each pair of a vector and a row counts for.
                let turned = transposed(g, self.scores, n);
                let mut mix = vec![0.0; n * m];
                gemm_nt(n, m, self.scores, &turned, &self.turned_betas, &mut mix);
                for (a, line) in mix.chunks_exact_mut(m).enumerate() {
                    along[a] += with.turn(a * m, line, -2.0);
                }
                products(n, self.columns, m, &mix, &self.turned, gradient);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Material;
    use mercer_machine::{Output, Score};

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
            let kept = |n: &usize| !is_sparse || n % 8 < 2;
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
            let teacher = Teacher::new(&machine, Material::default(), Watch::NOBODY).unwrap();
            let valley = Joint::new(&teacher, 3, 10);
            assert_eq!(valley.lists.is_some(), is_sparse);
            let z: Vec<f64> = [0.1, -0.4, 0.7, 0.3, -0.6, 0.9].repeat(columns / 2);
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
