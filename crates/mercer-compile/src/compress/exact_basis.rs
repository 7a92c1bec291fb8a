//! As many vectors as the kernel matrix of the supports has rank; W stays what it is.
//!
//! Pivoted Cholesky takes the support farthest from the span of those taken, until none is farther than
//! rounding; the others are then combinations of them (Downs, Gates and Masters 2001 do the same by
//! elimination). Coefficients at their bound are dense where classes overlap, and there the rank does not
//! grow with their number.

use std::sync::Arc;

use mercer_kernel::factor::{Factor, Greedy, KernelColumns};
use mercer_spec::{Kind, Parameter, Spec};

use super::{Compressor, CompressorEntry, Points, Run, Teacher, fitted};
use crate::CompileError;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "exact_basis",
    summary: "as many supports as their kernel matrix has rank: the same W",
    parameters: &[Parameter {
        name: "tolerance",
        kind: Kind::Number { low: 0.0, high: 0.1, closed: true },
        default: Some("1e-12"),
        help: "a support this near to the span of others, of its own square, is left out",
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

    fn begin<'a>(&'a self, teacher: &'a Teacher<'a>) -> Result<Box<dyn Run + 'a>, CompileError> {
        let factor = teacher.factor(self.tolerance.max(ROUNDING));
        Ok(Box::new(Basis { teacher, factor }))
    }
}

struct Basis<'a> {
    teacher: &'a Teacher<'a>,
    factor: Factor<KernelColumns>,
}

impl Run for Basis<'_> {
    fn at(&mut self, size: usize) -> Result<Points, CompileError> {
        let (teacher, mut ended) = (self.teacher, None);
        let limit = size.min(teacher.most());
        self.factor.grow(&mut Greedy, limit, &mut |factor| {
            if factor.rank().is_multiple_of(16) {
                ended = teacher.watch.step("choosing vectors", factor.rank(), limit).err();
            }
            ended.is_none()
        });
        if let Some(error) = ended {
            return Err(error);
        }
        let mut rows: Vec<usize> =
            self.factor.pivots().iter().take(size).filter_map(|pivot| pivot.row).collect();
        // Nothing left out: nothing to change.
        if rows.len() == teacher.len() {
            rows = (0..teacher.len()).collect();
            let offsets = teacher.machine.scores().iter().map(mercer_machine::Score::offset);
            let coefficients = teacher.betas.clone();
            let rows = teacher.supports.select(rows);
            return Ok(Points { rows, coefficients, offsets: offsets.collect() });
        }
        fitted(teacher, &teacher.supports.select(rows))
    }

    fn own(&mut self) -> Result<Option<Points>, CompileError> {
        self.at(usize::MAX).map(Some)
    }
}
