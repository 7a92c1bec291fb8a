"""One line to speed up the model you already have."""

from __future__ import annotations

import time

import numpy as np
from sklearn.utils.validation import _num_samples

from . import _mercer
from ._convert import machine_of
from ._model import Model, _some
from .errors import PlanError

__all__ = ["accelerate"]

CONTRACTS = ("certified", "exact")
#: Rows of the sample that are measured.
MOST = 4096


def accelerate(
    source, X_sample=None, *, contract="certified", tolerance=None, seconds=10.0, n_jobs=None
) -> Model:
    """A model that gives the labels of ``source``, faster.

    Parameters
    ----------
    source : fitted estimator, path or Model
        SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC, LinearSVR or KernelRidge, of scikit-learn or ours,
        alone or at the end of a Pipeline; or a model file of our own, LIBSVM, LIBLINEAR or ONNX.
    X_sample : array-like, optional
        Queries such as will be asked. Every plan that fits the machine is measured on them, and the
        fastest is kept; without them it is single precision with a proof, where that fits.
    contract : {"certified", "exact"}
        ``certified``: labels are proved to be those of the exact machine, rounding included; what cannot
        be proved cheaply is evaluated exactly. ``exact``: every query is evaluated exactly.
    tolerance : float, optional
        Values of a regression may be off by this much, proved; without it they are exact.
    seconds : float
        How long plans may be fitted, all together; one that takes longer is left out.
    n_jobs : int, optional
        Threads; ``None`` means all cores.

    Returns
    -------
    Model
        Its ``report_`` says what was measured.

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
    if contract not in CONTRACTS:
        raise ValueError(f"contract is {contract!r}; it must be one of {', '.join(CONTRACTS)}")
    model = machine_of(source, n_jobs)
    exact = model._under(model._model.with_plan("exact"), n_jobs=n_jobs, tolerance=tolerance)
    exact.report_ = {"contract": contract, "plan": "exact", "seconds_per_row": {}, "refused": {}}
    # Without a tolerance the value of a regression is exact or nothing.
    if contract == "exact" or (exact._model.output == "value" and tolerance is None):
        return exact
    return _fastest(exact, X_sample, seconds)


def _fastest(exact, X_sample, patience):
    if X_sample is None:
        return _unmeasured(exact)
    count = _num_samples(X_sample)
    if count == 0:
        raise ValueError("X_sample has no rows")
    rows = np.linspace(0, count - 1, min(count, MOST)).astype(np.intp)
    sample = X_sample if len(rows) == count else _some(X_sample, rows)
    spent, refused, models = {}, {}, {}

    def attempt(plan):
        nonlocal patience
        started = time.perf_counter()
        try:
            model = exact if plan == "exact" else exact.with_plan(plan, sample, seconds=patience)
        except PlanError as error:
            refused[plan] = str(error)
            return
        finally:
            patience = max(0.0, patience - (time.perf_counter() - started))
        seconds = _measure(model, sample)
        if seconds is None:
            refused[plan] = "its answers are not proved"
        else:
            spent[plan], models[plan] = seconds / len(rows), model

    stages = _mercer.stages()
    for plan in ["exact", *(f"cascade({stage}, exact)" for stage in stages)]:
        attempt(plan)
    # A stage that helps alone may help before single precision too.
    for stage in stages:
        alone = spent.get(f"cascade({stage}, exact)", np.inf)
        if stage != "low_precision" and alone < spent["exact"]:
            attempt(f"cascade({stage}, low_precision, exact)")
    best = min(spent, key=spent.get)
    report = {"contract": "certified", "plan": best, "seconds_per_row": spent, "refused": refused}
    return models[best]._under(models[best]._model, report_=report)


def _unmeasured(exact):
    """Single precision with a proof, where that fits."""
    try:
        return exact.with_plan("cascade(low_precision, exact)")
    except PlanError as error:
        refused = {"cascade(low_precision, exact)": str(error)}
        return exact._under(exact._model, report_={**exact.report_, "refused": refused})


def _measure(model, sample):
    """The best of three runs in seconds; none if an answer is neither certified nor exact."""
    rows = model._ready(sample)
    demand = {"budget": None, "tolerance": model.tolerance, "require_certified": False}
    found = model._model.decide(rows, demand, model._threads())
    if np.any(found["certainty"] < 2):
        return None
    spent = []
    for _ in range(3):
        started = time.perf_counter()
        model._model.decide(rows, demand, model._threads())
        spent.append(time.perf_counter() - started)
    return min(spent)
