//! Kernels, their registry, the evaluation of blocks of kernel values, and pivoted factors of Gram matrices.
//!
//! A kernel is one file in `families/` and one line in [`KERNELS`]. Its [`Form`] says how
//! it is computed, so that no other code depends on families: blocks of [`Form::Dot`] and [`Form::Shift`]
//! kernels are one product on packed panels and one elementwise pass; additive ones walk columns.
//!
//! ```
//! use mercer_data::Row;
//! let kernel = mercer_kernel::parse("rbf(gamma=0.5)").unwrap();
//! let (u, v) = (Row::Dense(&[1.0, 0.0]), Row::Dense(&[0.0, 1.0]));
//! assert!((kernel.value(u, v) - (-1.0f64).exp()).abs() < 1e-15);
//! ```

pub mod block;
pub mod bound;
pub mod cholesky;
pub mod eigen;
pub mod factor;
mod families;
mod form;
mod gamma;
mod gram;
mod kernel;
mod live;
pub mod monomials;
pub mod triangle;

pub use families::KERNELS;
pub use form::{Curve, ExponentialForm, Finish, Form, Profile, Term};
pub use gamma::fit_words;
pub use gram::Gram;
pub use kernel::{Domain, Kernel, KernelRef, parse};
