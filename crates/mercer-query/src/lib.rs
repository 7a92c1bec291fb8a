//! How a machine's queries are answered: plans of stages, exact answers, decisions and what they cost. How a plan is fitted
//! to a machine is in `mercer_compile`.
//!
//! ```
//! use mercer_data::Matrix;
//! use mercer_machine::{Machine, Output, Score};
//! use mercer_query::{Certainty, Plan};
//! let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
//! let supports = Matrix::dense(1, vec![0.0, 3.0]).unwrap();
//! let scores = vec![Score::expansion(&[1.0, -1.0], 0.0)];
//! let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
//! let plan = Plan::exact(&machine);
//! let decisions = plan.decide(&Matrix::dense(1, vec![0.5]).unwrap()).unwrap();
//! assert_eq!(decisions[0].certainty, Certainty::Exact);
//! assert!(decisions[0].range.low > 0.0);
//! ```

mod attribute;
mod audit;
mod block;
mod block_state;
mod c;
mod certify;
mod coefficients;
mod cost_times;
mod decision;
mod entry;
mod error;
mod exact;
mod gather;
mod label_from_ranges;
mod linear_scores;
mod options;
mod plan;
mod rounding;
mod set_from_ranges;
mod sets;
mod stage;
mod stages;
mod tables;
mod tracker;
pub mod verify;
mod worker;

pub use attribute::{Attribution, Attributor, ExplainedScore, MAX_ATTRIBUTED_DEGREE, ScoreChoice};
pub use audit::{Audit, AuditError, AuditReport, Drawn};
pub use block::Block;
pub use c::{stages_without_c, write_c};
pub use certify::Proved;
pub use cost_times::CostTimes;
pub use decision::{Certainty, Cost, Decision, Interval};
pub use entry::{STAGES, StageEntry, entries};
pub use error::{LoadError, QueryError};
pub use exact::{Exact, ExactScratch};
pub use options::{Estimate, ExplanationStep, QueryOptions, Record, Require};
pub use plan::{Answers, Explanation, Plan};
pub use sets::{EmptySets, PredictionSet, SetDecision, SetOptions};
pub use stage::{Stage, StageSession};
pub use stages::NearestOrder;
pub use tables::{Binned, Tables};
pub use tracker::DecisionTracker;
pub use verify::{KnownPlans, LeftOut, LeftOutReason, PlanTrust};
pub use worker::Worker;
