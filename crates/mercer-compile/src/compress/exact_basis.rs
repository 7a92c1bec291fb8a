//! As many vectors as the kernel matrix of the supports has rank; W stays what it is.
//!
//! Pivoted Cholesky takes the support farthest from the span of those taken, until none is farther than
//! rounding; the others are then combinations of them (Downs, Gates and Masters 2001 do the same by
//! elimination). Coefficients at their bound are dense where classes overlap, and there the rank does not
//! grow with their number.

use std::sync::Arc;

use mercer_kernel::factor::{Factor, Greedy, KernelColumns};
use mercer_spec::{Kind, Parameter, Spec};

use super::{
    CompressionProblem, Compressor, CompressorEntry, CompressorRun, ReducedSet, fit_coefficients,
};
use crate::CompileError;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "exact_basis",
    summary: "as many supports as their kernel matrix has rank: the same W",
    parameters: &[Parameter {
        name: "tolerance",
        kind: Kind::Number { low: 0.0, high: 0.1, closed: true },
        default: Some("1e-12"),
        help: "a support is left out if its squared distance from the span of others is below this share of K(x, x)",
    }],
    variadic: false,
    build: |checked| Ok(Arc::new(ExactBasis { tolerance: checked.number("tolerance") })),
};

/// Nearer than this nothing can be told from rounding.
const ROUNDING: f64 = 1e-15;

#[derive(Debug, Clone, Copy)]
struct ExactBasis {
    tolerance: f64,
}

impl Compressor for ExactBasis {
    fn spec(&self) -> Spec {
        Spec::new("exact_basis").set("tolerance", self.tolerance)
    }

    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError> {
        let factor = problem.factor(self.tolerance.max(ROUNDING));
        Ok(Box::new(ExactBasisRun { problem, factor }))
    }
}

struct ExactBasisRun<'a> {
    problem: &'a CompressionProblem<'a>,
    factor: Factor<KernelColumns>,
}

impl CompressorRun for ExactBasisRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let (problem, mut interrupted) = (self.problem, None);
        let limit = size.min(problem.max_rank());
        self.factor.grow(&mut Greedy, limit, &mut |factor| {
            if factor.rank().is_multiple_of(16) {
                let goes_on = problem.watch.step("choosing vectors", factor.rank(), limit);
                interrupted = goes_on.err().map(CompileError::from);
            }
            interrupted.is_none()
        });
        if let Some(error) = interrupted {
            return Err(error);
        }
        let mut rows: Vec<usize> =
            self.factor.pivots().iter().take(size).filter_map(|pivot| pivot.row).collect();
        // With all supports the coefficients stay as they are.
        if rows.len() == problem.len() {
            rows = (0..problem.len()).collect();
            let offsets = problem.machine.scores().iter().map(mercer_machine::Score::offset);
            let coefficients = problem.betas.clone();
            let rows = problem.supports.select(rows);
            return Ok(ReducedSet { rows, coefficients, offsets: offsets.collect() });
        }
        fit_coefficients(problem, &problem.supports.select(rows))
    }

    fn by_parameters(&mut self) -> Result<Option<ReducedSet>, CompileError> {
        self.at_size(usize::MAX).map(Some)
    }
}
