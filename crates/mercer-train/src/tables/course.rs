//! From data to a machine of tables.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mercer_data::Dataset;
use mercer_kernel::{Form, KernelRef, Profile, Term};
use mercer_machine::{Grid, Machine, Output, Scheme, Score, pairs};
use mercer_simd::Isa;
use rayon::prelude::*;

use super::maps::{Made, Map};
use super::part::{Ask, End, Learned, Part, Shared};
use super::quantise::{self, Levels};
use super::{Duals, Loss, Recipe, TableReport};
use crate::control::{Control, Standing};
use crate::report::{PartReport, Report, Trained};
use crate::training::prepare::{self, Inputs};
use crate::{FormulationRef, Stop, TrainError, Training};

/// How long questions work between two looks at the clock.
const SLICE: Duration = Duration::from_millis(100);

/// Levels wanted: nothing to check of the kernel's domain before the values are seen.
pub(crate) fn train(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    (training, recipe): (&Training, &Recipe),
    control: &mut Control<'_>,
) -> Result<Trained, TrainError> {
    let loss = formulation.loss().ok_or_else(|| TrainError::Unsuited {
        solver: recipe.name().to_owned(),
        reason: format!(
            "it minimises c_svc, squared_hinge, logistic or epsilon_svr, not {}",
            formulation.spec().name()
        ),
    })?;
    if training.has_checkpoint() {
        let solver = recipe.name().to_owned();
        let reason = "it writes no checkpoints; leave them out".to_owned();
        return Err(TrainError::Unsuited { solver, reason });
    }
    let term = term_of(kernel, recipe)?;
    let inputs = prepare::inputs(data, None, formulation, training)?;
    let examples = inputs.examples();
    let asks = asks(&inputs, training.scheme_used());
    control.parts = asks.len();
    let started = Instant::now();
    let name = kernel.spec().name().to_owned();
    let is_linear = recipe.map == Map::Value;
    let levels = quantise::levels(&data.examples, &examples, recipe.wanted, &name, is_linear)?;
    let tags = |row: u32| inputs.tag(row);
    let packed = quantise::pack(&data.examples, &examples, tags, (&levels, recipe.levels))?;
    let values = levels.values(recipe.levels);
    let made = recipe.map.make(term.as_term(), &values, &packed.counts, data.examples.columns());
    let (mut records, report) = (packed.records, made.report);
    records.set_own(&made.own);
    let Made { factors, is_symmetric, .. } = made;
    let shared = Shared {
        records,
        factors,
        weights: inputs.row_weights(&examples),
        loss,
        bias: recipe.bias as f32,
        tolerance: training.tolerance_used(),
        seed: recipe.seed,
        is_symmetric,
        isa: Isa::current(),
    };
    let preparation = started.elapsed().as_secs_f64();
    let warm = warm_start(training, &shared, asks.len())?;
    let mut learned = run(&shared, (&asks, &warm), control)?;
    let duals = training.keeps_duals().then(|| Duals::take(&shared, &mut learned));
    let machine = machine(kernel, &shared, &levels, &learned, &inputs.output, is_linear)?;
    let table = TableReport {
        levels: levels.name(),
        rank: shared.factors.rank(),
        factor: report,
        nonzeros: shared.records.entries(),
        example_bytes: shared.records.bytes() + 8 * shared.records.rows(),
        preparation,
    };
    let report = full_report(&asks, &learned, &shared, control, table);
    Ok(Trained { machine, report, duals, expansions: Vec::new(), left_out: None })
}

/// The scalar kernel: that of the kernel, or the product for linear machines.
enum Scalar<'k> {
    Kernel(&'k dyn Term),
    Product(Product),
}

impl Scalar<'_> {
    fn as_term(&self) -> &dyn Term {
        match self {
            Self::Kernel(term) => *term,
            Self::Product(product) => product,
        }
    }
}

/// `κ(u, v) = u v`.
#[derive(Debug)]
struct Product;

impl Term for Product {
    fn term(&self, u: f64, v: f64) -> f64 {
        u * v
    }

    fn rounding(&self) -> f64 {
        1.0
    }
}

fn term_of<'k>(kernel: &'k KernelRef, recipe: &Recipe) -> Result<Scalar<'k>, TrainError> {
    let unsuited =
        |reason: String| TrainError::Unsuited { solver: recipe.name().to_owned(), reason };
    let spec = kernel.spec();
    match kernel.form() {
        Form::Dot(finish) if finish.profile() == Profile::Identity => Ok(Scalar::Product(Product)),
        _ if recipe.map == Map::Value => {
            Err(unsuited(format!("it learns linear machines (--kernel linear), not {spec}")))
        }
        Form::Additive(term, finish)
            if finish.profile() == Profile::Identity && term.vanishes_at_zero() =>
        {
            Ok(Scalar::Kernel(term))
        }
        Form::Additive(..) => Err(unsuited(format!(
            "{spec} is not a plain sum of scalar kernels that vanish at zero"
        ))),
        _ => Err(unsuited(format!(
            "{spec} is not additive; additive are linear, intersection, chi2, power_mean with p <= 0, \
             jensen_shannon and hellinger"
        ))),
    }
}

fn asks(inputs: &Inputs<'_>, scheme: Scheme) -> Vec<Ask> {
    let Output::Classes { names, .. } = &inputs.output else {
        return vec![Ask { name: "all examples".to_owned(), plus: 0, minus: None }];
    };
    let count = names.len();
    match scheme {
        Scheme::OneVsOne => pairs(count)
            .map(|(a, b)| Ask {
                name: format!("{} against {}", names[a], names[b]),
                plus: a as u32,
                minus: Some(b as u32),
            })
            .collect(),
        Scheme::OneVsRest => (0..if count == 2 { 1 } else { count })
            .map(|class| Ask {
                name: format!("{} against the rest", names[class]),
                plus: class as u32,
                minus: None,
            })
            .collect(),
    }
}

/// Coefficients of an earlier training, fitted to the new price; none where there is no such training.
fn warm_start(
    training: &Training,
    shared: &Shared,
    questions: usize,
) -> Result<Vec<Vec<f32>>, TrainError> {
    let refuse = |reason: &str| Err(TrainError::WarmStart { reason: reason.to_owned() });
    if training.has_warm_machine() {
        return refuse(
            "solvers of tables start from coefficients (continue_from), not from machines",
        );
    }
    let Some(duals) = training.duals() else { return Ok(Vec::new()) };
    let rows = duals.parts.iter().all(|part| part.len() == shared.records.rows());
    if duals.parts.len() != questions || !rows {
        return refuse("it has other questions or other examples");
    }
    let factor = (shared.loss.price() / duals.price) as f32;
    let fit = |(row, stored): (usize, &f32)| {
        let weight = shared.weights.as_ref().map_or(1.0, |weights| weights[row]);
        let limit = match shared.loss {
            Loss::SquaredHinge { .. } => f32::INFINITY,
            _ => shared.loss.price() as f32 * weight,
        };
        let value = stored * factor;
        // What was at the old limit is at the new one, to the bit.
        if value.abs() >= limit * (1.0 - 1e-6) { limit.copysign(value) } else { value }
    };
    let fitted = |part: &Vec<f32>| part.iter().enumerate().map(fit).collect();
    Ok(duals.parts.iter().map(fitted).collect())
}

impl Duals {
    fn take(shared: &Shared, learned: &mut [Option<Learned>]) -> Self {
        let rows = shared.records.rows();
        let take = |part: &mut Option<Learned>| match part {
            Some(part) => std::mem::take(&mut part.coefficients),
            None => vec![0.0; rows],
        };
        Self { price: shared.loss.price(), parts: learned.iter_mut().map(take).collect() }
    }
}

/// Works on as many questions at once as there are threads; each of them is solved by one thread, so the
/// result does not depend on their number.
fn run(
    shared: &Shared,
    (asks, warm): (&[Ask], &[Vec<f32>]),
    control: &mut Control<'_>,
) -> Result<Vec<Option<Learned>>, TrainError> {
    let mut learned: Vec<Option<Learned>> = vec![None; asks.len()];
    let (mut at_work, mut next): (Vec<Part>, usize) = (Vec::new(), 0);
    let mut done = 0u64;
    loop {
        while next < asks.len() && at_work.len() < rayon::current_num_threads().max(1) {
            let warm = warm.get(next).map(Vec::as_slice);
            at_work.push(Part::new(shared, next, asks[next].clone(), warm));
            next += 1;
        }
        if at_work.is_empty() {
            return Ok(learned);
        }
        let stop = control.brake(at_work.len());
        let work = |part: &mut Part| part.run(shared, SLICE, &stop);
        if let [only] = at_work.as_mut_slice() {
            work(only);
        } else {
            at_work.par_iter_mut().for_each(work);
        }
        control.iterations = done + at_work.iter().map(|part| part.visits).sum::<u64>();
        tell(&at_work, next, control);
        let stop = control.stop();
        let (ended, rest): (Vec<Part>, Vec<Part>) =
            at_work.into_iter().partition(|part| part.end.is_some() || stop.is_some());
        at_work = rest;
        for part in conclusions(shared, ended, stop) {
            done += part.1.visits;
            learned[part.0] = Some(part.1);
        }
        if stop.is_some() {
            return Ok(learned);
        }
    }
}

fn conclusions(shared: &Shared, ended: Vec<Part>, stop: Option<Stop>) -> Vec<(usize, Learned)> {
    let conclude = |part: Part| (part.number, part.finish(shared, stop));
    if ended.len() < 2 {
        return ended.into_iter().map(conclude).collect();
    }
    ended.into_par_iter().map(conclude).collect()
}

fn tell(at_work: &[Part], next: usize, control: &mut Control<'_>) {
    let worst = at_work.iter().map(|part| part.violation).fold(0.0, f64::max);
    let supports = |part: &Part| part.coefficients.iter().filter(|alpha| **alpha != 0.0).count();
    let supports = at_work.iter().map(supports).max().unwrap_or(0);
    control.part = next - at_work.len();
    control.tell(Standing { violation: worst, gap: f64::NAN, supports });
}

fn machine(
    kernel: &KernelRef,
    shared: &Shared,
    levels: &Levels,
    learned: &[Option<Learned>],
    output: &Output,
    is_linear: bool,
) -> Result<Machine, TrainError> {
    let columns = shared.records.columns();
    if is_linear {
        let score = |part: &Option<Learned>| match part {
            Some(part) => Score::Linear {
                weights: part.weights.iter().map(|w| f64::from(*w)).collect(),
                offset: part.offset,
            },
            None => Score::Linear { weights: vec![0.0; columns], offset: 1.0 },
        };
        let supports = mercer_data::Matrix::sparse(columns, &[0], &[], &[])
            .map_err(mercer_machine::MachineError::from)?;
        let scores = learned.iter().map(score).collect();
        return Ok(Machine::new(kernel.clone(), supports, scores, output.clone())?);
    }
    let Levels::Kept(scale) = levels else { unreachable!("signed levels are for linear machines") };
    let rank = shared.factors.rank();
    let grid = Arc::new(Grid::new(scale.clone(), rank, shared.factors.read().to_vec())?);
    let score = |part: &Option<Learned>| match part {
        Some(part) => Score::Table { weights: part.weights.clone(), offset: part.offset },
        None => Score::Table { weights: vec![0.0; columns * rank], offset: 1.0 },
    };
    let scores = learned.iter().map(score).collect();
    Ok(Machine::tabled(kernel.clone(), columns, grid, scores, output.clone())?)
}

fn full_report(
    asks: &[Ask],
    learned: &[Option<Learned>],
    shared: &Shared,
    control: &Control<'_>,
    table: TableReport,
) -> Report {
    let part = |(ask, learned): (&Ask, &Option<Learned>)| match learned {
        Some(part) => PartReport {
            name: ask.name.clone(),
            converged: part.end == End::Optimal && part.violation <= shared.tolerance,
            objective: part.objective,
            gap: part.gap,
            violation: part.violation,
            supports: part.supports,
            bounded: part.bounded,
            iterations: part.visits,
        },
        None => PartReport {
            name: ask.name.clone(),
            converged: false,
            objective: 0.0,
            gap: f64::INFINITY,
            violation: f64::INFINITY,
            supports: 0,
            bounded: 0,
            iterations: 0,
        },
    };
    let parts: Vec<PartReport> = asks.iter().zip(learned).map(part).collect();
    let mut stopped = learned.iter().flatten().filter_map(|part| match part.end {
        End::Stopped(stop) => Some(stop),
        End::Optimal => None,
    });
    let threads = rayon::current_num_threads().min(asks.len());
    let state = 8 * shared.records.rows() + 4 * shared.records.columns() * shared.factors.rank();
    Report {
        seconds: control.elapsed().as_secs_f64(),
        iterations: control.iterations,
        converged: parts.iter().all(|part| part.converged),
        stop: stopped.next_back(),
        objective: parts.iter().map(|part| part.objective).sum(),
        gap: parts.iter().map(|part| part.gap).sum(),
        violation: parts.iter().map(|part| part.violation).fold(0.0, f64::max),
        supports: parts.iter().map(|part| part.supports).sum(),
        bounded: parts.iter().map(|part| part.bounded).sum(),
        kernel_values: 0,
        peak_memory_bytes: shared.records.bytes() + threads * state,
        table: Some(Box::new(table)),
        system: None,
        low_rank: None,
        chosen: None,
        parts,
    }
}

/// Losses that need a solver of tables.
pub(crate) fn needs_tables(formulation: &FormulationRef) -> bool {
    matches!(formulation.loss(), Some(Loss::SquaredHinge { .. } | Loss::Logistic { .. }))
}
