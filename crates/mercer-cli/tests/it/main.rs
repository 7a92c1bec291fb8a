//! Tests of the command `mercer`: each starts the built program, so they can share one test binary.
//!
//! One module per topic; helpers are in `common.rs`. The numbers of papers are tested in `mercer-papers`.

mod adversarial;
mod agreement;
mod attribute;
mod calibrated;
mod commands;
mod common;
mod compress;
mod crafted;
mod damage;
mod demo;
mod errors;
mod faults;
mod file_rows;
mod formats;
mod guide;
mod help;
mod json;
mod libsvm;
mod libsvm_checks;
mod outputs;
mod reproduce;
mod round_trips;
mod scaling;
mod serve;
mod sets;
mod shell;
mod streams;
mod targets;
mod training;
mod trust;
mod tune;
mod update;
