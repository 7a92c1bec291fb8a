use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Method, Solver, SolverRef};

/// Linear systems over all examples: Cholesky's factor of all kernel values while they are few, a low-rank
/// factor (pivoted Cholesky, the example farthest from the span of those chosen comes next) beyond.
///
/// A machine of low rank is the best one in the span of its pivots, which are its supports.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "direct",
    summary: "linear systems (ls_svm, fisher, ridge): Cholesky, or a low-rank factor of many examples",
    parameters: &[
        Parameter {
            name: "rank",
            kind: Kind::IntegerOr { low: 1, high: 100_000, word: "auto" },
            default: Some("auto"),
            help: "pivots of the low-rank factor; auto takes all kernel values of few examples",
        },
        Parameter {
            name: "dense",
            kind: Kind::Integer { low: 0, high: 200_000 },
            default: Some("6000"),
            help: "examples up to which auto takes all kernel values, if memory holds them",
        },
    ],
    variadic: false,
    build: |checked| {
        let rank = checked.number("rank");
        let rank = rank.is_finite().then_some(rank as usize);
        Ok(Arc::new(Direct { rank, dense: checked.integer("dense") as usize }))
    },
};

/// How a linear system is solved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direct {
    pub(crate) rank: Option<usize>,
    pub(crate) dense: usize,
}

/// Pivots that `auto` takes beyond few examples.
const RANK: usize = 1000;

impl Direct {
    /// Pivots of the factor; `None` for all kernel values.
    pub(crate) fn rank_of(&self, examples: usize, memory: usize) -> Option<usize> {
        let fits = 8 * examples.saturating_mul(examples) <= memory;
        match self.rank {
            Some(rank) => Some(rank.min(examples)),
            None if fits && examples <= self.dense => None,
            // The factor and a copy of it that carries the weights.
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
        Method::System(self)
    }
}
