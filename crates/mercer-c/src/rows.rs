//! Rows of the caller, dense or compressed, as a matrix.

use mercer::data::{DataError, Matrix};

use crate::failure::{Failure, MERCER_ARGUMENT, MERCER_ROWS};
use crate::pointers::{reference, slice};

/// Rows, dense or compressed (CSR). `mercer_dense` and `mercer_csr` fill it; the arrays stay the caller's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub struct mercer_rows {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Dense: row after row, each at a multiple of `stride`. Compressed: the values of all rows.
    pub values: *const f64,
    /// Dense: values from the start of one row to that of the next, at least `columns`. Compressed: not used.
    pub stride: usize,
    /// Compressed: `rows + 1` numbers; row i holds the entries `starts[i]` to `starts[i + 1] - 1`. Dense: null.
    pub starts: *const u64,
    /// Compressed: column of each entry, from 0, increasing within a row. Dense: null.
    pub indices: *const u32,
}

/// Dense rows without gaps.
#[unsafe(no_mangle)]
pub extern "C" fn mercer_dense(values: *const f64, rows: usize, columns: usize) -> mercer_rows {
    let (starts, indices) = (std::ptr::null(), std::ptr::null());
    mercer_rows { rows, columns, values, stride: columns, starts, indices }
}

/// Compressed rows (CSR).
#[unsafe(no_mangle)]
pub extern "C" fn mercer_csr(
    starts: *const u64,
    indices: *const u32,
    values: *const f64,
    rows: usize,
    columns: usize,
) -> mercer_rows {
    mercer_rows { rows, columns, values, stride: 0, starts, indices }
}

impl mercer_rows {
    /// The rows, checked and copied.
    ///
    /// # Safety
    /// The pointer is null or points to rows whose arrays are as long as they say.
    pub(crate) unsafe fn matrix(pointer: *const Self, what: &str) -> Result<Matrix, Failure> {
        // SAFETY: as the caller of this function promises.
        let rows = unsafe { reference(pointer, what) }?;
        let of_rows = |error: DataError| Failure::new(MERCER_ROWS, format!("{what}: {error}"));
        if rows.starts.is_null() {
            // SAFETY: as the caller of this function promises.
            let values = unsafe { rows.dense(what) }?;
            return Matrix::dense(rows.columns, values).map_err(of_rows);
        }
        let count = rows.rows.checked_add(1).ok_or_else(|| too_many(what))?;
        // SAFETY: as the caller of this function promises.
        let starts = unsafe { slice(rows.starts, count, "starts") }?;
        let starts: Result<Vec<usize>, _> =
            starts.iter().map(|start| (*start).try_into()).collect();
        let starts = starts.map_err(|_| too_many(what))?;
        let entries = starts[rows.rows];
        // SAFETY: as the caller of this function promises.
        let (indices, values) = unsafe {
            (slice(rows.indices, entries, "indices")?, slice(rows.values, entries, "values")?)
        };
        Matrix::sparse(rows.columns, &starts, indices, values).map_err(of_rows)
    }

    /// Dense rows without their gaps.
    ///
    /// # Safety
    /// As [`mercer_rows::matrix`].
    unsafe fn dense(&self, what: &str) -> Result<Vec<f64>, Failure> {
        let Self { rows, columns, values, stride, .. } = *self;
        if columns == 0 || stride < columns {
            let said = format!("{what}: {columns} columns, {stride} values from row to row");
            return Err(Failure::new(MERCER_ARGUMENT, said));
        }
        if rows == 0 {
            return Ok(Vec::new());
        }
        let length = (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(columns));
        let length = length.ok_or_else(|| too_many(what))?;
        // SAFETY: as the caller of this function promises.
        let values = unsafe { slice(values, length, "values") }?;
        let rows = values.chunks(stride).flat_map(|row| &row[..columns]);
        Ok(if stride == columns { values.to_vec() } else { rows.copied().collect() })
    }
}

fn too_many(what: &str) -> Failure {
    Failure::new(MERCER_ARGUMENT, format!("{what}: more rows than memory holds"))
}
