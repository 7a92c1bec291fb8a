//! Training in rounds over working sets of thousands of examples: \[FS01\]'s chunking, solved in changes.
//!
//! The problem is [`Qp`]: `min ½ β'Kβ + q'β` in a box, with constant sums. A round keeps `f = Kβ` of all rows, takes a
//! working set W (free rows, and violators drawn at random), and solves
//! `min ½ D'K_WW D + F_W'D`, `lower - β <= D <= upper - β`, sums zero, from `D = 0` with `F = f + q` ([`solve_changes`]).
//! Then `β_W += D` and `f += K(:, M) D_M`, M being the rows that moved ([`WeightedSupports`]). Rows at bound outside W
//! are already inside F, so they need not be in W, and nothing between W and the other rows is computed.
//! Before it ends, f is recomputed from β.
//!
//! `run` has the loop, `working_set` chooses W, `kmeans` cuts the rows of the first round, `factor` solves a working set
//! over a low-rank factor, `sums` keeps f. The public functions are
//! the pieces of a round, for those who run rounds over rows that are not in one process.

mod blocks;
mod changes;
mod factor;
mod kmeans;
mod landmarks;
mod parts;
mod rows;
mod run;
mod scores;
mod sums;
mod working_set;

use mercer_spec::{Checked, Spec};

pub use blocks::{BlockError, RowBlock};
pub use changes::{ChangeOptions, Changes, solve_changes};
pub use landmarks::{LandmarkSums, Landmarks};
pub use parts::{OptimalityBounds, OptimalityPart};
pub(crate) use rows::RowFile;
pub use scores::WeightedSupports;
pub(crate) use scores::add_pack;

use crate::control::Control;
use crate::solvers::{GramProblem, GramSolver, Method, Solution, Solver, SolverRef};
use crate::{Qp, TrainError};

/// Settings of the solver `decomposition`.
#[derive(Debug)]
pub struct Decomposition {
    /// Examples in a working set, at most.
    working_set: usize,
    starts_by_clusters: bool,
    /// Duality gap, relative to the objective, at which it ends before the tolerance is reached.
    gap: f64,
    seed: u64,
    /// The solver of a working set.
    smo: SolverRef,
    /// Whether early working sets are solved over a low-rank factor.
    uses_factor: bool,
}

impl Decomposition {
    pub(crate) fn new(checked: &Checked<'_>) -> Self {
        Self {
            working_set: checked.integer("working_set") as usize,
            starts_by_clusters: checked.spec("start").is_none_or(|word| word.name() == "kmeans"),
            gap: checked.number("gap"),
            seed: checked.integer("seed") as u64,
            smo: crate::solver("smo").expect("smo is registered"),
            uses_factor: checked.word("inner") == "low_rank",
        }
    }

    fn smo(&self) -> &dyn GramSolver {
        let Method::Gram(solver) = self.smo.method() else {
            unreachable!("smo works on kernel values of pairs")
        };
        solver
    }
}

impl Solver for Decomposition {
    fn spec(&self) -> Spec {
        Spec::new("decomposition")
            .set("working_set", self.working_set as f64)
            .set("inner", if self.uses_factor { "low_rank" } else { "smo" })
            .set("start", if self.starts_by_clusters { "kmeans" } else { "zero" })
            .set("gap", self.gap)
            .set("seed", self.seed as f64)
    }

    fn method(&self) -> Method<'_> {
        Method::Gram(self)
    }
}

impl GramSolver for Decomposition {
    fn solve(
        &self,
        problem: &mut GramProblem<'_, '_>,
        control: &mut Control<'_>,
    ) -> Result<Solution, TrainError> {
        run::DecompositionRun::new(self, problem).run(control)
    }

    fn reads_columns(&self) -> bool {
        false
    }
}

/// The quadratic program of the changes of some rows: `beta` moves within its bounds, `k_beta` is `Kβ` of all rows.
///
/// All variables of a row change together with it: rows of a regression have two.
pub fn change_program(qp: &Qp, beta: &[f64], k_beta: &[f64], rows: &[u32]) -> Qp {
    let sides = qp.len() / qp.rows.max(1);
    let variables = || {
        (0..sides).flat_map(move |side| rows.iter().map(move |row| side * qp.rows + *row as usize))
    };
    let of = |value: &dyn Fn(usize) -> f64| -> Vec<f64> { variables().map(value).collect() };
    Qp {
        rows: rows.len(),
        lower: of(&|v| qp.lower[v] - beta[v]),
        upper: of(&|v| qp.upper[v] - beta[v]),
        linear: of(&|v| k_beta[v % qp.rows] + qp.linear[v]),
        start: vec![0.0; sides * rows.len()],
        groups: variables().map(|v| qp.groups[v]).collect(),
    }
}
