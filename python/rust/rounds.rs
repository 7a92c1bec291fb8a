//! The pieces of trainings whose rows are in several places: changes of a working set, weighted sums of kernel values,
//! optimality in parts. Steps of linear and low-rank machines are in `steps.rs`; the rounds are made in Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mercer::kernel::{KERNELS, KernelRef};
use mercer::train::decomposition::{
    ChangeOptions, Changes, OptimalityBounds, OptimalityPart, WeightedSupports, change_program,
    solve_changes,
};
use mercer::train::{Cancel, Qp, Stop, TrainError};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::blocks::PyRowBlock;
use crate::errors::ToPyErr;
use crate::threads;

pub(crate) fn parsed(py: Python<'_>, kernel: &str) -> PyResult<KernelRef> {
    KERNELS.parse(kernel).map_err(|error| error.raise(py))
}

/// A quadratic program over rows: `min ½ β'Kβ + linear'β` in a box with constant sums.
#[pyclass(frozen, module = "mercer._mercer", name = "Program")]
pub(crate) struct PyProgram {
    qp: Qp,
}

impl PyProgram {
    fn check(&self, beta: &[f64], sums: &[f64]) -> PyResult<()> {
        if beta.len() == self.qp.len() && sums.len() == self.qp.rows {
            return Ok(());
        }
        let (found, of) = ((beta.len(), sums.len()), (self.qp.len(), self.qp.rows));
        let text =
            format!("{} coefficients and {} sums for {} and {}", found.0, found.1, of.0, of.1);
        Err(PyValueError::new_err(text))
    }
}

#[pymethods]
impl PyProgram {
    #[new]
    fn new(
        lower: PyReadonlyArray1<'_, f64>,
        upper: PyReadonlyArray1<'_, f64>,
        linear: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let [lower, upper, linear] = [lower, upper, linear].map(|part| part.as_array().to_vec());
        let rows = linear.len();
        if [lower.len(), upper.len()] != [rows; 2] {
            return Err(PyValueError::new_err("one limit of each kind is needed for each row"));
        }
        let (start, groups) = (vec![0.0; rows], vec![0; rows]);
        Ok(Self { qp: Qp { rows, lower, upper, linear, start, groups } })
    }

    fn __len__(&self) -> usize {
        self.qp.rows
    }

    /// The program of the changes of some rows, given coefficients and `Kβ` of all.
    fn changes(
        &self,
        beta: PyReadonlyArray1<'_, f64>,
        sums: PyReadonlyArray1<'_, f64>,
        places: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Self> {
        let (beta, sums) = (beta.as_array().to_vec(), sums.as_array().to_vec());
        self.check(&beta, &sums)?;
        let known =
            |place: &i64| u32::try_from(*place).ok().filter(|at| (*at as usize) < sums.len());
        let places: Option<Vec<u32>> = places.as_array().iter().map(known).collect();
        let places = places.ok_or_else(|| PyValueError::new_err("there is no such row"))?;
        Ok(Self { qp: change_program(&self.qp, &beta, &sums, &places) })
    }
}

/// Options of `solve_changes` as a Python dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PyChangeOptions {
    tolerance: f64,
    memory: usize,
    max_iterations: Option<u64>,
    seconds: Option<f64>,
    threads: usize,
}

/// Solves `min ½ D'KD + linear'D` in a box with a constant sum, from D = 0.
#[pyfunction(name = "solve_changes")]
pub(crate) fn py_solve_changes<'py>(
    py: Python<'py>,
    kernel: &str,
    rows: &Bound<'py, PyRowBlock>,
    program: &Bound<'py, PyProgram>,
    options: PyChangeOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let kernel = parsed(py, kernel)?;
    let cancel = Cancel::new();
    let time_limit = options.seconds.map(Duration::try_from_secs_f64).transpose();
    let settings = ChangeOptions {
        tolerance: options.tolerance,
        memory: options.memory,
        time_limit: time_limit.map_err(|error| PyValueError::new_err(error.to_string()))?,
        max_iterations: options.max_iterations,
        cancel: cancel.clone(),
    };
    let (rows, qp) = (&rows.get().rows, &program.get().qp);
    let solve = || solve_changes(&kernel, rows, qp, &settings);
    let found = threads::interruptible(py, options.threads, |stop| watched(stop, &cancel, solve))?;
    let found = found.map_err(|error| error.raise(py))?;
    let fields = PyDict::new(py);
    fields.set_item("changes", PyArray1::from_vec(py, found.changes))?;
    fields.set_item("iterations", found.iterations)?;
    fields.set_item("kernel_values", found.kernel_values)?;
    fields.set_item("peak_memory_bytes", found.peak_memory_bytes)?;
    fields.set_item("stop", found.stop.map(word))?;
    Ok(fields)
}

fn word(stop: Stop) -> &'static str {
    match stop {
        Stop::Cancelled => "cancelled",
        Stop::TimeLimit => "time limit",
        Stop::IterationLimit => "iteration limit",
        _ => "stalled",
    }
}

/// Runs `solve`, while another thread turns the flag of Ctrl-C into a cancellation.
fn watched(
    stop: &AtomicBool,
    cancel: &Cancel,
    solve: impl FnOnce() -> Result<Changes, TrainError>,
) -> Result<Changes, TrainError> {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    cancel.cancel();
                }
                std::thread::park_timeout(threads::SIGNAL_INTERVAL);
            }
        });
        let found = solve();
        is_done.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        found
    })
}

/// Supports with a weight each: sums of kernel values whose bits do not depend on how rows are cut into blocks.
#[pyclass(frozen, module = "mercer._mercer", name = "WeightedSupports")]
pub(crate) struct PyWeightedSupports {
    supports: WeightedSupports,
    columns: usize,
}

#[pymethods]
impl PyWeightedSupports {
    #[new]
    #[pyo3(signature = (kernel, supports, weights, centre=None))]
    fn new(
        py: Python<'_>,
        kernel: &str,
        supports: &Bound<'_, PyRowBlock>,
        weights: PyReadonlyArray1<'_, f64>,
        centre: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<Self> {
        let kernel = parsed(py, kernel)?;
        let rows = &supports.get().rows;
        let weights = weights.as_array().to_vec();
        let centre = centre.map(|centre| centre.as_array().to_vec());
        if weights.len() != rows.rows() {
            return Err(PyValueError::new_err("one weight is needed for each support"));
        }
        if centre.as_ref().is_some_and(|centre| centre.len() != rows.columns()) {
            return Err(PyValueError::new_err("the centre needs one value for each column"));
        }
        let make = || WeightedSupports::new(&kernel, rows, &weights, centre.as_deref());
        let supports = py.detach(|| threads::run_on(1, make));
        Ok(Self { supports, columns: rows.columns() })
    }

    fn __len__(&self) -> usize {
        self.supports.len()
    }

    /// `Σ weight K(row, support)` of each row.
    #[pyo3(signature = (rows, threads=0))]
    fn sums<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyRowBlock>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let rows = &rows.get().rows;
        if rows.columns() != self.columns {
            let text = format!("rows of {} columns, supports of {}", rows.columns(), self.columns);
            return Err(PyValueError::new_err(text));
        }
        let mut sums = vec![0.0; rows.rows()];
        py.detach(|| threads::run_on(threads, || self.supports.add(rows, &mut sums)));
        Ok(PyArray1::from_vec(py, sums))
    }
}

/// Violation and multiplier of all rows, from parts that merge.
#[pyclass(module = "mercer._mercer", name = "OptimalityBounds")]
pub(crate) struct PyOptimalityBounds {
    bounds: OptimalityBounds,
}

#[pymethods]
impl PyOptimalityBounds {
    /// Bounds without rows.
    #[new]
    fn new() -> Self {
        Self { bounds: OptimalityBounds::empty(1) }
    }

    /// Takes in the rows of a program.
    fn add(
        &mut self,
        program: &Bound<'_, PyProgram>,
        beta: PyReadonlyArray1<'_, f64>,
        sums: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<()> {
        let (beta, sums) = (beta.as_array().to_vec(), sums.as_array().to_vec());
        program.get().check(&beta, &sums)?;
        self.bounds.merge(&OptimalityBounds::of(&program.get().qp, &beta, &sums));
        Ok(())
    }

    /// Takes in the rows of another part.
    fn merge(&mut self, other: PyRef<'_, Self>) {
        self.bounds.merge(&other.bounds);
    }

    /// The largest violation of the optimality conditions.
    #[getter]
    fn violation(&self) -> f64 {
        self.bounds.violation()
    }

    /// The multiplier of the sum: b of the machine.
    #[getter]
    fn multiplier(&self) -> f64 {
        self.bounds.multipliers().first().copied().unwrap_or(0.0)
    }
}

/// Objective and duality gap of the rows of a program, given the multiplier of all.
#[pyfunction]
pub(crate) fn objective_and_gap(
    program: &Bound<'_, PyProgram>,
    beta: PyReadonlyArray1<'_, f64>,
    sums: PyReadonlyArray1<'_, f64>,
    multiplier: f64,
) -> PyResult<(f64, f64)> {
    let (beta, sums) = (beta.as_array().to_vec(), sums.as_array().to_vec());
    program.get().check(&beta, &sums)?;
    let part = OptimalityPart::of(&program.get().qp, &beta, &sums, &[multiplier]);
    Ok((part.objective, part.gap))
}
