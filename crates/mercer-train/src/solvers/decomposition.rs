//! `decomposition`: declares the parameters. The algorithm is in `decomposition/`.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter};

use super::SolverRef;
use crate::decomposition::Decomposition;

/// Rounds over working sets of thousands of examples, each solved in changes by `smo`; kernel values are never kept
/// for all examples.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "decomposition",
    summary: "the machine of smo, in rounds over working sets of thousands of examples: for many examples, many at bound",
    parameters: &[
        Parameter {
            name: "working_set",
            kind: Kind::Integer { low: 16, high: 1_000_000 },
            default: Some("10000"),
            help: "examples solved together in one round, at most",
        },
        Parameter {
            name: "inner",
            kind: Kind::Word(&["smo", "low_rank"]),
            default: Some("smo"),
            help: "the solver of a working set; low_rank: an interior point method on a low-rank factor, until smo is needed",
        },
        Parameter {
            name: "start",
            kind: Kind::Word(&["kmeans", "zero"]),
            default: Some("kmeans"),
            help: "whether the first round solves clusters of examples alone",
        },
        Parameter {
            name: "gap",
            kind: Kind::Number { low: 0.0, high: 1.0, closed: true },
            default: Some("0"),
            help: "ends at this duality gap of all examples, relative to the objective; 0: only at the tolerance",
        },
        Parameter {
            name: "seed",
            kind: Kind::Integer { low: 0, high: 1 << 32 },
            default: Some("1"),
            help: "seed of the random numbers",
        },
    ],
    variadic: false,
    build: |checked| Ok(Arc::new(Decomposition::new(checked))),
};
