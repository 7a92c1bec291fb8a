//! `pmsvm_lut`: PmSVM-LUT of Yang and Wu, for comparison with `additive`. This file only declares the parameters.

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::SolverRef;
use super::pmsvm::{AS, is_printed};
use crate::additive::{FeatureMap, Nodes, PrintedPmsvm};
use crate::linear::{BIAS, LinearSolver, SEED};

/// PmSVM-LUT of \[YW12\]: interpolation as in `pmsvm`, of any degree, through look-up tables with `bins` entries.
/// `as=printed` is algorithm 3.
///
/// The shared engine differs from the paper: values are rounded to the nearest bin (the paper rounds down, so all values
/// below one bin become zero), rows are stored as bins, and there is a bias column (`bias=0` for none). The paper does not
/// say in which variable its Chebyshev nodes lie: `chebyshev` places them in `ln(x + 0.05)`, `chebyshev_in_x` in x.
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
            kind: Kind::Word(Nodes::WORDS),
            default: Some("chebyshev"),
            help: "interpolation nodes",
        },
        BIAS,
        SEED,
        AS,
    ],
    variadic: false,
    build: |checked| {
        let degree = checked.integer("degree") as usize;
        let nodes = Nodes::named(checked.word("nodes"));
        if nodes == Nodes::AdHoc && degree != 2 {
            return Err(checked.refuse("nodes=ad_hoc has three nodes, so degree must be 2"));
        }
        let bins = checked.integer("bins") as usize;
        let spec = Spec::new("pmsvm_lut").set("as", checked.word("as"));
        let spec = spec.set("degree", degree as f64).set("bins", bins as f64);
        let spec = spec.set("nodes", nodes.name());
        if is_printed(checked)? {
            let seed = checked.integer("seed") as u64;
            return Ok(Arc::new(PrintedPmsvm::new(spec, degree, nodes, Some(bins), seed)));
        }
        let map = FeatureMap::Polynomial { degree, nodes };
        Ok(Arc::new(LinearSolver::new(spec, map, bins + 1, checked)))
    },
};
