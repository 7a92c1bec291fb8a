//! Writes LIBLINEAR model text.

use std::io::Write;

use super::super::fold::without_scaling;
use super::super::text::{digits, is_label};
use crate::{ClassName, MachineError, Model, Output, Scheme, Score};

const NAME: &str = "LIBLINEAR model text";

fn inexpressible(what: &str) -> MachineError {
    MachineError::Inexpressible { format: NAME, what: what.to_owned() }
}

/// Writes linear scores; the offset becomes the weight of a constant column 1.
pub(super) fn write(model: &Model, out: &mut dyn Write) -> Result<(), MachineError> {
    let model = &*without_scaling(model, NAME)?;
    let machine = &model.machine;
    let (solver, classes) = match machine.output() {
        Output::Value => ("L2R_L2LOSS_SVR", 2),
        Output::Novelty => ("ONECLASS_SVM", 2),
        Output::Classes { names, scheme } => {
            if names.len() > 2 && *scheme == Scheme::OneVsOne {
                return Err(inexpressible("one-vs-one machines of more than two classes"));
            }
            ("L2R_L2LOSS_SVC", names.len())
        }
    };
    let mut columns = Vec::new();
    for score in machine.scores() {
        let Score::Linear { weights, offset } = score else {
            return Err(inexpressible(
                "scores that are no weights of columns (sums over supports, tables)",
            ));
        };
        columns.push((weights, *offset));
    }
    writeln!(out, "solver_type {solver}\nnr_class {classes}")?;
    if let Output::Classes { names, .. } = machine.output() {
        write!(out, "label")?;
        for name in names {
            match name {
                ClassName::Number(number) if is_label(*number) => write!(out, " {number}")?,
                other => {
                    let what = format!("the class name '{other}' (only whole numbers)");
                    return Err(inexpressible(&what));
                }
            }
        }
        writeln!(out)?;
    }
    let is_novelty = *machine.output() == Output::Novelty;
    writeln!(out, "nr_feature {}", machine.columns())?;
    writeln!(out, "bias {}", if is_novelty { "-1" } else { "1" })?;
    if is_novelty {
        writeln!(out, "rho {}", digits(columns[0].1))?;
    }
    writeln!(out, "w")?;
    for column in 0..machine.columns() {
        for (weights, _) in &columns {
            write!(out, "{} ", digits(weights[column]))?;
        }
        writeln!(out)?;
    }
    if !is_novelty {
        for (_, offset) in &columns {
            write!(out, "{} ", digits(-offset))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
