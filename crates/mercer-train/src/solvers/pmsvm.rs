//! `pmsvm`: PmSVM of Yang and Wu, for comparison with `additive`. This file only declares the parameters.

use std::sync::Arc;

use mercer_spec::{Checked, Entry, Kind, Parameter, Spec, SpecError};

use super::SolverRef;
use crate::additive::{FeatureMap, Nodes, PrintedPmsvm};
use crate::linear::{BIAS, LinearSolver, SEED};

/// Parameter of both solvers of the paper.
pub(super) const AS: Parameter = Parameter {
    name: "as",
    kind: Kind::Word(&["shared", "printed"]),
    default: Some("shared"),
    help: "on the engine that all additive solvers share, or the paper's own loops: f32, values from 0 to 1, no bias",
};

/// PmSVM of \[YW12\]: the kernel is interpolated in one of its arguments at 0.01, 0.06 and 0.75 by a polynomial of
/// degree 2 in `ln(x + 0.05)`. `as=printed` is algorithm 2.
///
/// The shared engine differs from the paper, which computes logarithms and kernel values for each non-zero: here they come
/// from a table of 65,535 bins, whose steps are smaller than the rounding errors of the f32 values that the paper uses, and
/// there is a bias column (`bias=0` for none). The interpolated kernel is not symmetric, so there is
/// no dual problem and no gap is reported.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "pmsvm",
    summary: "PmSVM of Yang and Wu: kernel interpolation at three nodes; for comparison",
    parameters: &[BIAS, SEED, AS],
    variadic: false,
    build: |checked| {
        let spec = Spec::new("pmsvm").set("as", checked.word("as"));
        if is_printed(checked)? {
            let seed = checked.integer("seed") as u64;
            return Ok(Arc::new(PrintedPmsvm::new(spec, 2, Nodes::AdHoc, None, seed)));
        }
        let map = FeatureMap::Polynomial { degree: 2, nodes: Nodes::AdHoc };
        Ok(Arc::new(LinearSolver::new(spec, map, 1 << 16, checked)))
    },
};

/// Whether the paper's own loops are asked for; they have no bias.
pub(super) fn is_printed(checked: &Checked<'_>) -> Result<bool, SpecError> {
    let is_printed = checked.word("as") == "printed";
    let has_bias = checked.text().get("bias").is_some() && checked.number("bias") != 0.0;
    if is_printed && has_bias {
        return Err(checked.refuse("as=printed has no bias term; leave bias out"));
    }
    Ok(is_printed)
}
