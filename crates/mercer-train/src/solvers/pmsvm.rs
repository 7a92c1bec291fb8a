//! `pmsvm`: PmSVM of Yang and Wu, for comparison with `additive`. This file only declares the parameters.

use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::SolverRef;
use crate::additive::{FeatureMap, Nodes};
use crate::linear::{BIAS, LinearSolver, SEED};

/// PmSVM of \[YW12\]: the kernel is interpolated in one of its arguments at 0.01, 0.06 and 0.75 by a polynomial of
/// degree 2 in `ln(x + 0.05)`.
///
/// Differs from the paper: it computes logarithms and kernel values for each non-zero; here they come from a table
/// of 65,535 bins, whose steps are smaller than the rounding errors of the f32 values that the paper uses.
/// Algorithm 3 of the paper omits the labels and the constant. The interpolated kernel is not symmetric, so there is
/// no dual problem and no gap is reported.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "pmsvm",
    summary: "PmSVM of Yang and Wu: kernel interpolation at three nodes; for comparison",
    parameters: &[BIAS, SEED],
    variadic: false,
    build: |checked| {
        let map = FeatureMap::Polynomial { degree: 2, nodes: Nodes::AdHoc };
        Ok(Arc::new(LinearSolver::new(Spec::new("pmsvm"), map, 1 << 16, checked)))
    },
};
