//! Rows that come from Python: dense arrays of f64 or f32, or CSR matrices.

use std::borrow::Cow;
use std::ops::Range;

use mercer::data::{DataError, Matrix, MatrixBuilder, Row};
use numpy::ndarray::{ArrayView, ArrayView1, ArrayView2, Axis, Dimension, RemoveAxis};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use rayon::prelude::*;

/// Rows as Python passes them. Nothing is copied yet.
#[derive(FromPyObject)]
pub(crate) enum Rows<'py> {
    /// f64, in any order of storage.
    F64(PyReadonlyArray2<'py, f64>),
    /// f32, in any order of storage.
    F32(PyReadonlyArray2<'py, f32>),
    /// Row starts, columns, values, number of columns.
    Compressed(Integers<'py>, Integers<'py>, Floats<'py>, usize),
}

#[derive(FromPyObject)]
pub(crate) enum Integers<'py> {
    Narrow(PyReadonlyArray1<'py, i32>),
    Wide(PyReadonlyArray1<'py, i64>),
}

#[derive(FromPyObject)]
pub(crate) enum Floats<'py> {
    F64(PyReadonlyArray1<'py, f64>),
    F32(PyReadonlyArray1<'py, f32>),
}

/// The same rows as views that may be read without the interpreter lock.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    F64(ArrayView2<'a, f64>),
    F32(ArrayView2<'a, f32>),
    Compressed(IntegersView<'a>, IntegersView<'a>, FloatsView<'a>, usize),
}

#[derive(Clone, Copy)]
pub(crate) enum IntegersView<'a> {
    Narrow(ArrayView1<'a, i32>),
    Wide(ArrayView1<'a, i64>),
}

#[derive(Clone, Copy)]
pub(crate) enum FloatsView<'a> {
    F64(ArrayView1<'a, f64>),
    F32(ArrayView1<'a, f32>),
}

impl Rows<'_> {
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Self::F64(array) => View::F64(array.as_array()),
            Self::F32(array) => View::F32(array.as_array()),
            Self::Compressed(starts, columns, values, width) => {
                View::Compressed(starts.view(), columns.view(), values.view(), *width)
            }
        }
    }
}

impl Integers<'_> {
    fn view(&self) -> IntegersView<'_> {
        match self {
            Self::Narrow(array) => IntegersView::Narrow(array.as_array()),
            Self::Wide(array) => IntegersView::Wide(array.as_array()),
        }
    }
}

impl Floats<'_> {
    fn view(&self) -> FloatsView<'_> {
        match self {
            Self::F64(array) => FloatsView::F64(array.as_array()),
            Self::F32(array) => FloatsView::F32(array.as_array()),
        }
    }
}

impl IntegersView<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Narrow(array) => array.len(),
            Self::Wide(array) => array.len(),
        }
    }

    fn part(&self, places: Range<usize>) -> Self {
        match self {
            Self::Narrow(array) => Self::Narrow(cut(*array, places)),
            Self::Wide(array) => Self::Wide(cut(*array, places)),
        }
    }

    /// The entry at `place`; a negative one is no position and becomes the largest.
    fn get(&self, place: usize) -> usize {
        match self {
            Self::Narrow(array) => usize::try_from(array[place]).unwrap_or(usize::MAX),
            Self::Wide(array) => usize::try_from(array[place]).unwrap_or(usize::MAX),
        }
    }
}

impl FloatsView<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F64(array) => array.len(),
            Self::F32(array) => array.len(),
        }
    }
}

impl<'a> View<'a> {
    /// Compressed rows of this width without a copy: `None` if their types are others, a zero is stored, or something is wrong,
    /// which [`View::matrix`] tells.
    pub(crate) fn in_place(&self, expected: usize) -> Option<Vec<Row<'a>>> {
        let Self::Compressed(
            starts,
            columns @ IntegersView::Narrow(narrow),
            values @ FloatsView::F64(wide),
            width,
        ) = *self
        else {
            return None;
        };
        let parts = Compressed { starts, columns, values, width };
        let (narrow, wide) = (narrow.to_slice()?, wide.to_slice()?);
        if width != expected || narrow.len() != wide.len() {
            return None;
        }
        let all_columns: &[u32] = bytemuck::cast_slice(narrow);
        let row = |row: usize| {
            let range = starts.get(row)..starts.get(row + 1);
            let (signed, values) = (narrow.get(range.clone())?, wide.get(range.clone())?);
            parts.check_row(row, signed, values).ok()?;
            // No early end: the loop is vectorised.
            let zeros = values.iter().filter(|value| **value == 0.0).count();
            (zeros == 0).then(|| Row::Sparse { columns: &all_columns[range], values })
        };
        (0..self.rows()).map(row).collect()
    }
}

impl View<'_> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::F64(array) => array.nrows(),
            Self::F32(array) => array.nrows(),
            Self::Compressed(starts, ..) => starts.len().saturating_sub(1),
        }
    }

    /// Values that are stored: all of dense rows, the entries of compressed ones.
    pub(crate) fn stored(&self) -> usize {
        match self {
            Self::F64(array) => array.len(),
            Self::F32(array) => array.len(),
            Self::Compressed(_, _, values, _) => values.len(),
        }
    }

    /// Some of the rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        match self {
            Self::F64(array) => Self::F64(cut(*array, rows)),
            Self::F32(array) => Self::F32(cut(*array, rows)),
            Self::Compressed(starts, columns, values, width) => {
                Self::Compressed(starts.part(rows.start..rows.end + 1), *columns, *values, *width)
            }
        }
    }

    /// The rows as a matrix, in the order given: the one copy that is made.
    ///
    /// # Errors
    /// If values are not finite or compressed rows contradict themselves.
    pub(crate) fn matrix(&self, order: Option<&[usize]>) -> Result<Matrix, DataError> {
        self.matrix_in(Vec::new(), order)
    }

    /// As [`View::matrix`]; dense values go to memory that was used before.
    ///
    /// # Errors
    /// As [`View::matrix`].
    pub(crate) fn matrix_in(
        &self,
        memory: Vec<f64>,
        order: Option<&[usize]>,
    ) -> Result<Matrix, DataError> {
        match self {
            Self::F64(array) => dense(array, memory, order, |value| value),
            Self::F32(array) => dense(array, memory, order, f64::from),
            Self::Compressed(starts, columns, values, width) => {
                let (starts, columns, values) = (*starts, *columns, *values);
                let parts = Compressed { starts, columns, values, width: *width };
                parts.matrix(self.rows(), order)
            }
        }
    }
}

/// A range of the first axis.
fn cut<T, D: Dimension + RemoveAxis>(
    array: ArrayView<'_, T, D>,
    places: Range<usize>,
) -> ArrayView<'_, T, D> {
    array.split_at(Axis(0), places.end).0.split_at(Axis(0), places.start).1
}

/// Smaller arrays are copied by one thread.
const LARGE: usize = 1 << 17;

fn dense<T: Copy + Send + Sync>(
    array: &ArrayView2<'_, T>,
    mut values: Vec<f64>,
    order: Option<&[usize]>,
    wide: impl Fn(T) -> f64 + Copy + Send + Sync,
) -> Result<Matrix, DataError> {
    let (rows, columns) = array.dim();
    values.clear();
    if order.is_some() || array.len() < LARGE {
        values.reserve_exact(order.map_or(rows, <[usize]>::len) * columns);
    }
    match (order, array.as_slice()) {
        (None, Some(slice)) if slice.len() >= LARGE => {
            let all = slice.par_iter().with_min_len(LARGE / 4).map(|value| wide(*value));
            all.collect_into_vec(&mut values);
        }
        (None, Some(slice)) => values.extend(slice.iter().map(|value| wide(*value))),
        (None, None) => values.extend(array.iter().map(|value| wide(*value))),
        (Some(order), _) => {
            for row in order {
                match array.row(*row).as_slice() {
                    Some(slice) => values.extend(slice.iter().map(|value| wide(*value))),
                    None => values.extend(array.row(*row).iter().map(|value| wide(*value))),
                }
            }
        }
    }
    if columns == 0 {
        return Err(DataError::NoFeatures);
    }
    Matrix::dense(columns, values).map_err(|error| match error {
        DataError::NotFiniteAt { row, column, value } => {
            let row = order.map_or(row, |order| order[row - 1] + 1);
            DataError::NotFiniteAt { row, column, value }
        }
        other => other,
    })
}

/// The parts of compressed rows.
struct Compressed<'a> {
    starts: IntegersView<'a>,
    columns: IntegersView<'a>,
    values: FloatsView<'a>,
    width: usize,
}

impl Compressed<'_> {
    fn matrix(&self, rows: usize, order: Option<&[usize]>) -> Result<Matrix, DataError> {
        if self.columns.len() != self.values.len() {
            return Err(bad_row(0, "as many columns as values are needed"));
        }
        if self.width > u32::MAX as usize - 1 {
            return Err(bad_row(0, "more columns than 32 bits can count"));
        }
        match (&self.columns, &self.values) {
            (IntegersView::Narrow(columns), FloatsView::F64(values)) => {
                self.build(rows, order, &contiguous(columns), &contiguous(values))
            }
            (IntegersView::Narrow(columns), FloatsView::F32(values)) => {
                self.build(rows, order, &contiguous(columns), &contiguous(values))
            }
            (IntegersView::Wide(columns), FloatsView::F64(values)) => {
                self.build(rows, order, &contiguous(columns), &contiguous(values))
            }
            (IntegersView::Wide(columns), FloatsView::F32(values)) => {
                self.build(rows, order, &contiguous(columns), &contiguous(values))
            }
        }
    }

    /// The rows, whatever the types of columns and values.
    fn build<C: Copy + Into<i64> + PartialOrd, V: Copy + Into<f64>>(
        &self,
        rows: usize,
        order: Option<&[usize]>,
        columns: &[C],
        values: &[V],
    ) -> Result<Matrix, DataError> {
        // Starts that lie are refused below.
        let start = |row: usize| if rows == 0 { 0 } else { self.starts.get(row) };
        let entries = start(rows).saturating_sub(start(0)).min(columns.len());
        let mut builder = MatrixBuilder::with_capacity(rows, entries);
        let mut add = |row: usize| {
            let (start, end) = (self.starts.get(row), self.starts.get(row + 1));
            if start > end || end > columns.len() {
                return Err(bad_row(row, "row starts must not decrease"));
            }
            let (columns, values) = (&columns[start..end], &values[start..end]);
            self.check_row(row, columns, values)?;
            let columns = columns.iter().map(|column| (*column).into() as u32);
            builder.push_entries(columns, values.iter().map(|value| (*value).into()));
            Ok(())
        };
        match order {
            Some(order) => order.iter().try_for_each(|row| add(*row))?,
            None => (0..rows).try_for_each(add)?,
        }
        Ok(builder.finish(self.width))
    }

    /// Refuses columns that do not increase or lie beyond the width, and values that are not finite.
    fn check_row<C: Copy + Into<i64> + PartialOrd, V: Copy + Into<f64>>(
        &self,
        row: usize,
        columns: &[C],
        values: &[V],
    ) -> Result<(), DataError> {
        // No early end: these loops are vectorised.
        let later = columns.get(1..).unwrap_or_default();
        let increase = columns.iter().zip(later);
        if increase.filter(|(a, b)| a >= b).count() > 0 {
            return Err(bad_row(row, "columns must increase"));
        }
        let (first, last) = (columns.first(), columns.last());
        if first.is_some_and(|first| (*first).into() < 0)
            || last.is_some_and(|last| (*last).into() >= self.width as i64)
        {
            return Err(bad_row(row, "a column lies beyond the width"));
        }
        let are_finite =
            values.iter().fold(true, |so_far, value| so_far & (*value).into().is_finite());
        if !are_finite {
            let is_bad = |value: &V| !(*value).into().is_finite();
            let at = values.iter().position(is_bad).unwrap_or_default();
            let (row, column, value) =
                (row + 1, columns[at].into() as usize + 1, values[at].into());
            return Err(DataError::NotFiniteAt { row, column, value });
        }
        Ok(())
    }
}

fn bad_row(row: usize, reason: &'static str) -> DataError {
    DataError::BadSparseRow { row: row + 1, reason }
}

/// The values one after the other in memory, as they nearly always are.
fn contiguous<'a, T: Copy>(array: &'a ArrayView1<'_, T>) -> Cow<'a, [T]> {
    array.as_slice().map_or_else(|| Cow::Owned(array.to_vec()), Cow::Borrowed)
}
