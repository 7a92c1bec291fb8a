//! Fits the stage `low_precision`: looks for a grid on which all values lie. Values are rounded when the plan is
//! loaded, in `mercer_query`, not here.

mod grid;

use mercer_data::Matrix;
use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::LOW_PRECISION, estimates: false, stops: false, propose, fit };

/// Supports that leave more columns empty than this are better walked by their entries.
const LEAST_DENSITY: f64 = 0.02;

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let has_products = task.exact.machine().kernel().form().finish().is_some();
    if has_only_expansions(task) && has_products {
        vec![Spec::new("low_precision")]
    } else {
        Vec::new()
    }
}

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "low_precision", reason: reason.into() }
}

/// Looks for a grid; all else is rounded when the plan is loaded.
fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let supports = task.exact.machine().supports();
    if arguments.word("integers") == "quantised" {
        let grid =
            grid::over(supports).ok_or_else(|| unfit("its values have no range of bytes"))?;
        let grid = Array::F64(vec![grid.step(), grid.base()]);
        return Ok(Section::new(arguments.text().to_string()).with("grid", grid));
    }
    let section = Section::new("low_precision");
    let live = supports.rows() as f64 * task.exact.packed().live_columns() as f64;
    if (supports.nonzeros() as f64) < LEAST_DENSITY * live {
        return Ok(section);
    }
    // A sample that is off the supports' grid must not hide it: its queries take the other path.
    let together: Vec<&Matrix> = std::iter::once(supports.as_ref()).chain(task.sample).collect();
    let grid = grid::find(&together).or_else(|| grid::find(&together[..1]));
    Ok(match grid {
        Some(grid) => section.with("grid", Array::F64(vec![grid.step(), grid.base()])),
        None => section,
    })
}
