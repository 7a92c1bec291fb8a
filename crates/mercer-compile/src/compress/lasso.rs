//! Supports that an L1 penalty on coefficients leaves: `½ |W - W~|² + λ Σ|g_i|`, then a re-fit.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::penalty_path::PenaltyPath;
use super::{
    CompressionProblem, Compressor, CompressorEntry, CompressorRun, ReducedSet, fit_coefficients,
    unfit,
};
use crate::CompileError;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "lasso",
    summary: "supports that an L1 penalty on coefficients leaves, then re-fitted",
    parameters: &[Parameter {
        name: "lambda",
        kind: Kind::Number { low: 1e-12, high: 1.0, closed: true },
        default: Some("0.01"),
        help: "penalty, as a share of the one at which no support is left",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(Lasso { lambda: checked.number("lambda") })),
};

#[derive(Debug, Clone, Copy)]
struct Lasso {
    lambda: f64,
}

impl Compressor for Lasso {
    fn spec(&self) -> Spec {
        Spec::new("lasso").set("lambda", self.lambda)
    }

    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError> {
        let path = PenaltyPath::new(problem, vec![1.0; problem.len()]);
        Ok(Box::new(LassoRun { problem, path, lambda: self.lambda }))
    }
}

struct LassoRun<'a> {
    problem: &'a CompressionProblem<'a>,
    path: PenaltyPath<'a>,
    lambda: f64,
}

impl LassoRun<'_> {
    fn reduced_set(&self, rows: Vec<usize>) -> Result<ReducedSet, CompileError> {
        if rows.is_empty() {
            return Err(unfit("lasso", "no support is left"));
        }
        fit_coefficients(self.problem, &self.problem.supports.select(rows))
    }
}

impl CompressorRun for LassoRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let rows = self.path.at_size(size)?;
        if rows.is_empty() {
            return Err(unfit("lasso", format!("no penalty leaves 1 to {size} vectors")));
        }
        self.reduced_set(rows)
    }

    fn by_parameters(&mut self) -> Result<Option<ReducedSet>, CompileError> {
        self.path.solve(self.lambda * self.path.largest_penalty())?;
        let rows = self.path.kept();
        self.reduced_set(rows).map(Some)
    }
}
