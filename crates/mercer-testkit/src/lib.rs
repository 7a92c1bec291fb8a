//! Is it true: double-double references, generators and laws over every registry entry.
//!
//! [`dd`] and [`wide`] are the arithmetic, [`reference`](mod@reference) the definitions written down
//! once more without haste, [`pmsvm`] a paper's algorithms as printed, [`generate`] the rows to try them on, [`laws`] what must hold, [`mutations`]
//! the damage that readers must survive.

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
