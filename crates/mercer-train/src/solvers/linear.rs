use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::SolverRef;
use crate::tables::{BIAS, LEVELS, Map, Recipe, SEED};

/// Dual coordinate descent for linear machines (\[HCLKS08\]) on values rounded to a byte: rank 1 of
/// `additive`. The machine is a plain linear one.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "linear",
    summary: "linear machines on values rounded to a byte, by dual coordinate descent",
    parameters: &[LEVELS, BIAS, SEED],
    variadic: false,
    build: |checked| Ok(Arc::new(Recipe::new(Spec::new("linear"), Map::Value, 256, checked))),
};
