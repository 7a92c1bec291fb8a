//! Sums of kernel values over weighted supports, for rows in blocks. Which rows and supports is decided by the caller.

use mercer_data::{Matrix, Row};
use mercer_kernel::KernelRef;
use mercer_kernel::block::{BLOCK, Packed};
use mercer_simd::Isa;
use rayon::prelude::*;

use crate::gram::{F32Rows, WeightedColumns};

/// Supports in one pack. Sums are added pack after pack: the bits depend on it.
const PACK: usize = 1024;

/// Supports with a weight each, packed once: `Σ_j weight_j K(x, z_j)` of any row x, from f64 kernel values.
///
/// A sum has the same bits whatever block its row is in, on any number of threads and instruction set; it depends on
/// the order of the supports.
///
/// ```
/// use mercer_data::Matrix;
/// use mercer_train::decomposition::WeightedSupports;
/// let kernel = mercer_kernel::parse("linear").unwrap();
/// let supports = Matrix::dense(1, vec![1.0, 3.0]).unwrap();
/// let sums = WeightedSupports::new(&kernel, &supports, &[0.5, 1.0], None);
/// let rows = Matrix::dense(1, vec![2.0, -1.0]).unwrap();
/// let mut scores = vec![10.0, 0.0];
/// sums.add(&rows, &mut scores);
/// assert_eq!(scores, [17.0, -3.5]);
/// ```
#[derive(Debug)]
pub struct WeightedSupports {
    packs: Vec<Packed>,
    weights: Vec<f64>,
}

impl WeightedSupports {
    /// Packs the supports. `centre` is subtracted from both sides before distances are computed, as machines do; it
    /// must be the same for all blocks of a training.
    ///
    /// # Panics
    /// If there is not one weight for each support.
    pub fn new(
        kernel: &KernelRef,
        supports: &Matrix,
        weights: &[f64],
        centre: Option<&[f64]>,
    ) -> Self {
        assert_eq!(supports.rows(), weights.len(), "one weight for each support");
        let starts: Vec<usize> = (0..supports.rows()).step_by(PACK).collect();
        let pack = |start: &usize| {
            let rows = supports.select(*start..(start + PACK).min(supports.rows()));
            Packed::new(kernel.clone(), &rows, centre)
        };
        let packs = starts.par_iter().map(pack).collect();
        Self { packs, weights: weights.to_vec() }
    }

    /// Memory of the packed supports, in bytes.
    pub fn bytes(&self) -> usize {
        self.packs.iter().map(Packed::bytes).sum::<usize>() + 8 * self.weights.len()
    }

    /// Number of supports.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether there are no supports.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Adds the sum of each row of a block to its place in `sums`.
    ///
    /// # Panics
    /// If there is not one place for each row.
    pub fn add(&self, rows: &Matrix, sums: &mut [f64]) {
        assert_eq!(rows.rows(), sums.len(), "one sum for each row");
        self.add_rows(|at| rows.row(at), sums);
    }

    /// The same for rows that are given by their place in `sums`.
    pub(crate) fn add_rows<'a>(&self, row: impl Fn(usize) -> Row<'a> + Sync, sums: &mut [f64]) {
        let blocks = sums.par_chunks_mut(BLOCK).enumerate();
        blocks.for_each_init(Vec::new, |scratch, (block, sums)| {
            let first = block * BLOCK;
            let rows = (first..first + sums.len()).map(&row);
            for (packed, weights) in self.packs.iter().zip(self.weights.chunks(PACK)) {
                add_pack(packed, weights, rows.clone(), sums, scratch);
            }
        });
    }
}

/// Weighted supports in the precision of a round.
pub(crate) enum RoundSupports<'k> {
    F64(WeightedSupports),
    F32 { columns: WeightedColumns, kernel: &'k KernelRef, f32_rows: &'k F32Rows },
}

impl<'k> RoundSupports<'k> {
    /// Packs the supports, in f32 if `f32_rows` are given.
    pub(super) fn new(
        kernel: &'k KernelRef,
        f32_rows: Option<&'k F32Rows>,
        supports: &Matrix,
        weights: &[f64],
        centre: Option<&[f64]>,
    ) -> Self {
        match f32_rows {
            None => Self::F64(WeightedSupports::new(kernel, supports, weights, centre)),
            Some(f32_rows) => {
                let columns = WeightedColumns::new(f32_rows, supports, weights);
                Self::F32 { columns, kernel, f32_rows }
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::F64(supports) => supports.bytes(),
            Self::F32 { columns, .. } => columns.bytes(),
        }
    }

    /// Adds the sum of each row to its place in `sums`; the bits do not depend on which rows come together.
    pub(super) fn add_rows<'a>(&self, row: impl Fn(usize) -> Row<'a> + Sync, sums: &mut [f64]) {
        match self {
            Self::F64(supports) => supports.add_rows(row, sums),
            Self::F32 { columns, kernel, f32_rows } => {
                columns.add_rows(kernel, f32_rows, row, sums);
            }
        }
    }
}

/// Adds the terms of one pack of supports to the sums of a block of rows.
pub(crate) fn add_pack<'a>(
    packed: &Packed,
    weights: &[f64],
    rows: impl Iterator<Item = Row<'a>> + Clone,
    sums: &mut [f64],
    scratch: &mut Vec<f64>,
) {
    let isa = Isa::current();
    let mut queries = packed.queries();
    let mut partials = vec![[[0.0; 8]; 1]; sums.len()];
    packed.load(isa, rows.clone(), &mut queries);
    packed.visit(isa, &queries, rows, scratch, |tile| {
        for query in tile.queries.clone() {
            let (values, first) = (tile.of(query), tile.rows.start);
            mercer_simd::weighted_sums(isa, values, first, &[weights], &mut partials[query]);
        }
    });
    for (sum, [partial]) in sums.iter_mut().zip(&partials) {
        *sum += mercer_simd::fold8(partial);
    }
}
