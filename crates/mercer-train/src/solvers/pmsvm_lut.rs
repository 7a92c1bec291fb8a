use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Method, Solver, SolverRef};
use crate::tables::{LevelsWanted, Map, Nodes, Recipe};

/// PmSVM-LUT of \[YW12\]: interpolation as in `pmsvm`, of any degree, through tables of `bins` values.
///
/// Differs from the paper: values go to the nearest bin, where the paper rounds down and so loses every
/// value below one bin; and Chebyshev's nodes are taken in `ln(x + 0.05)`.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "pmsvm_lut",
    summary: "PmSVM-LUT of Yang and Wu: interpolation of any degree through tables; for comparison",
    parameters: &[
        Parameter {
            name: "degree",
            kind: Kind::Integer { low: 1, high: 7 },
            default: Some("2"),
            help: "degree of the polynomial",
        },
        Parameter {
            name: "bins",
            kind: Kind::Integer { low: 2, high: 65_535 },
            default: Some("1000"),
            help: "values the tables hold",
        },
        Parameter {
            name: "nodes",
            kind: Kind::Word(&["chebyshev", "ad_hoc"]),
            default: Some("chebyshev"),
            help: "where the polynomial is right",
        },
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
        let degree = checked.integer("degree") as usize;
        let ad_hoc = checked.spec("nodes").is_some_and(|word| word.name() == "ad_hoc");
        if ad_hoc && degree != 2 {
            return Err(checked.refuse("there are three ad hoc nodes: degree must be 2"));
        }
        let nodes = if ad_hoc { Nodes::AdHoc } else { Nodes::Chebyshev };
        let map = Map::Polynomial { degree, nodes };
        Ok(Arc::new(PmsvmLut(Recipe {
            name: "pmsvm_lut",
            map,
            levels: checked.integer("bins") as usize + 1,
            wanted: LevelsWanted::Uniform,
            bias: checked.number("bias"),
            seed: checked.integer("seed") as u64,
        })))
    },
};

#[derive(Debug)]
struct PmsvmLut(Recipe);

impl Solver for PmsvmLut {
    fn spec(&self) -> Spec {
        let Map::Polynomial { degree, nodes } = self.0.map else {
            unreachable!("made of polynomials")
        };
        let nodes = if nodes == Nodes::AdHoc { "ad_hoc" } else { "chebyshev" };
        let spec = Spec::new("pmsvm_lut").set("degree", degree as f64);
        let spec = spec.set("bins", (self.0.levels - 1) as f64).set("nodes", nodes);
        self.0.finish_spec(spec)
    }

    fn method(&self) -> Method<'_> {
        Method::Tables(&self.0)
    }
}
