//! Trained machines, the vote of multi-class machines, and model files.
//!
//! A [`Machine`] holds distinct supports, one score (a real function) per binary subproblem, and what the
//! scores mean. One sign convention everywhere: `f = Σ β K − b`; LIBSVM's ρ is `b`. Training is in
//! `mercer-train`, prediction in `mercer-query`.

mod bins;
mod conformal;
mod error;
pub mod file;
mod machine;
mod model;
mod plan;
mod probability;
mod score;
mod training_rows;
mod tuning;
mod vote;

pub use bins::{Bins, Spacing};
pub use conformal::{Conformal, nonconformity};
pub use error::MachineError;
pub use machine::{Machine, Output, Scheme, can_be_centred};
pub use model::{Curve, Input, Model, Parent, Probabilities, Provenance};
pub use plan::{Array, Calibration, Counts, PlanSections, Scale, Section};
pub use probability::couple;
pub use score::{ClassName, Score};
pub use training_rows::TrainingRows;
pub use tuning::{
    Budget, CostTime, Refusal, SampleParts, SettledByStage, Speed, Trial, Tuning, Verification,
};
pub use vote::{Answer, Verdict, VoteBounds, pairs, pairs_with};
