//! What was learned becomes a machine.

use std::sync::Arc;

use mercer_kernel::KernelRef;
use mercer_machine::{Bins, Machine, Output, Score};
use mercer_simd::Real as _;
use mercer_simd::factors::{Encoding, Factors, StepEncoding};

use super::part::{Learned, Shared};
use super::quantise::Levels;
use crate::TrainError;

/// A plain linear machine.
pub(super) fn linear<M: Encoding>(
    kernel: &KernelRef,
    shared: &Shared<M>,
    learned: &[Option<Learned<M::Real>>],
    output: &Output,
) -> Result<Machine, TrainError> {
    let columns = shared.columns.all();
    let score = |part: &Option<Learned<M::Real>>| match part {
        Some(part) => {
            let weights: Vec<f64> = part.weights.iter().map(|w| w.to_f64()).collect();
            Score::Linear { weights: shared.columns.spread(&weights, 1), offset: part.offset }
        }
        None => Score::Linear { weights: vec![0.0; columns], offset: 1.0 },
    };
    let supports = mercer_data::Matrix::sparse(columns, &[0], &[], &[])
        .map_err(mercer_machine::MachineError::from)?;
    let scores = learned.iter().map(score).collect();
    Ok(Machine::new(kernel.clone(), supports, scores, output.clone())?)
}

/// A machine of tables.
pub(super) fn tabled(
    kernel: &KernelRef,
    shared: &Shared<Factors>,
    levels: &Levels,
    learned: &[Option<Learned<f32>>],
    output: &Output,
) -> Result<Machine, TrainError> {
    let Levels::Kept(scale) = levels else { unreachable!("signed levels are for linear machines") };
    let (columns, rank) = (shared.columns.all(), shared.encoding.rank());
    let grid = Arc::new(Bins::new(scale.clone(), rank, shared.encoding.read().to_vec())?);
    let score = |part: &Option<Learned<f32>>| match part {
        Some(part) => {
            let weights = shared.columns.spread(&part.weights, rank);
            Score::Additive { weights, offset: part.offset }
        }
        None => Score::Additive { weights: vec![0.0; columns * rank], offset: 1.0 },
    };
    let scores = learned.iter().map(score).collect();
    Ok(Machine::additive(kernel.clone(), columns, grid, scores, output.clone())?)
}

/// A machine of tables that are the curves themselves.
pub(super) fn curved(
    kernel: &KernelRef,
    shared: &Shared<StepEncoding>,
    levels: &Levels,
    learned: &[Option<Learned<f32>>],
    output: &Output,
) -> Result<Machine, TrainError> {
    let Levels::Kept(scale) = levels else { unreachable!("signed levels are for linear machines") };
    let grid = Arc::new(Bins::one_hot(scale.clone(), shared.encoding.values().len())?);
    let columns = shared.columns.all();
    let score = |part: &Option<Learned<f32>>| match part {
        Some(part) => {
            let wide: Vec<f64> = part.weights.iter().map(|w| f64::from(*w)).collect();
            let curves = shared.encoding.curves(&wide);
            let weights: Vec<f32> = curves.into_iter().map(|value| value as f32).collect();
            let weights = shared.columns.spread(&weights, grid.rank());
            Score::Additive { weights, offset: part.offset }
        }
        None => Score::Additive { weights: vec![0.0; columns * grid.rank()], offset: 1.0 },
    };
    let scores = learned.iter().map(score).collect();
    Ok(Machine::additive(kernel.clone(), columns, grid, scores, output.clone())?)
}
