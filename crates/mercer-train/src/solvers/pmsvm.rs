use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::SolverRef;
use crate::tables::{BIAS, Map, Nodes, Recipe, SEED};

/// PmSVM of \[YW12\]: one-sided interpolation of the kernel at 0.01, 0.06 and 0.75 by a polynomial of degree
/// 2 in `ln(x + 0.05)`.
///
/// The paper computes logarithms and kernel values of each non-zero; here they are looked up on 65,535
/// levels, whose steps are below the rounding of singles the paper uses. What the paper leaves out: labels
/// and the constant in its algorithm 3, and that an asymmetric kernel has no dual, so no gap is reported.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "pmsvm",
    summary: "PmSVM of Yang and Wu: interpolation at three nodes; for comparison",
    parameters: &[BIAS, SEED],
    variadic: false,
    build: |checked| {
        let map = Map::Polynomial { degree: 2, nodes: Nodes::AdHoc };
        Ok(Arc::new(Recipe::new(Spec::new("pmsvm"), map, 1 << 16, checked)))
    },
};
