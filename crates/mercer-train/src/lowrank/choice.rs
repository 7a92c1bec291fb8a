//! Which solver fits: what `auto` stands for.

use mercer_data::Dataset;
use mercer_kernel::KernelRef;
use mercer_kernel::factor::{Blocked, Draw, GrowthLimit};

use super::course::suits;
use super::rows::Rows;
use crate::gram::Source;
use crate::{FormulationRef, SolverRef, Training, solver};

/// Below so many examples `smo` is done before a factor is.
const LEAST: usize = 8000;
/// Examples whose spectrum is measured, and the rank it is measured at.
const SAMPLE: usize = 3000;
const RANK: usize = 256;
/// Low rank wins where a factor of that rank leaves at most this share of the trace.
const DECAYED: f64 = 0.2;

/// The solver for these examples, and why.
pub(crate) fn choose(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &Training,
) -> (SolverRef, String) {
    let named = |text: &str| solver(text).expect("solvers of these names are registered");
    let smo = |reason: String| (named("smo"), format!("smo: {reason}"));
    if crate::is_system(formulation) {
        let name = formulation.spec().name().to_owned();
        return (named("direct"), format!("direct: {name} is a linear system"));
    }
    if let Err(reason) = suits(kernel, formulation) {
        return smo(reason);
    }
    if training.has_checkpoint() || training.has_warm_machine() {
        return smo("checkpoints and warm starts are its own".to_owned());
    }
    let rows = data.examples.rows();
    if rows < LEAST {
        return smo(format!("{rows} examples are too few for a factor to pay"));
    }
    let sample: Vec<usize> = (0..SAMPLE).map(|at| at * rows / SAMPLE).collect();
    let examples = data.examples.select(sample);
    let source = Source::new(kernel, &examples);
    if source.diagonal.iter().any(|value| !value.is_finite()) {
        return smo("kernel values overflow".to_owned());
    }
    let all: Vec<u32> = (0..SAMPLE as u32).collect();
    let is_f64 = !source.fits_f32 || source.f32_rows.is_none();
    let measured = Rows::new(&source, &all, is_f64);
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
        "a factor of rank {rank} leaves {:.1} % of the trace of {SAMPLE} examples",
        100.0 * share
    );
    if share <= DECAYED {
        (named("low_rank"), format!("low_rank: {left}"))
    } else {
        smo(format!("{left}, more than {:.0} %", 100.0 * DECAYED))
    }
}
