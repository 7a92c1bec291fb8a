//! Matrices, datasets, scalings, and readers and writers of data files.
//!
//! Input is checked once, when these types are built: values are finite, columns of sparse rows increase,
//! shapes agree. Functions that take these types do not check again. Model files are in `mercer-machine`.

mod caught;
mod dataset;
mod error;
pub mod limits;
mod live_columns;
mod matrix;
pub mod read;
mod row;
pub mod scale;
pub mod synthetic;
pub mod write;

pub use caught::caught;
pub use dataset::{Dataset, Targets, draw, label_number, shuffled};
pub use error::DataError;
pub use live_columns::LiveColumns;
pub use matrix::{Matrix, MatrixBuilder, not_finite};
pub use row::Row;
pub use scale::Scaling;
