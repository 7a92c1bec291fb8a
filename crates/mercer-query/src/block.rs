//! A block: up to 256 queries that go through the stages together. The ranges of their scores are in
//! `block_state.rs`.

use mercer_data::{Matrix, Row};

use crate::Exact;
use crate::stages::Coordinates;
use crate::tracker::DecisionTracker;

/// 1 to 256 queries on their way through the stages.
#[derive(Debug)]
pub struct Block<'a> {
    rows: BlockRows<'a>,
    exact: &'a Exact,
    squared_norms: &'a [f64],
    open: &'a mut Vec<u32>,
    coordinates: &'a mut Coordinates,
}

/// The rows of a block: those of a matrix from `first` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRows<'a> {
    pub matrix: &'a Matrix,
    pub first: usize,
}

impl<'a> BlockRows<'a> {
    /// One query.
    pub(crate) fn row(&self, query: u32) -> Row<'a> {
        self.matrix.row(self.first + query as usize)
    }
}

impl<'a> Block<'a> {
    pub(crate) fn new(
        rows: BlockRows<'a>,
        exact: &'a Exact,
        squared_norms: &'a [f64],
        open: &'a mut Vec<u32>,
        coordinates: &'a mut Coordinates,
    ) -> Self {
        Self { rows, exact, squared_norms, open, coordinates }
    }

    /// Queries of the block, answered ones included.
    pub fn len(&self) -> usize {
        self.squared_norms.len()
    }

    /// Whether it has no queries.
    pub fn is_empty(&self) -> bool {
        self.squared_norms.is_empty()
    }

    /// One query.
    pub fn row(&self, query: u32) -> Row<'a> {
        self.rows.row(query)
    }

    /// The squared norm of a query, centred as the machine is, summed in any order: see
    /// [`mercer_kernel::block::Packed::loose_squared_norm`]. Only for stages that [need rounding bounds](crate::Stage::needs_rounding_bounds).
    pub fn squared_norm(&self, query: u32) -> f64 {
        self.squared_norms[query as usize]
    }

    /// Columns that matter to a query: those of the machine, or up to its last non-zero one.
    pub fn width(&self, query: u32) -> usize {
        self.exact.width(self.row(query))
    }

    /// Coordinates of the open queries that stages have computed so far.
    pub(crate) fn coordinates(&mut self) -> &mut Coordinates {
        self.coordinates
    }

    /// The rows of the block.
    pub(crate) fn rows(&self) -> BlockRows<'a> {
        self.rows
    }

    /// The open queries beside their coordinates.
    pub(crate) fn open_with_coordinates(&mut self) -> (&[u32], &mut Coordinates) {
        (self.open, self.coordinates)
    }

    /// The machine, packed.
    pub(crate) fn exact(&self) -> &'a Exact {
        self.exact
    }

    /// The open queries: those that are not answered yet.
    pub fn open(&self) -> &[u32] {
        self.open
    }

    /// Removes the queries that were answered meanwhile from the open ones.
    pub fn compact(&mut self, tracker: &DecisionTracker<'_>) {
        self.open.retain(|query| tracker.is_open(*query));
    }
}
