//! Fits the stage `table`: one piecewise linear curve per column, with bounds on its error. How it becomes a proved
//! range is in `certify/curves.rs` of `mercer_query`.

use mercer_kernel::{Curve, Term};
use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_query::verify::table::{
    AT_ONCE, ColumnValues, CurveMeasure, SANE, Weights, gather, term,
};
use mercer_spec::{Checked, Spec};
use rayon::prelude::*;

use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::TABLE, estimates: false, stops: false, propose, fit };

/// Tables beyond this size are out of every cache.
const MOST_BYTES: usize = 64 << 20;
/// Cells of a curve: more prove nothing that fewer do not.
const CELLS: (usize, usize) = (16, 256);
/// With at most this many values in a column, straight lines between them are stored as they are.
const MOST_KINKS: usize = 4096;
/// Nodes beyond the largest value of a support, as multiples of it.
const BEYOND: [f64; 5] = [1.25, 1.5, 2.0, 3.0, 4.0];

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let is_fit = has_only_expansions(task) && term(task.exact.machine()).is_ok();
    if is_fit { vec![Spec::new("table")] } else { Vec::new() }
}

fn fit(_: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let machine = task.exact.machine();
    let refuse = CompileError::measuring("table");
    let term = term(machine).map_err(&refuse)?;
    if !has_only_expansions(task) {
        return Err(unfit("the machine has no supports to fold"));
    }
    let columns = gather(machine);
    let most = MOST_BYTES / 24 / machine.scores().len() / columns.len().max(1);
    if most < CELLS.0 {
        let reason = format!("tables of {} columns would be too large", columns.len());
        return Err(unfit(reason));
    }
    let weights = Weights::new(machine);
    let measure = CurveMeasure { term, weights: &weights, columns: columns.len() };
    let draw = |column: &ColumnValues| {
        if let Some((value, _)) = column.values.iter().find(|(value, _)| !SANE.contains(value)) {
            return Err(unfit(format!("values of {value:e} are beyond what its tables hold")));
        }
        let nodes = nodes(term, column, most)?;
        let cells = measure.cells(column, &nodes).map_err(CompileError::measuring("table"))?;
        Ok(Drawn { nodes, cells })
    };
    let mut curves = Vec::new();
    for (chunk, some) in columns.chunks(AT_ONCE).enumerate() {
        task.watch.step("folding columns", chunk * AT_ONCE, columns.len())?;
        let made: Result<Vec<Drawn>, CompileError> = some.par_iter().map(draw).collect();
        curves.extend(made?);
    }
    let counts = curves.iter().map(|curve| curve.nodes.len() as u32).collect();
    let nodes = curves.iter().flat_map(|curve| &curve.nodes).copied().collect();
    let cells = curves.iter().flat_map(|curve| &curve.cells).copied().collect();
    Ok(Section::new("table")
        .with("columns", Array::U32(columns.iter().map(|column| column.column).collect()))
        .with("counts", Array::U32(counts))
        .with("nodes", Array::F64(nodes))
        .with("cells", Array::F64(cells)))
}

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "table", reason: reason.into() }
}

/// Nodes of a curve, and for each cell the values, slopes and radii of all scores.
struct Drawn {
    nodes: Vec<f64>,
    cells: Vec<f64>,
}

/// Nodes at every value where the kernel is a straight line between them, else closer together near zero; `most` cells.
fn nodes(term: &dyn Term, column: &ColumnValues, most: usize) -> Result<Vec<f64>, CompileError> {
    let distinct = column.distinct();
    let largest = distinct[distinct.len() - 1];
    let is_kinked =
        term.curve() == Curve::Kinked && distinct.len() < most.max(CELLS.0).min(MOST_KINKS);
    let nodes: Vec<f64> = if is_kinked {
        std::iter::once(0.0).chain(distinct).collect()
    } else {
        let cells = most.saturating_sub(BEYOND.len() + 1).clamp(CELLS.0 - 6, CELLS.1);
        let share = |k: usize| (k as f64 / cells as f64).powi(2);
        let inside = (0..=cells).map(|k| if k == cells { largest } else { largest * share(k) });
        inside.chain(BEYOND.iter().map(|times| largest * times)).collect()
    };
    if nodes.is_sorted_by(|a, b| a < b) {
        Ok(nodes)
    } else {
        Err(unfit("a column's values lie too close together"))
    }
}
