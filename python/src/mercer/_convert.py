"""Conversion of fitted scikit-learn estimators."""

from __future__ import annotations

import os

import numpy as np
import scipy.sparse as sp
import sklearn.svm as theirs
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from . import _kernels, _mercer
from ._labels import names_of
from ._query import QueryMixin
from ._model import Model, load
from ._rows import pack
from .errors import ConversionError

__all__ = ["from_sklearn"]


def from_sklearn(estimator, *, n_jobs=None) -> Model:
    """Converts a fitted estimator to a ``Model`` with the plan ``exact``.

    SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC, LinearSVR and KernelRidge, alone, at the end of a
    ``Pipeline`` or as the best of a search. Scalers just before the machine (``StandardScaler``, ``MinMaxScaler``,
    ``MaxAbsScaler``, ``RobustScaler``, ``Normalizer``) become part of it; other steps stay in Python, in front of it
    (``preprocessing_``).

    Parameters
    ----------
    estimator : fitted estimator
    n_jobs : int, optional
        Threads; ``None`` means all cores.

    Examples
    --------
    >>> import mercer
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> source = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    >>> bool((mercer.from_sklearn(source).predict(X) == source.predict(X)).all())
    True
    """
    source, steps = _split(estimator)
    for kinds, convert in _KINDS:
        if isinstance(source, kinds):
            check_is_fitted(source)
            return convert(source, n_jobs)._behind(steps, estimator)
    known = "SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC, LinearSVR, KernelRidge, Pipeline"
    raise ConversionError(
        f"{type(source).__name__} cannot be converted; supported are {known}",
        "Estimator",
        {"estimator": type(source).__name__},
    )


def _split(estimator):
    """The last estimator of pipelines and searches, and the steps before it."""
    if isinstance(estimator, FrozenEstimator):
        return _split(estimator.estimator)
    if isinstance(estimator, BaseSearchCV):
        return _split(estimator.best_estimator_)
    if not isinstance(estimator, Pipeline):
        return estimator, []
    before = [step for _, step in estimator.steps[:-1] if step is not None and step != "passthrough"]
    last, between = _split(estimator.steps[-1][1])
    return last, before + between


def machine_of(source, n_jobs=None) -> Model:
    """The machine of an estimator, a model file or a model."""
    if isinstance(source, Model):
        return source
    if isinstance(source, (str, os.PathLike)):
        return load(source, n_jobs=n_jobs)
    return from_sklearn(source, n_jobs=n_jobs)


def _support_vectors(estimator, n_jobs):
    """SVC, NuSVC, SVR, NuSVR, OneClassSVM."""
    options = {"n_jobs": n_jobs}
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        options["classes"] = classes
        options["decision_function_shape"] = estimator.decision_function_shape
        options["break_ties"] = estimator.break_ties
    if callable(estimator.kernel):
        fitted = getattr(estimator, "_fitted_rows", None)
        rows = getattr(estimator, "_BaseLibSVM__Xfit", None) if fitted is None else fitted
        options.update(kernel=estimator.kernel, fitted_rows=rows)
    if isinstance(estimator, QueryMixin):
        return Model(estimator._model, **options)
    is_given = callable(estimator.kernel) or estimator.kernel == "precomputed"
    if is_given:
        supports = _units(estimator.support_, estimator.shape_fit_[0])
        kernel = "precomputed"
    else:
        supports = _as_wide(estimator.support_vectors_, estimator.n_features_in_)
        kernel = _kernels.text(estimator.kernel, estimator._gamma, estimator.degree, estimator.coef0)
    coefficients = estimator._dual_coef_
    coefficients = coefficients.toarray() if sp.issparse(coefficients) else np.asarray(coefficients)
    if classes is not None:
        coefficients = _pairwise_columns(coefficients, estimator.n_support_)
        output, names = "one_vs_one", names_of(classes)
    else:
        output = "novelty" if isinstance(estimator, theirs.OneClassSVM) else "value"
        names = []
    sigmoids = None
    if classes is not None and np.size(estimator._probA):
        sigmoids = (list(estimator._probA), list(estimator._probB))
    compiled = _build(
        kernel=kernel,
        output=output,
        names=names,
        supports=supports,
        coefficients=coefficients,
        offsets=-estimator._intercept_,
        sigmoids=sigmoids,
        formulation=estimator._impl,
    )
    return Model(compiled, **options)


def _linear(estimator, n_jobs):
    """LinearSVC and LinearSVR."""
    classes = getattr(estimator, "classes_", None)
    if isinstance(estimator, QueryMixin):
        return Model(estimator._model, classes=classes, n_jobs=n_jobs)
    return Model(compile_linear(estimator, classes), classes=classes, n_jobs=n_jobs)


def compile_linear(estimator, classes):
    """The machine of ``coef_`` and ``intercept_``; the score of two classes is positive for the first, as ours is."""
    weights = estimator.coef_
    weights = weights.toarray() if sp.issparse(weights) else np.asarray(weights, dtype=np.float64)
    weights = np.atleast_2d(weights)
    offsets = -np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(weights))
    if classes is not None and len(weights) == 1:
        weights, offsets = -weights, -offsets
    return _build(
        kernel="linear",
        output="value" if classes is None else "one_vs_rest",
        names=[] if classes is None else names_of(classes),
        supports=np.zeros((0, weights.shape[1])),
        coefficients=weights,
        offsets=offsets,
        is_linear=True,
        formulation=None,
    )


def _from_mercer(estimator, n_jobs):
    """Machines that scikit-learn does not have."""
    return Model(estimator._model, classes=estimator.classes_, n_jobs=n_jobs)


def _kernel_ridge(estimator, n_jobs):
    coefficients = np.asarray(estimator.dual_coef_, dtype=np.float64)
    if coefficients.ndim > 1 and coefficients.shape[1] > 1:
        raise ConversionError(
            f"the KernelRidge has {coefficients.shape[1]} outputs; a machine has one", "Outputs"
        )
    options = {"n_jobs": n_jobs}
    supports = estimator.X_fit_
    samples = supports.shape[0]
    if callable(estimator.kernel):
        given = estimator.kernel_params or {}

        def kernel(X, Y, function=estimator.kernel, given=given):
            return np.array([[function(x, y, **given) for y in Y] for x in X])

        options.update(kernel=kernel, fitted_rows=supports)
        text, supports = "precomputed", _units(np.arange(samples), samples)
    elif estimator.kernel == "precomputed":
        text, supports = "precomputed", _units(np.arange(samples), samples)
    else:
        gamma = estimator.gamma
        if gamma is None:
            gamma = 1.0 if estimator.kernel == "chi2" else 1.0 / supports.shape[1]
        text = _kernels.text(estimator.kernel, gamma, estimator.degree, estimator.coef0)
    compiled = _build(
        kernel=text,
        output="value",
        names=[],
        supports=supports,
        coefficients=coefficients.reshape(1, -1),
        offsets=np.zeros(1),
        formulation=None,
    )
    return Model(compiled, **options)


_KINDS = [
    (
        (theirs.SVC, theirs.NuSVC, theirs.SVR, theirs.NuSVR, theirs.OneClassSVM),
        _support_vectors,
    ),
    ((theirs.LinearSVC, theirs.LinearSVR), _linear),
    ((KernelRidge,), _kernel_ridge),
    ((QueryMixin,), _from_mercer),
]


def _build(*, supports, coefficients, offsets, is_linear=False, sigmoids=None, **parts):
    if sp.issparse(supports):
        supports = supports.astype(np.float64)
    else:
        supports = np.ascontiguousarray(supports, dtype=np.float64)
    return _mercer.Model.build(
        {
            **parts,
            "supports": pack(supports),
            "coefficients": np.ascontiguousarray(coefficients, dtype=np.float64),
            "offsets": np.ascontiguousarray(offsets, dtype=np.float64),
            "is_linear": is_linear,
            "sigmoids": sigmoids,
            "origin": "scikit-learn",
        }
    )


def _as_wide(rows, columns):
    """Sparse rows with as many columns as the examples had: scikit-learn-intelex cuts them behind the last value."""
    if sp.issparse(rows) and rows.shape[1] < columns:
        rows = sp.csr_matrix(rows, copy=True)
        rows.resize((rows.shape[0], columns))
    return rows


def _units(serials, columns):
    rows = len(serials)
    return sp.csr_matrix(
        (np.ones(rows), np.asarray(serials, dtype=np.int64), np.arange(rows + 1)), (rows, columns)
    )


def _pairwise_columns(table, counts):
    """LIBSVM's table of coefficients as one row for each pairwise classifier."""
    classes = len(counts)
    of = np.repeat(np.arange(classes), counts)
    rows = []
    for first in range(classes):
        for second in range(first + 1, classes):
            row = np.zeros(len(of))
            row[of == first] = table[second - 1, of == first]
            row[of == second] = table[first, of == second]
            rows.append(row)
    return np.array(rows).reshape(len(rows), len(of))
