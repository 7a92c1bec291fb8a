//! The rule of the solver `auto`: `direct` for linear systems, `low_rank` for large data with a fast-decaying spectrum,
//! else `decomposition` where many supports are at bound, and `smo` where not.

use mercer_data::Dataset;
use mercer_kernel::KernelRef;
use mercer_kernel::factor::{Blocked, Draw, GrowthLimit};

use super::backend::suits;
use super::factor_rows::FactorRows;
use super::grow::LARGEST_RANK;
use crate::gram::Source;
use crate::{FormulationRef, ProblemForm, SolverRef, Training, solver, train};

/// With fewer examples `smo` is faster than computing a factor.
const LEAST_EXAMPLES: usize = 8000;
/// Sample on which the spectrum is measured, and the rank of the measured factor.
const SAMPLE: usize = 3000;
const RANK: usize = 256;
/// `low_rank` is chosen if the residual of that factor is at most this share of the trace.
const DECAYED: f64 = 0.2;

/// With fewer examples `decomposition` and `smo` differ little.
const LEAST_FOR_ROUNDS: usize = 20_000;
/// Examples of the machine from which the share of bounded supports is taken, and its tolerance.
const TRIAL: usize = 4000;
const TRIAL_TOLERANCE: f64 = 0.05;
/// `decomposition` is chosen if this share of the supports is at bound: they cost it nothing, and `smo` a kernel row each.
const BOUNDED: f64 = 0.15;

/// Up to this share of the trace the measured factor is large enough; with more, the largest one may be needed.
const SMALL: f64 = 0.01;
/// A kernel value costs as much as so many columns beside its product.
const VALUE_COST: f64 = 20.0;

/// The solver for these data, and the reason in words.
pub(crate) fn choose(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &Training,
) -> (SolverRef, String) {
    let examples = &data.examples;
    let exact = |reason: String| Trial::of(data, kernel, formulation, training).choose(&reason);
    if formulation.form() == ProblemForm::LinearSystem {
        let name = formulation.spec().name().to_owned();
        return (named("direct"), format!("direct: {name} is a linear system"));
    }
    if let Err(reason) = suits(kernel, formulation) {
        return exact(reason);
    }
    if training.warm.is_some() {
        return (named("smo"), "smo: it starts from a machine".to_owned());
    }
    if training.checkpoint.is_some() {
        return exact("low_rank has no checkpoints".to_owned());
    }
    let rows = examples.rows();
    if rows < LEAST_EXAMPLES {
        return exact(format!("{rows} examples are few; a low-rank factor would not be faster"));
    }
    let sample: Vec<usize> = (0..SAMPLE).map(|at| at * rows / SAMPLE).collect();
    let sampled = examples.select(sample);
    let source = Source::new(kernel, &sampled);
    if source.diagonal.iter().any(|value| !value.is_finite()) {
        return exact("kernel values overflow".to_owned());
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
    if share > DECAYED {
        return exact(format!("{left}, more than {:.0} %", 100.0 * DECAYED));
    }
    let trial = Trial::of(data, kernel, formulation, training);
    let needed = if share <= SMALL { rank } else { LARGEST_RANK };
    if trial.exact_cost(data, &source) < (needed * needed) as f64 {
        return trial.choose(&format!("{left}, but the exact machine costs less"));
    }
    (named("low_rank"), format!("low_rank: {left}"))
}

fn named(text: &str) -> SolverRef {
    solver(text).expect("solvers of these names are registered")
}

/// A machine that is trained on some of the examples: it tells how many of all are supports, and how many at bound.
struct Trial {
    /// All examples.
    rows: usize,
    examples: usize,
    supports: usize,
    bounded: usize,
}

impl Trial {
    fn of(
        data: &Dataset,
        kernel: &KernelRef,
        formulation: &FormulationRef,
        training: &Training,
    ) -> Self {
        let rows = data.examples.rows();
        let examples = TRIAL.min(rows);
        let chosen: Vec<usize> = (0..examples).map(|at| at * rows / examples.max(1)).collect();
        let trial = Training::default()
            .solver(named("smo"))
            .tolerance(TRIAL_TOLERANCE)
            .cancel(training.cancel.clone());
        // Data that cannot be trained are refused later, with the row that is to blame.
        let trained = (rows >= LEAST_EXAMPLES)
            .then(|| train(&data.select(&chosen), kernel, formulation, &trial, &mut |_| {}).ok())
            .flatten();
        let (supports, bounded) =
            trained.map_or((0, 0), |trained| (trained.report.supports, trained.report.bounded));
        Self { rows, examples, supports, bounded }
    }

    /// Multiply-adds of an exact training for each example: two kernel values for each support.
    fn exact_cost(&self, data: &Dataset, source: &Source<'_>) -> f64 {
        let supports = self.rows as f64 * self.supports as f64 / self.examples.max(1) as f64;
        let rows = self.rows.max(1) as f64;
        let columns =
            (2.0 * data.examples.nonzeros() as f64 / rows).min(source.examples.columns() as f64);
        2.0 * supports * (columns + VALUE_COST)
    }

    /// `smo` or `decomposition`; `reason` says why not low rank.
    fn choose(&self, reason: &str) -> (SolverRef, String) {
        let Self { rows, examples, supports, bounded } = self;
        if *rows < LEAST_FOR_ROUNDS {
            return (named("smo"), format!("smo: {reason}"));
        }
        let is_bounded = *bounded as f64 > BOUNDED * *supports as f64;
        let name = if is_bounded { "decomposition" } else { "smo" };
        let counted =
            format!("of {examples} examples {supports} are supports, {bounded} of them at bound");
        (named(name), format!("{name}: {reason}; {counted}"))
    }
}

#[cfg(test)]
mod tests {
    use mercer_data::{Matrix, Targets};
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Points in the unit square, with the label of the left or right half, or a drawn one for a share of them.
    fn halves(rows: usize, drawn: f64) -> Dataset {
        let mut random = SplitMix64::seed_from_u64(7);
        let mut values = Vec::with_capacity(2 * rows);
        let mut targets = Vec::with_capacity(rows);
        for _ in 0..rows {
            let [x, y, is_drawn, label] =
                [(); 4].map(|()| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
            values.extend([x, y]);
            let side = if is_drawn < drawn { label } else { x };
            targets.push(if side < 0.5 { -1.0 } else { 1.0 });
        }
        Dataset {
            examples: Matrix::dense(2, values).unwrap(),
            targets: Targets::Numbers(targets),
            names: None,
        }
    }

    fn chosen(rows: usize, drawn: f64, kernel: &str) -> String {
        let kernel = mercer_kernel::parse(kernel).unwrap();
        let c_svc = crate::formulation("c_svc(C=1)").unwrap();
        let (solver, reason) = choose(&halves(rows, drawn), &kernel, &c_svc, &Training::default());
        assert!(reason.starts_with(solver.spec().name()), "{reason}");
        reason
    }

    #[test]
    fn supports_at_bound_speak_for_rounds_and_a_low_rank_for_a_factor() {
        // A narrow kernel: no spectrum decays.
        assert!(chosen(20_000, 0.6, "rbf(gamma=3000)").starts_with("decomposition"));
        assert!(chosen(20_000, 0.0, "rbf(gamma=3000)").starts_with("smo"));
        assert!(chosen(10_000, 0.6, "rbf(gamma=3000)").starts_with("smo"));
        assert!(chosen(20_000, 0.6, "rbf(gamma=1)").starts_with("low_rank"));
    }
}
