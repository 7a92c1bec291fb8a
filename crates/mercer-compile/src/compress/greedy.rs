//! Order-recursive pursuit of W, then backward elimination.
//!
//! Forward: the support that explains most of what is left of W is taken, again and again (the rule
//! [`Gain`] of the pivoted Cholesky engine); what is left after each step is `|W - W~|²` after the best
//! re-fit, so one run gives the whole curve of sizes and errors. Forward choices cannot be taken back, so
//! it goes on to a few times as many vectors as are wanted, and then gives up the cheapest, one by one:
//! without vector `j` the machine loses `Σ_s g_sj² / (K^-1)_jj` more.

use std::sync::Arc;

use mercer_kernel::factor::{Factor, Gain, KernelColumns};
use mercer_simd::{Isa, Real, Strided, StridedMut, add_row};
use mercer_spec::{Kind, Parameter, Spec};
use rayon::prelude::*;

use super::{Compressor, CompressorEntry, Points, Run, Teacher, fitted};
use crate::CompileError;
use crate::kernel_gradient::backwards;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "greedy",
    summary: "supports that explain most of W, one by one, then the cheapest are given up again",
    parameters: &[
        Parameter {
            name: "ahead",
            kind: Kind::Number { low: 1.0, high: 16.0, closed: true },
            default: Some("3"),
            help: "times as many vectors as wanted are taken before the cheapest are given up",
        },
        Parameter {
            name: "pivot",
            kind: Kind::Number { low: 1e-15, high: 0.1, closed: true },
            default: Some("1e-10"),
            help: "share of its own square that a vector must add",
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

/// More vectors than this are never taken to be given up again.
const MOST_MORE: usize = 128;
/// Nor more than this over the size: what they cost goes with both.
const MOST_TIMES: usize = 160 * MOST_MORE;

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

    fn begin<'a>(&'a self, teacher: &'a Teacher<'a>) -> Result<Box<dyn Run + 'a>, CompileError> {
        Ok(Box::new(Pursuit::new(teacher, *self)))
    }
}

/// A pursuit that can be continued.
pub(crate) struct Pursuit<'a> {
    teacher: &'a Teacher<'a>,
    settings: Greedy,
    factor: Factor<KernelColumns>,
    /// Relative error after each forward step.
    forward: Vec<f64>,
    /// Sizes and errors of the last elimination.
    backward: Vec<(usize, f64)>,
    is_done: bool,
}

impl<'a> Pursuit<'a> {
    pub(crate) fn new(teacher: &'a Teacher<'a>, settings: Greedy) -> Self {
        let factor = teacher.factor(settings.pivot);
        let (forward, backward) = (Vec::new(), Vec::new());
        Self { teacher, settings, factor, forward, backward, is_done: false }
    }

    /// Goes on until there are `limit` vectors, or `is_enough` of the last error.
    fn grow(&mut self, limit: usize, is_enough: impl Fn(f64) -> bool) -> Result<(), CompileError> {
        let limit = limit.min(self.teacher.most());
        if self.is_done || self.factor.rank() >= limit {
            return Ok(());
        }
        let (teacher, forward) = (self.teacher, &mut self.forward);
        let (mut ended, mut is_explained) = (None, false);
        let mut go_on = |factor: &Factor<KernelColumns>| {
            let left: f64 = factor.targets().iter().map(|target| target.square().max(0.0)).sum();
            forward.push(teacher.relative(left));
            is_explained = left <= EXPLAINED * teacher.whole();
            if factor.rank().is_multiple_of(16) {
                ended = teacher.watch.step("choosing vectors", factor.rank(), limit).err();
            }
            ended.is_none() && !is_explained && !is_enough(forward[forward.len() - 1])
        };
        let mut rule = Gain::new((0..teacher.len()).collect());
        let went_on = self.factor.grow(&mut rule, limit, &mut go_on);
        self.is_done = is_explained || (went_on && self.factor.rank() < limit);
        ended.map_or(Ok(()), Err)
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
        let mut table = Table::new(&self.factor, from);
        let mut left: f64 = self.forward[from - 1].powi(2) * self.teacher.whole();
        self.backward.clear();
        while table.alive.len() > size {
            if table.alive.len().is_multiple_of(64) {
                let done = from - table.alive.len();
                self.teacher.watch.step("giving up vectors", done, from - size)?;
            }
            left += table.give_up();
            self.backward.push((table.alive.len(), self.teacher.relative(left)));
        }
        Ok(rows(&table.alive, &self.factor))
    }

    /// The supports chosen for a size.
    pub(crate) fn rows(&mut self, size: usize) -> Result<Vec<usize>, CompileError> {
        let more = (size as f64 * (self.settings.ahead - 1.0)).ceil() as usize;
        let from = size.saturating_add(more.min(MOST_MORE).min(MOST_TIMES / size));
        self.grow(from, |_| false)?;
        self.eliminate(from, size)
    }
}

impl Run for Pursuit<'_> {
    fn at(&mut self, size: usize) -> Result<Points, CompileError> {
        let rows = self.rows(size.max(1))?;
        fitted(self.teacher, &self.teacher.supports.select(rows))
    }

    fn guess(&mut self, error: f64) -> Result<Option<usize>, CompileError> {
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

    fn curve(&self) -> Vec<(usize, f64)> {
        // Where both ways know a size, the second choice is the better one.
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

/// Rows of a product made at once: always the same, so that bits do not depend on threads.
const LINES: usize = 64;

/// The lower triangle of `U U'`, where nothing of U lies below its diagonal.
fn lower_products(upper: &[f64], size: usize) -> Vec<f64> {
    let mut out = vec![0.0; size * size];
    out.par_chunks_mut(LINES * size).enumerate().for_each(|(part, out)| {
        let start = part * LINES;
        let (count, inner) = (out.len() / size, size - start);
        let own = Strided { values: &upper[start * size + start..], row: size, column: 1 };
        let all = Strided { values: &upper[start..], row: 1, column: size };
        let out = StridedMut { values: out, row: size, column: 1 };
        f64::product([count, start + count, inner], own, all, out, 0.0, 1.0);
    });
    out
}

/// Coefficients of the vectors that are left, and the inverse of their kernel matrix.
struct Table {
    size: usize,
    /// Its lower triangle.
    inverse: Vec<f64>,
    coefficients: Vec<Vec<f64>>,
    alive: Vec<usize>,
}

impl Table {
    fn new(factor: &Factor<KernelColumns>, size: usize) -> Self {
        let rows: Vec<&[f64]> = factor.pivots()[..size]
            .iter()
            .enumerate()
            .map(|(at, pivot)| &pivot.coordinates[..=at])
            .collect();
        // Columns of the inverse of the triangle, as rows: K^-1 = T'T.
        let mut turned = vec![0.0; size * size];
        for (i, row) in crate::kernel_gradient::inverted(&rows).iter().enumerate() {
            row.iter().enumerate().for_each(|(j, t)| turned[j * size + i] = *t);
        }
        let inverse = lower_products(&turned, size);
        let triangle: Vec<Vec<f64>> = rows.iter().map(|row| row.to_vec()).collect();
        let solve = |target: &mercer_kernel::factor::Target| {
            backwards(&triangle, &target.coordinates()[..size])
        };
        let coefficients = factor.targets().iter().map(solve).collect();
        Self { size, inverse, coefficients, alive: (0..size).collect() }
    }

    /// Gives up the cheapest vector; returns what the machine loses of its square.
    fn give_up(&mut self) -> f64 {
        let n = self.size;
        let price = |at: usize| {
            let own = self.inverse[at * n + at];
            let squares: f64 = self.coefficients.iter().map(|g| g[at] * g[at]).sum();
            if own > 0.0 { squares / own } else { 0.0 }
        };
        let (mut place, mut least) = (0, f64::INFINITY);
        for (position, at) in self.alive.iter().enumerate() {
            let own = price(*at);
            if own < least {
                (place, least) = (position, own);
            }
        }
        let gone = self.alive.remove(place);
        let known = |at: usize| self.inverse[gone.max(at) * n + gone.min(at)];
        let row: Vec<f64> = (0..n).map(known).collect();
        let own = row[gone];
        if own > 0.0 {
            for at in &self.alive {
                let share = row[*at] / own;
                let line = &mut self.inverse[at * n..=at * n + at];
                add_row(Isa::current(), -share, &row[..=*at], line);
                for g in &mut self.coefficients {
                    g[*at] -= share * g[gone];
                }
            }
        }
        if least.is_finite() { least } else { 0.0 }
    }
}
