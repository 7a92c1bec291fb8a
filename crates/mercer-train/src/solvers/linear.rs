use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Method, Solver, SolverRef};
use crate::tables::{LevelsWanted, Map, Recipe};

/// Dual coordinate descent for linear machines (\[HCLKS08\]) on values rounded to a byte: rank 1 of
/// `additive`. The machine is a plain linear one.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "linear",
    summary: "linear machines on values rounded to a byte, by dual coordinate descent",
    parameters: &[
        Parameter {
            name: "levels",
            kind: Kind::Word(LevelsWanted::WORDS),
            default: Some("auto"),
            help: "where the levels of values lie",
        },
        Parameter {
            name: "bias",
            kind: Kind::Number { low: 0.0, high: 1e6, closed: true },
            default: Some("1"),
            help: "value of a constant column; 0 for none",
        },
        Parameter {
            name: "seed",
            kind: Kind::Integer { low: 0, high: 1 << 40 },
            default: Some("1"),
            help: "order in which examples are visited",
        },
    ],
    variadic: false,
    build: |checked| {
        let map = Map::Value;
        Ok(Arc::new(Linear(Recipe {
            name: "linear",
            map,
            levels: 256,
            wanted: LevelsWanted::named(checked.spec("levels").map_or("auto", |word| word.name())),
            bias: checked.number("bias"),
            seed: checked.integer("seed") as u64,
        })))
    },
};

#[derive(Debug)]
struct Linear(Recipe);

impl Solver for Linear {
    fn spec(&self) -> Spec {
        self.0.finish_spec(Spec::new("linear"))
    }

    fn method(&self) -> Method<'_> {
        Method::Tables(&self.0)
    }
}
