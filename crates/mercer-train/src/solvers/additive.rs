use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Method, Solver, SolverRef};
use crate::tables::{LevelsWanted, Map, Recipe};

/// Dual coordinate descent on look-up factors of any additive kernel.
///
/// Values become one of 255 levels, the scalar kernel on the levels becomes `Φ(s)·Φ(t)` by weighted kernel
/// principal components, and the linear machine in those numbers is the additive one: after \[YW12\], but
/// symmetric, so that there is a dual, a gap and the right curvature.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "additive",
    summary: "additive kernels at the cost of linear ones: values as bytes, the kernel as look-up factors",
    parameters: &[
        Parameter {
            name: "rank",
            kind: Kind::IntegerOr { low: 1, high: 16, word: "auto" },
            default: Some("auto"),
            help: "numbers per column and level; auto takes 4, 8 or 16 for an error of 1e-3",
        },
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
        let rank = checked.number("rank");
        let map = Map::Components { rank: rank.is_finite().then_some(rank as usize) };
        Ok(Arc::new(Additive(Recipe {
            name: "additive",
            map,
            levels: 256,
            wanted: LevelsWanted::named(checked.spec("levels").map_or("auto", |word| word.name())),
            bias: checked.number("bias"),
            seed: checked.integer("seed") as u64,
        })))
    },
};

#[derive(Debug)]
struct Additive(Recipe);

impl Solver for Additive {
    fn spec(&self) -> Spec {
        let Map::Components { rank } = self.0.map else { unreachable!("made of components") };
        let spec = Spec::new("additive");
        let spec = match rank {
            Some(rank) => spec.set("rank", rank as f64),
            None => spec.set("rank", "auto"),
        };
        self.0.finish_spec(spec)
    }

    fn method(&self) -> Method<'_> {
        Method::Tables(&self.0)
    }
}
