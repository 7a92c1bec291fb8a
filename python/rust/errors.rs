//! Errors of the Rust crates as Python exceptions with their fields.

use std::fmt::Debug;

use mercer::compile::CompileError;
use mercer::data::DataError;
use mercer::machine::MachineError;
use mercer::query::{LoadError, QueryError};
use mercer::spec::SpecError;
use mercer::train::TrainError;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An error that knows its Python class and its fields.
pub(crate) trait ToPyErr: Debug + ToString {
    /// Class name of the exception in `mercer.errors`.
    const CLASS: &'static str;

    /// Writes the fields into a dictionary.
    fn fields(&self, fields: &Bound<'_, PyDict>) -> PyResult<()>;

    /// The exception.
    fn raise(&self, py: Python<'_>) -> PyErr {
        self.exception(py).unwrap_or_else(|error| error)
    }

    /// The exception, or why it could not be made.
    fn exception(&self, py: Python<'_>) -> PyResult<PyErr> {
        let fields = PyDict::new(py);
        self.fields(&fields)?;
        let text = format!("{self:?}");
        let kind = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let class = py.import("mercer.errors")?.getattr(Self::CLASS)?;
        let value = class.call1((self.to_string(), kind, fields))?;
        Ok(PyErr::from_value(value))
    }
}

/// Writes the named fields of the variants listed; others have none that Python could use.
macro_rules! fields {
    ($error:ident, $into:ident, $kind:ident: $($variant:ident { $($field:ident),+ }),+ $(,)?) => {
        match $error {
            $($kind::$variant { $($field),+ } => {
                $($into.set_item(stringify!($field), object($into.py(), $field)?)?;)+
            })+
            _ => {}
        }
    };
}

fn object<T: Clone + for<'py> IntoPyObject<'py>>(py: Python<'_>, value: &T) -> PyResult<Py<PyAny>> {
    value.clone().into_py_any(py)
}

impl ToPyErr for TrainError {
    const CLASS: &'static str = "TrainError";

    fn fields(&self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        fields!(self, into, TrainError:
            TargetCount { formulation, rows, found },
            NotANumber { formulation, row, value },
            TargetNotFinite { row, value },
            OneClass { name },
            TooManyClasses { classes, rows, subproblems },
            InfeasibleNu { subproblem, nu, limit },
            NoMargin { nu, margin },
            BadWeight { place, value },
            WeightCount { found, rows },
            UnknownClass { name, known },
            ZeroClass { name },
            Option { option, value, range },
            KernelNotFinite { row, value },
            Negative { row, column, value, kernel },
            NegativeForBins { row, column, value, kernel },
            Checkpoint { path, reason },
            WarmStart { reason },
            NotTheRows { reason },
            NoSuchRow { row, reason },
            OtherRows { what, reason },
        );
        Ok(())
    }
}

impl ToPyErr for DataError {
    const CLASS: &'static str = "DataError";

    fn fields(&self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        fields!(self, into, DataError:
            NotFiniteAt { row, column, value },
            BadSparseRow { row, reason },
            Shape { values, columns },
        );
        Ok(())
    }
}

impl ToPyErr for QueryError {
    const CLASS: &'static str = "QueryError";

    fn fields(&self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        fields!(self, into, QueryError:
            NotFinite { row, value },
            Negative { row, column, value, kernel },
            Width { found, expected },
            BackgroundWidth { found, expected },
            NotAttributable { kernel, degree },
            ScaledByRow { scaling },
        );
        Ok(())
    }
}

impl ToPyErr for MachineError {
    const CLASS: &'static str = "ModelError";

    fn fields(&self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        fields!(self, into, MachineError:
            Count { what, found, expected },
            NotFinite { what, score, value },
            NoSuchSupport { score, support, supports },
            RepeatedClass { name },
            TooFewClasses { found },
            Negative { support, column, value, kernel },
            Text { line, reason },
            Damaged { reason },
            Version { found, known },
            Unrecognised { reason },
            Inexpressible { format, what },
        );
        Ok(())
    }
}

impl ToPyErr for CompileError {
    const CLASS: &'static str = "PlanError";

    fn fields(&self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        fields!(self, into, CompileError:
            NotAPlan { text, reason },
            Unknown { stage, nearest, known },
            Unfit { stage, reason },
        );
        Ok(())
    }
}

impl ToPyErr for LoadError {
    const CLASS: &'static str = "PlanError";

    fn fields(&self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        fields!(self, into, LoadError:
            Unfit { stage, reason },
            Unknown { stage, known },
            NotProved { stage, reason },
            OtherStages { text, stages },
        );
        Ok(())
    }
}

impl ToPyErr for SpecError {
    const CLASS: &'static str = "SpecError";

    fn fields(&self, _: &Bound<'_, PyDict>) -> PyResult<()> {
        Ok(())
    }
}
