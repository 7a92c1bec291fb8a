//! Vectors anywhere in input space: those of `greedy`, moved all together until `|W - W~|` is least.
//!
//! With coefficients eliminated, `E(Z) = |W|² - Σ_s c_s'K^-1 c_s`, `c_s = K_ZS β_s`, `K = K_ZZ`. Because
//! `g_s = K^-1 c_s` is the best for each Z, only Z is differentiated:
//!
//! `dE = Σ_s (g_s' dK g_s - 2 g_s' dc_s)`,
//!
//! four matrix products a step. L-BFGS goes down. This is Burges' reduced set, begun where it is good to
//! begin; the fixed-point iteration that is often used instead divides by sums that vanish.

mod joint;
mod lists;

use std::cell::Cell;
use std::sync::Arc;

use mercer_data::Matrix;
use mercer_kernel::Profile;
use mercer_machine::Machine;
use mercer_spec::{Kind, Parameter, Spec};

use self::joint::Joint;
use super::greedy::{Greedy, Pursuit};
use super::{Compressor, CompressorEntry, Points, Run, Teacher, fitted, unfit};
use crate::kernel_gradient::profile;
use crate::minimize::{Objective, minimize};
use crate::{CompileError, Watch};

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "moved",
    summary: "vectors of greedy, moved in input space until W is met best; dense rows, smooth kernels",
    parameters: &[
        Parameter {
            name: "iterations",
            kind: Kind::Integer { low: 1, high: 10_000 },
            default: Some("80"),
            help: "steps of the descent, at most",
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
/// A vector nearer than this to the span of the others, of its own square, is forbidden.
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

    fn begin<'a>(&'a self, teacher: &'a Teacher<'a>) -> Result<Box<dyn Run + 'a>, CompileError> {
        if let Some(reason) = refusal(teacher.machine) {
            return Err(unfit("moved", reason));
        }
        Ok(Box::new(Journey::new(teacher, *self)))
    }
}

pub(crate) struct Journey<'a> {
    teacher: &'a Teacher<'a>,
    settings: Moved,
    pursuit: Pursuit<'a>,
}

impl<'a> Journey<'a> {
    pub(crate) fn new(teacher: &'a Teacher<'a>, settings: Moved) -> Self {
        let greedy = Greedy { ahead: settings.ahead, pivot: 10.0 * NEAR };
        Self { teacher, settings, pursuit: Pursuit::new(teacher, greedy) }
    }

    /// The best vectors found; those of `greedy` if moving them gains nothing.
    pub(crate) fn rows(&mut self, size: usize) -> Result<Matrix, CompileError> {
        let start = self.teacher.supports.select(self.pursuit.rows(size.max(1))?);
        let valley = Watched {
            joint: Joint::new(self.teacher, start.rows()),
            watch: self.teacher.watch,
            iterations: self.settings.iterations,
            asked: Cell::new(0),
            is_ended: Cell::new(false),
        };
        if valley.joint.is_nowhere() {
            return Ok(start);
        }
        let from = valley.joint.written(&start);
        let before = valley.value(&from, &mut vec![0.0; from.len()]);
        let (after, point) = minimize(&valley, from, self.settings.iterations);
        if valley.is_ended.get() {
            return Err(CompileError::Ended);
        }
        let is_better = after.is_finite() && (after < before || !before.is_finite());
        Ok(if is_better { valley.joint.read(&point).unwrap_or(start) } else { start })
    }
}

impl Run for Journey<'_> {
    fn at(&mut self, size: usize) -> Result<Points, CompileError> {
        let rows = self.rows(size)?;
        fitted(self.teacher, &rows)
    }
}

/// `E(Z)`, and who may end its descent.
struct Watched<'a> {
    joint: Joint,
    watch: Watch<'a>,
    iterations: usize,
    asked: Cell<usize>,
    is_ended: Cell<bool>,
}

impl Objective for Watched<'_> {
    fn value(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        self.asked.set(self.asked.get() + 1);
        let (done, most) = (self.asked.get(), 2 * self.iterations);
        if self.watch.step("moving vectors", done, most).is_err() {
            self.is_ended.set(true);
        }
        if self.is_ended.get() { f64::INFINITY } else { self.joint.value(point, gradient) }
    }
}
