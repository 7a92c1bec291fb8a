//! Coordinates of many rows, in memory or in a file, and products with them.
//! The factorisation that fills it is in `blocked`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Mutex;

use mercer_simd::{Isa, Real, add_row, row_dot};
use rayon::prelude::*;

/// Rows of a tile: what one thread works on at a time.
pub const TILE: usize = 1024;
/// Sums over tiles are made in so many groups, whatever the number of threads.
const GROUPS: usize = 16;

/// Coordinates of many rows, in tiles of whole rows, in memory or in a file.
///
/// An I/O error is kept in [`Store::failure`]; reads then give zeros.
#[derive(Debug)]
pub struct Store<T> {
    rows: usize,
    rank: usize,
    /// Numbers kept free for each row.
    stride: usize,
    location: Location<T>,
}

#[derive(Debug)]
enum Location<T> {
    Memory(Vec<Vec<T>>),
    Disk(Mutex<Disk>),
}

#[derive(Debug)]
struct Disk {
    file: File,
    failure: Option<io::Error>,
}

impl<T: Real> Store<T> {
    /// No coordinates yet, memory for `stride` of them; in `file` where one is given.
    pub fn new(rows: usize, stride: usize, file: Option<File>) -> Self {
        let location = match file {
            Some(file) => Location::Disk(Mutex::new(Disk { file, failure: None })),
            None => {
                let tile = |first| vec![T::default(); TILE.min(rows - first) * stride];
                Location::Memory((0..rows).step_by(TILE).map(tile).collect())
            }
        };
        Self { rows, rank: 0, stride, location }
    }

    /// Rows given by their coordinates.
    ///
    /// # Panics
    /// If there are not `rank` coordinates for each row.
    pub fn of_rows(rank: usize, coordinates: &[T]) -> Self {
        let rows = coordinates.len().checked_div(rank).unwrap_or(0);
        assert_eq!(coordinates.len(), rows * rank, "whole rows");
        let tiles = coordinates.chunks((TILE * rank).max(1)).map(<[T]>::to_vec).collect();
        Self { rows, rank, stride: rank, location: Location::Memory(tiles) }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Coordinates of each row.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether the coordinates are in a file.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.location, Location::Disk(_))
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        match &self.location {
            Location::Memory(tiles) => tiles.iter().map(|tile| tile.len() * T::BYTES).sum(),
            Location::Disk(_) => 0,
        }
    }

    /// What went wrong with the file, if anything did.
    pub fn failure(&self) -> Option<String> {
        match &self.location {
            Location::Memory(_) => None,
            Location::Disk(disk) => {
                let disk = disk.lock().expect("no thread panics while it holds the lock");
                disk.failure.as_ref().map(ToString::to_string)
            }
        }
    }

    /// How many tiles there are.
    pub fn tiles(&self) -> usize {
        self.rows.div_ceil(TILE)
    }

    /// The rows of a tile.
    pub fn rows_of(&self, tile: usize) -> std::ops::Range<usize> {
        tile * TILE..((tile + 1) * TILE).min(self.rows)
    }

    /// Calls `read` with a tile: rows, [`Store::stride`] numbers apart.
    pub fn with<R>(&self, tile: usize, read: impl FnOnce(&[T]) -> R) -> R {
        match &self.location {
            Location::Memory(tiles) => read(&tiles[tile]),
            Location::Disk(disk) => read(&self.read(disk, tile)),
        }
    }

    /// Distance from one row of a tile to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    fn read(&self, disk: &Mutex<Disk>, tile: usize) -> Vec<T> {
        let count = self.rows_of(tile).len() * self.stride;
        let mut bytes = vec![0u8; count * T::BYTES];
        let mut disk = disk.lock().expect("no thread panics while it holds the lock");
        let start = (tile * TILE * self.stride * T::BYTES) as u64;
        let Disk { file, failure } = &mut *disk;
        // A tile never written is zeros.
        let length = file.seek(SeekFrom::End(0)).unwrap_or(0);
        if start < length {
            let outcome =
                file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes));
            if let Err(error) = outcome {
                failure.get_or_insert(error);
            }
        }
        drop(disk);
        bytes.chunks_exact(T::BYTES).map(T::from_bytes).collect()
    }

    fn write(&self, disk: &Mutex<Disk>, tile: usize, values: &[T]) {
        let mut bytes = Vec::with_capacity(values.len() * T::BYTES);
        values.iter().for_each(|value| value.push_bytes(&mut bytes));
        let start = (tile * TILE * self.stride * T::BYTES) as u64;
        let mut disk = disk.lock().expect("no thread panics while it holds the lock");
        let Disk { file, failure } = &mut *disk;
        let done = file.seek(SeekFrom::Start(start)).and_then(|_| file.write_all(&bytes));
        if let Err(error) = done {
            failure.get_or_insert(error);
        }
    }

    /// Reserves memory for `stride` coordinates of each row.
    pub(super) fn reserve(&mut self, stride: usize) {
        if stride <= self.stride {
            return;
        }
        let (old, rank) = (self.stride, self.rank);
        let widen = |tile: &[T]| {
            let rows = tile.len().checked_div(old).unwrap_or(0);
            let mut wide = vec![T::default(); rows * stride];
            for (to, from) in wide.chunks_exact_mut(stride).zip(tile.chunks_exact(old.max(1))) {
                to[..rank].copy_from_slice(&from[..rank]);
            }
            wide
        };
        match &mut self.location {
            Location::Memory(tiles) if old == 0 => {
                let rows = self.rows;
                let tile = |first| vec![T::default(); TILE.min(rows - first) * stride];
                *tiles = (0..rows).step_by(TILE).map(tile).collect();
            }
            Location::Memory(tiles) => tiles.par_iter_mut().for_each(|tile| *tile = widen(tile)),
            Location::Disk(_) => {
                // The last tile first: nothing is overwritten before it was read.
                for tile in (0..self.tiles()).rev() {
                    let wide = self.with(tile, widen);
                    let old = std::mem::replace(&mut self.stride, stride);
                    if let Location::Disk(disk) = &self.location {
                        self.write(disk, tile, &wide);
                    }
                    self.stride = old;
                }
            }
        }
        self.stride = stride;
    }

    /// Lets `change(tile, numbers)` work on every tile and then counts `added` coordinates more.
    pub(super) fn extend(&mut self, added: usize, change: impl Fn(usize, &mut [T]) + Sync) {
        if let Location::Memory(tiles) = &mut self.location {
            tiles.par_iter_mut().enumerate().for_each(|(tile, values)| change(tile, values));
        }
        if let Location::Disk(disk) = &self.location {
            let tiles: Vec<usize> = (0..self.tiles()).collect();
            tiles.par_iter().for_each(|tile| {
                let mut values = self.read(disk, *tile);
                change(*tile, &mut values);
                self.write(disk, *tile, &values);
            });
        }
        self.rank += added;
    }

    /// Coordinates of some rows, row after row.
    pub fn gather(&self, rows: &[u32]) -> Vec<T> {
        let rank = self.rank;
        let mut out = vec![T::default(); rows.len() * rank];
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| rows[*at]);
        let mut rest = order.as_slice();
        while let Some(first) = rest.first() {
            let tile = rows[*first] as usize / TILE;
            let here = rest.partition_point(|at| rows[*at] as usize / TILE == tile);
            self.with(tile, |values| {
                for at in &rest[..here] {
                    let start = (rows[*at] as usize - tile * TILE) * self.stride;
                    out[at * rank..(at + 1) * rank].copy_from_slice(&values[start..start + rank]);
                }
            });
            rest = &rest[here..];
        }
        out
    }

    /// The coordinates of some rows as a store of their own.
    pub fn select(&self, rows: &[u32], file: Option<File>) -> Self {
        let mut selected = Self::new(rows.len(), self.rank, file);
        let rank = self.rank;
        selected.extend(rank, |tile, values| {
            let expected = &rows[tile * TILE..((tile + 1) * TILE).min(rows.len())];
            values.copy_from_slice(&self.gather(expected));
        });
        selected
    }

    /// `G z` of every row.
    pub fn times(&self, z: &[f64]) -> Vec<f64> {
        let isa = Isa::current();
        let mut out = vec![0.0; self.rows];
        out.par_chunks_mut(TILE).enumerate().for_each(|(tile, out)| {
            self.with(tile, |values| {
                for (out, row) in out.iter_mut().zip(values.chunks_exact(self.stride.max(1))) {
                    *out = row_dot(isa, &row[..self.rank], z);
                }
            });
        });
        out
    }

    /// `G' u`; groups of tiles are summed in a fixed order.
    ///
    /// # Panics
    /// If there is not one number for each row.
    pub fn transposed_times(&self, u: &[f64]) -> Vec<f64> {
        assert_eq!(u.len(), self.rows, "one number per row");
        let isa = Isa::current();
        self.sum(self.rank, |tile, values, sums| {
            let rows = values.chunks_exact(self.stride.max(1));
            for (row, factor) in rows.zip(&u[self.rows_of(tile)]) {
                if *factor != 0.0 {
                    add_row(isa, *factor, &row[..self.rank], sums);
                }
            }
        })
    }

    /// `G' diag(weights) G`, the lower triangle, row-major.
    ///
    /// # Panics
    /// If there is not one weight for each row.
    pub fn weighted_square(&self, weights: &[f64]) -> Vec<f64> {
        assert_eq!(weights.len(), self.rows, "one weight per row");
        let rank = self.rank;
        self.sum(rank * rank, |tile, values, sums| {
            let weights = &weights[self.rows_of(tile)];
            square_tile(values, self.stride, rank, weights, sums);
        })
    }

    /// Adds up what `add` puts into `length` sums for each tile, in a fixed order.
    fn sum(&self, length: usize, add: impl Fn(usize, &[T], &mut [f64]) + Sync) -> Vec<f64> {
        let tiles = self.tiles();
        let groups: Vec<usize> = (0..GROUPS.min(tiles)).collect();
        let parts: Vec<Vec<f64>> = groups
            .par_iter()
            .map(|group| {
                let mut sums = vec![0.0; length];
                let count = groups.len();
                for tile in group * tiles / count..(group + 1) * tiles / count {
                    self.with(tile, |values| add(tile, values, &mut sums));
                }
                sums
            })
            .collect();
        let mut total = vec![0.0; length];
        for part in parts {
            total.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        total
    }
}

/// Columns of the square multiplied at once.
const BAND: usize = 128;

/// `sums += V' diag(weights) V` for a tile, the lower triangle in bands of columns.
fn square_tile<T: Real>(
    values: &[T],
    stride: usize,
    rank: usize,
    weights: &[f64],
    sums: &mut [f64],
) {
    use mercer_simd::{ProductShape, Strided, StridedMut, scale_row};
    let isa = Isa::current();
    let used: Vec<usize> = (0..weights.len()).filter(|row| weights[*row] != 0.0).collect();
    if used.is_empty() {
        return;
    }
    let mut scaled = vec![0.0; used.len() * rank];
    for (out, row) in scaled.chunks_exact_mut(rank.max(1)).zip(&used) {
        let from = &values[row * stride..row * stride + rank];
        scale_row(isa, from, weights[*row].sqrt(), out);
    }
    for first in (0..rank).step_by(BAND) {
        let (width, below) = (BAND.min(rank - first), rank - first);
        let left = Strided { values: &scaled[first..], row: 1, column: rank };
        let right = Strided { values: &scaled[first..], row: rank, column: 1 };
        let out = StridedMut { values: &mut sums[first * rank + first..], row: rank, column: 1 };
        let shape = ProductShape { rows: below, columns: width, inner: used.len() };
        f64::product(shape, left, right, out, 1.0, 1.0);
    }
}
