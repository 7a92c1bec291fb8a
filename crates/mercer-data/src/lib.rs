//! What an example is: rows, matrices, datasets and the readers that make them.
//!
//! Everything is checked here, at the door: values are finite, columns of sparse rows increase, shapes
//! agree. Behind it, functions take these types and cannot fail for shape reasons.

mod dataset;
mod error;
mod matrix;
pub mod read;
mod row;
pub mod scale;
pub mod synthetic;
pub mod write;

pub use dataset::{Dataset, Targets, draw, shuffled};
pub use error::DataError;
pub use matrix::{Matrix, MatrixBuilder};
pub use row::Row;
pub use scale::Scaling;
