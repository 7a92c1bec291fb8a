//! The compiled module of the Python package `mercer`: arrays in, arrays out, errors with their fields.
//!
//! Nothing here depends on scikit-learn; the Python modules do.

mod answers;
mod blocks;
mod errors;
mod machine_parts;
mod model;
mod plans;
mod queries;
mod rounds;
mod rows;
mod steps;
mod threads;
mod train;
mod trust;
mod updates;

use pyo3::prelude::*;

/// The compiled module; use `mercer` instead.
#[pymodule(gil_used = false)]
mod _mercer {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::blocks::PyRowBlock;
    #[pymodule_export]
    use crate::model::PyModel;
    #[pymodule_export]
    use crate::rounds::{
        PyOptimalityBounds, PyProgram, PyWeightedSupports, objective_and_gap, py_solve_changes,
    };
    #[pymodule_export]
    use crate::steps::{PyBins, PyLandmarks, py_common_step, py_dual_step};
    #[pymodule_export]
    use crate::train::train;
    #[pymodule_export]
    use crate::updates::{update_model, with_kept_rows};

    /// Names of the stages that plans can be made of, the exact one excepted.
    #[pyfunction]
    fn stages() -> Vec<&'static str> {
        mercer::compile::FITTERS.iter().map(|fitter| fitter.stage.name).collect()
    }

    /// The largest number of threads: four for each core.
    #[pyfunction]
    fn thread_limit() -> usize {
        mercer::threads::limit()
    }

    /// The instruction set in use.
    #[pyfunction]
    fn instruction_set() -> String {
        mercer::simd::Isa::current().to_string()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        if let Err(text) = mercer::simd::Isa::check_environment() {
            let category = module.py().get_type::<pyo3::exceptions::PyRuntimeWarning>();
            let text = std::ffi::CString::new(text + "; the best one is used").unwrap_or_default();
            PyErr::warn(module.py(), &category, &text, 1)?;
        }
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
