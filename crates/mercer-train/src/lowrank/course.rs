//! From data to a machine of low rank.

use std::time::Instant;

use mercer_data::Dataset;
use mercer_kernel::KernelRef;
use mercer_kernel::factor::Blocked;
use mercer_simd::Real;

use super::outcome::{asks_lost, assemble, described, full_report};
use super::question::{Ask, Asked};
use super::rows::Rows;
use super::{LowRank, descent, guard, polish, stages};
use crate::control::Control;
use crate::gram::{GramValue, Source};
use crate::reduce::Reduction;
use crate::training::prepare::{self, Inputs};
use crate::validate::Course;
use crate::{Folds, FormulationRef, TrainError, Trained, Training, tables};

/// Why this solver does not fit, if it does not.
pub(crate) fn suits(kernel: &KernelRef, formulation: &FormulationRef) -> Result<(), String> {
    if !kernel.is_positive_semidefinite() {
        let spec = kernel.spec();
        return Err(format!(
            "{spec} is not proved positive semidefinite, so it has no such factor"
        ));
    }
    if tables::needs_tables(formulation) || crate::is_system(formulation) {
        let name = formulation.spec().name().to_owned();
        return Err(format!("{name} is no quadratic program over the Gram matrix"));
    }
    Ok(())
}

/// All examples in random order: descent walks through neighbouring rows, which must not be of one class.
fn mixed(reduction: &dyn Reduction, seed: u64) -> Vec<u32> {
    let mut examples = reduction.blocks().concat();
    descent::shuffle(&mut examples, &mut seed.wrapping_add(7));
    examples
}

/// Learns a machine of low rank.
pub(crate) fn train(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    (training, recipe): (&Training, &LowRank),
    control: &mut Control<'_>,
) -> Result<Trained, TrainError> {
    let unsuited = |reason: String| TrainError::Unsuited { solver: "low_rank".to_owned(), reason };
    suits(kernel, formulation).map_err(unsuited)?;
    if training.has_checkpoint() {
        return Err(unsuited("it writes no checkpoints; leave them out".to_owned()));
    }
    if training.has_warm_machine() {
        return Err(unsuited("it starts from nothing; leave the warm start out".to_owned()));
    }
    let inputs = prepare::inputs(data, Some(kernel), formulation, training)?;
    let reduction = inputs.reduction(training.scheme_used());
    let source = Source::new(kernel, &data.examples);
    prepare::check_diagonal(&source)?;
    let examples = mixed(reduction.as_ref(), recipe.seed);
    let asked = Asked {
        data,
        kernel,
        formulation,
        training,
        recipe,
        inputs: &inputs,
        reduction: reduction.as_ref(),
        source: &source,
        examples: &examples,
    };
    let asks = asked.asks()?;
    control.parts = asks.len();
    if asked.needs_f64(&asks) {
        run::<f64>(&asked, asks, control)
    } else {
        run::<f32>(&asked, asks, control)
    }
}

/// Validates over one factor; see [`crate::cross_validate`].
pub(crate) fn cross_validate(
    data: &Dataset,
    kernel: &KernelRef,
    inputs: &Inputs<'_>,
    (training, recipe): (&Training, &LowRank),
    folds: &Folds,
    courses: &mut [Course<'_>],
    control: &mut Control<'_>,
) -> Result<(), TrainError> {
    let unsuited = |reason: String| TrainError::Unsuited { solver: "low_rank".to_owned(), reason };
    let reduction = inputs.reduction(training.scheme_used());
    let source = Source::new(kernel, &data.examples);
    prepare::check_diagonal(&source)?;
    let examples = mixed(reduction.as_ref(), recipe.seed);
    let formulations: Vec<&FormulationRef> =
        courses.iter().map(|course| course.formulation).collect();
    formulations.iter().try_for_each(|one| suits(kernel, one)).map_err(unsuited)?;
    let asked: Vec<Asked<'_>> = formulations
        .into_iter()
        .map(|formulation| Asked {
            data,
            kernel,
            formulation,
            training,
            recipe,
            inputs,
            reduction: reduction.as_ref(),
            source: &source,
            examples: &examples,
        })
        .collect();
    let needs_f64 = asked.iter().any(|asked| asked.asks().is_ok_and(|asks| asked.needs_f64(&asks)));
    if needs_f64 {
        super::folds::run::<f64>(&asked, folds, courses, control)
    } else {
        super::folds::run::<f32>(&asked, folds, courses, control)
    }
}

fn run<T: Real + GramValue>(
    asked: &Asked<'_>,
    asks: Vec<Ask>,
    control: &mut Control<'_>,
) -> Result<Trained, TrainError> {
    let started = Instant::now();
    let recipe = asked.recipe;
    let count = asked.examples.len();
    let rows = Rows::new(asked.source, asked.examples, T::BYTES == 8);
    let diagonal: Vec<f64> =
        asked.examples.iter().map(|row| asked.source.diagonal[*row as usize]).collect();
    let limit = recipe.rank.unwrap_or(stages::LARGEST_RANK).min(count);
    let file = asked.file(count * limit * T::BYTES)?;
    let room = recipe.rank.map_or(0, |rank| rank.min(count));
    let floor = if T::BYTES == 4 { 1e-5 } else { 1e-10 };
    let mut factor = Blocked::<T>::new(&diagonal, room, floor, recipe.seed, file);
    let held = guard::Held::new(asked, &asks)?;
    let watched = held.as_ref().map_or(asks.as_slice(), |held| held.asks.as_slice());
    let between = stages::grow(&mut factor, &rows, asked, watched, control)?;
    let factor_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let tolerance = asked.training.tolerance_used();
    let close = if held.is_some() { tolerance.max(guard::CLOSE) } else { tolerance };
    let mut solved = asked.solve(&factor, watched, between.as_deref(), close, control)?;
    let mut guarded = None;
    if let Some(held) = &held {
        let outcome = held.judge(asked, &factor, &solved, control)?;
        if outcome.machine.is_none() {
            // Walls of held-out rows differ between the two quadratic programs: coefficients are handed on, not distances.
            let found = solved.iter().zip(&held.asks);
            let starts: Vec<Vec<f64>> =
                found.map(|(one, ask)| one.found.point.beta(&ask.qp)).collect();
            solved = asked.solve_from(&factor, &asks, starts, tolerance, control)?;
        }
        guarded = Some(outcome);
    }
    let solve_seconds = started.elapsed().as_secs_f64();
    let watched =
        if guarded.as_ref().is_some_and(|g| g.machine.is_some()) { watched } else { &asks };
    let mut report = described(recipe, &factor, &solved, (factor_seconds, solve_seconds));
    report.lost = asks_lost(asked, &factor, watched, &solved, control);
    if let Some(outcome) = guarded {
        report.guard = Some(outcome.report);
        if let Some(mut trained) = outcome.machine {
            trained.report.seconds = control.elapsed().as_secs_f64();
            trained.report.low_rank = Some(Box::new(report));
            return Ok(*trained);
        }
    }
    let memory = factor.store().bytes() + asked.source.diagonal.len() * 8;
    let (machine, expansions, parts) = assemble(asked, &factor, &asks, &solved)?;
    let mut full = full_report(control, &machine, parts, &solved, memory);
    full.kernel_values = (count * factor.rank()) as u64;
    drop(factor);
    full.low_rank = Some(Box::new(report));
    let trained = Trained { machine, report: full, expansions, duals: None, left_out: None };
    if asked.training.polishes() {
        return polish::polish(asked, &asks, &solved, trained, control);
    }
    Ok(trained)
}
