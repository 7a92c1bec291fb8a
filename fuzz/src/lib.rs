//! The fuzz targets of `fuzz_targets/`, by name. What they do is in `bodies.rs`.

pub mod bodies;
