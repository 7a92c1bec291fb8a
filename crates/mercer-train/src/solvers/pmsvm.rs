use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Method, Solver, SolverRef};
use crate::tables::{LevelsWanted, Map, Nodes, Recipe};

/// PmSVM of \[YW12\]: one-sided interpolation of the kernel at 0.01, 0.06 and 0.75 by a polynomial of degree
/// 2 in `ln(x + 0.05)`.
///
/// The paper computes logarithms and kernel values of each non-zero; here they are looked up on 65,535
/// levels, whose steps are below the rounding of singles the paper uses. What the paper leaves out: labels
/// and the constant in its algorithm 3, and that an asymmetric kernel has no dual, so no gap is reported.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "pmsvm",
    summary: "PmSVM of Yang and Wu: interpolation at three nodes; for comparison",
    parameters: &[
        Parameter {
            name: "bias",
            kind: Kind::Number { low: 0.0, high: 1e6, closed: true },
            default: Some("1"),
            help: "value of a constant column; 0 for none",
        },
        Parameter {
            name: "seed",
            kind: Kind::Integer { low: 0, high: 1 << 40 },
            default: Some("1"),
            help: "order in which examples are visited",
        },
    ],
    variadic: false,
    build: |checked| {
        let map = Map::Polynomial { degree: 2, nodes: Nodes::AdHoc };
        Ok(Arc::new(Pmsvm(Recipe {
            name: "pmsvm",
            map,
            levels: 1 << 16,
            wanted: LevelsWanted::Uniform,
            bias: checked.number("bias"),
            seed: checked.integer("seed") as u64,
        })))
    },
};

#[derive(Debug)]
struct Pmsvm(Recipe);

impl Solver for Pmsvm {
    fn spec(&self) -> Spec {
        self.0.finish_spec(Spec::new("pmsvm"))
    }

    fn method(&self) -> Method<'_> {
        Method::Tables(&self.0)
    }
}
