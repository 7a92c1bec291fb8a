//! Test support: double-double references, generators, and properties over every registry entry.
//!
//! [`dd`] and [`wide`] are the reference arithmetic, [`reference`](mod@reference) slow kernels from their
//! definitions, [`pmsvm`] a paper's algorithms as printed, [`generate`] and [`machines`] test data,
//! [`properties`] what must hold, [`mutations`] damaged files for readers. Nothing here is shipped.

pub mod dd;
pub mod generate;
pub mod machines;
pub mod mutations;
pub mod pmsvm;
pub mod properties;
pub mod reference;
pub mod wide;

pub use dd::Dd;
pub use wide::Wide;
