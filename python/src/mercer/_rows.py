"""Conversion of input rows for the compiled module, without needless copies."""

from __future__ import annotations

import os

import numpy as np
import scipy.sparse as sp

from . import _mercer
from .errors import DataError

FLOATS = [np.float64, np.float32]
#: Types that the compiled module takes without conversion.
QUICK = {np.dtype(np.float64), np.dtype(np.float32)}
_CSR = (sp.csr_matrix, sp.csr_array)
#: Up to so many rows are answered on the caller's thread.
FEW = 8


def checked(rows):
    """The rows, if they are no sparse matrix whose arrays contradict each other.

    scipy and scikit-learn believe the arrays of a matrix, and read outside of them if they lie.
    """
    if not sp.issparse(rows) or len(rows.shape) != 2:
        return rows
    height, width = rows.shape
    if rows.format == "coo":
        for name, axis, size in (("row", rows.row, height), ("column", rows.col, width)):
            _check_indices(axis, size, name)
        _check(len(rows.row) == len(rows.col) == len(rows.data), "it has as many rows, columns and values")
    elif rows.format in ("csr", "csc"):
        lines, across = (height, width) if rows.format == "csr" else (width, height)
        _check_compressed(rows, lines, across)
    elif rows.format == "bsr":
        rows.check_format(full_check=True)
    return rows


def _check_compressed(rows, lines, across):
    starts, indices = rows.indptr, rows.indices
    _check(starts.ndim == 1 and indices.ndim == 1 and rows.data.ndim == 1, "its arrays have one dimension")
    _check(starts.dtype.kind in "iu" and indices.dtype.kind in "iu", "its indices are whole numbers")
    _check(len(starts) == lines + 1, f"indptr has {lines + 1} entries")
    _check(starts[0] == 0 and bool(np.all(starts[1:] >= starts[:-1])), "indptr starts at 0 and does not fall")
    used = int(starts[-1])
    _check(used <= len(indices) and used <= len(rows.data), "indptr ends within indices and data")
    _check_indices(indices[:used], across, "index")


def _check_indices(indices, size, name):
    if len(indices) > 0:
        low, high = indices.min(), indices.max()
        _check(low >= 0 and high < size, f"each {name} is between 0 and {size - 1}, and there are {low} and {high}")


def _check(holds, what):
    if not holds:
        raise DataError(f"the sparse matrix is damaged: it must hold that {what}", "BadSparse")


def pack(rows):
    """The form that the compiled module takes: a dense float array, or the arrays of a CSR matrix."""
    if not sp.issparse(rows):
        return rows
    rows = checked(rows).tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    data = rows.data
    if data.dtype not in FLOATS:
        data = data.astype(np.float64)
    indptr, indices = rows.indptr, rows.indices
    if indptr.dtype != indices.dtype or indptr.dtype not in (np.int32, np.int64):
        indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
    return indptr, indices, data, rows.shape[1]


def quick(rows):
    """Rows that the compiled module takes as they are, or None: it checks width, order and finiteness itself."""
    if type(rows) is np.ndarray:
        return rows if rows.ndim == 2 and rows.dtype in QUICK else None
    if type(rows) in _CSR and rows.data.dtype in QUICK and len(rows.shape) == 2:
        if rows.indptr.dtype == rows.indices.dtype and len(rows.indptr) == rows.shape[0] + 1:
            return rows.indptr, rows.indices, rows.data, rows.shape[1]
    return None


def threads(n_jobs: int | None) -> int:
    """Number of threads; 0 means all cores.

    ``None`` means all cores, or ``OMP_NUM_THREADS`` if it is set, as joblib does for its workers. More than four
    threads for each core are refused.
    """
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return _bounded("OMP_NUM_THREADS", int(limit)) if limit.isdigit() else 0
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning; None or -1 means all cores")
    if n_jobs < 0:
        return max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    return _bounded("n_jobs", int(n_jobs))


def _bounded(place: str, count: int) -> int:
    limit = _mercer.thread_limit()
    if count > limit:
        raise ValueError(f"{place} asks for {count} threads; at most {limit} are used here, 4 for each core")
    return count
