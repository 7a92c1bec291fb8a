use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::SolverRef;
use crate::tables::{BIAS, LEVELS, Map, Recipe, SEED};

/// The feature map of \[VZ12\] for homogeneous kernels, as look-up factors: the baseline of \[YW12\].
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "feature_map",
    summary: "additive kernels by the feature map of Vedaldi and Zisserman",
    parameters: &[
        Parameter {
            name: "dims",
            kind: Kind::Integer { low: 1, high: 15 },
            default: Some("3"),
            help: "numbers per column, odd",
        },
        LEVELS,
        BIAS,
        SEED,
    ],
    variadic: false,
    build: |checked| {
        let dims = checked.integer("dims") as usize;
        if dims.is_multiple_of(2) {
            return Err(checked.refuse("dims must be odd: one number, then pairs"));
        }
        let spec = Spec::new("feature_map").set("dims", dims as f64);
        Ok(Arc::new(Recipe::new(spec, Map::Fourier { dims }, 256, checked)))
    },
};
