//! Supports that survive a price on coefficients: `½ |W - W~|² + λ Σ|g_i|`, then a re-fit.

use std::sync::Arc;

use mercer_spec::{Kind, Parameter, Spec};

use super::descent::Descent;
use super::{Compressor, CompressorEntry, Points, Run, Teacher, fitted, unfit};
use crate::CompileError;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "lasso",
    summary: "supports that survive a price on coefficients, then re-fitted",
    parameters: &[Parameter {
        name: "lambda",
        kind: Kind::Number { low: 1e-12, high: 1.0, closed: true },
        default: Some("0.01"),
        help: "the price, as a share of the one at which nothing is left",
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

    fn begin<'a>(&'a self, teacher: &'a Teacher<'a>) -> Result<Box<dyn Run + 'a>, CompileError> {
        let descent = Descent::new(teacher, vec![1.0; teacher.len()]);
        Ok(Box::new(Priced { teacher, descent, lambda: self.lambda }))
    }
}

struct Priced<'a> {
    teacher: &'a Teacher<'a>,
    descent: Descent<'a>,
    lambda: f64,
}

impl Priced<'_> {
    fn points(&self, rows: Vec<usize>) -> Result<Points, CompileError> {
        if rows.is_empty() {
            return Err(unfit("lasso", "no support survives"));
        }
        fitted(self.teacher, &self.teacher.supports.select(rows))
    }
}

impl Run for Priced<'_> {
    fn at(&mut self, size: usize) -> Result<Points, CompileError> {
        let rows = self.descent.at(size)?;
        self.points(rows)
    }

    fn own(&mut self) -> Result<Option<Points>, CompileError> {
        self.descent.solve(self.lambda * self.descent.largest())?;
        let rows = self.descent.kept();
        self.points(rows).map(Some)
    }
}
