//! Kernel machines that answer fast, with the same decisions.
//!
//! > **Data** become **kernel** values; **training** turns them into a **machine**; a **query** runs a
//! > **plan** and returns a **decision**: label, range, certainty, cost.
//!
//! Each part is a crate of its own; this crate re-exports them.
//!
//! ```
//! use mercer::{data::Matrix, machine::file, query::Plan};
//!
//! // A model as LIBSVM's svm-train writes it.
//! let text = b"svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\n\
//!     label 1 -1\nnr_sv 1 1\nSV\n1 1:1 \n-1 1:-1 2:0.5 \n";
//! let model = file::from_bytes(text)?;
//! let plan = Plan::exact(&model.machine);
//! let queries = Matrix::dense(2, vec![0.9, 0.1, -1.2, 0.4])?;
//! for decision in plan.decide(&queries)? {
//!     println!("{:?} in {:?}", decision.answer, decision.range);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod printf;
pub mod svm_train;
pub mod threads;

pub use mercer_compile as compile;
pub use mercer_compile::tune;
pub use mercer_data as data;
pub use mercer_kernel as kernel;
pub use mercer_machine as machine;
pub use mercer_query as query;
pub use mercer_simd as simd;
pub use mercer_spec as spec;
pub use mercer_train as train;
