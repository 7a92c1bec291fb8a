//! Fits the stage `pca`: the principal directions of the supports. How supports are projected onto them is in
//! `mercer_query`.

use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use super::{Fitter, can_estimate};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::PCA, estimates: true, stops: false, propose, fit };

/// Levels that are tried; a machine of fewer columns takes those that leave something out. Where each level pays
/// for many scores, one is enough.
const PROPOSED: [&[usize]; 5] =
    [&[8, 16, 32], &[32, 64], &[48, 64, 96, 128, 192], &[64, 128, 192], &[128]];

fn propose(task: &Task<'_>) -> Vec<Spec> {
    if !can_estimate(task) {
        return Vec::new();
    }
    let live = task.exact.packed().live_columns();
    let fitting = |levels: &[usize]| -> Vec<usize> {
        levels.iter().copied().filter(|level| 3 * level <= 2 * live).collect()
    };
    let mut lists: Vec<Vec<usize>> = PROPOSED.iter().map(|levels| fitting(levels)).collect();
    lists.retain(|levels| !levels.is_empty());
    lists.dedup();
    let spec = |levels: Vec<usize>| {
        levels.into_iter().fold(Spec::new("pca"), |spec, level| spec.with(level as f64))
    };
    lists.into_iter().map(spec).collect()
}

fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let mut levels: Vec<u32> =
        arguments.integers().into_iter().map(|dimensions| dimensions as u32).collect();
    let basis = task.basis("pca")?;
    let rows = basis.rows as u32;
    // Machines with fewer directions need fewer levels: the last one then holds them all.
    levels.iter_mut().for_each(|level| *level = (*level).min(rows));
    levels.dedup();
    let last = levels.last().map_or(0, |last| *last as usize);
    Ok(Section::new(arguments.text().to_string())
        .with("basis", Array::F32(basis.to_f32(last)))
        .with("levels", Array::U32(levels)))
}
