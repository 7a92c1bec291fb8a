use mercer_machine::{Array, Section};
use mercer_spec::{Spec, Value};

use super::Fitter;
use crate::basis::MOST;
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter = Fitter {
    name: "residual",
    summary: "residual(r, k1, k2, ...): supports in r dimensions, then exact corrections for k1, k2, ... of them; calibrated on --sample",
    estimates: true,
    stops: false,
    // After `pca` nearly nothing is left for it: whoever wants it names it.
    propose: |_| Vec::new(),
    fit,
};

fn fit(spec: &Spec, task: &Task<'_>) -> Result<Section, CompileError> {
    let unfit = |reason: &str| CompileError::Unfit { stage: "residual", reason: reason.to_owned() };
    let number = |value: &Value| match value {
        Value::Number(x) if x.fract() == 0.0 && (1.0..=1e6).contains(x) => Some(*x as u32),
        _ => None,
    };
    let numbers: Option<Vec<u32>> = spec.positional().iter().map(number).collect();
    let (size, mut levels) = match numbers.as_deref() {
        Some([size, levels @ ..])
            if *size as usize <= MOST && !levels.is_empty() && spec.named().is_empty() =>
        {
            (*size as usize, levels.to_vec())
        }
        _ => {
            return Err(unfit(
                "write residual(r, k1, k2, ...) with whole numbers, as residual(64, 16, 64)",
            ));
        }
    };
    if levels.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(unfit("its corrections must increase from level to level"));
    }
    if task.exact.machine().scores().len() != 1 {
        return Err(unfit("it takes machines with two classes or novelty"));
    }
    let basis = task.basis("residual")?;
    let supports = task.exact.machine().supports().rows() as u32;
    levels.iter_mut().for_each(|level| *level = (*level).min(supports));
    levels.dedup();
    Ok(Section::new(spec.to_string())
        .with("basis", Array::F32(basis.singles(size.min(basis.rows))))
        .with("levels", Array::U32(levels)))
}
