//! Component texts such as `rbf(gamma=0.5)`: parsing, printing and checking.
//!
//! A [`Spec`] is the text form of every kernel, solver, compressor, stage and contract. A [`Registry`]
//! lists the components of one kind; each [`Entry`] names its parameters with ranges and defaults, so
//! that help texts, errors and checks come from one definition.
//!
//! ```
//! use mercer_spec::Spec;
//! let spec: Spec = "normalized(polynomial(degree=2, coef0=1))".parse().unwrap();
//! assert_eq!(spec.name(), "normalized");
//! assert_eq!(spec.to_string(), "normalized(polynomial(degree=2, coef0=1))");
//! ```

mod check;
mod error;
mod nearest;
mod parse;
mod registry;
mod spec;

pub use check::Checked;
pub use error::SpecError;
pub use nearest::{nearest, suggestion};
pub use registry::{Entry, Kind, Parameter, Registry, signature};
pub use spec::{Spec, Value};
