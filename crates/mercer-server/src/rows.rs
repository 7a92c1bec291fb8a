//! From input tensors to the rows of a model: dense, sparse, as LIBSVM lines, or one tensor for each named column.

use std::borrow::Cow;
use std::io::Cursor;

use mercer_data::read::{Options, from_reader, read_all};
use mercer_data::{DataError, Matrix};
use mercer_machine::Model;

use crate::failure::{Failure, Kind};
use crate::json_array::Elements;
use crate::tensor::Tensor;

/// Names of the tensors of sparse rows.
const SPARSE: [&str; 3] = ["indptr", "indices", "values"];

/// Rows as the machine expects them, at most `most`.
///
/// # Errors
/// If the tensors are none of the accepted kinds, or do not fit the model.
pub fn rows(model: &Model, mut inputs: Vec<Tensor>, most: usize) -> Result<Matrix, Failure> {
    let rows = match inputs.as_mut_slice() {
        [] => return Err(Failure::invalid("the request has no inputs")),
        inputs if SPARSE.iter().all(|name| inputs.iter().any(|tensor| tensor.name == *name)) => {
            sparse(inputs)?
        }
        [tensor] if matches!(tensor.elements, Elements::Texts(_)) => libsvm_lines(tensor)?,
        [tensor] if is_table(model, tensor) => dense(tensor)?,
        tensors => named_columns(model, tensors)?,
    };
    if rows.rows() > most {
        let text = format!("{} rows in one request; at most {most} are accepted", rows.rows());
        return Err(Failure::new(Kind::TooLarge, text));
    }
    let rows = fitted(model, rows)?;
    prepared(model, rows).map_err(|error| Failure::invalid(error.to_string()))
}

/// Rows scaled as those that the machine was trained on.
///
/// # Errors
/// If a value overflows.
pub fn prepared(model: &Model, rows: Matrix) -> Result<Matrix, DataError> {
    match model.input.prepare(&rows)? {
        Cow::Owned(prepared) => Ok(prepared),
        Cow::Borrowed(_) => Ok(rows),
    }
}

/// How a file of rows is read for a model: its width, its names, its means and its target.
pub fn reading_options(model: &Model, options: Options) -> Options {
    let input = &model.input;
    Options {
        precomputed: model.machine.kernel().spec().name() == "precomputed",
        features: Some(input.features.unwrap_or(model.machine.columns())),
        names: input.names.clone(),
        means: input.means.clone(),
        target: input.target.clone(),
        zero_based: options.zero_based || input.zero_based,
        ..options
    }
}

/// Rows of the width that the model expects. A LIBSVM model does not say its width: its largest column stands for it, and
/// sparse rows may have more.
///
/// # Errors
/// If they are of another width.
pub fn fitted(model: &Model, rows: Matrix) -> Result<Matrix, Failure> {
    let (stated, found) = (model.input.features, rows.columns());
    let expected = stated.unwrap_or_else(|| model.machine.columns());
    if rows.is_sparse() && stated.is_none_or(|stated| found <= stated) {
        let wide = rows.with_columns(found.max(expected));
        return wide.map_err(|error| Failure::invalid(error.to_string()));
    }
    if found == expected {
        return Ok(rows);
    }
    Err(Failure::invalid(format!("rows have {found} columns, the model has {expected}")))
}

fn numbers(tensor: &Tensor) -> Result<&[f64], Failure> {
    match &tensor.elements {
        Elements::Numbers(numbers) => Ok(numbers),
        Elements::Texts(_) => {
            let what = format!("input '{}' holds texts; numbers are needed", tensor.name);
            Err(Failure::invalid(what))
        }
    }
}

/// The rows of a dense tensor, which is left without its elements: a large request is not copied.
fn dense(tensor: &mut Tensor) -> Result<Matrix, Failure> {
    numbers(tensor)?;
    let none = Elements::Texts(Vec::new());
    let Elements::Numbers(values) = std::mem::replace(&mut tensor.elements, none) else {
        return Err(Failure::new(Kind::Internal, "a tensor of numbers holds texts"));
    };
    Matrix::dense(tensor.shape[1], values)
        .map_err(|error| Failure::invalid(format!("input '{}': {error}", tensor.name)))
}

fn sparse(inputs: &[Tensor]) -> Result<Matrix, Failure> {
    if let Some(other) = inputs.iter().find(|tensor| !SPARSE.contains(&tensor.name.as_str())) {
        let what = format!("input '{}' is not one of {}", other.name, SPARSE.join(", "));
        return Err(Failure::invalid(what));
    }
    let named = |name: &str| {
        let tensor = inputs.iter().find(|tensor| tensor.name == name);
        numbers(tensor.expect("all three are there"))
    };
    let whole = |name: &str| -> Result<Vec<usize>, Failure> {
        let is_whole =
            |value: &f64| *value >= 0.0 && value.fract() == 0.0 && *value < 2f64.powi(53);
        let found = named(name)?;
        match found.iter().position(|value| !is_whole(value)) {
            Some(at) => {
                let what = format!("input '{name}': element {} is {}", at + 1, found[at]);
                Err(Failure::invalid(what))
            }
            None => Ok(found.iter().map(|value| *value as usize).collect()),
        }
    };
    let (starts, columns, values) = (whole("indptr")?, whole("indices")?, named("values")?);
    let is_bounded = starts.first() == Some(&0)
        && starts.last() == Some(&values.len())
        && starts.is_sorted()
        && columns.len() == values.len();
    if !is_bounded {
        let what = "indptr must rise from 0 to the number of values, and there must be an index for each value";
        return Err(Failure::invalid(what));
    }
    let mut builder = mercer_data::MatrixBuilder::new();
    for (row, ends) in starts.windows(2).enumerate() {
        let mut entries: Vec<(usize, f64)> =
            (ends[0]..ends[1]).map(|at| (columns[at], values[at])).collect();
        entries.sort_by_key(|(column, _)| *column);
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let what = format!("row {} has index {} twice", row + 1, pair[0].0);
            return Err(Failure::invalid(what));
        }
        for (column, value) in entries {
            let column = u32::try_from(column).map_err(|_| {
                Failure::invalid(format!("row {}: index {column} is too large", row + 1))
            })?;
            builder.push(column, value);
        }
        builder.end_row();
    }
    let width = builder.width();
    Ok(builder.finish(width))
}

/// Each text is a row as LIBSVM writes it; its label, if it has one, is not used.
fn libsvm_lines(tensor: &Tensor) -> Result<Matrix, Failure> {
    let Elements::Texts(lines) = &tensor.elements else {
        return Err(Failure::new(Kind::Internal, "lines that are no texts"));
    };
    let mut text = Vec::new();
    for (row, line) in lines.iter().enumerate() {
        if line.contains(&b'\n') {
            let what = format!("input '{}': row {} is more than one line", tensor.name, row + 1);
            return Err(Failure::invalid(what));
        }
        let first = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
        if first.is_none_or(|word| word.contains(&b':')) {
            text.extend_from_slice(b"0 ");
        }
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    let options = Options { format: Some("libsvm".to_owned()), ..Options::default() };
    // Lines are never compressed: whatever their bytes are, they are not unpacked.
    let chunks = from_reader(Cursor::new(text), "", &options);
    let data = chunks.and_then(|mut chunks| read_all(&mut *chunks));
    Ok(data
        .map_err(|error| Failure::invalid(format!("input '{}': {error}", tensor.name)))?
        .examples)
}

/// Whether a tensor holds whole rows: metadata call them 'x', which may be the name of a column as well.
fn is_table(model: &Model, tensor: &Tensor) -> bool {
    let columns = model.input.features.unwrap_or_else(|| model.machine.columns());
    matches!(tensor.shape[..], [_, width] if width == columns || !is_named_column(model, &tensor.name))
}

fn is_named_column(model: &Model, name: &str) -> bool {
    model.input.names.as_ref().is_some_and(|names| names.iter().any(|known| known == name))
}

/// One tensor for each column of the model, in any order.
fn named_columns(model: &Model, tensors: &[Tensor]) -> Result<Matrix, Failure> {
    let Some(names) = &model.input.names else {
        let given: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        return Err(Failure::invalid(format!(
            "inputs {} are not rows: one input of shape [rows, columns], or indptr, indices and values, or one of \
             LIBSVM lines; the model has no column names",
            given.join(", ")
        )));
    };
    if let Some(unknown) = tensors.iter().find(|tensor| !is_named_column(model, &tensor.name)) {
        let what = format!("input '{}' is no column of the model", unknown.name);
        return Err(Failure::invalid(what));
    }
    let rows = tensors[0].elements.len();
    let mut values = vec![0.0; rows.saturating_mul(names.len())];
    for (column, name) in names.iter().enumerate() {
        let tensor = tensors.iter().find(|tensor| tensor.name == *name);
        let tensor =
            tensor.ok_or_else(|| Failure::invalid(format!("column '{name}' is missing")))?;
        let numbers = numbers(tensor)?;
        if numbers.len() != rows {
            let what = format!("column '{name}' has {} rows, others {rows}", numbers.len());
            return Err(Failure::invalid(what));
        }
        for (row, value) in numbers.iter().enumerate() {
            values[row * names.len() + column] = *value;
        }
    }
    Matrix::dense(names.len(), values).map_err(|error| Failure::invalid(error.to_string()))
}
