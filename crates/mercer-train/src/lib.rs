//! Training of kernel machines: formulations (the problem), reductions (several classes become binary
//! subproblems) and solvers (the algorithm), with progress, limits, checkpoints and a duality gap that is
//! recomputed after the solver ends. Machines are used for prediction in `mercer-query`.
//!
//! ```
//! use mercer_train::{Training, formulation, train};
//! let data = mercer_data::synthetic::ripley(200, 1);
//! let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
//! let c_svc = formulation("c_svc(C=10)").unwrap();
//! let trained = train(&data, &kernel, &c_svc, &Training::default(), &mut |_| {}).unwrap();
//! assert!(trained.report.converged);
//! assert!(trained.report.gap < 1e-3 * trained.report.objective.abs());
//! ```

mod additive;
mod assemble;
mod backend;
mod checkpoint;
mod control;
pub mod decomposition;
mod digest;
mod dual_steps;
mod error;
mod formulations;
mod gram;
mod gram_backend;
mod labels;
mod linear;
mod low_rank;
mod optimality;
mod packed;
mod primal;
mod probability_calibration;
mod problem;
mod qp;
mod reduce;
mod report;
mod row_source;
mod scale_and_offset;
mod search;
mod solvers;
mod systems;
mod training;
mod update;
mod validate;
mod warm;

pub use additive::{BinPlacement, FactorReport, Nodes, PrintedPmsvm};
pub use checkpoint::Checkpoint;
pub use control::{Cancel, Progress, RoundProgress, Stop};
pub use dual_steps::{DualStep, DualStepOptions, common_step, dual_step, encode_rows};
pub use error::TrainError;
pub use formulations::{
    FORMULATIONS, Formulation, FormulationRef, Goal, ProblemForm, ScaleAndOffset, Subproblem,
    formulation,
};
pub use linear::{Duals, LinearReport, Loss};
pub use low_rank::{ApproximationReport, GuardReport, LowRankReport, PolishReport, Systems};
pub use optimality::Optimality;
pub use primal::{
    Attractor, PointStatus, PrimalReport, SparseDescent, SparseExpansion, same_hyperplane,
};
pub use probability_calibration::{Calibrator, calibrate_probabilities};
pub use qp::Qp;
pub use report::{Expansion, Report, SubproblemReport, Trained};
pub use row_source::RowSource;
pub use search::{Candidate, GridError, Search, SearchProgress, SearchResult, expand, search};
pub use solvers::{Direct, Method, SOLVERS, Solver, SolverRef, solver};
pub use systems::{System, SystemReport, is_system};
pub use training::{Training, train, train_rows};
pub use update::{UPDATE_GAP, Update, UpdateReport, Updated, WeightedRows, retrain, update};
pub use validate::{Folds, Measure, Validation, by_class, cross_validate};
