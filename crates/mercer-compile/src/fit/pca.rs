use mercer_machine::{Array, Section};
use mercer_spec::{Spec, Value};

use super::{Fitter, can_estimate};
use crate::basis::MOST;
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter = Fitter {
    name: "pca",
    summary: "pca(r1, r2, ...): all supports in r dimensions, more from level to level; with arithmetic=int8 in bytes; calibrated on --sample",
    estimates: true,
    stops: false,
    propose,
    fit,
};

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

fn fit(spec: &Spec, task: &Task<'_>) -> Result<Section, CompileError> {
    let unfit = |reason: &str| CompileError::Unfit { stage: "pca", reason: reason.to_owned() };
    let number = |value: &Value| match value {
        Value::Number(r) if r.fract() == 0.0 && (1.0..=MOST as f64).contains(r) => Some(*r as u32),
        _ => None,
    };
    let levels: Option<Vec<u32>> = spec.positional().iter().map(number).collect();
    let is_int8 = |(name, value): &(String, Value)| {
        name == "arithmetic" && matches!(value, Value::Spec(word) if word.to_string() == "int8")
    };
    let has_known = spec.named().is_empty() || matches!(spec.named(), [one] if is_int8(one));
    let levels = levels.filter(|levels| !levels.is_empty() && has_known);
    let mut levels = levels.ok_or_else(|| {
        unfit(
            "write pca(r1, r2, ...) with whole numbers of dimensions from 1 to 256, and arithmetic=int8 \
             for bytes",
        )
    })?;
    if levels.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(unfit("its dimensions must increase from level to level"));
    }
    let basis = task.basis("pca")?;
    let rows = basis.rows as u32;
    // Machines with fewer directions need fewer levels: the last one then holds them all.
    levels.iter_mut().for_each(|level| *level = (*level).min(rows));
    levels.dedup();
    let last = levels.last().map_or(0, |last| *last as usize);
    Ok(Section::new(spec.to_string())
        .with("basis", Array::F32(basis.singles(last)))
        .with("levels", Array::U32(levels)))
}
