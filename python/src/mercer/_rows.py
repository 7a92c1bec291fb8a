"""Conversion of input rows for the compiled module, without needless copies."""

from __future__ import annotations

import os

import numpy as np
import scipy.sparse as sp

from . import _mercer

FLOATS = [np.float64, np.float32]
#: Types that the compiled module takes without conversion.
QUICK = {np.dtype(np.float64), np.dtype(np.float32)}
#: Up to so many rows are answered on the caller's thread.
FEW = 8


def pack(rows):
    """The form that the compiled module takes: a dense float array, or the arrays of a CSR matrix."""
    if not sp.issparse(rows):
        return rows
    rows = rows.tocsr()
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
