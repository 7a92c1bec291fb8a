//! Products of queries with the supports in the directions of a basis, from which approximate kernel values follow.

use mercer_simd::{DenseQueries32, Isa, Panels32};

use super::super::projection::Basis;
use crate::block::Block;
use crate::tracker::DecisionTracker;

/// SupportProducts of queries with the supports in all directions of a basis.
#[derive(Debug)]
pub(super) struct SupportProducts {
    dense: DenseQueries32,
    /// Of the open queries, one row after the other.
    pub coordinates: Vec<f32>,
    /// As many for each open query as [`SupportProducts::fill`] returns.
    pub values: Vec<f32>,
}

impl SupportProducts {
    pub(super) fn new(basis: &Basis) -> Self {
        let dense = DenseQueries32::new(basis.rows());
        Self { dense, coordinates: Vec::new(), values: Vec::new() }
    }

    /// Lets the open queries pay for the projection and for `beside`, projects those that can and multiplies
    /// them with the supports in the basis; returns how many numbers each query gets, or nothing if none is left.
    pub(super) fn fill(
        &mut self,
        (isa, basis, rotated): (Isa, &Basis, &Panels32),
        beside: u64,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
    ) -> Option<usize> {
        let size = basis.rows();
        if !basis.enter(isa, (0..size, beside), block, tracker) {
            return None;
        }
        self.coordinates.clear();
        let (open, known) = block.open_with_coordinates();
        for query in open {
            basis.read(known, *query, 0..size, &mut self.coordinates);
        }
        self.dense.clear();
        self.dense.push_rows(&self.coordinates, open.len(), size);
        let panels = 0..rotated.panels();
        let stride = rotated.lanes(panels.clone()).len();
        self.values.resize(open.len() * stride, 0.0);
        rotated.dots_dense(isa, &self.dense, panels, &mut self.values, stride);
        Some(stride)
    }
}
