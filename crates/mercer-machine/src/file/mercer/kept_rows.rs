//! Rows of the training in a model file: the header key `training` and the arrays `training/...`.

use std::collections::HashMap;

use mercer_data::{Matrix, Targets};

use super::header::TrainingText;
use super::read::{ArrayReader, damaged};
use super::write::ArrayWriter;
use crate::{MachineError, TrainingRows};

/// Distinct texts in the order of their first row, and the position of each row's text.
fn coded(texts: &[String]) -> (Vec<String>, Vec<u32>) {
    let (mut names, mut seen) = (Vec::new(), HashMap::new());
    let code = |text: &String| {
        *seen.entry(text.clone()).or_insert_with(|| {
            names.push(text.clone());
            names.len() as u32 - 1
        })
    };
    let codes = texts.iter().map(code).collect();
    (names, codes)
}

pub(super) fn text(rows: &TrainingRows) -> TrainingText {
    TrainingText {
        rows: rows.examples().rows(),
        columns: rows.examples().columns(),
        names: match rows.targets() {
            Targets::Names(texts) => Some(coded(texts).0),
            _ => None,
        },
        solver: rows.solver().map(str::to_owned),
        class_weights: rows.class_weights().iter().map(|(name, w)| (name.into(), *w)).collect(),
    }
}

pub(super) fn write(rows: &TrainingRows, arrays: &mut ArrayWriter) {
    match (rows.examples().as_dense(), rows.examples().as_sparse()) {
        (Some(values), _) => arrays.f64s("training/dense", values),
        (None, Some((starts, columns, values))) => {
            arrays.starts("training/starts", starts);
            arrays.u32s("training/columns", columns);
            arrays.f64s("training/values", values);
        }
        (None, None) => unreachable!("a matrix is dense or sparse"),
    }
    match rows.targets() {
        Targets::Absent => {}
        Targets::Numbers(numbers) => arrays.f64s("training/targets", numbers),
        Targets::Names(texts) => arrays.u32s("training/classes", &coded(texts).1),
    }
    if let Some(weights) = rows.weights() {
        arrays.f64s("training/weights", weights);
    }
}

pub(super) fn read(
    arrays: &ArrayReader<'_>,
    text: TrainingText,
) -> Result<TrainingRows, MachineError> {
    let examples = match arrays.f64s_if("training/dense")? {
        Some(values) => Matrix::dense(text.columns, values)?,
        None => Matrix::sparse(
            text.columns,
            &arrays.starts("training/starts")?,
            &arrays.u32s("training/columns")?,
            &arrays.f64s("training/values")?,
        )?,
    };
    if examples.rows() != text.rows {
        let found = examples.rows();
        return Err(damaged(&format!("it keeps {found} rows of its training, not {}", text.rows)));
    }
    let targets = match text.names {
        Some(names) => {
            let name = |code: &u32| {
                let name = names.get(*code as usize).cloned();
                name.ok_or_else(|| damaged(&"a kept row has a class without a name"))
            };
            let codes = arrays.u32s("training/classes")?;
            let length = |code: &u32| names.get(*code as usize).map_or(0, String::len);
            TrainingRows::check_texts(codes.iter().map(length).sum(), codes.len())?;
            Targets::Names(codes.iter().map(name).collect::<Result<_, _>>()?)
        }
        None => arrays.f64s_if("training/targets")?.map_or(Targets::Absent, Targets::Numbers),
    };
    let weights = arrays.f64s_if("training/weights")?;
    let class_weights =
        text.class_weights.into_iter().map(|(name, weight)| (name.into(), weight)).collect();
    TrainingRows::new(examples, targets, weights)?.with_options(text.solver, class_weights)
}
