//! Formats without scaling: an affine one is folded into scores that are linear in the row. Scalings that are not
//! affine are refused by such formats.

use std::borrow::Cow;

use mercer_data::scale::Map;
use mercer_data::{DataError, Matrix, MatrixBuilder, Row};
use mercer_kernel::Form;

use crate::{Machine, MachineError, Model, Score};

/// The same scores of unscaled rows, without a scaling.
///
/// `w·((x - c) f) - b = (w f)·x - (b + (w f)·c)`, and so for the supports of a linear kernel. Other kernels do
/// not carry a factor for each column: they are refused by name.
pub(super) fn without_scaling<'a>(
    model: &'a Model,
    format: &'static str,
) -> Result<Cow<'a, Model>, MachineError> {
    let Some(scaling) = &model.input.scaling else { return Ok(Cow::Borrowed(model)) };
    let machine = &model.machine;
    if let Some(moved) = moved_back(machine, scaling.map())? {
        let mut model = Model { plan: None, machine: moved, training: None, ..model.clone() };
        model.input.scaling = None;
        return Ok(Cow::Owned(model));
    }
    let is_linear = machine.bins().is_none() && machine.kernel().spec().name() == "linear"
        || machine.scores().iter().all(|score| matches!(score, Score::Linear { .. }));
    let (Map::Affine { centres, factors }, true) = (scaling.map(), is_linear) else {
        let what = format!("rows scaled by {}", scaling.spec());
        let kernel = machine.kernel().spec();
        let what = if is_linear { what } else { format!("{what} under the kernel {kernel}") };
        return Err(MachineError::Inexpressible { format, what });
    };
    let get = |values: &[f64], column: usize| values.get(column).copied().unwrap_or(0.0);
    let supports = scaled_columns(machine.supports(), factors)?;
    let shift = |row: Row<'_>| -> f64 {
        row.nonzeros().map(|(column, value)| value * get(centres, column as usize)).sum()
    };
    let shifts: Vec<f64> = supports.iter().map(shift).collect();
    let fold = |score: &Score| match score {
        Score::Expansion { supports, coefficients, offset } => {
            let moved = supports.iter().zip(coefficients);
            let moved: f64 = moved.map(|(support, beta)| beta * shifts[*support as usize]).sum();
            let (supports, coefficients) = (supports.clone(), coefficients.clone());
            Score::Expansion { supports, coefficients, offset: offset + moved }
        }
        Score::Linear { weights, offset } => {
            let weights: Vec<f64> =
                weights.iter().enumerate().map(|(at, weight)| weight * get(factors, at)).collect();
            let moved: f64 =
                weights.iter().enumerate().map(|(at, weight)| weight * get(centres, at)).sum();
            Score::Linear { weights, offset: offset + moved }
        }
        Score::Additive { .. } => unreachable!("tables are not linear, and were refused"),
    };
    let scores = machine.scores().iter().map(fold).collect();
    let output = machine.output().clone();
    let folded = Machine::new(machine.kernel().clone(), supports, scores, output)?;
    let mut model = Model { plan: None, machine: folded, training: None, ..model.clone() };
    model.input.scaling = None;
    Ok(Cow::Owned(model))
}

/// `K(x - c, z) = K(x, z + c)` for a kernel of distances: rows that are only shifted need no scaling.
fn moved_back(machine: &Machine, map: &Map) -> Result<Option<Machine>, MachineError> {
    let Map::Affine { centres, factors } = map else { return Ok(None) };
    let columns = machine.columns();
    let is_shift = matches!(machine.kernel().form(), Form::Shift(_))
        && machine.bins().is_none()
        && factors.len() == columns
        && factors.iter().all(|factor| *factor == 1.0)
        && machine.scores().iter().all(|score| matches!(score, Score::Expansion { .. }))
        && machine.check_dense(machine.supports().rows().saturating_mul(columns)).is_ok();
    if !is_shift {
        return Ok(None);
    }
    let mut values = Vec::with_capacity(machine.supports().rows() * columns);
    for row in machine.supports().iter() {
        values.extend((0..columns).map(|column| row.get(column) + centres[column]));
    }
    let supports = Matrix::dense(columns, values)?;
    let (scores, output) = (machine.scores().to_vec(), machine.output().clone());
    Ok(Some(Machine::new(machine.kernel().clone(), supports, scores, output)?))
}

fn scaled_columns(supports: &Matrix, factors: &[f64]) -> Result<Matrix, DataError> {
    let mut builder = MatrixBuilder::new();
    for (number, row) in (1..).zip(supports.iter()) {
        for (column, value) in row.nonzeros() {
            let value = value * factors.get(column as usize).copied().unwrap_or(0.0);
            if !value.is_finite() {
                let column = column as usize + 1;
                return Err(DataError::NotFiniteAt { row: number, column, value });
            }
            builder.push(column, value);
        }
        builder.end_row();
    }
    let folded = builder.finish(supports.columns());
    Ok(if supports.is_sparse() { folded } else { folded.to_dense() })
}
