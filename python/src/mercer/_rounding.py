"""How far scikit-learn's own evaluation may be from the score in real arithmetic."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer

from . import _preprocessing

UNIT = np.finfo(np.float64).eps / 2


def bound(source, X):
    """A bound on the rounding error of each row's scores in the source's own f64 evaluation.

    LIBSVM and scikit-learn add ``m`` terms ``β K`` one by one, and ``d`` columns in each K. With ``A = Σ|β|``
    the sum is wrong by ``A (m + 4) u max|K|``, and by A times the error of one K: of a product of length d
    ``(d + 4) u |x||z|``, through the kernel's derivative; of a squared distance, which may be computed from
    products, ``4 (d + 4) u (|x| + |z|)²``.
    """
    X, moved, source = _behind_steps(source, X)
    X = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    length = _lengths(X)
    columns = X.shape[1]
    if not hasattr(source, "support_vectors_") and not isinstance(source, KernelRidge):
        weights = np.atleast_2d(source.coef_)
        size = np.linalg.norm(weights, axis=1).max()
        return (columns + 4) * UNIT * (length * size + np.abs(source.intercept_).max()) + moved * size
    supports = source.X_fit_ if isinstance(source, KernelRidge) else source.support_vectors_
    coefficients = source.dual_coef_
    offset = np.abs(getattr(source, "intercept_", np.zeros(1))).max()
    coefficients = coefficients.toarray() if sp.issparse(coefficients) else np.atleast_2d(coefficients)
    total = np.abs(coefficients).sum(axis=1).max() * max(1, len(coefficients))
    longest = _lengths(supports).max(initial=0.0) if supports.size else 0.0
    largest, error, slope = _kernel(source, columns, length + moved, longest)
    terms = coefficients.shape[1] + 4
    return total * (error + slope * moved + terms * UNIT * largest) + 2 * UNIT * offset


def _behind_steps(source, X):
    """The rows that the last estimator gets, how far they may be from those of a folded scaling, and that estimator.

    A scaler computes ``(x - c) f`` in two roundings, and so do we, in another order: both are off by at most
    ``2 u (|x| + |c|) |f|``, with the u of f32 where scikit-learn scales f32 rows.
    """
    moved = np.zeros(X.shape[0] if hasattr(X, "shape") else len(X))
    if not isinstance(source, Pipeline):
        return X, moved, source
    for _, step in source.steps[:-1]:
        if step is None or step == "passthrough":
            continue
        unit = np.finfo(np.float32).eps if getattr(X, "dtype", None) == np.float32 else UNIT
        before, X = X, step.transform(X)
        for centre, factor in _preprocessing.scaling_of([step]):
            rows = before.toarray() if sp.issparse(before) else np.asarray(before, dtype=np.float64)
            apart = 4 * unit * (np.abs(rows) + np.abs(centre)) * np.abs(factor)
            moved = moved * np.max(np.abs(factor)) + np.linalg.norm(apart, axis=1)
        if isinstance(step, Normalizer):
            moved = np.full(len(moved), 4 * (X.shape[1] + 4) * unit)
    inner = source.steps[-1][1]
    return (X, moved, inner) if not isinstance(inner, Pipeline) else _behind_steps(inner, X)


def _kernel(source, columns, length, longest):
    """Bounds on |K|, on its error, and on its slope in the query."""
    steps = (columns + 4) * UNIT
    product = length * longest
    gamma = getattr(source, "_gamma", None) or source.gamma or 1.0 / columns
    if source.kernel in ("rbf", "laplacian", "chi2"):
        error = 4 * steps * gamma * (length + longest) ** 2 + 4 * UNIT
        by_columns = 3 * gamma * np.sqrt(columns) * np.ones_like(length)
        slope = 2 * gamma * (length + longest) if source.kernel == "rbf" else by_columns
        return np.ones_like(length), error, slope
    if source.kernel in ("poly", "polynomial"):
        base = gamma * product + abs(source.coef0)
        largest = base**source.degree
        slope = source.degree * gamma * longest * base ** max(source.degree - 1, 0)
        return largest, source.degree * steps * largest, slope
    if source.kernel == "sigmoid":
        error = steps * (gamma * product + abs(source.coef0)) + 4 * UNIT
        return np.ones_like(length), error, gamma * longest
    return product, steps * product, longest


def _lengths(X):
    if sp.issparse(X):
        return np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel())
    return np.linalg.norm(np.asarray(X, dtype=np.float64), axis=1)
