//! The primal reformulation of \[OG98\]: other coefficients of the same W.
//!
//! With free β the primal `min ½ β'Kβ + C Σξ_i + λ P(β)` has, for λ = 0, every β with `Kβ = Kβ*` as a
//! solution; the attractor P picks one. There are three: a penalty on all coefficients (`l1`), on those of
//! points off the margin only (`margin`), and on those of points with ξ > 0 only (`errors`). Sums of ξ
//! follow from W, and the objective grows at least as `½ |W - W~|²` around its optimum, so that as λ
//! falls to zero the problem becomes `min ½ |W - W~|² + λ P(β)`, which is solved here, λ annealed, each
//! solution the start of the next.
//!
//! Differs from the paper, whose solver is not named: an interior point would return the centre of the
//! face of solutions, which has no zeros at all. Here the supports that are left at the end are cut down
//! to linearly independent ones, which is a vertex of that face. If K is not singular there is only one β,
//! and nothing is gained: the paper's own remark on machines with few coefficients at their bound.

use std::sync::Arc;

use mercer_kernel::factor::{Factor, Gain};
use mercer_spec::{Kind, Parameter, Spec};

use super::descent::CoordinateDescent;
use super::{
    CompressionProblem, Compressor, CompressorEntry, CompressorRun, ReducedSet, fit_coefficients,
    unfit,
};
use crate::CompileError;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "primal",
    summary: "the primal reformulation: an annealed penalty shrinks coefficients of the same W to zero",
    parameters: &[
        Parameter {
            name: "penalty",
            kind: Kind::Word(&["l1", "margin", "errors"]),
            default: Some("l1"),
            help: "which coefficients are penalised: all, those off the margin, those of errors",
        },
        Parameter {
            name: "lambda",
            kind: Kind::Number { low: 1e-12, high: 1.0, closed: true },
            default: Some("1e-4"),
            help: "where the annealing ends, as a share of the penalty at which no support is left",
        },
    ],
    variadic: false,
    build: |checked| {
        let penalty = match checked.spec("penalty").map(Spec::name) {
            Some("margin") => Penalty::Margin,
            Some("errors") => Penalty::Errors,
            _ => Penalty::L1,
        };
        Ok(Arc::new(Primal { penalty, lambda: checked.number("lambda") }))
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Penalty {
    L1,
    Margin,
    Errors,
}

/// Each penalty is this share of the one before.
const COOLING: f64 = 0.3;
/// A support nearer to the span of others, of its own square, is no vertex of its own.
const DEPENDENT: f64 = 1e-10;
/// A coefficient this near to the largest is at its bound, a score this near to 1 on the margin.
const NEAR: f64 = 1e-3;

#[derive(Debug, Clone, Copy)]
struct Primal {
    penalty: Penalty,
    lambda: f64,
}

impl Primal {
    /// Weight of each support in the penalty: one or zero.
    fn weights(self, problem: &CompressionProblem<'_>) -> Vec<f64> {
        if self.penalty == Penalty::L1 {
            return vec![1.0; problem.len()];
        }
        let most = |list: &Vec<f64>| list.iter().fold(0.0f64, |most, beta| most.max(beta.abs()));
        let bounds: Vec<f64> = problem.betas.iter().map(most).collect();
        let is_penalised = |row: usize| {
            problem
                .betas
                .iter()
                .zip(&problem.inner_products)
                .zip(problem.machine.scores())
                .zip(&bounds)
                .all(|(((beta, products), score), bound)| {
                    let beta = beta[row];
                    let margin = (products[row] - score.offset()) * beta.signum();
                    match self.penalty {
                        Penalty::Errors => beta == 0.0 || margin < 1.0 - NEAR,
                        _ => beta == 0.0 || beta.abs() > (1.0 - NEAR) * bound,
                    }
                })
        };
        (0..problem.len()).map(|row| f64::from(u8::from(is_penalised(row)))).collect()
    }
}

impl Compressor for Primal {
    fn spec(&self) -> Spec {
        let word = match self.penalty {
            Penalty::L1 => "l1",
            Penalty::Margin => "margin",
            Penalty::Errors => "errors",
        };
        Spec::new("primal").set("penalty", Spec::new(word)).set("lambda", self.lambda)
    }

    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError> {
        let weights = self.weights(problem);
        if weights.iter().all(|weight| *weight == 0.0) {
            let reason = "this penalty applies to no support; penalty=l1 applies to all";
            return Err(unfit("primal", reason));
        }
        let descent = CoordinateDescent::new(problem, weights);
        Ok(Box::new(PrimalRun { problem, descent, lambda: self.lambda }))
    }
}

struct PrimalRun<'a> {
    problem: &'a CompressionProblem<'a>,
    descent: CoordinateDescent<'a>,
    lambda: f64,
}

impl PrimalRun<'_> {
    /// The linearly independent ones of the supports that are left, re-fitted.
    fn vertex(&self, rows: Vec<usize>) -> Result<ReducedSet, CompileError> {
        if rows.is_empty() {
            return Err(unfit("primal", "no support is left"));
        }
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
}

impl CompressorRun for PrimalRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let rows = self.descent.at_size(size)?;
        if rows.is_empty() {
            let free = self.descent.free();
            let reason =
                format!("no penalty leaves 1 to {size} vectors; {free} are not penalised at all");
            return Err(unfit("primal", reason));
        }
        self.vertex(rows)
    }

    fn by_parameters(&mut self) -> Result<Option<ReducedSet>, CompileError> {
        let (mut share, end) = (1.0, self.lambda);
        let largest = self.descent.largest_penalty();
        while share > end {
            share = f64::max(share * COOLING, end);
            self.descent.solve(share * largest)?;
        }
        let rows = self.descent.kept();
        self.vertex(rows).map(Some)
    }
}
