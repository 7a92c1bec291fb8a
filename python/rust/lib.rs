//! The compiled half of the Python package `mercer`: arrays in, arrays out, errors with their fields.
//!
//! Nothing here knows scikit-learn; that is the business of the Python half.

mod answers;
mod errors;
mod gram;
mod model;
mod parts;
mod plans;
mod rows;
mod threads;
mod train;

use pyo3::prelude::*;

/// The compiled half; use `mercer` instead.
#[pymodule]
mod _mercer {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::model::PyModel;
    #[pymodule_export]
    use crate::train::train;

    /// Names of the stages that plans can be made of, the exact one excepted.
    #[pyfunction]
    fn stages() -> Vec<&'static str> {
        mercer::compile::FITTERS.iter().map(|fitter| fitter.stage.name).collect()
    }

    /// The instruction set in use.
    #[pyfunction]
    fn instruction_set() -> String {
        mercer::simd::Isa::current().to_string()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
