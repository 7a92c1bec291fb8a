//! The partial Cholesky factor of many rows, built by blocks of pivots.
//!
//! `factor.rs` has the factor that adds one pivot at a time, with targets and outside points.

use std::fs::File;

use mercer_simd::{ProductShape, Real, Strided, StridedMut};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::store::{Store, TILE};
use crate::triangle;

/// Kernel values of chosen rows with any rows, computed when they are needed.
pub trait Tiles<T>: Sync {
    /// Chosen rows, made ready for products.
    type Ready: Sync;

    /// `K(i, i)` of every row.
    fn diagonal(&self) -> &[f64];

    /// Makes these rows ready.
    fn ready(&self, pivots: &[u32]) -> Self::Ready;

    /// `out[i * pivots + j] = K(rows[i], pivots[j])`.
    fn values(&self, ready: &Self::Ready, rows: &[u32], out: &mut [T]);
}

/// How a block of candidates is drawn.
#[derive(Debug, Clone, Copy)]
pub enum Draw<'a> {
    /// The row farthest from the span, one at a time (\[FS01\] Fig. 2).
    Greedy,
    /// At random with probabilities as the squared distances: randomly pivoted Cholesky (\[CETW24\]).
    Random,
    /// At random with probabilities as the squared distances times these weights, one for each row.
    Weighted(&'a [f64]),
}

/// When a factor stops growing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthLimit {
    /// At so many pivots.
    pub rank: usize,
    /// Where the trace that is left is at most this share of the trace of the Gram matrix.
    pub trace_share: f64,
}

/// Pivots of one block, prepared for products.
struct PivotBlock<'a, R> {
    ready: &'a R,
    pivots: &'a [u32],
}

/// Candidates drawn at once.
pub const CANDIDATES: usize = 64;
/// A candidate is taken while its residual is above this share of the mean of its block.
const KEPT_SHARE: f64 = 0.05;

/// A partial factor of the Gram matrix of many rows that grows by blocks of pivots: kernel values, products
/// and one triangular solve for each block. The same factor as [`super::Factor`], row-major, in f32 or
/// f64, in memory or in a file; without targets and outside points.
#[derive(Debug)]
pub struct Blocked<T> {
    store: Store<T>,
    pivots: Vec<u32>,
    /// Coordinates of the pivots, in f64; row `j` has `j + 1`.
    lower: Vec<Vec<f64>>,
    distances: Vec<f64>,
    whole: f64,
    floor: f64,
    random: SplitMix64,
    all: Vec<u32>,
}

impl<T: Real> Blocked<T> {
    /// Nothing chosen yet. `file` holds the coordinates where one is given; memory is reserved for `capacity` of
    /// each row. Rows whose residual is below `floor` times the mean of the diagonal are not chosen.
    pub fn new(
        diagonal: &[f64],
        capacity: usize,
        floor: f64,
        seed: u64,
        file: Option<File>,
    ) -> Self {
        let rows = diagonal.len();
        let whole: f64 = diagonal.iter().sum();
        Self {
            store: Store::new(rows, capacity, file),
            pivots: Vec::new(),
            lower: Vec::new(),
            distances: diagonal.to_vec(),
            whole,
            floor: floor * whole / rows.max(1) as f64,
            random: SplitMix64::seed_from_u64(seed),
            all: (0..rows as u32).collect(),
        }
    }

    /// The coordinates.
    pub fn store(&self) -> &Store<T> {
        &self.store
    }

    /// The pivots, in the order in which they were chosen.
    pub fn pivots(&self) -> &[u32] {
        &self.pivots
    }

    /// Number of pivots.
    pub fn rank(&self) -> usize {
        self.pivots.len()
    }

    /// Squared distances of all rows from the span of the pivots.
    pub fn distances(&self) -> &[f64] {
        &self.distances
    }

    /// Their sum: the trace of what the factor leaves out.
    pub fn trace(&self) -> f64 {
        self.distances.iter().sum()
    }

    /// The same as a share of the trace of the Gram matrix.
    pub fn trace_share(&self) -> f64 {
        if self.whole > 0.0 { self.trace() / self.whole } else { 0.0 }
    }

    /// Coefficients of the pivots whose sum of kernel values is `w` along the coordinates: `L'β = w`.
    ///
    /// # Panics
    /// If there is not one number for each coordinate.
    pub fn coefficients(&self, w: &[f64]) -> Vec<f64> {
        assert_eq!(w.len(), self.rank(), "one number per pivot");
        let mut beta = w.to_vec();
        for at in (0..beta.len()).rev() {
            let (coordinates, before) =
                self.lower[at].split_last().expect("a pivot has its coordinates axis");
            beta[at] /= coordinates;
            let value = beta[at];
            beta[..at].iter_mut().zip(before).for_each(|(x, l)| *x -= value * l);
        }
        beta
    }

    /// Draws and takes blocks of pivots until a limit is reached or no row can be taken. `go_on` is called after
    /// every block and may stop. Returns whether it was not stopped.
    pub fn grow<S: Tiles<T>>(
        &mut self,
        source: &S,
        draw: Draw<'_>,
        until: GrowthLimit,
        go_on: &mut dyn FnMut(&Self) -> bool,
    ) -> bool {
        let GrowthLimit { rank: limit, trace_share } = until;
        self.store.reserve(limit.min(self.distances.len()));
        let mut refused = 0;
        while self.rank() < limit && self.trace() > trace_share * self.whole {
            let candidates = self.candidates(draw, CANDIDATES.min(limit - self.rank()));
            if candidates.is_empty() {
                break;
            }
            let before = self.rank();
            self.take(source, &candidates);
            refused = if self.rank() == before { refused + 1 } else { 0 };
            if refused > 3 {
                break;
            }
            if !go_on(self) {
                return false;
            }
        }
        true
    }

    fn is_open(&self, row: usize) -> bool {
        self.distances[row] > self.floor && self.distances[row] > 0.0
    }

    fn candidates(&mut self, draw: Draw<'_>, count: usize) -> Vec<u32> {
        let weight = |row: usize| match draw {
            _ if !self.is_open(row) => 0.0,
            Draw::Weighted(weights) => self.distances[row] * weights[row],
            _ => self.distances[row],
        };
        if matches!(draw, Draw::Greedy) {
            let mut best = 0;
            for row in 1..self.distances.len() {
                if weight(row) > weight(best) {
                    best = row;
                }
            }
            let is_available = !self.distances.is_empty() && self.is_open(best);
            return if is_available { vec![best as u32] } else { Vec::new() };
        }
        let mut sums = Vec::with_capacity(self.distances.len());
        let mut total = 0.0;
        for row in 0..self.distances.len() {
            total += weight(row);
            sums.push(total);
        }
        if !(total > 0.0 && total.is_finite()) {
            return Vec::new();
        }
        let mut random = self.random.clone();
        let mut drawn: Vec<u32> = Vec::with_capacity(count);
        // Draws that fall on a row drawn before are made again, a few times.
        for _ in 0..4 * count {
            if drawn.len() == count {
                break;
            }
            let place = uniform(&mut random) * total;
            let row = sums.partition_point(|sum| *sum <= place).min(sums.len() - 1);
            if self.is_open(row) && !drawn.contains(&(row as u32)) {
                drawn.push(row as u32);
            }
        }
        self.random = random;
        drawn
    }

    /// Takes those candidates that are far enough from the span and from each other.
    fn take<S: Tiles<T>>(&mut self, source: &S, candidates: &[u32]) {
        let count = candidates.len();
        let rank = self.rank();
        let ready = source.ready(candidates);
        let coordinates = self.store.gather(candidates);
        let mut values = vec![T::default(); count * count];
        source.values(&ready, candidates, &mut values);
        let to_f64 = |values: &[T]| values.iter().map(|value| value.to_f64()).collect::<Vec<f64>>();
        let (mut table, coordinates_f64) = (to_f64(&values), to_f64(&coordinates));
        if rank > 0 {
            let left = Strided { values: &coordinates_f64, row: rank, column: 1 };
            let right = Strided { values: &coordinates_f64, row: 1, column: rank };
            let out = StridedMut { values: &mut table, row: count, column: 1 };
            let shape = ProductShape { rows: count, columns: count, inner: rank };
            f64::product(shape, left, right, out, 1.0, -1.0);
        }
        let distances: Vec<f64> =
            candidates.iter().map(|row| self.distances[*row as usize]).collect();
        let (kept, lower) = pivoted(&mut table, &distances, self.floor);
        if kept.is_empty() {
            // Rounding left nothing of them.
            candidates.iter().for_each(|row| self.distances[*row as usize] = 0.0);
            return;
        }
        let pivots: Vec<u32> = kept.iter().map(|at| candidates[*at]).collect();
        let ready = if kept.iter().enumerate().all(|(a, b)| a == *b) && kept.len() == count {
            ready
        } else {
            source.ready(&pivots)
        };
        let gathered: Vec<T> =
            kept.iter().flat_map(|at| coordinates[at * rank..(at + 1) * rank].to_vec()).collect();
        self.append(source, PivotBlock { ready: &ready, pivots: &pivots }, &gathered, &lower);
        for (at, pivot) in pivots.iter().enumerate() {
            let before = coordinates_f64[kept[at] * rank..(kept[at] + 1) * rank].to_vec();
            let coordinates = &lower[at * kept.len()..][..=at];
            self.lower.push([&before, coordinates].concat());
            self.distances[*pivot as usize] = 0.0;
        }
        self.pivots.extend(&pivots);
    }

    /// New coordinates of all rows: `(K(:, Z) - G G_Z') L^-T`.
    fn append<S: Tiles<T>>(
        &mut self,
        source: &S,
        block: PivotBlock<'_, S::Ready>,
        coordinates: &[T],
        lower: &[f64],
    ) {
        let PivotBlock { ready, pivots } = block;
        let (added, rank) = (pivots.len(), self.rank());
        let inverse = inverse_transposed(lower, added);
        let inverse: Vec<T> = inverse.iter().map(|value| T::from_f64(*value)).collect();
        self.store.reserve(rank + added);
        let (stride, all) = (self.store.stride(), &self.all);
        self.store.extend(added, |tile, numbers| {
            let first = tile * TILE;
            let rows = &all[first..(first + TILE).min(all.len())];
            let mut values = vec![T::default(); rows.len() * added];
            source.values(ready, rows, &mut values);
            if rank > 0 {
                let left = Strided { values: &*numbers, row: stride, column: 1 };
                let right = Strided { values: coordinates, row: 1, column: rank };
                let out = StridedMut { values: &mut values, row: added, column: 1 };
                let shape = ProductShape { rows: rows.len(), columns: added, inner: rank };
                T::product(shape, left, right, out, 1.0, -1.0);
            }
            let left = Strided { values: &values, row: added, column: 1 };
            let right = Strided { values: &inverse, row: added, column: 1 };
            let out = StridedMut { values: &mut numbers[rank..], row: stride, column: 1 };
            let shape = ProductShape { rows: rows.len(), columns: added, inner: added };
            T::product(shape, left, right, out, 0.0, 1.0);
            for (at, pivot) in pivots.iter().enumerate() {
                if rows.first().is_some_and(|row| row <= pivot) && rows.last() >= Some(pivot) {
                    let start = (*pivot as usize - first) * stride + rank;
                    for (column, place) in numbers[start..start + added].iter_mut().enumerate() {
                        let exact = if column <= at { lower[at * added + column] } else { 0.0 };
                        *place = T::from_f64(exact);
                    }
                }
            }
        });
        self.downdate(rank);
    }

    /// Takes the squares of the coordinates from `first` on away from the distances.
    fn downdate(&mut self, first: usize) {
        use rayon::prelude::*;
        let (store, rank) = (&self.store, self.store.rank());
        self.distances.par_chunks_mut(TILE).enumerate().for_each(|(tile, distances)| {
            store.with(tile, |numbers| {
                let rows = numbers.chunks_exact(store.stride().max(1));
                for (distance, row) in distances.iter_mut().zip(rows) {
                    let square: f64 =
                        row[first..rank].iter().map(|g| g.to_f64() * g.to_f64()).sum();
                    *distance = (*distance - square).max(0.0);
                }
            });
        });
    }
}

/// Cholesky with the largest pivot first; stops at pivots that are small. Returns which rows were taken and
/// the factor of those.
fn pivoted(table: &mut [f64], distances: &[f64], floor: f64) -> (Vec<usize>, Vec<f64>) {
    let count = distances.len();
    let mean = distances.iter().sum::<f64>() / count as f64;
    let mut left: Vec<f64> =
        (0..count).map(|at| table[at * count + at].min(distances[at])).collect();
    let mut kept: Vec<usize> = Vec::new();
    let mut axes: Vec<Vec<f64>> = Vec::new();
    while kept.len() < count {
        let open = (0..count).filter(|at| !kept.contains(at));
        let Some(best) = open.max_by(|a, b| left[*a].total_cmp(&left[*b])) else { break };
        let pivot = left[best];
        if !(pivot > floor && pivot > KEPT_SHARE * mean) {
            break;
        }
        let root = pivot.sqrt();
        let mut axis: Vec<f64> = (0..count).map(|at| table[at * count + best]).collect();
        for other in &axes {
            let factor = other[best];
            axis.iter_mut().zip(other).for_each(|(x, g)| *x -= factor * g);
        }
        axis.iter_mut().for_each(|x| *x /= root);
        axis[best] = root;
        left.iter_mut().zip(&axis).for_each(|(left, g)| *left -= g * g);
        kept.push(best);
        axes.push(axis);
    }
    let size = kept.len();
    let mut lower = vec![0.0; size * size];
    for (row, at) in kept.iter().enumerate() {
        for (column, axis) in axes[..=row].iter().enumerate() {
            lower[row * size + column] = axis[*at];
        }
    }
    (kept, lower)
}

/// `L^-T`, row-major: column `j` of the result is row `j` of the inverse.
fn inverse_transposed(lower: &[f64], size: usize) -> Vec<f64> {
    let mut out = vec![0.0; size * size];
    let mut unit = vec![0.0; size];
    for row in 0..size {
        // L x = e_row gives column `row` of the inverse, which is row `row` of its transpose.
        unit.fill(0.0);
        unit[row] = 1.0;
        triangle::solve_lower(lower, size, &mut unit);
        out[row * size..(row + 1) * size].copy_from_slice(&unit);
    }
    out
}

/// A uniform random number in [0, 1).
fn uniform(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod uniform_tests {
    use super::*;

    /// Factors are the same bits as before only if this stream is.
    #[test]
    fn the_random_stream_of_a_seed_stays_the_same() {
        let mut random = SplitMix64::seed_from_u64(1);
        let drawn: Vec<f64> = (0..3).map(|_| uniform(&mut random)).collect();
        assert_eq!(drawn, [0.5665615751722809, 0.7457817572627011, 0.9710027535867962]);
    }
}
