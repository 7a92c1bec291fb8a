//! Packed examples of linear and additive solvers: rows of columns and cells, in memory or in a temporary file.
//! What the cells mean (values, bins) is decided by the solvers.

mod columns;
mod store;

pub(crate) use columns::{ColumnOrder, ColumnPlaces};
pub(crate) use store::{ExampleStore, MAX_CHUNKS_IN_MEMORY, MemoryBudget, RecordShape, Writer};

use crate::TrainError;
use crate::row_source::RowSource;

/// Rows to pack, with the class of each example and the place of each column.
#[derive(Clone, Copy)]
pub(crate) struct RowsToPack<'r> {
    pub(crate) source: &'r dyn RowSource,
    /// Examples to pack, increasing.
    pub(crate) rows: &'r [u32],
    /// The class of each example of the source; empty without classes.
    pub(crate) classes: &'r [u32],
    pub(crate) columns: &'r ColumnOrder,
    pub(crate) places: &'r ColumnPlaces,
}

impl RowsToPack<'_> {
    /// The class of an example; 0 without classes.
    pub(crate) fn class_of(&self, example: u32) -> u32 {
        self.classes.get(example as usize).copied().unwrap_or(0)
    }
}

/// Squares of values must be numbers that f32 holds.
pub(crate) fn check_range(largest: f64) -> Result<(), TrainError> {
    if largest > 1e15 || (largest > 0.0 && largest < 1e-15) {
        return Err(TrainError::BinRange { value: largest });
    }
    Ok(())
}

/// The error for rows that do not fit into one store.
pub(crate) fn full() -> TrainError {
    TrainError::TooLarge { what: "packed examples", limit: "16 GiB" }
}
