//! Rows in packed blocks: bytes that travel between processes. What is computed on them is in `rounds.rs`.

use mercer::data::limits::{check_table, filled};
use mercer::data::{DataError, Matrix, MatrixBuilder};
use mercer::train::decomposition::{BlockError, RowBlock};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::ToPyErr;
use crate::rows::Rows;

impl ToPyErr for BlockError {
    const CLASS: &'static str = "DataError";

    fn fields(&self, _: &Bound<'_, PyDict>) -> PyResult<()> {
        Ok(())
    }
}

/// Rows of one block.
#[pyclass(frozen, module = "mercer._mercer", name = "RowBlock")]
pub(crate) struct PyRowBlock {
    pub(crate) rows: Matrix,
}

type Columns<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl PyRowBlock {
    /// Copies the rows. Values must be finite.
    #[new]
    fn new(py: Python<'_>, rows: Rows<'_>) -> PyResult<Self> {
        let view = rows.view();
        let rows = py.detach(|| view.matrix(None)).map_err(|error| error.raise(py))?;
        Ok(Self { rows })
    }

    /// Reads what `to_bytes` made.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let block = py.detach(|| RowBlock::from_bytes(bytes)).map_err(|error| error.raise(py))?;
        Ok(Self { rows: block.into_rows() })
    }

    /// Blocks one behind the other, dense or sparse, whichever takes fewer bytes.
    #[staticmethod]
    fn join(py: Python<'_>, blocks: Vec<Bound<'_, Self>>) -> PyResult<Self> {
        let all: Vec<&Matrix> = blocks.iter().map(|block| &block.get().rows).collect();
        let columns = all.first().map_or(0, |rows| rows.columns());
        if let Some(other) = all.iter().find(|rows| rows.columns() != columns) {
            let found = other.columns();
            let text = format!("a block has {found} columns, the first one {columns}");
            return Err(PyValueError::new_err(text));
        }
        let rows = py.detach(|| joined(&all, columns)).map_err(|error| error.raise(py))?;
        Ok(Self { rows })
    }

    /// The rows as bytes, f64 bits kept.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| RowBlock::new(self.rows.clone()).to_bytes());
        PyBytes::new(py, &bytes)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((py.get_type::<Self>().getattr("from_bytes")?, (self.to_bytes(py),)))
    }

    fn __len__(&self) -> usize {
        self.rows.rows()
    }

    /// Number of columns.
    #[getter]
    fn columns(&self) -> usize {
        self.rows.columns()
    }

    /// Number of values that are not zero.
    #[getter]
    fn nonzeros(&self) -> usize {
        self.rows.nonzeros()
    }

    /// Whether zeros are left out.
    #[getter]
    fn is_sparse(&self) -> bool {
        self.rows.is_sparse()
    }

    /// Some of the rows, in the order given.
    fn select(&self, py: Python<'_>, places: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let places = places.as_array();
        let count = self.rows.rows();
        let known = |place: &i64| usize::try_from(*place).ok().filter(|place| *place < count);
        let chosen: Option<Vec<usize>> = places.iter().map(known).collect();
        let Some(chosen) = chosen else {
            let wrong = places.iter().find(|place| known(place).is_none()).unwrap_or(&0);
            return Err(PyIndexError::new_err(format!("there is no row {wrong} among {count}")));
        };
        Ok(Self { rows: py.detach(|| self.rows.select(chosen)) })
    }

    /// The values as an array.
    fn to_dense<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let shape = [self.rows.rows(), self.rows.columns()];
        let values = py.detach(|| dense(&self.rows)).map_err(|error| error.raise(py))?;
        PyArray1::from_vec(py, values).reshape(shape)
    }

    /// The arrays of a CSR matrix: row starts, columns, values, number of columns.
    fn to_csr<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.rows.to_sparse();
        let (starts, columns, values) = rows.as_sparse().unwrap_or((&[0], &[], &[]));
        let starts = PyArray1::from_iter(py, starts.iter().map(|start| *start as i64));
        let columns = PyArray1::from_iter(py, columns.iter().map(|column| i64::from(*column)));
        let values = PyArray1::from_slice(py, values);
        Ok((starts, columns, values, rows.columns()).into_pyobject(py)?.into_any())
    }

    /// Smallest and largest value of each column, zeros included.
    fn column_ranges<'py>(&self, py: Python<'py>) -> PyResult<Columns<'py>> {
        let found = py.detach(|| ranges(&self.rows)).map_err(|error| error.raise(py))?;
        Ok((PyArray1::from_vec(py, found.0), PyArray1::from_vec(py, found.1)))
    }

    /// 128 bits for each row: of its values, its target and its weight. Equal rows have equal ones, dense or sparse.
    fn digests<'py>(
        &self,
        py: Python<'py>,
        targets: PyReadonlyArray1<'_, f64>,
        weights: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let (targets, weights) = (targets.as_array(), weights.as_array());
        let count = self.rows.rows();
        if targets.len() != count || weights.len() != count {
            return Err(PyValueError::new_err("one target and one weight are needed for each row"));
        }
        let digests: Vec<u64> = (0..count)
            .flat_map(|row| digest(&self.rows, row, [targets[row], weights[row]]))
            .collect();
        PyArray1::from_vec(py, digests).reshape([count, 2])
    }
}

fn joined(all: &[&Matrix], columns: usize) -> Result<Matrix, DataError> {
    if all.iter().all(|rows| !rows.is_sparse()) && columns > 0 {
        let values = all.iter().filter_map(|rows| rows.as_dense()).collect::<Vec<_>>().concat();
        return Ok(Matrix::dense(columns, values)?.compact());
    }
    let mut builder = MatrixBuilder::new();
    for rows in all {
        builder.append(rows, 0..rows.rows());
    }
    Ok(builder.finish(columns).compact())
}

/// All values, row after row; an error where memory does not hold them.
fn dense(rows: &Matrix) -> Result<Vec<f64>, DataError> {
    let columns = rows.columns();
    let mut values = filled("the array of all values", rows.rows().saturating_mul(columns), 0.0)?;
    for (row, out) in rows.iter().zip(values.chunks_exact_mut(columns.max(1))) {
        row.write_dense(out);
    }
    Ok(values)
}

fn ranges(rows: &Matrix) -> Result<(Vec<f64>, Vec<f64>), DataError> {
    let columns = rows.columns();
    check_table("the list of ranges", columns, rows.nonzeros())?;
    let (mut low, mut high) = (vec![f64::INFINITY; columns], vec![f64::NEG_INFINITY; columns]);
    let mut counts = vec![0usize; columns];
    for row in rows.iter() {
        for (column, value) in row.nonzeros() {
            let column = column as usize;
            low[column] = low[column].min(value);
            high[column] = high[column].max(value);
            counts[column] += 1;
        }
    }
    for column in (0..columns).filter(|column| counts[*column] < rows.rows()) {
        low[column] = low[column].min(0.0);
        high[column] = high[column].max(0.0);
    }
    Ok((low, high))
}

/// Two chains of mixed words (the finaliser of SplitMix64) over the non-zero values and what belongs to the row.
fn digest(rows: &Matrix, row: usize, others: [f64; 2]) -> [u64; 2] {
    let mut chains = [0x243f_6a88_85a3_08d3u64, 0x1319_8a2e_0370_7344];
    let mut take = |word: u64| {
        for (chain, odd) in chains.iter_mut().zip([0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03u64])
        {
            let mut state = (*chain ^ word).wrapping_mul(odd).wrapping_add(odd >> 7);
            state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *chain = state ^ (state >> 31);
        }
    };
    for (column, value) in rows.row(row).nonzeros().filter(|(_, value)| *value != 0.0) {
        take(u64::from(column));
        take(value.to_bits());
    }
    // Zeros of either sign are one number.
    others.iter().for_each(|value| take((value + 0.0).to_bits()));
    chains
}
