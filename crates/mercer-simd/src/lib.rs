//! Vectorised inner loops: packed panels, dot products, exp and log over slices.
//!
//! # Same bits everywhere
//!
//! Every function here gives the same bits on every instruction set, for every batch size, and for
//! sparse and dense rows. A dot product is one chain of fused multiply-adds in column order; vectors
//! run across rows, never across columns. Elementary functions have a fixed order of operations.
//! Rows must be finite: skipping a zero column would hide `0 · ∞`.
//!
//! # How to read
//!
//! [`Isa`] names the instruction set and is the proof that the processor has it. Each algorithm is
//! written once as a task over the vector traits of `vector.rs` and compiled for each set by a
//! wrapper in `scalar.rs` (the specification), `avx2.rs` and `avx512.rs`.

mod aligned;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bin_mapper;
mod bytes;
mod chains;
mod compact;
mod compensated;
pub mod factors;
mod integrals;
mod isa;
mod kernel_rows;
mod logistic;
mod maths;
mod maths32;
mod moments;
mod monomials;
mod pages;
mod pair_steps;
mod panels;
mod product;
mod projection;
mod queries;
mod real;
mod scalar;
mod score_table;
mod slices;
mod sums;
mod sums32;
mod terms;
mod tile;
mod vector;

pub use bin_mapper::BinMapper;
pub use bytes::{BytePanels, ByteQueries, byte_sums};
pub use chains::ChainWeights;
pub use compact::{NO_ROW, compact};
pub use compensated::{CompensatedSums, subtract_rows};
pub use integrals::{QuadratureRule, product_integrals};
pub use isa::Isa;
pub use kernel_rows::{add_rows, weighted_sum};
pub use logistic::logistic;
pub use maths::{
    EXP_RELATIVE_ERROR, LN_RELATIVE_ERROR, TANH_RELATIVE_ERROR, distance1, exp1, gaussian1, ln1,
    polynomial1, powi1, tanh1,
};
pub use maths32::{
    EXP2_32_RELATIVE_ERROR, EXP32_RELATIVE_ERROR, codes, distance1_32, distances32, exp1_32,
    exp2_1_32, exp32, gaussian_steps32, gaussian1_32, gaussian32, widen,
};
pub use moments::{Moments, moments};
pub use monomials::{Factor, monomials};
pub use pages::large_pages;
pub use pair_steps::{BoxVariables, Extremes, PairCurvature, add_difference, best_partner};
pub use panels::{LANES32, LANES64, Panels, Panels32, Panels64};
pub use product::{ProductShape, Strided, StridedMut, gemm_nt, gemm_nt32};
pub use projection::{ColumnIndex, Strip, Weight, quadratic32};
pub use queries::{
    DenseQueries, DenseQueries32, DenseQueries64, SparseQueries, SparseQueries32, SparseQueries64,
};
pub use real::{Real, add_row, chain, row_dot, scale_row};
pub use score_table::{BinnedRows, ScoreTable, TableShape, sum_entries};
pub use slices::{distances, exp, gaussian, ln, polynomial, sqrt, tanh};
pub use sums::{dot, dot_sparse, fold8, scatter_column, scattered_sums, weighted_sums};
pub use sums32::weighted_sums32;
pub use terms::{LEAST_POWER, Term};
