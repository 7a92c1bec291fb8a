//! Properties of every registry entry; each function returns where one fails.

pub mod block;
pub mod certify;
pub mod kernels;
