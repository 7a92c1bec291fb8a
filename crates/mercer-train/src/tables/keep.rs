//! Checkpoints of questions: those that are done and those at work.

use std::time::Duration;

use mercer_simd::Real as _;
use mercer_simd::factors::{Encoding, Float, Order};

use super::dual::Slopes;
use super::lasso::Lasso;
use super::newton::Newton;
use super::part::{Ask, End, Learned, Part, Shared};
use crate::checkpoint::{In, Out};
use crate::control::Control;
use crate::{Stop, TrainError};

/// Questions of one training.
#[derive(Debug)]
pub(super) struct Standing<T> {
    pub(super) learned: Vec<Option<Learned<T>>>,
    pub(super) at_work: Vec<Part<T>>,
    /// The first that was not begun.
    pub(super) next: usize,
    /// Visits of those that are done.
    pub(super) done: u64,
}

impl<T: Float> Standing<T> {
    /// What a checkpoint says, or nothing begun.
    pub(super) fn new<M: Encoding<Real = T>>(
        shared: &Shared<M>,
        asks: &[Ask],
        control: &mut Control<'_>,
    ) -> Result<Self, TrainError> {
        let learned = vec![None; asks.len()];
        let mut begin = Self { learned, at_work: Vec::new(), next: 0, done: control.iterations };
        let Some(keeper) = &control.keeper else { return Ok(begin) };
        let Some(body) = keeper.read()? else { return Ok(begin) };
        let elapsed = begin.read(&mut In(&body), shared, asks);
        control.earlier = elapsed.ok_or_else(|| keeper.damaged())?;
        shared.store.check()?;
        Ok(begin)
    }

    /// Writes a checkpoint, unless a pass was broken off.
    pub(super) fn save<M: Encoding<Real = T>>(
        &self,
        shared: &Shared<M>,
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let elapsed = control.elapsed();
        let Some(keeper) = &mut control.keeper else { return Ok(()) };
        if self.at_work.iter().any(|part| part.is_torn) {
            return Ok(());
        }
        let mut out = Out::default();
        out.number(elapsed.as_micros() as u64);
        out.number(self.next as u64);
        out.number(self.done);
        let known = || self.learned.iter().enumerate().filter_map(|(n, l)| Some((n, l.as_ref()?)));
        out.number(known().count() as u64);
        for (number, learned) in known() {
            out.number(number as u64);
            write_learned(&mut out, learned);
        }
        out.number(self.at_work.len() as u64);
        for part in &self.at_work {
            write_part(&mut out, shared, part);
        }
        shared.store.check()?;
        keeper.write(&out)
    }

    fn read<M: Encoding<Real = T>>(
        &mut self,
        from: &mut In<'_>,
        shared: &Shared<M>,
        asks: &[Ask],
    ) -> Option<Duration> {
        let elapsed = Duration::from_micros(from.number()?);
        self.next = usize::try_from(from.number()?).ok().filter(|next| *next <= asks.len())?;
        self.done = from.number()?;
        for _ in 0..from.length(8)? {
            let number = usize::try_from(from.number()?).ok()?;
            *self.learned.get_mut(number)? = Some(read_learned(from)?);
        }
        for _ in 0..from.length(8)? {
            let number = usize::try_from(from.number()?).ok()?;
            let part = Part::new(shared, number, asks.get(number)?.clone(), None);
            self.at_work.push(read_part(from, shared, part)?);
        }
        Some(elapsed)
    }
}

fn wide<T: Float>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

fn narrow<T: Float>(values: &[f64]) -> Vec<T> {
    values.iter().map(|value| T::from_f64(*value)).collect()
}

fn end_number(end: Option<End>) -> u64 {
    match end {
        None => 0,
        Some(End::Optimal) => 1,
        Some(End::Stopped(Stop::Cancelled)) => 2,
        Some(End::Stopped(Stop::TimeLimit)) => 3,
        Some(End::Stopped(Stop::IterationLimit)) => 4,
        Some(End::Stopped(Stop::Stalled)) => 5,
        Some(End::Stopped(Stop::GivenUp)) => 6,
        Some(End::Stopped(Stop::F32Stalled)) => 7,
    }
}

/// The end of a number; an error where there is none.
fn end_of(number: u64) -> Result<Option<End>, ()> {
    Ok(match number {
        0 => None,
        1 => Some(End::Optimal),
        2 => Some(End::Stopped(Stop::Cancelled)),
        3 => Some(End::Stopped(Stop::TimeLimit)),
        4 => Some(End::Stopped(Stop::IterationLimit)),
        5 => Some(End::Stopped(Stop::Stalled)),
        6 => Some(End::Stopped(Stop::GivenUp)),
        7 => Some(End::Stopped(Stop::F32Stalled)),
        _ => return Err(()),
    })
}

fn write_learned<T: Float>(out: &mut Out, learned: &Learned<T>) {
    out.doubles(&wide(&learned.weights));
    out.doubles(&wide(&learned.coefficients));
    out.doubles(&[learned.offset, learned.objective, learned.gap, learned.violation]);
    for number in [learned.supports as u64, learned.bounded as u64, learned.visits] {
        out.number(number);
    }
    out.number(end_number(Some(learned.end)));
}

fn read_learned<T: Float>(from: &mut In<'_>) -> Option<Learned<T>> {
    let (weights, coefficients) = (narrow(&from.doubles()?), narrow(&from.doubles()?));
    let [offset, objective, gap, violation] = <[f64; 4]>::try_from(from.doubles()?).ok()?;
    let (supports, bounded) = (from.number()?, from.number()?);
    let visits = from.number()?;
    Some(Learned {
        weights,
        offset,
        objective,
        gap,
        violation,
        supports: usize::try_from(supports).ok()?,
        bounded: usize::try_from(bounded).ok()?,
        visits,
        end: end_of(from.number()?).ok()??,
        coefficients,
        held_out: Vec::new(),
    })
}

fn write_part<M: Encoding>(out: &mut Out, shared: &Shared<M>, part: &Part<M::Real>) {
    out.number(part.number as u64);
    out.doubles(&wide(&part.coefficients));
    out.doubles(&wide(part.weights.values()));
    let (before, constant) = (part.before, part.constant.weight);
    let (least, least_at) = part.least;
    out.doubles(&[
        constant.to_f64(),
        before.high.to_f64(),
        before.low.to_f64(),
        part.violation,
        least,
    ]);
    let end = end_number(part.end);
    for number in [part.random, part.visits, part.passes, part.whole_at, least_at, end] {
        out.number(number);
    }
    shared.store.each(|chunk, records| {
        let order = &part.orders[chunk];
        out.number(order.len() as u64);
        out.words(&records.numbers(order));
    });
    if let Some(newton) = &part.newton {
        out.number(1);
        out.doubles(&newton.scores);
        out.doubles(&newton.slope);
        out.doubles(&[newton.first]);
    } else if let Some(lasso) = &part.lasso {
        out.number(2);
        out.doubles(&lasso.scores);
        out.doubles(&[lasso.first]);
    } else {
        out.number(0);
    }
}

/// The state of a question that was just begun becomes that of the checkpoint.
fn read_part<M: Encoding>(
    from: &mut In<'_>,
    shared: &Shared<M>,
    mut part: Part<M::Real>,
) -> Option<Part<M::Real>> {
    let coefficients = from.doubles()?;
    let weights = from.doubles()?;
    let is_alike = coefficients.len() == part.coefficients.len()
        && weights.len() == part.weights.values().len();
    if !is_alike {
        return None;
    }
    part.coefficients = narrow(&coefficients);
    part.weights.values_mut().copy_from_slice(&narrow(&weights));
    let [constant, high, low, violation, least] = <[f64; 5]>::try_from(from.doubles()?).ok()?;
    let of = <M::Real as mercer_simd::Real>::from_f64;
    part.constant.weight = of(constant);
    part.before = Slopes { high: of(high), low: of(low) };
    part.violation = violation;
    (part.random, part.visits, part.passes) = (from.number()?, from.number()?, from.number()?);
    part.whole_at = from.number()?.min(part.passes);
    part.least = (least, from.number()?.min(part.passes));
    part.end = end_of(from.number()?).ok()?;
    let mut is_whole = true;
    let orders = &mut part.orders;
    shared.store.each(|chunk, records| {
        let found = || {
            let active = usize::try_from(from.number()?).ok()?;
            let order = records.order_of(&from.words()?, active)?;
            (order.all() == orders[chunk].all()).then_some(order)
        };
        match { found }() {
            Some(order) => orders[chunk] = order,
            None => is_whole = false,
        }
    });
    match from.number()? {
        0 => {}
        1 => {
            let (scores, slope) = (from.doubles()?, from.doubles()?);
            let [first] = <[f64; 1]>::try_from(from.doubles()?).ok()?;
            is_whole &= scores.len() == shared.store.rows() && slope.len() == weights.len() + 1;
            part.newton = Some(Newton { scores, first, slope });
        }
        _ => {
            let scores = from.doubles()?;
            let [first] = <[f64; 1]>::try_from(from.doubles()?).ok()?;
            if scores.len() != shared.store.rows() {
                return None;
            }
            part.lasso = Some(Lasso::new(shared, &part, scores, first));
        }
    }
    (is_whole && part.orders.iter().map(Order::all).sum::<usize>() <= shared.store.rows())
        .then_some(part)
}
