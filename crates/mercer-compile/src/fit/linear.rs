//! Fits the stage `linear`: least squares on the scores of the machine. How queries are answered with it is in
//! `mercer_query`.

use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use super::{Fitter, can_estimate};
use crate::{CompileError, Task, ridge};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::LINEAR, estimates: true, stops: false, propose, fit };

fn propose(task: &Task<'_>) -> Vec<Spec> {
    if can_estimate(task) { vec![Spec::new("linear")] } else { Vec::new() }
}

/// Least squares in the coordinates of the basis; stored as weights of the machine's columns.
fn fit(_: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let unfit = |reason: String| CompileError::Unfit { stage: "linear", reason };
    let basis = task.basis("linear")?;
    let set = task.distillation_set("linear")?;
    let (size, outputs) = (set.size, set.outputs);
    let weights = ridge::fit(set.rows, size + 1, &set.targets, |row, out| {
        out[..size].copy_from_slice(set.row(row));
        out[size] = 1.0;
    });
    let fitted = weights.ok_or_else(|| unfit("its scores could not be fitted".to_owned()))?;
    let machine = task.exact.machine();
    let (live, columns) = (task.exact.packed().live(), machine.columns());
    let mut weights = vec![0.0; outputs * columns];
    let mut constants = vec![0.0; outputs];
    for (output, fitted) in fitted.chunks_exact(size + 1).enumerate() {
        let weights_of_output = &mut weights[output * columns..(output + 1) * columns];
        for (factor, direction) in fitted.iter().zip(basis.values.chunks_exact(basis.columns)) {
            for (column, value) in live.iter().zip(direction) {
                weights_of_output[*column as usize] += factor * value;
            }
        }
        // Queries are not centred before this product.
        let centre = machine.centre().unwrap_or(&[]);
        let shift: f64 =
            weights_of_output.iter().zip(centre).map(|(weight, centre)| weight * centre).sum();
        constants[output] = fitted[size] - shift;
    }
    Ok(Section::new("linear")
        .with("weights", Array::F64(weights))
        .with("constants", Array::F64(constants)))
}
