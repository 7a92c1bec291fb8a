use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter};

use super::SolverRef;
use crate::lowrank::{How, LowRank, Precision, Rule, Systems};

/// An incomplete Cholesky factor of the Gram matrix, then coordinate descent or an interior point method on
/// its rows (\[FS01\]).
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "low_rank",
    summary: "a low-rank factor of the Gram matrix, then coordinate descent or interior points on its rows",
    parameters: &[
        Parameter {
            name: "rank",
            kind: Kind::IntegerOr { low: 1, high: 65536, word: "auto" },
            default: Some("auto"),
            help: "supports of the machine; auto doubles them until little is lost",
        },
        Parameter {
            name: "tolerance",
            kind: Kind::Number { low: 0.0, high: 1.0, closed: true },
            default: Some("0.01"),
            help: "share of the objective that may be lost where rank is auto",
        },
        Parameter {
            name: "pivots",
            kind: Kind::Word(Rule::WORDS),
            default: Some("auto"),
            help: "how supports are chosen",
        },
        Parameter {
            name: "method",
            kind: Kind::Word(How::WORDS),
            default: Some("auto"),
            help: "how the quadratic program over the factor is solved",
        },
        Parameter {
            name: "systems",
            kind: Kind::Word(Systems::WORDS),
            default: Some("split"),
            help: "how interior points solve their linear systems",
        },
        Parameter {
            name: "precision",
            kind: Kind::Word(Precision::WORDS),
            default: Some("auto"),
            help: "numbers of the factor",
        },
        Parameter {
            name: "guard",
            kind: Kind::Word(&["on", "off"]),
            default: Some("on"),
            help: "whether an exact machine on a part of the examples is trained beside; the better is kept",
        },
        Parameter {
            name: "seed",
            kind: Kind::Integer { low: 0, high: 1 << 40 },
            default: Some("1"),
            help: "what is drawn at random",
        },
    ],
    variadic: false,
    build: |checked| Ok(Arc::new(LowRank::new(checked))),
};
