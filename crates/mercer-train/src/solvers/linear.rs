use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::SolverRef;
use crate::tables::{BIAS, LINEAR_LEVELS, Map, PASSES, Recipe, SEED, SPACE, Space};

/// Dual coordinate descent for linear machines (\[HCLKS08\]) in doubles, on values as they are; or, with
/// levels, on values rounded to a byte: rank 1 of `additive`. Few columns and many examples are better served
/// by Newton's method on the weights (`space=primal`). The machine is a plain linear one.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "linear",
    summary: "linear machines by dual coordinate descent",
    parameters: &[LINEAR_LEVELS, SPACE, BIAS, SEED, PASSES],
    variadic: false,
    build: |checked| {
        let recipe = Recipe::new(Spec::new("linear"), Map::Value, 256, checked);
        let is_primal = checked.spec("space").is_some_and(|word| word.name() == "primal");
        let space = if is_primal { Space::Primal } else { Space::Dual };
        Ok(Arc::new(recipe.within(space, checked.integer("passes") as u64)))
    },
};
