//! Orthogonal matching pursuit of W over the supports, then backward elimination.
//!
//! Forward: the support that explains most of what is left of W is taken, again and again (the rule
//! [`Gain`] of the pivoted Cholesky engine); what is left after each step is `|W - W~|²` after the best
//! re-fit, so one run gives the whole curve of sizes and errors. Forward choices cannot be taken back, so
//! it goes on to a few times as many vectors as are needed, and then removes the least useful, one by one:
//! without vector `j` the residual grows by `Σ_s g_sj² / (K^-1)_jj`.

use std::sync::Arc;

use mercer_kernel::factor::{Factor, Gain, KernelColumns};
use mercer_simd::{Isa, ProductShape, Real, Strided, StridedMut, add_row};
use mercer_spec::{Kind, Parameter, Spec};
use rayon::prelude::*;

use super::{
    CompressionProblem, Compressor, CompressorEntry, CompressorRun, ReducedSet, fit_coefficients,
};
use crate::CompileError;
use crate::kernel_gradient::backwards;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "greedy",
    summary: "forward selection of the supports that explain most of W, then backward elimination",
    parameters: &[
        Parameter {
            name: "ahead",
            kind: Kind::Number { low: 1.0, high: 16.0, closed: true },
            default: Some("3"),
            help: "forward selection takes this many times the vectors that elimination leaves",
        },
        Parameter {
            name: "pivot",
            kind: Kind::Number { low: 1e-15, high: 0.1, closed: true },
            default: Some("1e-10"),
            help: "share of K(x, x) by which a vector must lie outside the span of the others",
        },
    ],
    variadic: false,
    build: |checked| {
        let (ahead, pivot) = (checked.number("ahead"), checked.number("pivot"));
        Ok(Arc::new(Greedy { ahead, pivot }))
    },
};

/// What is left of W when nothing more can be told from rounding, of its square.
const EXPLAINED: f64 = 1e-16;

/// Not more vectors than this are selected to be eliminated again.
const MOST_EXTRA: usize = 128;
/// Nor more than this over the size: the cost of elimination grows with both.
const MOST_TIMES: usize = 160 * MOST_EXTRA;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Greedy {
    pub ahead: f64,
    pub pivot: f64,
}

impl Default for Greedy {
    fn default() -> Self {
        Self { ahead: 3.0, pivot: 1e-10 }
    }
}

impl Compressor for Greedy {
    fn spec(&self) -> Spec {
        Spec::new("greedy").set("ahead", self.ahead).set("pivot", self.pivot)
    }

    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError> {
        Ok(Box::new(GreedyRun::new(problem, *self)))
    }
}

/// A forward selection that can be continued.
pub(crate) struct GreedyRun<'a> {
    problem: &'a CompressionProblem<'a>,
    settings: Greedy,
    factor: Factor<KernelColumns>,
    /// Relative error after each forward step.
    forward: Vec<f64>,
    /// Sizes and errors of the last elimination.
    backward: Vec<(usize, f64)>,
    is_done: bool,
}

impl<'a> GreedyRun<'a> {
    pub(crate) fn new(problem: &'a CompressionProblem<'a>, settings: Greedy) -> Self {
        let factor = problem.factor(settings.pivot);
        let (forward, backward) = (Vec::new(), Vec::new());
        Self { problem, settings, factor, forward, backward, is_done: false }
    }

    /// Selects until there are `limit` vectors, or the last error `is_enough`.
    fn grow(&mut self, limit: usize, is_enough: impl Fn(f64) -> bool) -> Result<(), CompileError> {
        let limit = limit.min(self.problem.max_rank());
        if self.is_done || self.factor.rank() >= limit {
            return Ok(());
        }
        let (problem, forward) = (self.problem, &mut self.forward);
        let (mut interrupted, mut is_explained) = (None, false);
        let mut go_on = |factor: &Factor<KernelColumns>| {
            let left: f64 = factor.targets().iter().map(|target| target.square().max(0.0)).sum();
            forward.push(problem.relative_error(left));
            is_explained = left <= EXPLAINED * problem.squared_norm();
            if factor.rank().is_multiple_of(16) {
                let goes_on = problem.watch.step("choosing vectors", factor.rank(), limit);
                interrupted = goes_on.err().map(CompileError::from);
            }
            interrupted.is_none() && !is_explained && !is_enough(forward[forward.len() - 1])
        };
        let mut rule = Gain::new((0..problem.len()).collect());
        let went_on = self.factor.grow(&mut rule, limit, &mut go_on);
        self.is_done = is_explained || (went_on && self.factor.rank() < limit);
        interrupted.map_or(Ok(()), Err)
    }

    /// The supports left when the first `from` pivots are cut down to `size`, in the order of pivots.
    fn eliminate(&mut self, from: usize, size: usize) -> Result<Vec<usize>, CompileError> {
        let from = from.min(self.factor.rank());
        let rows = |kept: &[usize], factor: &Factor<KernelColumns>| {
            kept.iter().filter_map(|at| factor.pivots()[*at].row).collect()
        };
        if from <= size {
            return Ok(rows(&(0..from).collect::<Vec<_>>(), &self.factor));
        }
        let mut elimination = Elimination::new(&self.factor, from);
        let mut left: f64 = self.forward[from - 1].powi(2) * self.problem.squared_norm();
        self.backward.clear();
        while elimination.kept.len() > size {
            if elimination.kept.len().is_multiple_of(64) {
                let done = from - elimination.kept.len();
                self.problem.watch.step("eliminating vectors", done, from - size)?;
            }
            left += elimination.remove_least();
            self.backward.push((elimination.kept.len(), self.problem.relative_error(left)));
        }
        Ok(rows(&elimination.kept, &self.factor))
    }

    /// The supports chosen for a size.
    pub(crate) fn rows(&mut self, size: usize) -> Result<Vec<usize>, CompileError> {
        let more = (size as f64 * (self.settings.ahead - 1.0)).ceil() as usize;
        let from = size.saturating_add(more.min(MOST_EXTRA).min(MOST_TIMES / size));
        self.grow(from, |_| false)?;
        self.eliminate(from, size)
    }
}

impl CompressorRun for GreedyRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let rows = self.rows(size.max(1))?;
        fit_coefficients(self.problem, &self.problem.supports.select(rows))
    }

    fn predict_size(&mut self, error: f64) -> Result<Option<usize>, CompileError> {
        self.grow(usize::MAX, |left| left <= error)?;
        let enough = self.forward.iter().position(|left| *left <= error);
        let Some(enough) = enough.map(|at| at + 1) else {
            return Ok(Some(self.factor.rank().max(1)));
        };
        let from = (enough as f64 * self.settings.ahead.min(1.5)).ceil() as usize;
        self.grow(from, |_| false)?;
        self.eliminate(from, 1)?;
        let sizes = self.backward.iter().filter(|(_, left)| *left <= error);
        Ok(Some(sizes.map(|(size, _)| *size).min().unwrap_or(enough).min(enough)))
    }

    fn most(&self) -> Option<usize> {
        self.is_done.then(|| self.factor.rank())
    }

    fn curve(&self) -> Vec<(usize, f64)> {
        // Where both give an error for a size, the smaller one counts.
        let mut curve: Vec<(usize, f64)> = (1..).zip(self.forward.iter().copied()).collect();
        for (size, error) in &self.backward {
            if let Some(place) = curve.get_mut(size - 1)
                && *error < place.1
            {
                place.1 = *error;
            }
        }
        curve
    }
}

/// Rows of a product computed at once: always the same, so that bits do not depend on threads.
const LINES: usize = 64;

/// The lower triangle of `U U'`, where nothing of U lies below its diagonal.
fn lower_products(upper: &[f64], size: usize) -> Vec<f64> {
    let mut out = vec![0.0; size * size];
    out.par_chunks_mut(LINES * size).enumerate().for_each(|(part, out)| {
        let start = part * LINES;
        let (count, inner) = (out.len() / size, size - start);
        let block = Strided { values: &upper[start * size + start..], row: size, column: 1 };
        let all = Strided { values: &upper[start..], row: 1, column: size };
        let out = StridedMut { values: out, row: size, column: 1 };
        let shape = ProductShape { rows: count, columns: start + count, inner };
        f64::product(shape, block, all, out, 0.0, 1.0);
    });
    out
}

/// Coefficients of the vectors that are left, and the inverse of their kernel matrix.
struct Elimination {
    size: usize,
    /// Its lower triangle.
    inverse: Vec<f64>,
    coefficients: Vec<Vec<f64>>,
    kept: Vec<usize>,
}

impl Elimination {
    fn new(factor: &Factor<KernelColumns>, size: usize) -> Self {
        let rows: Vec<&[f64]> = factor.pivots()[..size]
            .iter()
            .enumerate()
            .map(|(at, pivot)| &pivot.coordinates[..=at])
            .collect();
        // Columns of the inverse of the triangle, as rows: K^-1 = T'T.
        let mut transposed = vec![0.0; size * size];
        for (i, row) in crate::kernel_gradient::inverted(&rows).iter().enumerate() {
            row.iter().enumerate().for_each(|(j, t)| transposed[j * size + i] = *t);
        }
        let inverse = lower_products(&transposed, size);
        let triangle: Vec<Vec<f64>> = rows.iter().map(|row| row.to_vec()).collect();
        let solve = |target: &mercer_kernel::factor::Target| {
            backwards(&triangle, &target.coordinates()[..size])
        };
        let coefficients = factor.targets().iter().map(solve).collect();
        Self { size, inverse, coefficients, kept: (0..size).collect() }
    }

    /// Removes the vector whose loss is least; returns by how much the squared residual grows.
    fn remove_least(&mut self) -> f64 {
        let n = self.size;
        let loss = |at: usize| {
            let diagonal = self.inverse[at * n + at];
            let squares: f64 = self.coefficients.iter().map(|g| g[at] * g[at]).sum();
            if diagonal > 0.0 { squares / diagonal } else { 0.0 }
        };
        let (mut place, mut least) = (0, f64::INFINITY);
        for (position, at) in self.kept.iter().enumerate() {
            let loss = loss(*at);
            if loss < least {
                (place, least) = (position, loss);
            }
        }
        let removed = self.kept.remove(place);
        let entry = |at: usize| self.inverse[removed.max(at) * n + removed.min(at)];
        let row: Vec<f64> = (0..n).map(entry).collect();
        let diagonal = row[removed];
        if diagonal > 0.0 {
            for at in &self.kept {
                let share = row[*at] / diagonal;
                let line = &mut self.inverse[at * n..=at * n + at];
                add_row(Isa::current(), -share, &row[..=*at], line);
                for g in &mut self.coefficients {
                    g[*at] -= share * g[removed];
                }
            }
        }
        if least.is_finite() { least } else { 0.0 }
    }
}
