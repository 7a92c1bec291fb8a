//! All integration tests of training in one binary; one module for each subject.

mod additive;
mod clarabel;
mod common;
mod control;
mod decomposition;
mod hard_cases;
mod interior;
mod libsvm;
mod linear_checkpoints;
mod linear_l1;
mod low_rank;
mod paper_solvers;
mod primal;
mod systems;
mod update;
mod validate;
