//! `additive`: the solver of additive kernels (chi2, intersection, ...). The algorithm is shared with the other
//! linear and additive solvers; this file only declares the parameters.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::SolverRef;
use crate::additive::FeatureMap;
use crate::linear::{BIAS, BINS, LinearSolver, SEED};

/// Dual coordinate descent for any additive kernel, on a factorised kernel table.
///
/// Each value is quantised to one of 255 bins. Weighted kernel PCA writes the scalar kernel on the bins as
/// `Φ(s)·Φ(t)`, and a linear machine in the features Φ is the additive machine. After \[YW12\], but with a
/// symmetric kernel, so that there is a dual problem, a duality gap and the correct curvature.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "additive",
    summary: "additive kernels at about the cost of a linear kernel: values quantised to bytes, the kernel as a look-up table",
    parameters: &[
        Parameter {
            name: "rank",
            kind: Kind::IntegerOr { low: 1, high: 16, word: "auto" },
            default: Some("auto"),
            help: "features per column; auto takes 4, 8 or 16 for a kernel error of 1e-3, and an exact table for intersection",
        },
        BINS,
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
        Ok(Arc::new(LinearSolver::new(spec, FeatureMap::Components { rank }, 256, checked)))
    },
};
