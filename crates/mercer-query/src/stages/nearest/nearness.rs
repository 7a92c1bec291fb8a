//! How near the supports are to a query, approximately: the order of the walk. Exact kernel values are in `supports.rs`.
//!
//! Principal coordinates cut the dot product, and the kernel's function follows (\[DM03\], section 4.3). The other
//! embeddings are of feature space itself: kernel PCA and FastMAP take the kernel values `k` of a query with a few
//! landmarks among the supports, `y = M k + s` are its coordinates, and `y·y_i + c_i` orders the supports.

use mercer_kernel::Finish;
use mercer_simd::{DenseQueries32, Isa, Panels32};

use super::super::coordinates::{Basis, KERNEL_COST, LiveColumns};
use super::supports::{DenseQuery, FEW, SupportRows};
use crate::block::Block;
use crate::tracker::DecisionTracker;

/// Which approximation orders the supports.
#[derive(Debug)]
pub(super) enum Nearness {
    /// Products in a few principal directions.
    Projected { basis: Basis, panels: Panels32 },
    /// Coordinates in feature space from a few kernel values.
    Embedded(Embedding),
}

/// Coordinates in feature space as an affine function of a few kernel values.
#[derive(Debug)]
pub(super) struct Embedding {
    pub landmarks: Vec<u32>,
    /// `M`, row after row.
    pub map: Vec<f64>,
    pub shift: Vec<f64>,
    /// Coordinates of the supports.
    pub panels: Panels32,
    /// `c_i`.
    pub constants: Vec<f64>,
}

/// Products of the open queries of a block with all supports.
#[derive(Debug)]
pub(super) struct NearnessScratch {
    dense: DenseQueries32,
    /// Of the open queries, one row after the other.
    coordinates: Vec<f32>,
    /// As many for each open query as [`Nearness::fill`] returns.
    products: Vec<f32>,
    /// Kernel values with the landmarks, which the walk need not compute again.
    pub landmarks: Vec<f64>,
    row: Vec<f64>,
}

/// What an embedding needs to compute kernel values of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelSource<'a> {
    pub isa: Isa,
    pub finish: &'a dyn Finish,
    pub rows: &'a SupportRows,
    pub live: &'a LiveColumns,
    /// What a kernel value costs beside its function.
    pub columns: u64,
}

impl Nearness {
    fn panels(&self) -> &Panels32 {
        match self {
            Self::Projected { panels, .. } => panels,
            Self::Embedded(embedding) => &embedding.panels,
        }
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        let own = match self {
            Self::Projected { basis, .. } => basis.bytes(),
            Self::Embedded(embedding) => 8 * (embedding.map.len() + embedding.constants.len()),
        };
        own + self.panels().bytes()
    }

    pub(super) fn scratch(&self) -> NearnessScratch {
        NearnessScratch {
            dense: DenseQueries32::new(self.panels().columns()),
            coordinates: Vec::new(),
            products: Vec::new(),
            landmarks: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Charges the ordering, and multiplies the coordinates of the queries that stay open with those of the supports;
    /// returns how many numbers each query gets, or nothing if no query is open.
    pub(super) fn fill(
        &self,
        source: KernelSource<'_>,
        scratch: &mut NearnessScratch,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
    ) -> Option<usize> {
        let size = self.panels().columns();
        let ordering = source.rows.count() as u64 * (size as u64 + KERNEL_COST);
        scratch.coordinates.clear();
        scratch.landmarks.clear();
        match self {
            Self::Projected { basis, .. } => {
                if !basis.charge_and_project(source.isa, 0..size, ordering, block, tracker) {
                    return None;
                }
                let (open, computed) = block.open_with_coordinates();
                for query in open {
                    basis.read(computed, *query, 0..size, &mut scratch.coordinates);
                }
            }
            Self::Embedded(embedding) => {
                let values = embedding.landmarks.len() as u64;
                let cost = values * (source.columns + KERNEL_COST + size as u64) + ordering;
                for query in block.open() {
                    tracker.charge(*query, cost);
                }
                block.compact(tracker);
                for query in block.open() {
                    embedding.coordinates(source, block, *query, scratch);
                }
            }
        }
        let open = block.open().len();
        if open == 0 {
            return None;
        }
        let NearnessScratch { dense, coordinates, products, .. } = scratch;
        dense.clear();
        dense.push_rows(coordinates, open, size);
        let panels = 0..self.panels().panels();
        let stride = self.panels().lanes(panels.clone()).len();
        products.resize(open * stride, 0.0);
        self.panels().dots_dense(source.isa, dense, panels, products, stride);
        Some(stride)
    }

    /// How near each support is to the open query at `position`: kernel values, up to a constant for all of them.
    pub(super) fn values(
        &self,
        source: KernelSource<'_>,
        scratch: &NearnessScratch,
        position: [usize; 2],
        squared_norm: f64,
        out: &mut Vec<f64>,
    ) {
        let ([position, stride], supports) = (position, source.rows.count());
        out.resize(supports, 0.0);
        let products = &scratch.products[position * stride..][..supports];
        mercer_simd::widen(source.isa, products, out);
        match self {
            Self::Projected { .. } => {
                source.finish.finish(source.isa, out, squared_norm, &source.rows.norms);
            }
            Self::Embedded(embedding) => {
                out.iter_mut().zip(&embedding.constants).for_each(|(value, c)| *value += c);
            }
        }
    }

    /// The landmarks, whose kernel values a query knows before its walk.
    pub(super) fn landmarks(&self) -> &[u32] {
        match self {
            Self::Projected { .. } => &[],
            Self::Embedded(embedding) => &embedding.landmarks,
        }
    }
}

impl Embedding {
    /// Appends the kernel values of a query with the landmarks, and its coordinates.
    fn coordinates(
        &self,
        source: KernelSource<'_>,
        block: &Block<'_>,
        query: u32,
        scratch: &mut NearnessScratch,
    ) {
        let KernelSource { finish, rows, live, .. } = source;
        scratch.row.resize(live.len(), 0.0);
        live.write(block.row(query), &mut scratch.row);
        let dense = DenseQuery { row: &scratch.row, squared_norm: block.squared_norm(query) };
        let first = scratch.landmarks.len();
        for few in self.landmarks.chunks(FEW) {
            let values = rows.kernels(finish, dense, few);
            scratch.landmarks.extend_from_slice(&values[..few.len()]);
        }
        let values = &scratch.landmarks[first..];
        for (row, shift) in self.map.chunks_exact(values.len()).zip(&self.shift) {
            let sum: f64 = row.iter().zip(values).map(|(m, k)| m * k).sum();
            scratch.coordinates.push((sum + shift) as f32);
        }
    }
}
