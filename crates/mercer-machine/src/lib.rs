//! What was learned: machines, the vote, and the files that hold them.
//!
//! A [`Machine`] is a value: distinct supports, one real function per binary question, and what the
//! answers mean. One sign convention everywhere: `f = Σ β K − b`; LIBSVM's ρ is `b`.

mod error;
pub mod file;
mod grid;
mod machine;
mod model;
mod plan;
mod probability;
mod score;
mod tuning;
mod vote;

pub use error::MachineError;
pub use grid::{Grid, Spacing};
pub use machine::{Machine, Output, Scheme};
pub use model::{Curve, Input, Model, Parent, Probabilities, Provenance};
pub use plan::{Array, Calibration, Counts, PlanSections, Scale, Section};
pub use score::{ClassName, Score};
pub use tuning::{Budget, Refusal, SampleParts, Settled, Speed, Trial, Tuning, Verification};
pub use vote::{Answer, Verdict, VoteBounds, pairs, pairs_with};
