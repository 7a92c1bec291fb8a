//! Integration tests of the crate, in one binary.

mod common;
mod maths;
mod narrow;
mod products;
mod records;
