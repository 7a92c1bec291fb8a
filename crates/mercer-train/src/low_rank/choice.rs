//! The rule of the solver `auto`: `direct` for linear systems, `low_rank` for large data with a fast-decaying spectrum,
//! else `smo`.

use mercer_data::Matrix;
use mercer_kernel::KernelRef;
use mercer_kernel::factor::{Blocked, Draw, GrowthLimit};

use super::backend::suits;
use super::factor_rows::FactorRows;
use crate::gram::Source;
use crate::{FormulationRef, ProblemForm, SolverRef, Training, solver};

/// With fewer examples `smo` is faster than computing a factor.
const LEAST_EXAMPLES: usize = 8000;
/// Sample on which the spectrum is measured, and the rank of the measured factor.
const SAMPLE: usize = 3000;
const RANK: usize = 256;
/// `low_rank` is chosen if the residual of that factor is at most this share of the trace.
const DECAYED: f64 = 0.2;

/// The solver for these data, and the reason in words.
pub(crate) fn choose(
    examples: &Matrix,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &Training,
) -> (SolverRef, String) {
    let named = |text: &str| solver(text).expect("solvers of these names are registered");
    let smo = |reason: String| (named("smo"), format!("smo: {reason}"));
    if formulation.form() == ProblemForm::LinearSystem {
        let name = formulation.spec().name().to_owned();
        return (named("direct"), format!("direct: {name} is a linear system"));
    }
    if let Err(reason) = suits(kernel, formulation) {
        return smo(reason);
    }
    if training.checkpoint.is_some() || training.warm.is_some() {
        return smo("low_rank has no checkpoints and no warm starts".to_owned());
    }
    let rows = examples.rows();
    if rows < LEAST_EXAMPLES {
        return smo(format!("{rows} examples are few; a low-rank factor would not be faster"));
    }
    let sample: Vec<usize> = (0..SAMPLE).map(|at| at * rows / SAMPLE).collect();
    let sampled = examples.select(sample);
    let source = Source::new(kernel, &sampled);
    if source.diagonal.iter().any(|value| !value.is_finite()) {
        return smo("kernel values overflow".to_owned());
    }
    let all: Vec<u32> = (0..SAMPLE as u32).collect();
    let is_f64 = !source.fits_f32 || source.f32_rows.is_none();
    let measured = FactorRows::new(&source, &all, is_f64);
    let mut factor = Blocked::<f64>::new(&source.diagonal, RANK, 1e-8, 1, None);
    let cancel = &training.cancel;
    factor.grow(
        &measured,
        Draw::Random,
        GrowthLimit { rank: RANK, trace_share: 1e-6 },
        &mut |_| !cancel.is_cancelled(),
    );
    let (share, rank) = (factor.trace_share(), factor.rank());
    let left = format!(
        "a factor of rank {rank} leaves a residual of {:.1} % of the trace on {SAMPLE} examples",
        100.0 * share
    );
    if share <= DECAYED {
        (named("low_rank"), format!("low_rank: {left}"))
    } else {
        smo(format!("{left}, more than {:.0} %", 100.0 * DECAYED))
    }
}
