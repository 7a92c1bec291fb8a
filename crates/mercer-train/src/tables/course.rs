//! From data to a machine of tables.

use std::time::{Duration, Instant};

use mercer_data::Targets;
use mercer_kernel::{Form, KernelRef, Profile, Term};
use mercer_machine::{Machine, Output, Scheme, pairs};
use mercer_simd::factors::{Encoding, Factors, Float, RawValues, StepEncoding};
use mercer_simd::{Isa, Real as _};
use rayon::prelude::*;

use super::columns::{Columns, Places};
use super::keep::Standing as Questions;
use super::machines::{curved, linear, tabled};
use super::maps::{Made, Map};
use super::pack;
use super::part::{Ask, End, Learned, Part, Shared};
use super::quantise::{self, Levels};
use super::rows::Rows;
use super::store::{HELD, Room, Store};
use super::transposed::Transposed;
use super::warm::warm_start;
use super::{BinPlacement, Duals, FactorReport, LinearReport, Loss, Recipe, Space};
use crate::checkpoint::Keeper;
use crate::control::{Control, Standing};
use crate::report::{Report, SubproblemReport, Trained};
use crate::training::digest;
use crate::training::prepare::{self, Inputs};
use crate::{FormulationRef, Stop, TrainError, Training};

/// How long questions work between two looks at the clock.
const SLICE: Duration = Duration::from_millis(100);

/// Nothing to check of the kernel's domain before the values are seen.
pub(crate) fn train(
    (examples, targets): (&dyn Rows, &Targets),
    kernel: &KernelRef,
    formulation: &FormulationRef,
    (training, recipe): (&Training, &Recipe),
    control: &mut Control<'_>,
) -> Result<Trained, TrainError> {
    let loss = formulation.loss().ok_or_else(|| super::unsuited(recipe, formulation))?;
    check_space(recipe, loss)?;
    let inputs = prepare::inputs_of(examples.rows(), targets, formulation, training)?;
    if let Some(checkpoint) = training.checkpoint_wanted() {
        let asked = format!("{} {}", kernel.spec(), formulation.spec());
        let digest = digest::of(&asked, (examples, targets), training)?;
        control.keeper = Some(Keeper::new(checkpoint, digest));
    }
    let rows = inputs.examples();
    let job = Job { examples, kernel, training, recipe, loss, inputs: &inputs, rows: &rows };
    let (bench, told) = job.prepare()?;
    let output = &inputs.output;
    match &bench {
        Bench::Values(shared) => {
            job.learn(shared, told, control, |learned| linear(kernel, shared, learned, output))
        }
        Bench::Levels(shared, levels) => job.learn(shared, told, control, |learned| {
            if recipe.map == Map::Value {
                return linear(kernel, shared, learned, output);
            }
            tabled(kernel, shared, levels, learned, output)
        }),
        Bench::Stairs(shared, levels) => {
            let curves = |learned: &[_]| curved(kernel, shared, levels, learned, output);
            let mut trained = job.learn(shared, told, control, curves)?;
            let own = trained.machine.bins().map_or(1, |grid| grid.rank());
            trained.report.table.iter_mut().for_each(|table| table.rank = own);
            Ok(trained)
        }
    }
}

/// Descent over the weights needs a smooth loss and values as they are.
pub(super) fn check_space(recipe: &Recipe, loss: Loss) -> Result<(), TrainError> {
    let reason = match recipe.space {
        Space::Primal => "space=primal minimises squared_hinge or logistic, with levels=off",
        Space::Lasso => {
            "penalty=l1 minimises squared_hinge or logistic, with levels=off; other losses have penalty=l2"
        }
        Space::Dual => return Ok(()),
    };
    if !loss.is_smooth() || recipe.wanted != BinPlacement::Off {
        let solver = recipe.name().to_owned();
        return Err(TrainError::Unsuited { solver, reason: reason.to_owned() });
    }
    Ok(())
}

/// Packed examples and what their cells mean.
pub(super) enum Bench {
    /// Values as they are.
    Values(Shared<RawValues>),
    /// Levels with factors.
    Levels(Shared<Factors>, Levels),
    /// Levels of which the kernel is the smaller.
    Stairs(Shared<StepEncoding>, Levels),
}

/// Name of the levels, how good the factors are, and seconds of preparation.
type Told = (&'static str, FactorReport, f64);

/// Which rows are to become which machine, and how.
pub(super) struct Job<'j> {
    pub(super) examples: &'j dyn Rows,
    pub(super) kernel: &'j KernelRef,
    pub(super) training: &'j Training,
    pub(super) recipe: &'j Recipe,
    pub(super) loss: Loss,
    pub(super) inputs: &'j Inputs<'j>,
    /// Examples that count.
    pub(super) rows: &'j [u32],
}

impl Job<'_> {
    /// Packs the examples.
    pub(super) fn prepare(&self) -> Result<(Bench, Told), TrainError> {
        let term = term_of(self.kernel, self.recipe)?;
        let (started, recipe, examples) = (Instant::now(), self.recipe, self.examples);
        let nothing = FactorReport { relative_error: 0.0, worst_error: 0.0 };
        let tags = |row: u32| self.inputs.tag(row);
        let bytes = self.training.memory_beside_bytes(examples.bytes());
        let mut room = Room { bytes, seed: recipe.seed };
        let (columns, places) = Columns::new(examples, self.rows)?;
        let numbered = (&columns, &places);
        if recipe.wanted == BinPlacement::Off {
            let transposed = self.transposed(numbered, room)?;
            room.bytes -= transposed.as_ref().map_or(0, Transposed::bytes);
            let writer = if transposed.is_some() {
                quantise::pack_heads(self.rows, tags, columns.kept(), room)?
            } else {
                quantise::pack_values(examples, self.rows, tags, numbered, room)?
            };
            let mut shared = self.shared((writer.finish(|_| {})?, columns), RawValues, true);
            shared.transposed = transposed;
            let told = ("off", nothing, started.elapsed().as_secs_f64());
            return Ok((Bench::Values(shared), told));
        }
        let name = self.kernel.spec().name().to_owned();
        let is_linear = recipe.map == Map::Value;
        let levels = quantise::levels(examples, self.rows, recipe.wanted, &name, is_linear)?;
        let binned = (&levels, recipe.levels);
        let packed = pack::pack(examples, self.rows, tags, binned, numbered, room)?;
        let (writer, word) = (packed.writer, levels.name());
        let values = levels.values(recipe.levels);
        if let Some(stairs) = recipe.map.stairs(term.as_term(), &values, columns.all()) {
            let store = writer.finish(|records| records.set_squared_norms(&values))?;
            let shared = self.shared((store, columns), stairs, true);
            let told = (word, nothing, started.elapsed().as_secs_f64());
            return Ok((Bench::Stairs(shared, levels), told));
        }
        let made = recipe.map.make(term.as_term(), &values, &packed.counts, columns.kept());
        let store = writer.finish(|records| records.set_squared_norms(&made.own))?;
        let Made { factors, is_symmetric, report, .. } = made;
        let shared = self.shared((store, columns), factors, is_symmetric);
        let told = (word, report, started.elapsed().as_secs_f64());
        Ok((Bench::Levels(shared, levels), told))
    }

    /// The examples by columns, where these are visited.
    fn transposed(
        &self,
        numbered: (&Columns, &Places),
        room: Room,
    ) -> Result<Option<Transposed>, TrainError> {
        if self.recipe.space != Space::Lasso {
            return Ok(None);
        }
        let rows = (self.examples, self.rows);
        let made = Transposed::new(rows, numbered, self.recipe.bias, room.bytes)?;
        let made = made.map_err(|bytes| TrainError::Unsuited {
            solver: self.recipe.name().to_owned(),
            reason: format!(
                "penalty=l1 holds the examples by columns, {} MiB beside them; give --memory more",
                bytes.div_ceil(1 << 20)
            ),
        })?;
        Ok(Some(made))
    }

    fn shared<M: Encoding>(
        &self,
        (store, columns): (Store, Columns),
        encoding: M,
        is_symmetric: bool,
    ) -> Shared<M> {
        Shared {
            store,
            columns,
            encoding,
            weights: self.inputs.row_weights(self.rows),
            targets: self.inputs.row_targets(self.rows),
            folds: Vec::new(),
            loss: self.loss,
            bias: M::Real::from_f64(self.recipe.bias),
            tolerance: self.training.tolerance_used(),
            passes: self.recipe.passes,
            seed: self.recipe.seed,
            is_symmetric,
            space: self.recipe.space,
            transposed: None,
            isa: Isa::current(),
        }
    }

    fn learn<M: Encoding>(
        &self,
        shared: &Shared<M>,
        (levels, factor, preparation): Told,
        control: &mut Control<'_>,
        machine: impl Fn(&[Option<Learned<M::Real>>]) -> Result<Machine, TrainError>,
    ) -> Result<Trained, TrainError> {
        let asks = asks(self.inputs, self.training.scheme_used());
        control.parts = asks.len();
        let warm = warm_start(self.training, shared, asks.len())?;
        let mut learned = run(shared, (&asks, &warm), control)?;
        let duals = self.training.keeps_duals().then(|| Duals::take(shared, &mut learned));
        let (columns, rows) = (shared.transposed.as_ref(), shared.store.rows());
        let held = shared.store.bytes(1) + columns.map_or(0, Transposed::bytes);
        let table = LinearReport {
            levels,
            rank: shared.encoding.rank(),
            factor,
            nonzeros: columns.map_or(shared.store.entries(), Transposed::entries),
            example_bytes: held + M::Real::BYTES * 2 * rows,
            weights: columns.is_some().then(|| nonzero_weights(&learned)),
            chunks: shared.store.is_on_disk().then(|| shared.store.chunks()),
            preparation,
        };
        let report = full_report(&asks, &learned, shared, control, table);
        let machine = machine(&learned)?;
        Ok(Trained { machine, report, duals, expansions: Vec::new(), left_out: None })
    }
}

/// Weights that are not zero, of all questions.
fn nonzero_weights<T: Float>(learned: &[Option<Learned<T>>]) -> usize {
    let count = |part: &Learned<T>| part.weights.iter().filter(|w| **w != T::default()).count();
    learned.iter().flatten().map(count).sum()
}

/// The scalar kernel: that of the kernel, or the product for linear machines.
enum Additive<'k> {
    Kernel(&'k dyn Term),
    Product(Product),
}

impl Additive<'_> {
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

fn term_of<'k>(kernel: &'k KernelRef, recipe: &Recipe) -> Result<Additive<'k>, TrainError> {
    let unsuited =
        |reason: String| TrainError::Unsuited { solver: recipe.name().to_owned(), reason };
    let spec = kernel.spec();
    match kernel.form() {
        Form::Dot(finish) if finish.profile() == Profile::Identity => {
            Ok(Additive::Product(Product))
        }
        _ if recipe.map == Map::Value => {
            Err(unsuited(format!("it learns linear machines (--kernel linear), not {spec}")))
        }
        Form::Additive(term, finish)
            if finish.profile() == Profile::Identity && term.vanishes_at_zero() =>
        {
            Ok(Additive::Kernel(term))
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

pub(super) fn asks(inputs: &Inputs<'_>, scheme: Scheme) -> Vec<Ask> {
    let Output::Classes { names, .. } = &inputs.output else {
        return vec![Ask { name: "all examples".to_owned(), plus: 0, minus: None, fold: None }];
    };
    let count = names.len();
    match scheme {
        Scheme::OneVsOne => pairs(count)
            .map(|(a, b)| Ask {
                name: format!("{} against {}", names[a], names[b]),
                plus: a as u32,
                minus: Some(b as u32),
                fold: None,
            })
            .collect(),
        Scheme::OneVsRest => (0..if count == 2 { 1 } else { count })
            .map(|class| Ask {
                name: format!("{} against the rest", names[class]),
                plus: class as u32,
                minus: None,
                fold: None,
            })
            .collect(),
    }
}

/// Works on as many questions at once as there are threads; each of them is solved by one thread, so the
/// result does not depend on their number. A checkpoint holds all of them after whole passes.
pub(super) fn run<M: Encoding>(
    shared: &Shared<M>,
    (asks, warm): (&[Ask], &[Vec<M::Real>]),
    control: &mut Control<'_>,
) -> Result<Vec<Option<Learned<M::Real>>>, TrainError> {
    let threads = rayon::current_num_threads().max(1);
    let most = if shared.store.is_on_disk() { threads.min(HELD) } else { threads };
    let slice = control.keeper.as_ref().map_or(SLICE, |keeper| keeper.every().min(SLICE));
    // Earlier rounds of a cross-validation count.
    let first = control.part;
    let mut all = Questions::new(shared, asks, control)?;
    loop {
        while all.next < asks.len() && all.at_work.len() < most {
            let warm = warm.get(all.next).map(Vec::as_slice);
            all.at_work.push(Part::new(shared, all.next, asks[all.next].clone(), warm));
            all.next += 1;
        }
        if all.at_work.is_empty() {
            return Ok(all.learned);
        }
        let stop = control.brake(all.at_work.len());
        let work = |part: &mut Part<M::Real>| part.run(shared, slice, &stop);
        if let [only] = all.at_work.as_mut_slice() {
            work(only);
        } else {
            all.at_work.par_iter_mut().for_each(work);
        }
        shared.store.check()?;
        control.iterations = all.done + all.at_work.iter().map(|part| part.visits).sum::<u64>();
        tell(&all.at_work, first + all.next, control);
        let stop = control.stop();
        if stop.is_some() {
            all.save(shared, control)?;
        }
        let (ended, rest): (Vec<_>, Vec<_>) =
            all.at_work.into_iter().partition(|part| part.end.is_some() || stop.is_some());
        all.at_work = rest;
        for part in conclusions(shared, ended, stop) {
            all.done += part.1.visits;
            all.learned[part.0] = Some(part.1);
        }
        shared.store.check()?;
        if stop.is_some() {
            return Ok(all.learned);
        }
        if control.keeper.as_ref().is_some_and(Keeper::is_due) {
            all.save(shared, control)?;
        }
    }
}

fn conclusions<M: Encoding>(
    shared: &Shared<M>,
    ended: Vec<Part<M::Real>>,
    stop: Option<Stop>,
) -> Vec<(usize, Learned<M::Real>)> {
    let conclude = |part: Part<M::Real>| (part.number, part.finish(shared, stop));
    if ended.len() < 2 {
        return ended.into_iter().map(conclude).collect();
    }
    ended.into_par_iter().map(conclude).collect()
}

fn tell<T: Float>(at_work: &[Part<T>], next: usize, control: &mut Control<'_>) {
    let worst = at_work.iter().map(|part| part.violation).fold(0.0, f64::max);
    let supports =
        |part: &Part<T>| part.coefficients.iter().filter(|alpha| **alpha != T::default()).count();
    let supports = at_work.iter().map(supports).max().unwrap_or(0);
    control.part = next - at_work.len();
    control.tell(Standing { violation: worst, gap: f64::NAN, supports });
}

fn full_report<M: Encoding>(
    asks: &[Ask],
    learned: &[Option<Learned<M::Real>>],
    shared: &Shared<M>,
    control: &Control<'_>,
    table: LinearReport,
) -> Report {
    let part = |(ask, learned): (&Ask, &Option<Learned<M::Real>>)| match learned {
        Some(part) => SubproblemReport {
            name: ask.name.clone(),
            converged: part.end == End::Optimal && part.violation <= shared.tolerance,
            objective: part.objective,
            gap: part.gap,
            violation: part.violation,
            supports: part.supports,
            bounded: part.bounded,
            iterations: part.visits,
        },
        None => SubproblemReport {
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
    let parts: Vec<SubproblemReport> = asks.iter().zip(learned).map(part).collect();
    let mut stopped = learned.iter().flatten().filter_map(|part| match part.end {
        End::Stopped(stop) => Some(stop),
        End::Optimal => None,
    });
    let threads = rayon::current_num_threads().min(asks.len());
    let numbers = shared.store.rows() + shared.store.columns() * shared.encoding.rank();
    let state = 4 * shared.store.rows() + M::Real::BYTES * numbers;
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
        peak_memory_bytes: shared.store.bytes(threads)
            + threads * state
            + shared.transposed.as_ref().map_or(0, Transposed::bytes),
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
