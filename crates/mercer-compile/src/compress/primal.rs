//! The primal reformulation of \[OG98\]: other coefficients of the same W, for a machine that is trained already.
//!
//! With free β the primal `min ½ β'Kβ + C Σξ_i + λ P(β)` has, for λ = 0, every β with `Kβ = Kβ*` as a
//! solution; the attractor P picks one ([`mercer_train::Attractor`]): a penalty on all coefficients (`l1`), on those of points
//! off the margin (`margin`), on those of misclassified points (`errors`). Sums of ξ follow from W, and the objective
//! grows at least as `½ |W - W~|²` around its optimum, so that as λ falls to zero the problem becomes
//! `min ½ |W - W~|² + λ P(β)`, which is solved here, λ annealed, each solution the start of the next. At λ = 0 a basis
//! of the supports has the same W ([`mercer_train::same_hyperplane`]). The solver `primal` of `mercer-train` does the same in training.
//!
//! Differs from the paper, whose solver is not named: an interior point would return the centre of the
//! face of solutions, which has no zeros at all. If K is not singular there is only one β,
//! and nothing is gained: the paper's own remark on machines with few coefficients at their bound.

use std::sync::Arc;

use mercer_kernel::factor::{Factor, Gain};
use mercer_machine::{Output, Score};
use mercer_spec::{Kind, Parameter, Spec};
use mercer_train::{Attractor, PointStatus, same_hyperplane};

use super::penalty_path::PenaltyPath;
use super::{
    CompressionProblem, Compressor, CompressorEntry, CompressorRun, ReducedSet, fit_coefficients,
    unfit,
};
use crate::CompileError;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "primal",
    summary: "the primal reformulation: an annealed penalty draws coefficients to zero, then the same W without penalty",
    parameters: &[
        Parameter {
            name: "penalty",
            kind: Kind::Word(Attractor::WORDS),
            default: Some("l1"),
            help: "coefficients that are drawn to zero: all, those of points off the margin, those of misclassified points",
        },
        Parameter {
            name: "lambda",
            kind: Kind::Number { low: 1e-12, high: 1.0, closed: true },
            default: Some("1e-4"),
            help: "where the annealing ends before the penalty is dropped, relative to the largest |f|",
        },
    ],
    variadic: false,
    build: |checked| {
        let attractor = Attractor::named(checked.spec("penalty").map_or("l1", Spec::name));
        Ok(Arc::new(Primal { attractor, lambda: checked.number("lambda") }))
    },
};

/// Each penalty is this share of the one before.
const COOLING: f64 = 0.3;
/// At a given size, a support nearer to the span of others, of its own square, is left out.
const DEPENDENT: f64 = 1e-10;
/// A coefficient this near to the largest of its sign is at its bound.
const AT_BOUND: f64 = 1e-3;

#[derive(Debug, Clone, Copy)]
struct Primal {
    attractor: Attractor,
    lambda: f64,
}

/// Where each support of one score stands; supports of other scores are no part of it.
fn statuses(problem: &CompressionProblem<'_>, score: usize) -> Vec<Option<PointStatus>> {
    let (betas, products) = (&problem.betas[score], &problem.inner_products[score]);
    let offset = problem.machine.scores()[score].offset();
    let largest = |sign: f64| betas.iter().map(|beta| sign * beta).fold(0.0, f64::max);
    let bounds = [largest(1.0), largest(-1.0)];
    let status = |(beta, product): (&f64, &f64)| {
        let bound = bounds[usize::from(*beta < 0.0)];
        let is_free = beta.abs() < (1.0 - AT_BOUND) * bound;
        let f = product - offset;
        (*beta != 0.0).then(|| match problem.machine.output() {
            Output::Value => PointStatus::of_regression(is_free),
            Output::Novelty => PointStatus::of_novelty(f, is_free),
            Output::Classes { .. } => PointStatus::of_classifier(f * beta.signum(), is_free),
        })
    };
    betas.iter().zip(products).map(status).collect()
}

impl Primal {
    /// Whether each support is drawn to zero: in every score that uses it.
    fn drawn(self, problem: &CompressionProblem<'_>) -> Vec<bool> {
        let mut is_drawn = vec![true; problem.len()];
        for score in 0..problem.betas.len() {
            for (place, status) in is_drawn.iter_mut().zip(statuses(problem, score)) {
                *place &= status.is_none_or(|status| self.attractor.draws(status));
            }
        }
        is_drawn
    }
}

impl Compressor for Primal {
    fn spec(&self) -> Spec {
        let word = Spec::new(self.attractor.name());
        Spec::new("primal").set("penalty", word).set("lambda", self.lambda)
    }

    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError> {
        let is_regression = matches!(problem.machine.output(), Output::Value);
        if let Some(reason) = self.attractor.regression_refusal().filter(|_| is_regression) {
            return Err(unfit("primal", reason));
        }
        let is_drawn = self.drawn(problem);
        let weights = is_drawn.iter().map(|is_drawn| Attractor::weight(*is_drawn)).collect();
        let path = PenaltyPath::new(problem, weights);
        Ok(Box::new(PrimalRun { problem, path, is_drawn, lambda: self.lambda }))
    }
}

struct PrimalRun<'a> {
    problem: &'a CompressionProblem<'a>,
    path: PenaltyPath<'a>,
    is_drawn: Vec<bool>,
    lambda: f64,
}

impl PrimalRun<'_> {
    /// The linearly independent ones of the supports that are left, re-fitted.
    fn vertex(&self, rows: &[usize]) -> Result<ReducedSet, CompileError> {
        let kept = self.problem.supports.select(rows.iter().copied());
        let columns = self.problem.columns(kept.clone());
        let targets = self.problem.inner_products.iter().zip(&self.problem.squared_norms);
        let mut factor = targets.fold(Factor::new(columns, DEPENDENT), |factor, (p, square)| {
            let kept: Vec<f64> = rows.iter().map(|row| p[*row]).collect();
            factor.with_target(&kept, *square)
        });
        let most = rows.len().min(self.problem.max_rank());
        factor.grow(&mut Gain::new((0..rows.len()).collect()), most, &mut |_| true);
        let mut chosen: Vec<usize> = factor.pivots().iter().filter_map(|p| p.row).collect();
        chosen.sort_unstable();
        fit_coefficients(self.problem, &kept.select(chosen))
    }

    /// The same W at zero penalty: supports that are not drawn to zero enter the basis first, of equal ones those
    /// that annealing left.
    fn at_zero_penalty(&self) -> Result<ReducedSet, CompileError> {
        let problem = self.problem;
        let mut is_kept = vec![false; problem.len()];
        self.path.kept().into_iter().for_each(|row| is_kept[row] = true);
        let preference =
            |row: usize| 2 * usize::from(self.is_drawn[row]) + usize::from(!is_kept[row]);
        let preferences: Vec<usize> = (0..problem.len()).map(preference).collect();
        let size = |row: usize| problem.betas.iter().map(|b| b[row] * b[row]).sum::<f64>().sqrt();
        let sizes = (0..problem.len()).map(size).collect();
        let mut interrupted = None;
        let columns = problem.columns(problem.supports.clone());
        let mut go_on = |count: usize| {
            if count.is_multiple_of(64) {
                interrupted = problem.watch.step("choosing vectors", count, problem.len()).err();
            }
            interrupted.is_none()
        };
        let found = same_hyperplane(columns, &problem.betas, &preferences, sizes, &mut go_on);
        let found = found.ok_or(CompileError::Interrupted)?;
        let offsets = problem.machine.scores().iter().map(Score::offset).collect();
        let (rows, coefficients) = (problem.supports.select(found.rows), found.coefficients);
        Ok(ReducedSet { rows, coefficients, offsets })
    }
}

impl CompressorRun for PrimalRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let rows = self.path.at_size(size)?;
        if rows.is_empty() {
            return Err(unfit("primal", format!("no penalty leaves 1 to {size} vectors")));
        }
        self.vertex(&rows)
    }

    fn by_parameters(&mut self) -> Result<Option<ReducedSet>, CompileError> {
        let (mut penalty, end) = (self.path.largest_penalty(), self.lambda * self.path.scale());
        while penalty > end {
            penalty = f64::max(penalty * COOLING, end);
            self.path.solve(penalty)?;
        }
        self.at_zero_penalty().map(Some)
    }
}
