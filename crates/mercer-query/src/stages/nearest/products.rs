//! Products of queries with the supports in the directions of a basis, from which approximate kernel values follow.

use mercer_simd::{DenseQueries32, Isa, Panels32};

use super::super::coordinates::Basis;
use crate::block::Block;
use crate::tracker::DecisionTracker;

/// Products of queries with the supports in all directions of a basis.
#[derive(Debug)]
pub(super) struct SupportProducts {
    dense: DenseQueries32,
    /// Of the open queries, one row after the other.
    pub coordinates: Vec<f32>,
    /// As many for each open query as [`SupportProducts::fill`] returns.
    pub values: Vec<f32>,
}

/// A basis, and the coordinates of the supports in it.
#[derive(Debug)]
pub(super) struct RotatedSupports {
    pub isa: Isa,
    pub basis: Basis,
    pub panels: Panels32,
}

impl SupportProducts {
    pub(super) fn new(basis: &Basis) -> Self {
        let dense = DenseQueries32::new(basis.rows());
        Self { dense, coordinates: Vec::new(), values: Vec::new() }
    }

    /// Charges the projection and `other_cost`, projects the queries that stay open and multiplies them with the supports
    /// in the basis; returns how many numbers each query gets, or nothing if no query is open.
    pub(super) fn fill(
        &mut self,
        supports: &RotatedSupports,
        other_cost: u64,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
    ) -> Option<usize> {
        let RotatedSupports { isa, basis, panels: rotated } = supports;
        let size = basis.rows();
        if !basis.charge_and_project(*isa, 0..size, other_cost, block, tracker) {
            return None;
        }
        self.coordinates.clear();
        let (open, computed) = block.open_with_coordinates();
        for query in open {
            basis.read(computed, *query, 0..size, &mut self.coordinates);
        }
        self.dense.clear();
        self.dense.push_rows(&self.coordinates, open.len(), size);
        let panels = 0..rotated.panels();
        let stride = rotated.lanes(panels.clone()).len();
        self.values.resize(open.len() * stride, 0.0);
        rotated.dots_dense(*isa, &self.dense, panels, &mut self.values, stride);
        Some(stride)
    }
}
