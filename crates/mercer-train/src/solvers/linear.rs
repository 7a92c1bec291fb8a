use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::SolverRef;
use crate::tables::{BIAS, LINEAR_LEVELS, Map, PASSES, Recipe, SEED};

/// Dual coordinate descent for linear machines (\[HCLKS08\]) in doubles, on values as they are; or, with
/// levels, on values rounded to a byte: rank 1 of `additive`. The machine is a plain linear one.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "linear",
    summary: "linear machines by dual coordinate descent",
    parameters: &[LINEAR_LEVELS, BIAS, SEED, PASSES],
    variadic: false,
    build: |checked| {
        let recipe = Recipe::new(Spec::new("linear"), Map::Value, 256, checked);
        Ok(Arc::new(recipe.passes(checked.integer("passes") as u64)))
    },
};
