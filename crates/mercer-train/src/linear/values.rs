//! Preparation of linear machines on values as they are: packed rows, or columns for the L1 penalty.
//! Values that are rounded to bins are prepared in [`crate::additive`].

use std::time::Instant;

use mercer_simd::factors::{RawValues, Records, RowKey};

use super::backend::{Packing, PreparationReport, PreparedLinear};
use super::transposed::Transposed;
use super::{Space, linear_scores};
use crate::TrainError;
use crate::additive::{FactorReport, scalar_kernel};
use crate::backend::Prepared;
use crate::packed::{
    ColumnOrder, MemoryBudget, RecordShape, RowsToPack, Writer, check_range, full,
};
use crate::row_source::pieces;

pub(super) fn prepare<'p>(packing: Packing<'p>) -> Result<Box<dyn Prepared + 'p>, TrainError> {
    scalar_kernel(&packing)?;
    let started = Instant::now();
    let (columns, places) = ColumnOrder::new(packing.problem.examples, &packing.rows)?;
    let rows = RowsToPack {
        source: packing.problem.examples,
        rows: &packing.rows,
        classes: &packing.problem.labels.class_of,
        columns: &columns,
        places: &places,
    };
    let mut budget = packing.memory_budget();
    let transposed = transposed(&packing, rows, budget)?;
    budget.bytes -= transposed.as_ref().map_or(0, Transposed::bytes);
    let writer = match transposed {
        Some(_) => pack_heads(rows, budget)?,
        None => pack_values(rows, budget)?,
    };
    let mut packed = packing.linear_problem(writer.finish(|_| {})?, columns, RawValues, true);
    packed.transposed = transposed;
    let factor = FactorReport { relative_error: 0.0, worst_error: 0.0 };
    let seconds = started.elapsed().as_secs_f64();
    let report = PreparationReport { bins: "off", factor, seconds };
    let build_scores = Box::new(linear_scores::<RawValues>);
    Ok(Box::new(PreparedLinear { packing, packed, report, build_scores }))
}

/// The examples by columns, where the solver updates weights.
fn transposed(
    packing: &Packing<'_>,
    rows: RowsToPack<'_>,
    budget: MemoryBudget,
) -> Result<Option<Transposed>, TrainError> {
    if packing.solver.space != Space::Lasso {
        return Ok(None);
    }
    let made = Transposed::new(rows, packing.solver.bias, budget.bytes)?;
    made.map(Some).map_err(|bytes| {
        packing.unsuited(format!(
            "penalty=l1 holds the examples by columns, {} MiB beside them; give --memory more",
            bytes.div_ceil(1 << 20)
        ))
    })
}

/// Packs rows with their values as they are: in f32 if that holds them all.
fn pack_values(packing: RowsToPack<'_>, budget: MemoryBudget) -> Result<Writer, TrainError> {
    let RowsToPack { source, rows, columns, places, .. } = packing;
    let (mut largest, mut are_f32) = (0.0f64, true);
    pieces(source, rows, |piece| {
        for (.., value) in piece.nonzeros() {
            largest = largest.max(value.abs());
            are_f32 &= f64::from(value as f32) == value;
        }
        Ok(())
    })?;
    check_range(largest)?;
    let like = |columns, in_f32| Records::of_values(columns, in_f32 == 1);
    let mut writer = Writer::new(
        budget,
        RecordShape { new: like, columns: columns.kept(), cells: usize::from(are_f32) },
        rows.len(),
        source.nonzeros(),
    )?;
    let mut entries = Vec::new();
    pieces(source, rows, |piece| {
        for (position, row) in (piece.position as u32..).zip(piece.rows) {
            entries.clear();
            let row_of = piece.row(*row).nonzeros();
            entries.extend(row_of.map(|(column, value)| (places.of(column), value)));
            if !writer
                .bucket(position)?
                .push_values(RowKey { number: position, tag: packing.class_of(*row) }, &entries)
            {
                return Err(full());
            }
        }
        Ok(())
    })?;
    Ok(writer)
}

/// Packs rows without their values, for solvers that read these by columns.
fn pack_heads(packing: RowsToPack<'_>, budget: MemoryBudget) -> Result<Writer, TrainError> {
    let RowsToPack { rows, columns, .. } = packing;
    let like = |columns, _| Records::of_values(columns, true);
    let mut writer = Writer::new(
        budget,
        RecordShape { new: like, columns: columns.kept(), cells: 1 },
        rows.len(),
        0,
    )?;
    for (position, row) in (0u32..).zip(rows) {
        if !writer
            .bucket(position)?
            .push_values(RowKey { number: position, tag: packing.class_of(*row) }, &[])
        {
            return Err(full());
        }
    }
    Ok(writer)
}
