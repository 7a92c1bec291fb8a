use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Method, Solver, SolverRef};
use crate::tables::{LevelsWanted, Map, Recipe};

/// The feature map of \[VZ12\] for homogeneous kernels, as look-up factors: the baseline of \[YW12\].
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "feature_map",
    summary: "additive kernels by the feature map of Vedaldi and Zisserman",
    parameters: &[
        Parameter {
            name: "dims",
            kind: Kind::Integer { low: 1, high: 15 },
            default: Some("3"),
            help: "numbers per column, odd",
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
        let dims = checked.integer("dims") as usize;
        if dims.is_multiple_of(2) {
            return Err(checked.refuse("dims must be odd: one number, then pairs"));
        }
        let map = Map::Fourier { dims };
        Ok(Arc::new(FeatureMap(Recipe {
            name: "feature_map",
            map,
            levels: 256,
            wanted: LevelsWanted::named(checked.spec("levels").map_or("auto", |word| word.name())),
            bias: checked.number("bias"),
            seed: checked.integer("seed") as u64,
        })))
    },
};

#[derive(Debug)]
struct FeatureMap(Recipe);

impl Solver for FeatureMap {
    fn spec(&self) -> Spec {
        let Map::Fourier { dims } = self.0.map else { unreachable!("made of waves") };
        self.0.finish_spec(Spec::new("feature_map").set("dims", dims as f64))
    }

    fn method(&self) -> Method<'_> {
        Method::Tables(&self.0)
    }
}
