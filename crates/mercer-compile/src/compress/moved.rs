//! Vectors anywhere in input space: those of `greedy`, moved all together until `|W - W~|` is least.
//!
//! With coefficients eliminated, `E(Z) = |W|² - Σ_s c_s'K^-1 c_s`, `c_s = K_ZS β_s`, `K = K_ZZ`. Because
//! `g_s = K^-1 c_s` is the best for each Z, only Z is differentiated:
//!
//! `dE = Σ_s (g_s' dK g_s - 2 g_s' dc_s)`,
//!
//! four matrix products a step, minimised by L-BFGS. This is Burges' reduced set method, started from the vectors
//! of `greedy`; the fixed-point iteration that is often used instead divides by sums that vanish.

mod joint;
mod sparse;

use std::cell::Cell;
use std::sync::Arc;

use mercer_data::Matrix;
use mercer_kernel::Profile;
use mercer_machine::Machine;
use mercer_spec::{Kind, Parameter, Spec};

use self::joint::JointObjective;
use super::greedy::{Greedy, GreedyRun};
use super::{
    CompressionProblem, Compressor, CompressorEntry, CompressorRun, ReducedSet, fit_coefficients,
    unfit,
};
use crate::kernel_gradient::profile;
use crate::minimize::{Objective, minimize};
use crate::{CompileError, Watch};

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "moved",
    summary: "vectors of greedy, moved in input space to minimise |W - W~|; dense rows, smooth kernels",
    parameters: &[
        Parameter {
            name: "iterations",
            kind: Kind::Integer { low: 1, high: 10_000 },
            default: Some("80"),
            help: "iterations of L-BFGS, at most",
        },
        Parameter {
            name: "ahead",
            kind: Kind::Number { low: 1.0, high: 16.0, closed: true },
            default: Some("3"),
            help: "as for greedy",
        },
    ],
    variadic: false,
    build: |checked| {
        let iterations = checked.integer("iterations") as usize;
        Ok(Arc::new(Moved { iterations, ahead: checked.number("ahead") }))
    },
};

/// Wider machines would take too long, and their rows are sparse.
const MOST_COLUMNS: usize = 4096;
/// A vector whose squared distance from the span of the others is below this share of K(z, z) is forbidden.
const NEAR: f64 = 1e-9;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub iterations: usize,
    pub ahead: f64,
}

impl Default for Moved {
    fn default() -> Self {
        Self { iterations: 80, ahead: 3.0 }
    }
}

/// Why vectors cannot be moved, if they cannot.
pub(crate) fn refusal(machine: &Machine) -> Option<String> {
    if matches!(profile(machine), Profile::Other | Profile::Sigmoid { .. }) {
        let kernel = machine.kernel().spec();
        return Some(format!("vectors cannot be moved under {kernel}: greedy can"));
    }
    let columns = machine.columns();
    (columns > MOST_COLUMNS)
        .then(|| format!("{columns} columns are more than {MOST_COLUMNS} to move in: greedy can"))
}

impl Compressor for Moved {
    fn spec(&self) -> Spec {
        Spec::new("moved").set("iterations", self.iterations as f64).set("ahead", self.ahead)
    }

    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError> {
        if let Some(reason) = refusal(problem.machine) {
            return Err(unfit("moved", reason));
        }
        Ok(Box::new(MovedRun::new(problem, *self)))
    }
}

pub(crate) struct MovedRun<'a> {
    problem: &'a CompressionProblem<'a>,
    settings: Moved,
    greedy: GreedyRun<'a>,
}

impl<'a> MovedRun<'a> {
    pub(crate) fn new(problem: &'a CompressionProblem<'a>, settings: Moved) -> Self {
        let greedy = Greedy { ahead: settings.ahead, pivot: 10.0 * NEAR };
        Self { problem, settings, greedy: GreedyRun::new(problem, greedy) }
    }

    /// The best vectors found; those of `greedy` if moving them gains nothing.
    pub(crate) fn rows(&mut self, size: usize) -> Result<Matrix, CompileError> {
        let start = self.problem.supports.select(self.greedy.rows(size.max(1))?);
        let objective = WatchedObjective {
            joint: JointObjective::new(self.problem, start.rows()),
            watch: self.problem.watch,
            iterations: self.settings.iterations,
            evaluations: Cell::new(0),
            is_interrupted: Cell::new(false),
        };
        if objective.joint.has_no_columns() {
            return Ok(start);
        }
        let from = objective.joint.to_coordinates(&start);
        let before = objective.value(&from, &mut vec![0.0; from.len()]);
        let (after, point) = minimize(&objective, from, self.settings.iterations);
        if objective.is_interrupted.get() {
            return Err(CompileError::Interrupted);
        }
        let is_better = after.is_finite() && (after < before || !before.is_finite());
        Ok(if is_better { objective.joint.to_rows(&point).unwrap_or(start) } else { start })
    }
}

impl CompressorRun for MovedRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let rows = self.rows(size)?;
        fit_coefficients(self.problem, &rows)
    }

    fn most(&self) -> Option<usize> {
        self.greedy.most()
    }
}

/// `E(Z)`, which reports progress and may be interrupted.
struct WatchedObjective<'a> {
    joint: JointObjective,
    watch: Watch<'a>,
    iterations: usize,
    evaluations: Cell<usize>,
    is_interrupted: Cell<bool>,
}

impl Objective for WatchedObjective<'_> {
    fn value(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        self.evaluations.set(self.evaluations.get() + 1);
        let (done, most) = (self.evaluations.get(), 2 * self.iterations);
        if self.watch.step("moving vectors", done, most).is_err() {
            self.is_interrupted.set(true);
        }
        if self.is_interrupted.get() { f64::INFINITY } else { self.joint.value(point, gradient) }
    }
}
