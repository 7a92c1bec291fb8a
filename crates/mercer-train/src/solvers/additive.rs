use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::SolverRef;
use crate::tables::{BIAS, LEVELS, Map, Recipe, SEED};

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
            help: "numbers per column and level; auto takes 4, 8 or 16 for an error of 1e-3, and an exact table for intersection",
        },
        LEVELS,
        BIAS,
        SEED,
    ],
    variadic: false,
    build: |checked| {
        let rank = checked.number("rank");
        let rank = rank.is_finite().then_some(rank as usize);
        let spec = Spec::new("additive");
        let spec = match rank {
            Some(rank) => spec.set("rank", rank as f64),
            None => spec.set("rank", "auto"),
        };
        Ok(Arc::new(Recipe::new(spec, Map::Components { rank }, 256, checked)))
    },
};
