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

mod assemble;
mod checkpoint;
mod control;
mod error;
mod formulations;
mod gram;
mod labels;
mod lowrank;
mod optimality;
mod probability_calibration;
mod qp;
mod reduce;
mod report;
mod search;
mod solvers;
mod systems;
mod tables;
mod training;
mod validate;
mod warm;

pub use checkpoint::Checkpoint;
pub use control::{Cancel, Progress, Stop};
pub use error::TrainError;
pub use formulations::{
    Conclusion, FORMULATIONS, Formulation, FormulationRef, Goal, Subproblem, formulation,
};
pub use lowrank::{GuardReport, LostReport, LowRankReport, PolishReport, Systems};
pub use optimality::Optimality;
pub use probability_calibration::{Calibrator, calibrate_probabilities};
pub use qp::Qp;
pub use report::{Expansion, Report, SubproblemReport, Trained};
pub use search::{Candidate, Found, GridError, Search, SearchProgress, expand, search};
pub use solvers::{Direct, Method, SOLVERS, Solver, SolverRef, solver};
pub use systems::{System, SystemReport, is_system};
pub use tables::{BinPlacement, Duals, FactorReport, LinearReport, Loss, Nodes, Rows};
pub use training::{Training, train, train_rows};
pub use validate::{Folds, Measure, Validation, by_class, cross_validate};
