//! `pmsvm_lut`: PmSVM-LUT of Yang and Wu, for comparison with `additive`. This file only declares the parameters.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::SolverRef;
use crate::additive::{FeatureMap, Nodes};
use crate::linear::{BIAS, LinearSolver, SEED};

/// PmSVM-LUT of \[YW12\]: interpolation as in `pmsvm`, of any degree, through look-up tables with `bins` entries.
///
/// Differs from the paper: values are rounded to the nearest bin (the paper rounds down, so all values below one bin
/// become zero), and the Chebyshev nodes are placed in `ln(x + 0.05)`.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "pmsvm_lut",
    summary: "PmSVM-LUT of Yang and Wu: kernel interpolation of any degree through look-up tables; for comparison",
    parameters: &[
        Parameter {
            name: "degree",
            kind: Kind::Integer { low: 1, high: 7 },
            default: Some("2"),
            help: "degree of the interpolation polynomial",
        },
        Parameter {
            name: "bins",
            kind: Kind::Integer { low: 2, high: 65_535 },
            default: Some("1000"),
            help: "entries of the look-up tables",
        },
        Parameter {
            name: "nodes",
            kind: Kind::Word(&["chebyshev", "ad_hoc"]),
            default: Some("chebyshev"),
            help: "interpolation nodes",
        },
        BIAS,
        SEED,
    ],
    variadic: false,
    build: |checked| {
        let degree = checked.integer("degree") as usize;
        let ad_hoc = checked.spec("nodes").is_some_and(|word| word.name() == "ad_hoc");
        if ad_hoc && degree != 2 {
            return Err(checked.refuse("nodes=ad_hoc has three nodes, so degree must be 2"));
        }
        let (nodes, word) =
            if ad_hoc { (Nodes::AdHoc, "ad_hoc") } else { (Nodes::Chebyshev, "chebyshev") };
        let bins = checked.integer("bins") as usize;
        let spec = Spec::new("pmsvm_lut").set("degree", degree as f64);
        let spec = spec.set("bins", bins as f64).set("nodes", word);
        Ok(Arc::new(LinearSolver::new(
            spec,
            FeatureMap::Polynomial { degree, nodes },
            bins + 1,
            checked,
        )))
    },
};
