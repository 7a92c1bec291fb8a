//! Machines built from arrays: those of converted scikit-learn estimators.

use mercer::data::DataError;
use mercer::data::scale::{Map, Norm, Scaling};
use mercer::kernel::KERNELS;
use mercer::machine::{
    ClassName, Input, Machine, Model, Output, Probabilities, Provenance, Scheme, Score,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::ToPyErr;
use crate::rows::Rows;

/// The name of a class.
#[derive(Clone, FromPyObject, IntoPyObject)]
pub(crate) enum PyClassName {
    Number(f64),
    Text(String),
}

impl From<PyClassName> for ClassName {
    fn from(name: PyClassName) -> Self {
        match name {
            PyClassName::Number(number) => Self::Number(number),
            PyClassName::Text(text) => Self::Text(text),
        }
    }
}

impl From<&ClassName> for PyClassName {
    fn from(name: &ClassName) -> Self {
        match name {
            ClassName::Number(number) => Self::Number(*number),
            ClassName::Text(text) => Self::Text(text.clone()),
        }
    }
}

/// The parts of a machine.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct MachineParts<'py> {
    kernel: String,
    /// `value`, `novelty`, `one_vs_one` or `one_vs_rest`.
    output: String,
    names: Vec<PyClassName>,
    supports: Rows<'py>,
    /// One row of coefficients per score; of weights per column where `is_linear`.
    coefficients: PyReadonlyArray2<'py, f64>,
    /// b of each score.
    offsets: PyReadonlyArray1<'py, f64>,
    is_linear: bool,
    /// A and B of each score, where known.
    sigmoids: Option<(Vec<f64>, Vec<f64>)>,
    origin: String,
    formulation: Option<String>,
}

impl MachineParts<'_> {
    /// The machine with all that is known of it.
    pub(crate) fn model(self, py: Python<'_>) -> PyResult<Model> {
        let supports = self.supports.view().matrix(None).map_err(|error| error.raise(py))?;
        let kernel = KERNELS.parse(&self.kernel).map_err(|error| error.raise(py))?;
        let names = || self.names.iter().cloned().map(Into::into).collect();
        let output = match self.output.as_str() {
            "value" => Output::Value,
            "novelty" => Output::Novelty,
            "one_vs_one" => Output::Classes { names: names(), scheme: Scheme::OneVsOne },
            "one_vs_rest" => Output::Classes { names: names(), scheme: Scheme::OneVsRest },
            other => return Err(PyValueError::new_err(format!("there is no output '{other}'"))),
        };
        let coefficients = self.coefficients.as_array();
        let scores = coefficients
            .rows()
            .into_iter()
            .zip(self.offsets.as_array())
            .map(|(row, offset)| {
                let row = row.to_vec();
                if self.is_linear {
                    Score::Linear { weights: row, offset: *offset }
                } else {
                    Score::expansion(&row, *offset)
                }
            })
            .collect();
        let (columns, rows) = (supports.columns(), supports.rows());
        let machine = Machine::new(kernel, supports, scores, output);
        let machine = machine.map_err(|error| error.raise(py))?;
        let probabilities = self.sigmoids.map(|(a, b)| Probabilities::Sigmoid { a, b });
        Ok(Model {
            input: Input { features: Some(columns), ..Input::default() },
            probabilities,
            provenance: Provenance {
                origin: self.origin,
                formulation: self.formulation,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                source_supports: (!self.is_linear).then_some(rows),
                parent: None,
            },
            ..Model::from(machine)
        })
    }
}

/// Weights, one row for each score, and offsets b.
pub(crate) type Weights<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// The weights of a machine of linear scores.
pub(crate) fn weights<'py>(py: Python<'py>, machine: &Machine) -> PyResult<Option<Weights<'py>>> {
    let (mut rows, mut offsets) = (Vec::new(), Vec::new());
    for score in machine.scores() {
        let Score::Linear { weights, offset } = score else { return Ok(None) };
        rows.extend_from_slice(weights);
        offsets.push(*offset);
    }
    let shape = [offsets.len(), machine.columns()];
    let table = PyArray1::from_vec(py, rows).reshape(shape)?;
    Ok(Some((table, PyArray1::from_vec(py, offsets))))
}

/// The input description of a machine whose rows are first scaled: by columns, or each by its norm.
pub(crate) fn scaled(
    input: &Input,
    centres: Vec<f64>,
    factors: Vec<f64>,
    norm: Option<&str>,
) -> Result<Input, DataError> {
    let scaling = match norm {
        Some(word) => {
            let norms = [Norm::L1, Norm::L2, Norm::Max];
            let norm = norms.into_iter().find(|norm| norm.name() == word);
            let reason = format!("there is no norm '{word}'");
            let norm = norm.ok_or(DataError::BadScaling { reason })?;
            Scaling::from_parts(&format!("unit_norm(norm={word})"), Map::UnitNorm(norm))?
        }
        None => Scaling::from_parts(Scaling::AFFINE, Map::Affine { centres, factors })?,
    };
    Ok(Input { scaling: Some(scaling), ..input.clone() })
}
