"""How far scikit-learn's own evaluation may be from the score in real arithmetic."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline

UNIT = np.finfo(np.float64).eps / 2


def bound(source, X):
    """A bound on the rounding error of each row's scores in the source's own f64 evaluation.

    LIBSVM and scikit-learn add ``m`` terms ``β K`` one by one, and ``d`` columns in each K. With ``A = Σ|β|``
    the sum is wrong by ``A (m + 4) u max|K|``, and by A times the error of one K: of a product of length d
    ``(d + 4) u |x||z|``, through the kernel's derivative; of a squared distance, which may be computed from
    products, ``4 (d + 4) u (|x| + |z|)²``.
    """
    if isinstance(source, Pipeline):
        for _, step in source.steps[:-1]:
            if step not in (None, "passthrough"):
                X = step.transform(X)
        source = source.steps[-1][1]
    X = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    length = _lengths(X)
    columns = X.shape[1]
    if not hasattr(source, "support_vectors_") and not isinstance(source, KernelRidge):
        weights = np.atleast_2d(source.coef_)
        size = np.linalg.norm(weights, axis=1).max()
        return (columns + 4) * UNIT * (length * size + np.abs(source.intercept_).max())
    supports = source.X_fit_ if isinstance(source, KernelRidge) else source.support_vectors_
    coefficients = source.dual_coef_
    offset = np.abs(getattr(source, "intercept_", np.zeros(1))).max()
    coefficients = coefficients.toarray() if sp.issparse(coefficients) else np.atleast_2d(coefficients)
    total = np.abs(coefficients).sum(axis=1).max() * max(1, len(coefficients))
    longest = _lengths(supports).max(initial=0.0) if supports.size else 0.0
    largest, error = _kernel(source, columns, length, longest)
    terms = coefficients.shape[1] + 4
    return total * (error + terms * UNIT * largest) + 2 * UNIT * offset


def _kernel(source, columns, length, longest):
    """Bounds on |K| and on its error."""
    steps = (columns + 4) * UNIT
    product = length * longest
    gamma = getattr(source, "_gamma", None) or source.gamma or 1.0 / columns
    if source.kernel in ("rbf", "laplacian", "chi2"):
        return np.ones_like(length), 4 * steps * gamma * (length + longest) ** 2 + 4 * UNIT
    if source.kernel in ("poly", "polynomial"):
        largest = (gamma * product + abs(source.coef0)) ** source.degree
        return largest, source.degree * steps * largest
    if source.kernel == "sigmoid":
        return np.ones_like(length), steps * (gamma * product + abs(source.coef0)) + 4 * UNIT
    return product, steps * product


def _lengths(X):
    if sp.issparse(X):
        return np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel())
    return np.linalg.norm(np.asarray(X, dtype=np.float64), axis=1)
