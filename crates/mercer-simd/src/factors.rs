//! Additive machines as look-up factors: `f(x) = Σ_j W_j · Φ(level of x_j) + constant`; and linear ones,
//! `f(x) = Σ_j w_j x_j + constant`.
//!
//! A row is a packed record of columns and cells: levels, or values as they are. A pass of dual coordinate
//! descent reads a row's value, asks the caller for the change of its coefficient, and adds
//! `change · Ψ(level)`, or `change · x_j`, to the weights of its columns. Φ and Ψ are the same table for
//! symmetric factors. Weights and tables are singles; weights of values as they are ([`Plain`]) are doubles.
//!
//! The value is four chains of fused multiply-adds over entries `i mod 4`, lane by lane, joined as
//! `(0 + 1) + (2 + 3)`, then lanes by halves: the same bits on every instruction set.

#![expect(unsafe_code, reason = "indices were checked when the record was packed; prefetches")]

mod meaning;
mod order;
mod records;
mod stairs;
mod sweep;

pub use meaning::{Meaning, Plain, Scalar};
pub use order::Order;
pub use records::{Entry, Records, Seal};
pub use stairs::Stairs;
pub use sweep::{Change, Constant, Step, accumulate, curvature, squares, sweep, values};

use crate::lines::{self, Lines};

/// Φ and Ψ: `rank` numbers for each level, of which there are at most 65,536.
#[derive(Debug, Clone)]
pub struct Factors {
    rank: usize,
    levels: usize,
    read: Lines<f32>,
    /// Only where it differs from `read`.
    write: Option<Lines<f32>>,
}

/// Ranks with a loop of their own; others are padded with zeros.
pub const RANKS: [usize; 4] = [1, 4, 8, 16];

impl Factors {
    /// Tables of `levels` rows of `rank` numbers; `write` is Ψ where it is not Φ.
    ///
    /// # Panics
    /// If the rank is none of [`RANKS`], the tables differ in size, or there are no or too many levels.
    pub fn new(rank: usize, read: &[f32], write: Option<&[f32]>) -> Self {
        assert!(RANKS.contains(&rank), "no loop for rank {rank}");
        let levels = read.len() / rank;
        assert!(levels * rank == read.len() && (1..=1 << 16).contains(&levels), "whole levels");
        assert!(write.is_none_or(|write| write.len() == read.len()), "tables of one size");
        let copy = |values: &[f32]| {
            let mut lines = Lines::zeroed(values.len());
            lines.copy_from_slice(values);
            lines
        };
        Self { rank, levels, read: copy(read), write: write.map(copy) }
    }

    /// Numbers for each level.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many levels there are.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Φ.
    pub fn read(&self) -> &[f32] {
        &self.read
    }

    /// Ψ.
    pub fn write(&self) -> &[f32] {
        self.write.as_ref().unwrap_or(&self.read)
    }

    /// `Φ(level) · Ψ(level)` in doubles.
    pub fn own(&self, level: usize) -> f64 {
        let at = level * self.rank..(level + 1) * self.rank;
        let pairs = self.read[at.clone()].iter().zip(&self.write()[at]);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }
}

/// Weights of all columns, so many numbers each, on cache lines.
#[derive(Debug, Clone)]
pub struct Weights<T>(Lines<T>);

impl<T: lines::Plain> Weights<T> {
    /// Zeros.
    pub fn zeroed(columns: usize, rank: usize) -> Self {
        Self(Lines::zeroed(columns * rank))
    }

    /// All numbers, column after column.
    pub fn values(&self) -> &[T] {
        &self.0
    }

    /// All numbers, to change them.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
