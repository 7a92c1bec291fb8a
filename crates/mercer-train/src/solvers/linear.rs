//! `linear`: the solver of linear machines, like LIBLINEAR. This file only declares the parameters.

use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::SolverRef;
use crate::additive::FeatureMap;
use crate::linear::{BIAS, LINEAR_BINS, LinearSolver, PASSES, PENALTY, SEED, SPACE, Space};

/// Dual coordinate descent for linear machines (\[HCLKS08\]) on the values in f64; or, with bins, on values
/// quantised to a byte (`additive` with rank 1). For few columns and many examples Newton's method on the
/// weights is faster (`space=primal`). `penalty=l1` gives sparse weights. The result is a linear machine.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "linear",
    summary: "linear machines by dual coordinate descent, or by Newton's method (space=primal), or with an l1 penalty",
    parameters: &[LINEAR_BINS, SPACE, PENALTY, BIAS, SEED, PASSES],
    variadic: false,
    build: |checked| {
        let solver = LinearSolver::new(Spec::new("linear"), FeatureMap::Value, 256, checked);
        let is = |name: &str, word: &str| checked.spec(name).is_some_and(|w| w.name() == word);
        let space = if is("penalty", "l1") {
            Space::Lasso
        } else if is("space", "primal") {
            Space::Primal
        } else {
            Space::Dual
        };
        Ok(Arc::new(solver.within(space, checked.integer("passes") as u64)))
    },
};
