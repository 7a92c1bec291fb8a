//! Kernel values of blocks of queries against rows that were packed once.
//!
//! The values have the bits of [`crate::Kernel::value`] on the centred rows, whatever the block, the
//! instruction set, and the storage of either side.

mod coded;
mod inverted;
mod packed;
mod packed_f32;
mod panel_store;
mod queries;

pub use coded::{Coded, CodedQueries, CodedQuery, CodedTile, Grid, off_grid};
pub use packed::{Packed, Tile};
pub use packed_f32::{PackedF32, QueriesF32, TileF32};
pub use queries::Queries;

/// Queries per block: enough to reuse each panel from the nearest cache, few enough that a tile of values
/// stays in the next one.
pub const BLOCK: usize = 256;
