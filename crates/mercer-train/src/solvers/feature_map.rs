//! `feature_map`: the explicit feature map of Vedaldi and Zisserman; for comparison with `additive`. This file only
//! declares the parameters.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::SolverRef;
use crate::additive::FeatureMap;
use crate::linear::{BIAS, BINS, LinearSolver, SEED};

/// The explicit feature map of \[VZ12\] for homogeneous kernels, through a look-up table: the baseline of
/// \[YW12\].
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "feature_map",
    summary: "additive kernels by the explicit feature map of Vedaldi and Zisserman",
    parameters: &[
        Parameter {
            name: "dims",
            kind: Kind::Integer { low: 1, high: 15 },
            default: Some("3"),
            help: "features per column; must be odd",
        },
        BINS,
        BIAS,
        SEED,
    ],
    variadic: false,
    build: |checked| {
        let dims = checked.integer("dims") as usize;
        if dims.is_multiple_of(2) {
            return Err(checked
                .refuse("dims must be odd: one constant feature, then cosine and sine pairs"));
        }
        let spec = Spec::new("feature_map").set("dims", dims as f64);
        Ok(Arc::new(LinearSolver::new(spec, FeatureMap::Fourier { dims }, 256, checked)))
    },
};
