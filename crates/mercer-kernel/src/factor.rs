//! Pivoted partial Cholesky factorisation: a few rows (pivots) that represent many.
//!
//! Rows are points `Φ_i` of feature space, known through their kernel. The factor embeds them in
//! coordinates: after `k` pivots `Z_1..Z_k` each row has coordinates `g_i` with `g_i·g_j` equal to the
//! inner product of the projections onto the span of the pivots, and a squared distance `d_i` from that
//! span. *Targets* are further points `W = Σ β_i Φ_i`, known through their inner products with the rows;
//! they get coordinates `w` of their own.
//!
//! Choosing `p` adds one coordinate to all:
//!
//! `g_i,k = (K(i, p) - g_i·g_p) / √d_p`,  `d_i -= g_i,k²`,  `w_k = c_p / √d_p`,  `c_i -= w_k g_i,k`,
//!
//! where `c_i = <Φ_i, W_res>` is the inner product of a row with what is left of the target. A [`Pivots`] rule
//! chooses; the factor computes columns when they are needed, keeps residuals in compensated sums, and rejects
//! pivots whose residual is below a share of `K(i, i)`: duplicates and dependent rows.
//!
//! [`Blocked`] is the same factor for many rows: blocks of pivots drawn at random or by weight, coordinates
//! row by row in f32 or f64, in memory or in a file.
//!
//! No proof relies on the accuracy of a factor: callers that certify measure it.

mod blocked;
mod columns;
mod compensated;
mod prefetch;
mod rules;
mod store;

pub use blocked::{Blocked, CANDIDATES, Draw, GrowthLimit, Tiles};
pub use columns::{GramColumns, KernelColumns};
pub use compensated::Compensated;
pub use rules::{Gain, Given, Greedy, Pivots};
pub use store::{Store, TILE};

use mercer_simd::{CompensatedSums, Isa, subtract_rows};
use rayon::prelude::*;

use prefetch::PrefetchedColumns;

/// Rows that a thread takes at a time.
const SHARE: usize = 512;
/// Fewer coordinates than this are not worth a second thread.
const WORTH_SHARING: usize = 1 << 16;

/// A further point `W` and its inner products with the rows.
#[derive(Debug)]
pub struct Target {
    /// `<Φ_i, W_res>` of each row.
    residual: CompensatedSums,
    /// Coordinates of the point.
    coordinates: Vec<f64>,
    /// `|W_res|²`.
    square: Compensated,
}

impl Target {
    /// `<Φ_i, W_res>` of each row.
    pub fn values(&self) -> &[f64] {
        self.residual.values()
    }

    /// Coordinates of the point along the pivots.
    pub fn coordinates(&self) -> &[f64] {
        &self.coordinates
    }

    /// What is left of its squared length; may fall below zero by rounding.
    pub fn square(&self) -> f64 {
        self.square.value()
    }
}

/// One pivot: a row, or a point from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Pivot {
    /// The row, unless the point came from outside.
    pub row: Option<usize>,
    /// Its coordinates, the last one `√d` at the time it was chosen.
    pub coordinates: Vec<f64>,
}

/// An outside point: its kernel values with all rows, with all pivots and with itself, and its inner products with
/// the targets.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a> {
    /// `K(i, z)` of every row.
    pub rows: &'a [f64],
    /// `K(Z_j, z)` of every pivot.
    pub pivots: &'a [f64],
    /// `K(z, z)`.
    pub squared_norm: f64,
    /// `<W, z>` of every target.
    pub targets: &'a [f64],
}

/// A partial factor of the Gram matrix of some rows.
#[derive(Debug)]
pub struct Factor<C> {
    columns: C,
    /// Coordinate after coordinate, one value per row.
    coordinates: Vec<f64>,
    residual: CompensatedSums,
    targets: Vec<Target>,
    pivots: Vec<Pivot>,
    is_pivot: Vec<bool>,
    /// Share of `K(i, i)` that the residual of a pivot must exceed.
    floor: f64,
    column: Vec<f64>,
    prefetched: PrefetchedColumns,
}

impl<C: GramColumns> Factor<C> {
    /// Nothing chosen yet. `floor` is the relative pivot test: rows whose residual is not above that
    /// share of `K(i, i)` are not chosen.
    pub fn new(columns: C, floor: f64) -> Self {
        let residual = CompensatedSums::new(columns.diagonal().to_vec());
        let rows = residual.values().len();
        Self {
            columns,
            coordinates: Vec::new(),
            residual,
            targets: Vec::new(),
            pivots: Vec::new(),
            is_pivot: vec![false; rows],
            floor,
            column: vec![0.0; rows],
            prefetched: PrefetchedColumns::default(),
        }
    }

    /// Prefetches: where the rule knows its next proposals, the residual columns of up to `most` rows are computed
    /// together, in a fraction of the time.
    pub fn with_prefetch(mut self, most: usize) -> Self {
        self.prefetched.most = most;
        self
    }

    /// Adds a target `W` of squared length `square` whose inner products with the rows are `products`.
    ///
    /// # Panics
    /// If pivots were chosen already, or there is not one product for each row.
    pub fn with_target(mut self, products: &[f64], square: f64) -> Self {
        assert!(self.pivots.is_empty(), "targets come before pivots");
        assert_eq!(products.len(), self.rows(), "one product per row");
        self.targets.push(Target {
            residual: CompensatedSums::new(products.to_vec()),
            coordinates: Vec::new(),
            square: Compensated::from(square),
        });
        self
    }

    /// Where the kernel values come from.
    pub fn columns(&mut self) -> &mut C {
        &mut self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.is_pivot.len()
    }

    /// Number of pivots.
    pub fn rank(&self) -> usize {
        self.pivots.len()
    }

    /// The pivots chosen so far.
    pub fn pivots(&self) -> &[Pivot] {
        &self.pivots
    }

    /// Squared distances of all rows from the span of the pivots; may fall below zero by rounding.
    pub fn distances(&self) -> &[f64] {
        self.residual.values()
    }

    /// The targets, in the order in which they were given.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// One coordinate of all rows.
    pub fn coordinate(&self, number: usize) -> &[f64] {
        &self.coordinates[number * self.rows()..][..self.rows()]
    }

    /// All coordinates of one row.
    pub fn row(&self, row: usize) -> Vec<f64> {
        (0..self.rank()).map(|number| self.coordinate(number)[row]).collect()
    }

    /// Whether a row may still be chosen.
    pub fn is_open(&self, row: usize) -> bool {
        let squared_norm = self.columns.diagonal()[row];
        let left = self.distances()[row];
        !self.is_pivot[row] && left > self.floor * squared_norm && left > 0.0
    }

    /// The sum of all squared distances: how much of the rows is not yet represented.
    pub fn trace(&self) -> f64 {
        self.distances().iter().map(|distance| distance.max(0.0)).sum()
    }

    /// Inner products of all rows with what is left of one: `K(i, row) - g_i·g_row`.
    pub fn residual_column(&mut self, row: usize, out: &mut [f64]) {
        let prefetched_rank = self.prefetched.copy(row, out);
        if prefetched_rank.is_none() {
            self.columns.column(row, out);
        }
        let from = prefetched_rank.unwrap_or(0);
        let factors: Vec<f64> =
            (from..self.rank()).map(|number| self.coordinate(number)[row]).collect();
        self.subtract_explained(&factors, from, out);
    }

    /// Subtracts from every row its product with a point whose coordinates from `first` on are given. Rows are
    /// independent sums, so the bits do not depend on the threads.
    fn subtract_explained(&self, coordinates: &[f64], first: usize, out: &mut [f64]) {
        let (isa, stride) = (Isa::current(), self.rows());
        let values = &self.coordinates[first * stride..];
        if coordinates.len() * stride < WORTH_SHARING {
            subtract_rows(isa, coordinates, values, stride, out);
            return;
        }
        out.par_chunks_mut(SHARE).enumerate().for_each(|(part, out)| {
            subtract_rows(isa, coordinates, &values[part * SHARE..], stride, out);
        });
    }

    /// Computes the residual columns of rows that will be chosen next.
    fn prefetch(&mut self, rule: &dyn Pivots<C>, proposed: &[usize]) {
        let is_known = |row: &usize| self.prefetched.has(*row);
        if self.prefetched.most == 0 || proposed.first().is_none_or(is_known) {
            return;
        }
        let mut next = proposed.to_vec();
        rule.upcoming(self, self.prefetched.most, &mut next);
        if next.len() > proposed.len() {
            self.prefetched.prepare(next, &mut self.columns, &self.coordinates);
        }
    }

    /// Chooses a row; `false` if the pivot test rejects it.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn push(&mut self, row: usize) -> bool {
        if !self.is_open(row) {
            return false;
        }
        let mut column = std::mem::take(&mut self.column);
        self.residual_column(row, &mut column);
        let left: Vec<f64> = self.targets.iter().map(|target| target.values()[row]).collect();
        let (distance, coordinates) = (self.distances()[row], self.row(row));
        self.embed(&column, coordinates, distance, &left, Some(row));
        self.column = column;
        self.is_pivot[row] = true;
        true
    }

    /// Chooses an outside point; `false` if the pivot test rejects it.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn push_point(&mut self, point: &Point<'_>) -> bool {
        assert_eq!(point.rows.len(), self.rows(), "one value per row");
        let coordinates = self.coordinates_of(point.pivots);
        let mut distance = Compensated::from(point.squared_norm);
        coordinates.iter().for_each(|y| distance.subtract_product(*y, *y));
        let distance = distance.value();
        if !(distance > self.floor * point.squared_norm && distance > 0.0) {
            return false;
        }
        let mut column = point.rows.to_vec();
        self.subtract_explained(&coordinates, 0, &mut column);
        let left: Vec<f64> = self
            .targets
            .iter()
            .zip(point.targets)
            .map(|(target, product)| {
                let mut left = Compensated::from(*product);
                let pairs = target.coordinates.iter().zip(&coordinates);
                pairs.for_each(|(w, y)| left.subtract_product(*w, *y));
                left.value()
            })
            .collect();
        self.embed(&column, coordinates, distance, &left, None);
        true
    }

    /// Coordinates of a point from its kernel values with the pivots.
    ///
    /// `y_k = (K(Z_k, x) - Σ_(i<k) V_k,i y_i) / V_k,k`   (\[DeCoste03\] eq. 16)
    pub fn coordinates_of(&self, values: &[f64]) -> Vec<f64> {
        let mut coordinates: Vec<f64> = Vec::with_capacity(self.pivots.len());
        for (pivot, value) in self.pivots.iter().zip(values) {
            let (last, before) = pivot.coordinates.split_last().expect("a pivot has its own axis");
            let explained: f64 = before.iter().zip(&coordinates).map(|(v, y)| v * y).sum();
            coordinates.push((value - explained) / last);
        }
        coordinates
    }

    /// Solves `K_ZZ x = right` over the pivots, in their order.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut x = self.coordinates_of(right);
        for (k, pivot) in self.pivots.iter().enumerate().rev() {
            x[k] /= pivot.coordinates[k];
            let value = x[k];
            for (place, v) in x[..k].iter_mut().zip(&pivot.coordinates) {
                *place -= v * value;
            }
        }
        x
    }

    fn embed(
        &mut self,
        column: &[f64],
        mut coordinates: Vec<f64>,
        distance: f64,
        left: &[f64],
        row: Option<usize>,
    ) {
        let root = distance.sqrt();
        let mut axis: Vec<f64> = column.iter().map(|value| value / root).collect();
        if let Some(row) = row {
            axis[row] = root;
        }
        let isa = Isa::current();
        self.residual.subtract_squares(isa, &axis);
        for (target, left) in self.targets.iter_mut().zip(left) {
            let w = left / root;
            target.coordinates.push(w);
            target.square.subtract_product(w, w);
            target.residual.subtract(isa, w, &axis);
        }
        coordinates.push(root);
        self.pivots.push(Pivot { row, coordinates });
        self.coordinates.extend(axis);
    }

    /// Lets a rule choose until it has nothing to propose, nothing it proposes is accepted, or `limit`
    /// pivots are chosen. `go_on` is called after every pivot and may stop. Returns whether it was not stopped.
    pub fn grow(
        &mut self,
        rule: &mut dyn Pivots<C>,
        limit: usize,
        go_on: &mut dyn FnMut(&Self) -> bool,
    ) -> bool {
        let mut proposed = Vec::new();
        while self.rank() < limit {
            proposed.clear();
            rule.propose(self, &mut proposed);
            self.prefetch(rule, &proposed);
            let before = self.rank();
            for row in &proposed {
                if self.rank() < limit && self.push(*row) {
                    rule.chosen(self);
                    if !go_on(self) {
                        return false;
                    }
                }
            }
            if self.rank() == before {
                break;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
