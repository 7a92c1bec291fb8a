use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::SolverRef;
use crate::tables::{BIAS, LINEAR_LEVELS, Map, PASSES, PENALTY, Recipe, SEED, SPACE, Space};

/// Dual coordinate descent for linear machines (\[HCLKS08\]) in doubles, on values as they are; or, with
/// levels, on values rounded to a byte: rank 1 of `additive`. Few columns and many examples are better served
/// by Newton's method on the weights (`space=primal`); `penalty=l1` brings weights to zero. The machine is a
/// plain linear one.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "linear",
    summary: "linear machines by dual coordinate descent",
    parameters: &[LINEAR_LEVELS, SPACE, PENALTY, BIAS, SEED, PASSES],
    variadic: false,
    build: |checked| {
        let recipe = Recipe::new(Spec::new("linear"), Map::Value, 256, checked);
        let is = |name: &str, word: &str| checked.spec(name).is_some_and(|w| w.name() == word);
        let space = if is("penalty", "l1") {
            Space::Lasso
        } else if is("space", "primal") {
            Space::Primal
        } else {
            Space::Dual
        };
        Ok(Arc::new(recipe.within(space, checked.integer("passes") as u64)))
    },
};
