//! What must hold of every registry entry.

pub mod block;
pub mod kernels;
