//! Training rows of linear and additive machines: `f(x) = Σ_j w_j x_j + bias`, or with look-up tables
//! `f(x) = Σ_j W_j · Φ(bin of x_j) + bias`.
//!
//! A row is a packed record of columns and cells: bins, or unencoded values. A pass of dual coordinate
//! descent computes a row's value, asks the caller for the change of its coefficient, and adds
//! `change · Ψ(bin)`, or `change · x_j`, to the weights of its columns. Φ and Ψ are the same table for
//! symmetric factors. Weights and tables are f32; weights of unencoded values ([`RawValues`]) are f64.
//!
//! The value is four chains of fused multiply-adds over entries `i mod 4`, lane by lane, joined as
//! `(0 + 1) + (2 + 3)`, then lanes by halves: the same bits on every instruction set.

#![expect(unsafe_code, reason = "indices were checked when the record was packed; prefetches")]

mod encoding;
mod order;
mod packed_row;
mod records;
mod step_encoding;
mod sweep;

pub use encoding::{Encoding, Float, RawValues};
pub use order::Order;
pub use records::{Records, RecordsMeta, RowHead, RowKey};
pub use step_encoding::StepEncoding;
pub use sweep::{
    BiasColumn, Change, DualCoefficients, EncodedRows, LinearFunction, LinearFunctionMut, Step,
    accumulate, curvature, squares, sweep, values,
};

use crate::aligned::{self, AlignedBuffer};

/// Φ and Ψ: `rank` numbers for each bin, of which there are at most 65,536.
#[derive(Debug, Clone)]
pub struct Factors {
    rank: usize,
    bins: usize,
    read: AlignedBuffer<f32>,
    /// Only where it differs from `read`.
    write: Option<AlignedBuffer<f32>>,
}

/// Ranks with a specialised loop; others are padded with zeros.
pub const RANKS: [usize; 4] = [1, 4, 8, 16];

impl Factors {
    /// Tables of `bins` rows of `rank` numbers; `write` is Ψ where it is not Φ.
    ///
    /// # Panics
    /// If the rank is none of [`RANKS`], the tables differ in size, or there are no or too many bins.
    pub fn new(rank: usize, read: &[f32], write: Option<&[f32]>) -> Self {
        assert!(RANKS.contains(&rank), "no loop for rank {rank}");
        let bins = read.len() / rank;
        assert!(bins * rank == read.len() && (1..=1 << 16).contains(&bins), "whole bins");
        assert!(write.is_none_or(|write| write.len() == read.len()), "tables of one size");
        let copy = |values: &[f32]| {
            let mut lines = AlignedBuffer::zeroed(values.len());
            lines.copy_from_slice(values);
            lines
        };
        Self { rank, bins, read: copy(read), write: write.map(copy) }
    }

    /// Numbers for each bin.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Φ.
    pub fn read(&self) -> &[f32] {
        &self.read
    }

    /// Ψ.
    pub fn write(&self) -> &[f32] {
        self.write.as_ref().unwrap_or(&self.read)
    }

    /// `Φ(bin) · Ψ(bin)`, the kernel of a bin with itself, in f64.
    pub fn squared_norm(&self, bin: usize) -> f64 {
        let at = bin * self.rank..(bin + 1) * self.rank;
        let pairs = self.read[at.clone()].iter().zip(&self.write()[at]);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }
}

/// Weights of all columns, `rank` numbers each, aligned to cache lines.
#[derive(Debug, Clone)]
pub struct Weights<T>(AlignedBuffer<T>);

impl<T: aligned::PlainNumber> Weights<T> {
    /// Zeros.
    pub fn zeroed(columns: usize, rank: usize) -> Self {
        Self(AlignedBuffer::zeroed(columns * rank))
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
