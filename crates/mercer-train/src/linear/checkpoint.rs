//! Checkpoints of linear trainings: subproblems that are solved and those that are active.
//! The file itself is written by [`crate::checkpoint`].

use std::time::Duration;

use mercer_simd::Real as _;
use mercer_simd::factors::{Encoding, Float, Order};

use super::dual::GradientRange;
use super::lasso::Lasso;
use super::newton::Newton;
use super::run::RowSelection;
use super::solution::SubproblemSolution;
use super::subproblem::{LinearProblem, SubproblemState, Termination};
use crate::checkpoint::{CheckpointReader, CheckpointWriter};
use crate::control::Control;
use crate::{Stop, TrainError};

/// The subproblems of one training.
#[derive(Debug)]
pub(super) struct RunState<T> {
    pub(super) solved: Vec<Option<SubproblemSolution<T>>>,
    pub(super) active: Vec<SubproblemState<T>>,
    /// The first that has not been started.
    pub(super) next: usize,
    /// Coordinate updates of those that are solved.
    pub(super) done: u64,
}

impl<T: Float> RunState<T> {
    /// The state in the checkpoint, or nothing started.
    pub(super) fn new<M: Encoding<Real = T>>(
        problem: &LinearProblem<M>,
        selections: &[RowSelection],
        control: &mut Control<'_>,
    ) -> Result<Self, TrainError> {
        let solved = vec![None; selections.len()];
        let mut state = Self { solved, active: Vec::new(), next: 0, done: control.iterations };
        let Some(checkpointer) = &control.checkpointer else { return Ok(state) };
        let Some(body) = checkpointer.read()? else { return Ok(state) };
        let elapsed = state.read(&mut CheckpointReader(&body), problem, selections);
        control.earlier = elapsed.ok_or_else(|| checkpointer.damaged())?;
        problem.store.check()?;
        Ok(state)
    }

    /// Writes a checkpoint, unless a pass was interrupted.
    pub(super) fn save<M: Encoding<Real = T>>(
        &self,
        problem: &LinearProblem<M>,
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let elapsed = control.elapsed();
        let Some(checkpointer) = &mut control.checkpointer else { return Ok(()) };
        if self.active.iter().any(|state| state.is_interrupted) {
            return Ok(());
        }
        let mut out = CheckpointWriter::default();
        out.number(elapsed.as_micros() as u64);
        out.number(self.next as u64);
        out.number(self.done);
        let numbered = self.solved.iter().enumerate();
        let solved: Vec<(usize, &SubproblemSolution<T>)> =
            numbered.filter_map(|(number, solution)| Some((number, solution.as_ref()?))).collect();
        out.number(solved.len() as u64);
        for (number, solution) in solved {
            out.number(number as u64);
            write_solution(&mut out, solution);
        }
        out.number(self.active.len() as u64);
        for state in &self.active {
            write_state(&mut out, problem, state);
        }
        problem.store.check()?;
        checkpointer.write(&out)
    }

    fn read<M: Encoding<Real = T>>(
        &mut self,
        from: &mut CheckpointReader<'_>,
        problem: &LinearProblem<M>,
        selections: &[RowSelection],
    ) -> Option<Duration> {
        let elapsed = Duration::from_micros(from.number()?);
        self.next =
            usize::try_from(from.number()?).ok().filter(|next| *next <= selections.len())?;
        self.done = from.number()?;
        for _ in 0..from.length(8)? {
            let number = usize::try_from(from.number()?).ok()?;
            *self.solved.get_mut(number)? = Some(read_solution(from)?);
        }
        for _ in 0..from.length(8)? {
            let number = usize::try_from(from.number()?).ok()?;
            let state =
                SubproblemState::new(problem, number, selections.get(number)?.clone(), None);
            self.active.push(read_state(from, problem, state)?);
        }
        Some(elapsed)
    }
}

fn to_f64s<T: Float>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

fn from_f64s<T: Float>(values: &[f64]) -> Vec<T> {
    values.iter().map(|value| T::from_f64(*value)).collect()
}

fn end_number(end: Option<Termination>) -> u64 {
    match end {
        None => 0,
        Some(Termination::Optimal) => 1,
        Some(Termination::Stopped(Stop::Cancelled)) => 2,
        Some(Termination::Stopped(Stop::TimeLimit)) => 3,
        Some(Termination::Stopped(Stop::IterationLimit)) => 4,
        Some(Termination::Stopped(Stop::Stalled)) => 5,
        Some(Termination::Stopped(Stop::GivenUp)) => 6,
        Some(Termination::Stopped(Stop::F32Stalled)) => 7,
    }
}

/// The end of a number; an error where there is none.
fn end_of(number: u64) -> Result<Option<Termination>, ()> {
    Ok(match number {
        0 => None,
        1 => Some(Termination::Optimal),
        2 => Some(Termination::Stopped(Stop::Cancelled)),
        3 => Some(Termination::Stopped(Stop::TimeLimit)),
        4 => Some(Termination::Stopped(Stop::IterationLimit)),
        5 => Some(Termination::Stopped(Stop::Stalled)),
        6 => Some(Termination::Stopped(Stop::GivenUp)),
        7 => Some(Termination::Stopped(Stop::F32Stalled)),
        _ => return Err(()),
    })
}

fn write_solution<T: Float>(out: &mut CheckpointWriter, solution: &SubproblemSolution<T>) {
    out.f64s(&to_f64s(&solution.weights));
    out.f64s(&to_f64s(&solution.coefficients));
    out.f64s(&[solution.offset, solution.objective, solution.gap, solution.violation]);
    for number in [solution.supports as u64, solution.bounded as u64, solution.updates] {
        out.number(number);
    }
    out.number(end_number(Some(solution.termination)));
}

fn read_solution<T: Float>(from: &mut CheckpointReader<'_>) -> Option<SubproblemSolution<T>> {
    let (weights, coefficients) = (from_f64s(&from.f64s()?), from_f64s(&from.f64s()?));
    let [offset, objective, gap, violation] = <[f64; 4]>::try_from(from.f64s()?).ok()?;
    let (supports, bounded) = (from.number()?, from.number()?);
    let updates = from.number()?;
    Some(SubproblemSolution {
        weights,
        offset,
        objective,
        gap,
        violation,
        supports: usize::try_from(supports).ok()?,
        bounded: usize::try_from(bounded).ok()?,
        updates,
        termination: end_of(from.number()?).ok()??,
        coefficients,
        held_out: Vec::new(),
    })
}

fn write_state<M: Encoding>(
    out: &mut CheckpointWriter,
    problem: &LinearProblem<M>,
    state: &SubproblemState<M::Real>,
) {
    out.number(state.number as u64);
    out.f64s(&to_f64s(&state.coefficients));
    out.f64s(&to_f64s(state.weights.values()));
    let (range, bias) = (state.last_range, state.bias.weight);
    let (least, least_at) = state.least_violation;
    out.f64s(&[bias.to_f64(), range.high.to_f64(), range.low.to_f64(), state.violation, least]);
    let end = end_number(state.termination);
    for number in [state.random, state.updates, state.passes, state.full_pass_at, least_at, end] {
        out.number(number);
    }
    problem.store.each(|chunk, records| {
        let order = &state.orders[chunk];
        out.number(order.len() as u64);
        out.u32s(&records.numbers(order));
    });
    if let Some(newton) = &state.newton {
        out.number(1);
        out.f64s(&newton.scores);
        out.f64s(&newton.gradient);
        out.f64s(&[newton.first]);
    } else if let Some(lasso) = &state.lasso {
        out.number(2);
        out.f64s(&lasso.scores);
        out.f64s(&[lasso.first]);
    } else {
        out.number(0);
    }
}

/// Fills the state of a subproblem that was just started with that of the checkpoint.
fn read_state<M: Encoding>(
    from: &mut CheckpointReader<'_>,
    problem: &LinearProblem<M>,
    mut state: SubproblemState<M::Real>,
) -> Option<SubproblemState<M::Real>> {
    let coefficients = from.f64s()?;
    let weights = from.f64s()?;
    let is_alike = coefficients.len() == state.coefficients.len()
        && weights.len() == state.weights.values().len();
    if !is_alike {
        return None;
    }
    state.coefficients = from_f64s(&coefficients);
    state.weights.values_mut().copy_from_slice(&from_f64s(&weights));
    let [bias, high, low, violation, least] = <[f64; 5]>::try_from(from.f64s()?).ok()?;
    let real = <M::Real as mercer_simd::Real>::from_f64;
    state.bias.weight = real(bias);
    state.last_range = GradientRange { high: real(high), low: real(low) };
    state.violation = violation;
    (state.random, state.updates, state.passes) = (from.number()?, from.number()?, from.number()?);
    state.full_pass_at = from.number()?.min(state.passes);
    state.least_violation = (least, from.number()?.min(state.passes));
    state.termination = end_of(from.number()?).ok()?;
    let mut is_complete = true;
    let orders = &mut state.orders;
    problem.store.each(|chunk, records| {
        let read_order = || {
            let active = usize::try_from(from.number()?).ok()?;
            let order = records.order_of(&from.u32s()?, active)?;
            (order.all() == orders[chunk].all()).then_some(order)
        };
        match { read_order }() {
            Some(order) => orders[chunk] = order,
            None => is_complete = false,
        }
    });
    match from.number()? {
        0 => {}
        1 => {
            let (scores, gradient) = (from.f64s()?, from.f64s()?);
            let [first] = <[f64; 1]>::try_from(from.f64s()?).ok()?;
            is_complete &=
                scores.len() == problem.store.rows() && gradient.len() == weights.len() + 1;
            state.newton = Some(Newton { scores, first, gradient });
        }
        _ => {
            let scores = from.f64s()?;
            let [first] = <[f64; 1]>::try_from(from.f64s()?).ok()?;
            if scores.len() != problem.store.rows() {
                return None;
            }
            state.lasso = Some(Lasso::new(problem, &state, scores, first));
        }
    }
    (is_complete && state.orders.iter().map(Order::all).sum::<usize>() <= problem.store.rows())
        .then_some(state)
}
