//! Steps of linear, additive and low-rank machines over blocks of rows, and machines made of their weights.

use std::sync::Arc;

use mercer::machine::{Bins, Input, Machine, Model, Output, Provenance, Scheme, Score, Spacing};
use mercer::train::decomposition::Landmarks;
use mercer::train::{DualStepOptions, common_step, dual_step, encode_rows};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::blocks::PyRowBlock;
use crate::errors::ToPyErr;
use crate::machine_parts::PyClassName;
use crate::model::PyModel;
use crate::rounds::parsed;

type F64s<'py> = PyReadonlyArray1<'py, f64>;

/// Checks that every list has its length.
fn check(what: &str, found: &[(usize, usize)]) -> PyResult<()> {
    match found.iter().find(|(found, expected)| found != expected) {
        Some((found, expected)) => Err(PyValueError::new_err(format!(
            "{what} has {found} numbers where {expected} are needed"
        ))),
        None => Ok(()),
    }
}

/// Landmarks, packed once: sums of the squared hinge over blocks, for Newton's method.
#[pyclass(frozen, module = "mercer._mercer", name = "Landmarks")]
pub(crate) struct PyLandmarks {
    landmarks: Landmarks,
    columns: usize,
}

#[pymethods]
impl PyLandmarks {
    #[new]
    fn new(py: Python<'_>, kernel: &str, landmarks: &Bound<'_, PyRowBlock>) -> PyResult<Self> {
        let kernel = parsed(py, kernel)?;
        let rows = &landmarks.get().rows;
        let landmarks = py.detach(|| Landmarks::new(&kernel, rows));
        Ok(Self { landmarks, columns: rows.columns() })
    }

    fn __len__(&self) -> usize {
        self.landmarks.count()
    }

    /// Loss, gradient and Hessian (row-major) of `½ Σ c max(0, 1 - y f)²` at the weights, b last.
    fn sums<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyRowBlock>,
        targets: F64s<'py>,
        costs: F64s<'py>,
        weights: F64s<'py>,
    ) -> PyResult<(f64, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
        let rows = &rows.get().rows;
        let [targets, costs, weights] =
            [targets, costs, weights].map(|part| part.as_array().to_vec());
        let (count, size) = (rows.rows(), self.landmarks.count() + 1);
        check("a list", &[(targets.len(), count), (costs.len(), count), (weights.len(), size)])?;
        check("a row", &[(rows.columns(), self.columns)])?;
        let sums = py.detach(|| self.landmarks.sums(rows, &targets, &costs, &weights));
        let gradient = PyArray1::from_vec(py, sums.gradient);
        Ok((sums.loss, gradient, PyArray1::from_vec(py, sums.hessian)))
    }
}

/// Options of `dual_step` as a Python dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PyDualStepOptions {
    passes: u32,
    seed: u64,
    constant: f64,
}

/// Dual coordinate descent of the hinge loss on one block, all others fixed.
#[pyfunction(name = "dual_step")]
pub(crate) fn py_dual_step<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyRowBlock>,
    targets: F64s<'py>,
    costs: F64s<'py>,
    alpha: F64s<'py>,
    weights: F64s<'py>,
    options: PyDualStepOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = &rows.get().rows;
    let [targets, costs, alpha, weights] =
        [targets, costs, alpha, weights].map(|part| part.as_array().to_vec());
    let (count, size) = (rows.rows(), rows.columns() + 1);
    let lengths = [(targets.len(), count), (costs.len(), count), (alpha.len(), count)];
    check("a list", &lengths)?;
    check("the list of weights", &[(weights.len(), size)])?;
    let PyDualStepOptions { passes, seed, constant } = options;
    let options = DualStepOptions { passes, seed, constant };
    let step = py.detach(|| dual_step(rows, &targets, &costs, &alpha, &weights, &options));
    let fields = PyDict::new(py);
    fields.set_item("alpha_changes", PyArray1::from_vec(py, step.alpha_changes))?;
    fields.set_item("weight_changes", PyArray1::from_vec(py, step.weight_changes))?;
    fields.set_item("alpha_sum", step.alpha_sum)?;
    fields.set_item("loss", step.loss)?;
    Ok(fields)
}

/// The best common step along summed changes.
#[pyfunction(name = "common_step")]
pub(crate) fn py_common_step(
    weights: F64s<'_>,
    weight_changes: F64s<'_>,
    alpha_sum: f64,
) -> PyResult<f64> {
    let [weights, changes] = [weights, weight_changes].map(|part| part.as_array().to_vec());
    check("the list of changes", &[(changes.len(), weights.len())])?;
    Ok(common_step(&weights, &changes, alpha_sum))
}

/// Bins between zero and a largest value, with an encoding.
#[pyclass(frozen, module = "mercer._mercer", name = "Bins")]
pub(crate) struct PyBins {
    bins: Arc<Bins>,
}

#[pymethods]
impl PyBins {
    /// `encoding` has one row for each bin, bin 0 (zero) first; bin b stands for `top (b / last)^exponent`.
    #[new]
    fn new(
        py: Python<'_>,
        top: f64,
        exponent: u32,
        encoding: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Self> {
        let encoding = encoding.as_array();
        let numbers = encoding.iter().copied().collect();
        let bins = Bins::new(Spacing::Power { top, exponent }, encoding.ncols(), numbers);
        Ok(Self { bins: Arc::new(bins.map_err(|error| error.raise(py))?) })
    }

    /// Rows as the encodings of their values, column after column.
    fn encode(&self, py: Python<'_>, rows: &Bound<'_, PyRowBlock>) -> PyRowBlock {
        let rows = &rows.get().rows;
        PyRowBlock { rows: py.detach(|| encode_rows(rows, &self.bins)) }
    }

    /// A machine of two or more classes whose scores are additive over these bins.
    fn machine(
        &self,
        py: Python<'_>,
        kernel: &str,
        columns: usize,
        weights: PyReadonlyArray2<'_, f32>,
        offsets: F64s<'_>,
        names: Vec<PyClassName>,
    ) -> PyResult<PyModel> {
        let (weights, offsets) = (weights.as_array(), offsets.as_array());
        check("the list of offsets", &[(offsets.len(), weights.nrows())])?;
        let scores = weights
            .rows()
            .into_iter()
            .zip(offsets)
            .map(|(row, offset)| Score::Additive { weights: row.to_vec(), offset: *offset });
        let names = names.into_iter().map(Into::into).collect();
        let output = Output::Classes { names, scheme: Scheme::OneVsOne };
        let (kernel, bins) = (parsed(py, kernel)?, Arc::clone(&self.bins));
        let machine = Machine::additive(kernel, columns, bins, scores.collect(), output);
        let machine = machine.map_err(|error| error.raise(py))?;
        let model = Model {
            input: Input { features: Some(columns), ..Input::default() },
            provenance: Provenance {
                origin: "mercer".to_owned(),
                formulation: Some("c_svc".to_owned()),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                source_supports: None,
                parent: None,
            },
            ..Model::from(machine)
        };
        PyModel::new(py, model)
    }
}
