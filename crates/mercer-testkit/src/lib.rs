//! Test support: double-double references, generators, and properties over every registry entry.
//!
//! [`dd`] and [`wide`] are the reference arithmetic, [`precise`] another one that shares nothing with them,
//! [`reference`](mod@reference) slow kernels from their definitions, [`pmsvm`] a paper's algorithms as printed,
//! [`generate`] and [`machines`] test data, [`attack`] machines and queries of extreme scales with their true scores,
//! [`properties`] what must hold, [`mutations`] damaged files for readers, [`names`] adversarial texts for writers.
//! Nothing here is shipped.

pub mod attack;
pub mod dd;
pub mod generate;
pub mod machines;
pub mod mutations;
pub mod names;
pub mod pmsvm;
pub mod precise;
pub mod properties;
pub mod real;
pub mod reference;
pub mod wide;

pub use dd::Dd;
pub use precise::Precise;
pub use real::Real;
pub use wide::Wide;
