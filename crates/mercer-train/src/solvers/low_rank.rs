//! `low_rank`: declares the parameters of the low-rank solver. The algorithm is in `low_rank/`.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter};

use super::SolverRef;
use crate::low_rank::{How, LowRank, MOST_RANK, Precision, Rule, Systems};

/// An incomplete Cholesky factor of the Gram matrix, then coordinate descent or an interior point method on
/// the rows of the factor (\[FS01\]).
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "low_rank",
    summary: "a low-rank factor of the Gram matrix, then coordinate descent or an interior point method",
    parameters: &[
        Parameter {
            name: "rank",
            kind: Kind::IntegerOr { low: 1, high: MOST_RANK as i64, word: "auto" },
            default: Some("auto"),
            help: "rank of the factor and number of supports; auto multiplies it by two until the loss is below tolerance",
        },
        Parameter {
            name: "trace",
            kind: Kind::Number { low: 0.0, high: f64::MAX, closed: true },
            default: Some("0"),
            help: "trace of K - GG' at which the factor stops growing, whatever the rank up to a given one; 0: no such bound",
        },
        Parameter {
            name: "tolerance",
            kind: Kind::Number { low: 0.0, high: 1.0, closed: true },
            default: Some("0.01"),
            help: "with rank=auto: accepted loss of the approximation, relative to the objective",
        },
        Parameter {
            name: "pivots",
            kind: Kind::Word(Rule::WORDS),
            default: Some("auto"),
            help: "how the pivots, which become the supports, are chosen",
        },
        Parameter {
            name: "method",
            kind: Kind::Word(How::WORDS),
            default: Some("auto"),
            help: "algorithm for the quadratic program over the factor; printed: the interior point method exactly as in the paper",
        },
        Parameter {
            name: "systems",
            kind: Kind::Word(Systems::WORDS),
            default: Some("split"),
            help: "how the interior point method solves its linear systems",
        },
        Parameter {
            name: "precision",
            kind: Kind::Word(Precision::WORDS),
            default: Some("auto"),
            help: "floating-point type of the factor",
        },
        Parameter {
            name: "guard",
            kind: Kind::Word(&["on", "off"]),
            default: Some("on"),
            help: "whether to compare with an exact machine trained on a subset of the examples, and keep the better one",
        },
        Parameter {
            name: "seed",
            kind: Kind::Integer { low: 0, high: 1 << 40 },
            default: Some("1"),
            help: "seed of the random numbers",
        },
    ],
    variadic: false,
    build: |checked| Ok(Arc::new(LowRank::new(checked))),
};
