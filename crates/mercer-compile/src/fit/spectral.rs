//! Fits the stage `spectral`: the eigenvectors of a degree-2 kernel machine, with bounds on their errors. How they
//! become proved ranges is in `certify/quadratic.rs` of `mercer_query`.

use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_query::verify::MOST_COLUMNS;
use mercer_query::verify::spectral::{QuadraticMatrix, degree_two};
use mercer_spec::{Checked, Spec};

use super::spectrum::Spectrum;
use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::SPECTRAL, estimates: false, stops: false, propose, fit };

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let fits = has_only_expansions(task)
        && degree_two(task.exact.machine()).is_ok()
        && task.exact.packed().live_columns() <= MOST_COLUMNS;
    if fits { vec![Spec::new("spectral")] } else { Vec::new() }
}

fn fit(_: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let (machine, live) = (task.exact.machine(), task.exact.packed().live_columns());
    let refuse = CompileError::measuring("spectral");
    degree_two(machine).map_err(&refuse)?;
    if live > MOST_COLUMNS {
        return Err(unfit(format!("{live} columns are more than {MOST_COLUMNS}")));
    }
    let (mut counts, mut values, mut vectors) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for score in machine.scores() {
        let matrix = QuadraticMatrix::of(task.exact, score).map_err(&refuse)?;
        let spectrum = Spectrum::of(&matrix.entries, matrix.size, matrix.error).map_err(unfit)?;
        counts.push(spectrum.values.len() as u32);
        errors.extend([spectrum.residual, spectrum.defect]);
        values.extend(spectrum.values);
        vectors.extend(spectrum.vectors);
    }
    Ok(Section::new("spectral")
        .with("counts", Array::U32(counts))
        .with("values", Array::F64(values))
        .with("vectors", Array::F64(vectors))
        .with("errors", Array::F64(errors)))
}

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "spectral", reason: reason.into() }
}
