//! `primal`: declares the parameters of the primal reformulation. The algorithm is in `primal/`.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter};

use super::SolverRef;
use crate::primal::{Attractor, Primal};

/// The primal reformulation of \[OG98\]: the W of the dual problem from free coefficients, fewer where the Gram matrix
/// is rank-deficient.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "primal",
    summary: "the machine of smo with free coefficients: fewer vectors where the Gram matrix is rank-deficient",
    parameters: &[
        Parameter {
            name: "penalty",
            kind: Kind::Word(Attractor::WORDS),
            default: Some("l1"),
            help: "coefficients that are drawn to zero: all, those of points off the margin, those of misclassified points",
        },
        Parameter {
            name: "lambda",
            kind: Kind::Number { low: 1e-12, high: 1.0, closed: true },
            default: Some("1e-4"),
            help: "where the annealing ends before the penalty is dropped, relative to the largest |f|",
        },
    ],
    variadic: false,
    build: |checked| Ok(Arc::new(Primal::new(checked))),
};
