"""``mercer.accelerate``: faster prediction for a fitted model."""

from __future__ import annotations

import os
import warnings

from ._comparison import compare_times
from ._convert import machine_of
from ._model import Model
from ._query import QueryMixin
from .errors import PlanError, SourceIsFasterWarning

__all__ = ["accelerate"]


def accelerate(
    source, X_sample=None, *, contract="certified", tolerance=None, n_jobs=None, **options
) -> Model:
    """A model that predicts the labels of ``source``, faster.

    Parameters
    ----------
    source : fitted estimator, path or Model
        SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC, LinearSVR or KernelRidge, of scikit-learn or ours,
        alone or at the end of a Pipeline; or a model file of our own, LIBSVM, LIBLINEAR or ONNX.
    X_sample : array-like, optional
        Queries from the distribution expected in use, at least 30. Candidate plans are measured on them, and the
        fastest is kept; without a sample the plan is f32 evaluation with error bounds, where that is possible.
    contract : str
        ``"certified"``: labels are proved equal to those of the exact machine, rounding included; queries that
        cannot be proved cheaply are evaluated exactly. ``"calibrated(eps=1e-3, delta=0.05)"``: with confidence
        ``1 - delta`` at most the share ``eps`` of queries from the distribution of the sample disagrees with the exact
        machine; that needs a few thousand queries. ``"exact"``: every query is evaluated exactly.
    tolerance : float, optional
        Proved bound on the error of regression values; without it they are exact.
    n_jobs : int, optional
        Threads; ``None`` means all cores.
    **options
        ``y_sample``, ``aim``, ``budget_us``, ``unsettled``, ``training``, ``seconds``, ``seed`` and ``trust_sample`` of
        :meth:`Model.tune`.

    Returns
    -------
    Model
        Its ``tuning_`` reports the candidates, timings and validation, its ``comparison_`` the times per row of source and
        result on the sample, in batches and one query at a time. Where the source is faster (in batches; one query at a time
        under ``aim="latency"``) a warning says so, and the model predicts with the source's own arithmetic.

    Examples
    --------
    >>> import mercer
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> X, y = load_digits(return_X_y=True)
    >>> source = SVC().fit(X[:900], y[:900])
    >>> fast = mercer.accelerate(source, X[900:1200], contract="certified")
    >>> bool((fast.predict(X[900:]) == source.predict(X[900:])).all())
    True
    """
    model = machine_of(source, n_jobs)
    exact = model._with_compiled(model._model.with_plan("exact"), n_jobs=n_jobs, tolerance=tolerance)
    if X_sample is not None:
        tuned = exact.tune(X_sample, contract=contract, tolerance=tolerance, **options)
        return _compared(tuned, source, X_sample, options.get("aim", "throughput"))
    if contract not in ("certified", "exact"):
        raise ValueError(f"contract is {contract!r}; without X_sample it must be 'certified' or 'exact'")
    if options:
        raise TypeError(f"options that need X_sample: {', '.join(options)}")
    # Without a tolerance, regression values must be exact.
    if contract == "exact" or (exact._model.output == "value" and tolerance is None):
        return exact
    try:
        return exact.with_plan("cascade(low_precision, exact)")
    except PlanError:
        return exact


#: Times within this factor of each other are equal: that is how far two measurements of the same thing are apart.
EQUAL = 1.1


def _compared(model, source, X, aim):
    """The model with its times beside those of its source, and with the source's arithmetic where that is faster."""
    if isinstance(source, (Model, str, os.PathLike)):
        return model  # its exact plan is among the candidates of the tuner
    found = compare_times(source, model, X)
    key, how = ("single_us", "one query at a time") if aim == "latency" else ("batch_us", "in batches")
    theirs, ours = found["source"][key], found["model"][key]
    name = type(source).__name__
    # Our own estimators run the exact plan, which the tuner compared already.
    is_source = ours > EQUAL * theirs and not isinstance(source, QueryMixin)
    found["kept"] = "source" if is_source else "model"
    found["reason"] = f"{name} takes {theirs:.3g} us per row {how}, the plan {ours:.3g} us"
    model.comparison_ = found
    if is_source:
        model._source = source
        text = f"{found['reason']}: predict and decision_function keep the arithmetic of {name} (comparison_ has the times)"
        warnings.warn(text, SourceIsFasterWarning, stacklevel=3)
    return model
