//! Rows of a table as read, before categories and missing values become numbers.

use super::columns::{Fields, TableColumn, TableColumns};
use super::{Cell, Records};
use crate::dataset::number;
use crate::read::Missing;
use crate::{DataError, Matrix, MatrixBuilder};

/// Texts that mean a missing value where missing values are allowed.
const MISSING_TEXTS: [&str; 6] = ["", "?", "NA", "N/A", "NaN", "null"];
/// The number of a missing category.
const NO_CATEGORY: u32 = u32::MAX;

/// Some rows. A missing number is NaN: those in the file were checked to be finite.
#[derive(Debug, Default)]
pub(in crate::read) struct TableRows {
    rows: usize,
    numbers: Vec<f64>,
    categories: Vec<u32>,
    labels: Vec<String>,
    ids: Vec<String>,
}

impl TableRows {
    pub(in crate::read) fn rows(&self) -> usize {
        self.rows
    }

    pub(in crate::read) fn values(&self) -> usize {
        self.numbers.len() + self.categories.len()
    }

    pub(in crate::read) fn push(
        &mut self,
        line: usize,
        record: &impl Records,
        fields: &Fields,
        columns: &mut TableColumns,
        missing: Missing,
    ) -> Result<(), DataError> {
        let is_missing = |field: usize| match (record.cell(field), missing) {
            (Cell::Missing, _) => true,
            (Cell::Number(value), _) => value.is_nan() && missing != Missing::Error,
            (Cell::Text(text), Missing::Error) => text.is_empty(),
            (Cell::Text(text), _) => {
                MISSING_TEXTS.iter().any(|word| word.eq_ignore_ascii_case(text))
            }
        };
        let missing_at = |field: usize| DataError::Missing { line, column: fields.name(field) };
        let categorical = columns.categorical.iter().map(|known| known.field);
        let mut used = columns.numeric.iter().copied().chain(categorical).chain(columns.label);
        match missing {
            Missing::Error => {
                if let Some(field) = used.find(|field| is_missing(*field)) {
                    return Err(missing_at(field));
                }
            }
            Missing::Drop if used.any(is_missing) => return Ok(()),
            _ => {}
        }
        for field in columns.numeric.iter().copied() {
            let value = match (is_missing(field), missing) {
                (true, Missing::Mean) => f64::NAN,
                (true, _) => 0.0,
                (false, _) => finite(line, record.cell(field), || fields.name(field))?,
            };
            self.numbers.push(value);
        }
        for known in &mut columns.categorical {
            let category = if is_missing(known.field) {
                NO_CATEGORY
            } else {
                known.of(&record.cell(known.field).text(), line, fields)?
            };
            self.categories.push(category);
        }
        if let Some(label) = columns.label {
            if is_missing(label) {
                return Err(missing_at(label));
            }
            self.labels.push(record.cell(label).text().into_owned());
        }
        self.ids.extend(columns.id.map(|id| record.cell(id).text().into_owned()));
        self.rows += 1;
        Ok(())
    }

    /// The mean of each column of the matrix over the rows that have a value there; 0 for categories.
    pub(in crate::read) fn means(
        &self,
        fields: &Fields,
        columns: &TableColumns,
    ) -> Result<Vec<f64>, DataError> {
        let width = columns.numeric.len();
        let mean = |column: &TableColumn| {
            let TableColumn::Number(position) = column else { return Ok(0.0) };
            let values =
                || self.numbers.iter().skip(*position).step_by(width).filter(|v| !v.is_nan());
            let known = values().count();
            if known == 0 && self.rows > 0 {
                let column = fields.name(columns.numeric[*position]);
                return Err(DataError::NoValues { column });
            }
            // Each value is divided first, so that the sum cannot overflow.
            Ok(values().map(|v| v / known as f64).sum())
        };
        columns.order.iter().map(mean).collect()
    }

    /// Replaces each missing number by the mean of its column.
    pub(in crate::read) fn fill(&mut self, means: &[f64], columns: &TableColumns) {
        let width = columns.numeric.len();
        for (column, mean) in columns.order.iter().zip(means) {
            let TableColumn::Number(position) = column else { continue };
            for value in self.numbers.iter_mut().skip(*position).step_by(width) {
                if value.is_nan() {
                    *value = *mean;
                }
            }
        }
    }

    /// The first `rows` rows as a matrix; with categories, zeros are left out.
    pub(in crate::read) fn examples(
        &self,
        rows: usize,
        columns: &TableColumns,
    ) -> Result<Matrix, DataError> {
        let (numeric, categorical) = (columns.numeric.len(), columns.categorical.len());
        if categorical == 0 {
            let plain =
                columns.order.iter().enumerate().all(|(at, c)| *c == TableColumn::Number(at));
            debug_assert!(plain, "without categories, numbers are in the order of the matrix");
            return Matrix::dense(numeric, self.numbers[..rows * numeric].to_vec());
        }
        let mut builder = MatrixBuilder::new();
        for row in 0..rows {
            for (out, column) in (0u32..).zip(&columns.order) {
                let value = match column {
                    TableColumn::Number(at) => self.numbers[row * numeric + at],
                    TableColumn::Is(place, category) => {
                        f64::from(self.categories[row * categorical + place] == *category)
                    }
                };
                builder.push(out, value);
            }
            builder.end_row();
        }
        Ok(builder.finish(columns.width()))
    }

    pub(in crate::read) fn take_labels(&mut self, rows: usize) -> Vec<String> {
        let rows = rows.min(self.labels.len());
        self.labels.drain(..rows).collect()
    }

    pub(in crate::read) fn take_ids(&mut self, rows: usize) -> Vec<String> {
        let rows = rows.min(self.ids.len());
        self.ids.drain(..rows).collect()
    }

    /// Leaves out the first rows, whose labels and ids were taken.
    pub(in crate::read) fn forget(&mut self, rows: usize, columns: &TableColumns) {
        self.numbers.drain(..rows * columns.numeric.len());
        self.categories.drain(..rows * columns.categorical.len());
        self.rows -= rows;
    }
}

fn finite(line: usize, cell: Cell<'_>, name: impl Fn() -> String) -> Result<f64, DataError> {
    let value = match cell {
        Cell::Number(value) => value,
        Cell::Missing => f64::NAN,
        Cell::Text(field) => number(field).ok_or_else(|| {
            let token = field.chars().take(40).collect();
            DataError::NotANumber { line, token }
        })?,
    };
    if value.is_finite() {
        return Ok(value);
    }
    Err(DataError::NotFinite { line, place: format!("column '{}'", name()), value })
}
