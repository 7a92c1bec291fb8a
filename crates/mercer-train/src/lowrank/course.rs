//! From data to a machine of low rank.

use std::time::Instant;

use mercer_data::Dataset;
use mercer_kernel::KernelRef;
use mercer_kernel::factor::{Blocked, Store};
use mercer_machine::{Machine, Score};
use mercer_simd::Real;
use rayon::prelude::*;

use super::interior::{self, Found, Steer};
use super::rows::Rows;
use super::{How, LowRank, LowRankReport, Precision, Rule, descent, guard, lost, polish, stages};
use crate::control::{Control, Standing};
use crate::gram::{Source, Value};
use crate::reduce::Reduction;
use crate::training::prepare::{self, Inputs};
use crate::training::{conclusion_of, majority};
use crate::validate::Course;
use crate::{
    Expansion, Folds, FormulationRef, Part, PartReport, Qp, Report, Stop, TrainError, Trained,
    Training, tables,
};

/// Beyond this `C |g|²` descent is slower than interior points.
const STEEP: f64 = 100.0;
/// Beyond this `C |g|²` singles are too coarse for the factor.
const COARSE: f64 = 1e6;
/// Tolerances up to this one ask for interior points and doubles.
const FINE: f64 = 1e-6;

/// All that a low-rank training reads.
pub(super) struct Asked<'a> {
    pub(super) data: &'a Dataset,
    pub(super) kernel: &'a KernelRef,
    pub(super) formulation: &'a FormulationRef,
    pub(super) training: &'a Training,
    pub(super) recipe: &'a LowRank,
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) reduction: &'a dyn Reduction,
    pub(super) source: &'a Source<'a>,
    /// The example of each row of the factor.
    pub(super) examples: &'a [u32],
}

/// One programme over rows of the factor.
pub(super) struct Ask {
    pub(super) name: String,
    /// The rows, increasing, unless all.
    pub(super) rows: Option<Vec<u32>>,
    /// The place of each row in the question as solvers of Gram matrices ask it.
    pub(super) places: Vec<u32>,
    pub(super) targets: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) qp: Qp,
}

/// Its solution.
pub(super) struct Solved {
    pub(super) found: Found,
    pub(super) switched: bool,
}

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
        return Err(format!("{name} is no quadratic programme over the Gram matrix"));
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
    if asked.needs_doubles(&asks) {
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
    let needs_doubles =
        asked.iter().any(|asked| asked.asks().is_ok_and(|asks| asked.needs_doubles(&asks)));
    if needs_doubles {
        super::folds::run::<f64>(&asked, folds, courses, control)
    } else {
        super::folds::run::<f32>(&asked, folds, courses, control)
    }
}

impl Asked<'_> {
    pub(super) fn asks(&self) -> Result<Vec<Ask>, TrainError> {
        let blocks = self.reduction.blocks();
        let mut row_of = vec![0u32; self.data.examples.rows()];
        (0u32..).zip(self.examples).for_each(|(row, example)| row_of[*example as usize] = row);
        (0..self.reduction.questions())
            .map(|number| {
                let binary = self.reduction.question(number);
                let members = binary.blocks.iter().flat_map(|block| &blocks[*block]);
                let mut order: Vec<(u32, u32)> =
                    members.zip(0u32..).map(|(e, place)| (row_of[*e as usize], place)).collect();
                order.sort_unstable();
                let (rows, places): (Vec<u32>, Vec<u32>) = order.into_iter().unzip();
                let pick = |values: &[f64]| -> Vec<f64> {
                    places.iter().map(|place| values[*place as usize]).collect()
                };
                let (targets, weights) = (pick(&binary.targets), pick(&binary.weights));
                let part = Part { name: &binary.name, targets: &targets, weights: &weights };
                let qp = self.formulation.programme(&part)?;
                let rows = (rows.len() < self.examples.len()).then_some(rows);
                Ok(Ask { name: binary.name, rows, places, targets, weights, qp })
            })
            .collect()
    }

    fn needs_doubles(&self, asks: &[Ask]) -> bool {
        let largest = self.source.diagonal.iter().fold(0.0, |most: f64, k| most.max(*k));
        let limit = asks.iter().flat_map(|ask| ask.qp.upper.iter().chain(&ask.qp.lower));
        let limit = limit.fold(0.0, |most: f64, c| most.max(c.abs()));
        match self.recipe.precision {
            Precision::Double => true,
            Precision::Single => !self.source.fits_singles,
            Precision::Auto => {
                !self.source.fits_singles
                    || self.source.singles.is_none()
                    || self.training.tolerance_used() <= FINE
                    || largest * limit > COARSE
            }
        }
    }

    /// Numbers read for one kernel value.
    pub(super) fn width(&self) -> usize {
        let rows = self.data.examples.rows().max(1);
        (2 * self.data.examples.nonzeros() / rows).min(self.data.examples.columns()).max(1)
    }

    pub(super) fn examples_of(&self, ask: &Ask) -> Vec<u32> {
        match &ask.rows {
            Some(rows) => rows.iter().map(|row| self.examples[*row as usize]).collect(),
            None => self.examples.to_vec(),
        }
    }

    /// Examples with a coefficient, and the coefficients.
    pub(super) fn supports(&self, ask: &Ask, solved: &Solved) -> (Vec<u32>, Vec<f64>) {
        let beta = ask.qp.fold(&solved.found.point.beta(&ask.qp));
        let examples = self.examples_of(ask);
        examples.iter().zip(beta).filter(|(_, beta)| *beta != 0.0).unzip()
    }

    /// Solves all questions over a factor, from other solutions of the same programmes.
    pub(super) fn solve<T: Real>(
        &self,
        factor: &Blocked<T>,
        asks: &[Ask],
        from: Option<&[Solved]>,
        tolerance: f64,
        control: &mut Control<'_>,
    ) -> Result<Vec<Solved>, TrainError> {
        let betas = from.into_iter().flatten().zip(asks);
        let starts = betas.map(|(one, ask)| one.found.point.beta(&ask.qp)).collect::<Vec<_>>();
        self.solve_from(factor, asks, starts, tolerance, control)
    }

    /// Solves all questions over a factor, from these points where there are some.
    pub(super) fn solve_from<T: Real>(
        &self,
        factor: &Blocked<T>,
        asks: &[Ask],
        starts: impl IntoIterator<Item = Vec<f64>>,
        tolerance: f64,
        control: &mut Control<'_>,
    ) -> Result<Vec<Solved>, TrainError> {
        let starts: Vec<Vec<f64>> = starts.into_iter().collect();
        let mut solved = Vec::with_capacity(asks.len());
        let threads = if asks.len() == 1 { 1 } else { rayon::current_num_threads().max(1) };
        for (first, some) in asks.chunks(threads).enumerate() {
            control.start_part(first * threads);
            let begin = |at: usize| starts.get(first * threads + at).cloned();
            if let [ask] = some {
                let mut look = |made: u64, gap: f64| {
                    if !gap.is_nan() {
                        let standing = Standing { violation: gap, gap: f64::NAN, supports: 0 };
                        control.tell(standing);
                    }
                    let over = control
                        .max_iterations
                        .is_some_and(|limit| control.iterations + made >= limit);
                    control.stop().or(over.then_some(Stop::IterationLimit))
                };
                let one = self.solve_one(factor.store(), ask, begin(0), tolerance, &mut look);
                control.iterations += one.found.visits + one.found.iterations as u64;
                solved.push(one);
            } else {
                let brake = control.brake(some.len());
                let found: Vec<Solved> = some
                    .par_iter()
                    .enumerate()
                    .map(|(at, ask)| {
                        let mut look = |made: u64, _: f64| brake(made).then_some(Stop::TimeLimit);
                        self.solve_one(factor.store(), ask, begin(at), tolerance, &mut look)
                    })
                    .collect();
                control.iterations += found
                    .iter()
                    .map(|one| one.found.visits + one.found.iterations as u64)
                    .sum::<u64>();
                let worst = found.iter().map(|one| one.found.judged.relative()).fold(0.0, f64::max);
                control.tell(Standing { violation: worst, gap: f64::NAN, supports: 0 });
                let stop = control.stop();
                solved.extend(found.into_iter().map(|mut one| {
                    one.found.stop = one.found.stop.map(|own| stop.unwrap_or(own));
                    one
                }));
            }
            if let Some(reason) = factor.store().failure() {
                return Err(TrainError::FactorFile { reason });
            }
        }
        Ok(solved)
    }

    fn solve_one<T: Real>(
        &self,
        store: &Store<T>,
        ask: &Ask,
        start: Option<Vec<f64>>,
        tolerance: f64,
        look: &mut dyn FnMut(u64, f64) -> Option<Stop>,
    ) -> Solved {
        let chosen = ask.rows.as_ref().map(|rows| {
            let file = if store.is_on_disk() { tempfile::tempfile().ok() } else { None };
            store.select(rows, file)
        });
        let store = chosen.as_ref().unwrap_or(store);
        let seed = self.recipe.seed;
        let mut visits = 0;
        let mut switched = false;
        if self.descends(store, &ask.qp, tolerance) {
            let may_give_up = self.recipe.how == How::Auto;
            let mut course = descent::Course { tolerance, seed, may_give_up, look: &mut *look };
            let (found, gave_up) = descent::solve(&ask.qp, store, start.as_deref(), &mut course);
            if !gave_up {
                return Solved { found, switched };
            }
            visits = found.visits;
            switched = true;
        }
        let systems = self.recipe.systems;
        let mut look = |made: usize, gap: f64| look(visits + made as u64, gap);
        let mut steer = Steer { systems, tolerance, look: &mut look };
        let mut found = interior::solve(&ask.qp, store, &mut steer);
        found.visits = visits;
        Solved { found, switched }
    }

    fn descends<T: Real>(&self, store: &Store<T>, qp: &Qp, tolerance: f64) -> bool {
        match self.recipe.how {
            _ if !descent::fits(qp) => false,
            How::Descent => true,
            How::Interior => false,
            How::Auto => {
                let squares = super::systems::squares(store);
                let mean = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
                let limit = qp.upper.iter().chain(&qp.lower);
                let limit = limit.fold(0.0, |most: f64, c| most.max(c.abs()));
                tolerance > FINE && limit * mean <= STEEP
            }
        }
    }
}

fn run<T: Real + Value>(
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
    let limit = recipe.rank.unwrap_or(stages::LARGEST).min(count);
    let file = asked.file(count * limit * T::BYTES)?;
    let on_disk = file.is_some();
    let room = recipe.rank.map_or(0, |rank| rank.min(count));
    let floor = if T::BYTES == 4 { 1e-5 } else { 1e-10 };
    let mut factor = Blocked::<T>::new(&diagonal, room, floor, recipe.seed, file);
    let held = guard::Held::new(asked, &asks)?;
    let watched = held.as_ref().map_or(asks.as_slice(), |held| held.asks.as_slice());
    let between = stages::grow(&mut factor, &rows, asked, watched, control)?;
    let factor_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let tolerance = asked.training.tolerance_used();
    let mut solved = asked.solve(&factor, watched, between.as_deref(), tolerance, control)?;
    let mut guarded = None;
    if let Some(held) = &held {
        let outcome = held.judge(asked, &factor, &solved, control)?;
        if outcome.machine.is_none() {
            solved = asked.solve(&factor, &asks, Some(&solved), tolerance, control)?;
        }
        guarded = Some(outcome);
    }
    let solve_seconds = started.elapsed().as_secs_f64();
    let watched =
        if guarded.as_ref().is_some_and(|g| g.machine.is_some()) { watched } else { &asks };
    let lost = asks_lost(asked, &factor, watched, &solved, control);
    let mut report = LowRankReport {
        rank: factor.rank(),
        trace: factor.trace(),
        trace_share: factor.trace_share(),
        pivots: match recipe.pivots {
            Rule::Auto => "random, then solution_aware",
            other => other.name(),
        },
        precision: if T::BYTES == 4 { "single" } else { "double" },
        method: method(&solved),
        systems: recipe.systems.name(),
        iterations: solved.iter().map(|one| one.found.iterations).sum(),
        visits: solved.iter().map(|one| one.found.visits).sum(),
        switched: solved.iter().any(|one| one.switched),
        fallbacks: solved.iter().map(|one| one.found.fallbacks).sum(),
        believed: solved.iter().map(|one| one.found.believed).fold(0.0, f64::max),
        factor_bytes: count * factor.rank() * T::BYTES,
        on_disk,
        factor_seconds,
        solve_seconds,
        lost,
        guard: None,
        polish: None,
    };
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

impl Asked<'_> {
    /// A file for the factor where memory does not hold it.
    pub(super) fn file(&self, bytes: usize) -> Result<Option<std::fs::File>, TrainError> {
        if bytes <= self.training.memory_beside(&self.data.examples) {
            return Ok(None);
        }
        let failed = |error: std::io::Error| TrainError::FactorFile { reason: error.to_string() };
        tempfile::tempfile().map(Some).map_err(failed)
    }
}

fn method(solved: &[Solved]) -> &'static str {
    let interior = solved.iter().filter(|one| one.found.iterations > 0).count();
    match interior {
        0 => "descent",
        all if all == solved.len() => "interior",
        _ => "descent and interior",
    }
}

fn asks_lost<T: Real>(
    asked: &Asked<'_>,
    factor: &Blocked<T>,
    asks: &[Ask],
    solved: &[Solved],
    control: &Control<'_>,
) -> Vec<lost::LostReport> {
    let measure = |(ask, one): (&Ask, &Solved)| {
        if control.stop().is_some() {
            return lost::sampled(asked, factor, ask, one, asked.recipe.seed);
        }
        lost::measure(asked, factor, ask, one)
    };
    asks.iter().zip(solved).map(measure).collect()
}

fn assemble<T: Real>(
    asked: &Asked<'_>,
    factor: &Blocked<T>,
    asks: &[Ask],
    solved: &[Solved],
) -> Result<(Machine, Vec<Expansion>, Vec<PartReport>), TrainError> {
    let pivots: Vec<u32> =
        factor.pivots().iter().map(|row| asked.examples[*row as usize]).collect();
    let (mut expansions, mut scores, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for (ask, one) in asks.iter().zip(solved) {
        let found = &one.found;
        let is_over = found.stop.is_some();
        let end = conclusion_of(asked.formulation, &found.judged.multipliers, is_over)?;
        let nothing = found.w.iter().all(|w| *w == 0.0);
        let offset = if nothing { majority(&ask.targets, end.offset) } else { end.offset };
        let beta = factor.coefficients(&found.w);
        let coefficients: Vec<f64> = beta.iter().map(|beta| end.scale * beta).collect();
        scores.push(Score::Expansion {
            supports: (0..pivots.len() as u32).collect(),
            coefficients: coefficients.clone(),
            offset,
        });
        expansions.push(Expansion { examples: pivots.clone(), coefficients, offset });
        parts.push(part_report(asked, ask, one, end.scale));
    }
    let supports = asked.data.examples.select(pivots.iter().map(|row| *row as usize));
    let output = asked.inputs.output.clone();
    let machine = Machine::new(asked.kernel.clone(), supports, scores, output)?;
    Ok((machine, expansions, parts))
}

fn part_report(asked: &Asked<'_>, ask: &Ask, one: &Solved, scale: f64) -> PartReport {
    let (found, qp) = (&one.found, &ask.qp);
    let beta = found.point.beta(qp);
    let at_limit =
        |v: &usize| beta[*v] != 0.0 && (beta[*v] <= qp.lower[*v] || beta[*v] >= qp.upper[*v]);
    PartReport {
        name: ask.name.clone(),
        converged: found.judged.relative() <= asked.training.tolerance_used(),
        iterations: found.visits + found.iterations as u64,
        objective: scale * scale * found.judged.objective,
        gap: scale * scale * found.judged.gap,
        violation: found.judged.relative(),
        supports: qp.fold(&beta).iter().filter(|value| **value != 0.0).count(),
        bounded: (0..beta.len()).filter(at_limit).count(),
    }
}

fn full_report(
    control: &Control<'_>,
    machine: &Machine,
    parts: Vec<PartReport>,
    solved: &[Solved],
    memory: usize,
) -> Report {
    Report {
        seconds: control.elapsed().as_secs_f64(),
        iterations: control.iterations,
        converged: parts.iter().all(|part| part.converged),
        stop: solved.iter().filter_map(|one| one.found.stop).next_back(),
        objective: parts.iter().map(|part| part.objective).sum(),
        gap: parts.iter().map(|part| part.gap).sum(),
        violation: parts.iter().map(|part| part.violation).fold(0.0, f64::max),
        supports: machine.supports().rows(),
        bounded: parts.iter().map(|part| part.bounded).sum(),
        kernel_values: 0,
        peak_memory_bytes: memory,
        table: None,
        system: None,
        low_rank: None,
        chosen: None,
        parts,
    }
}
