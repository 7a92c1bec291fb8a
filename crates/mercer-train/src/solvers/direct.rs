//! `direct`: parameters of the solver of linear systems. The algorithm is in `systems/`.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Method, Solver, SolverRef};

/// Linear systems over all examples: a Cholesky factor of the whole kernel matrix for few examples, else a
/// low-rank factor by pivoted Cholesky (the next pivot is the example farthest from the span of the pivots).
///
/// A low-rank machine is the best one in the span of its pivots; the pivots are its supports.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "direct",
    summary: "linear systems (ls_svm, fisher, ridge): Cholesky for few examples, a low-rank factor for many",
    parameters: &[
        Parameter {
            name: "rank",
            kind: Kind::IntegerOr { low: 1, high: 100_000, word: "auto" },
            default: Some("auto"),
            help: "rank of the factor; auto solves the full system for few examples, else takes a rank that fits in memory",
        },
        Parameter {
            name: "dense",
            kind: Kind::Integer { low: 0, high: 200_000 },
            default: Some("6000"),
            help: "largest number of examples for which auto solves the full system, if the matrix fits in memory",
        },
    ],
    variadic: false,
    build: |checked| {
        let rank = checked.number("rank");
        let rank = rank.is_finite().then_some(rank as usize);
        Ok(Arc::new(Direct { rank, dense: checked.integer("dense") as usize }))
    },
};

/// Parameters of the solver `direct`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direct {
    pub(crate) rank: Option<usize>,
    pub(crate) dense: usize,
}

/// The rank that `auto` takes for many examples, if memory allows.
const RANK: usize = 1000;

impl Direct {
    /// Rank of the factor; `None` for the full kernel matrix.
    pub(crate) fn rank_of(&self, examples: usize, memory: usize) -> Option<usize> {
        let fits = 8 * examples.saturating_mul(examples) <= memory;
        match self.rank {
            Some(rank) => Some(rank.min(examples)),
            None if fits && examples <= self.dense => None,
            // The factor and a weighted copy of it, both in f64.
            None => Some(RANK.min(memory / (16 * examples.max(1))).max(1)),
        }
    }
}

impl Solver for Direct {
    fn spec(&self) -> Spec {
        let spec = Spec::new("direct");
        let spec = match self.rank {
            Some(rank) => spec.set("rank", rank as f64),
            None => spec.set("rank", "auto"),
        };
        spec.set("dense", self.dense as f64)
    }

    fn method(&self) -> Method<'_> {
        Method::Systems(self)
    }
}
