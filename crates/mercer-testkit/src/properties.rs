//! What must hold of every registry entry.

pub mod block;
pub mod certify;
pub mod kernels;
