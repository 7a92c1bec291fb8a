//! Additive kernels at the cost of linear ones: values are rounded to bins, and the scalar kernel on the bins becomes
//! look-up factors `κ(s, t) ≈ Φ(s)·Φ(t)`.
//!
//! The machine is then linear in `rank` hidden numbers per column; [`crate::linear`] trains it. Linear machines on
//! binned values are the case of rank 1.

mod bins;
mod factors;
mod maps;
mod pack;
mod printed;
mod scalar_kernel;
mod tables;

use std::time::Instant;

use mercer_simd::factors::{Factors, StepEncoding};

pub use bins::BinPlacement;
pub use factors::FactorReport;
pub(crate) use maps::FeatureMap;
pub use maps::Nodes;
pub use printed::PrintedPmsvm;
pub(crate) use scalar_kernel::scalar_kernel;

use crate::TrainError;
use crate::backend::Prepared;
use crate::linear::{BuildScores, Packing, PreparationReport, PreparedLinear, linear_scores};
use crate::packed::{ColumnOrder, RowsToPack};
use maps::KernelFactors;

/// Assigns values to bins, factors the scalar kernel and packs the examples.
///
/// # Errors
/// If the kernel is not additive, or the values do not fit into bins.
pub(crate) fn prepare<'p>(packing: Packing<'p>) -> Result<Box<dyn Prepared + 'p>, TrainError> {
    let kernel = scalar_kernel(&packing)?;
    let started = Instant::now();
    let (solver, examples) = (packing.solver, packing.problem.examples);
    let (columns, places) = ColumnOrder::new(examples, &packing.rows)?;
    let is_linear = solver.map == FeatureMap::Value;
    let name = packing.problem.kernel.spec().name().to_owned();
    let bins = bins::choose(examples, &packing.rows, solver.bins, &name, is_linear)?;
    let rows = RowsToPack {
        source: examples,
        rows: &packing.rows,
        classes: &packing.problem.labels.class_of,
        columns: &columns,
        places: &places,
    };
    let values = bins.values(solver.bin_count);
    let steps = solver.map.step_encoding(kernel.as_term(), &values, columns.all());
    if steps.is_some() {
        packing.check_weights(values.len())?;
    }
    let packed = pack::pack(rows, &bins, solver.bin_count, packing.memory_budget())?;
    let writer = packed.writer;
    let report = |factor: FactorReport| {
        let seconds = started.elapsed().as_secs_f64();
        PreparationReport { bins: bins.name(), factor, seconds }
    };
    if let Some(steps) = steps {
        let store = writer.finish(|records| records.set_squared_norms(&values))?;
        let packed = packing.linear_problem(store, columns, steps, true);
        let report = report(FactorReport { relative_error: 0.0, worst_error: 0.0 });
        let build_scores: BuildScores<StepEncoding> =
            Box::new(move |problem, solved| tables::curve_scores(problem, &bins, solved));
        return Ok(Box::new(PreparedLinear { packing, packed, report, build_scores }));
    }
    let made = solver.map.make(kernel.as_term(), &values, &packed.counts, columns.kept());
    let store = writer.finish(|records| records.set_squared_norms(&made.squared_norms))?;
    let KernelFactors { factors, has_dual_objective, report: factor, .. } = made;
    let packed = packing.linear_problem(store, columns, factors, has_dual_objective);
    let report = report(factor);
    let build_scores: BuildScores<Factors> = if is_linear {
        Box::new(linear_scores::<Factors>)
    } else {
        Box::new(move |problem, solved| tables::factor_scores(problem, &bins, solved))
    };
    Ok(Box::new(PreparedLinear { packing, packed, report, build_scores }))
}
