"""Shared by all estimators: training in the compiled module, example weights, progress and error messages."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from . import _kernels, _mercer
from ._callbacks import CallbackSupportMixin
from ._query import QueryMixin
from ._quick import QuickParametersMixin
from ._rows import FEW, pack, quick, threads
from .errors import MercerError, TrainError


class TrainingMixin(QuickParametersMixin, QueryMixin, CallbackSupportMixin):
    """Training and prediction through the compiled module."""

    def _train(self, rows, task, earlier=None):
        """Trains, from an earlier machine if there is one; returns the compiled model and the training report."""
        try:
            return _mercer.train(pack(rows), task, self._observer(), earlier)
        except TrainError as error:
            raise _with_scikit_learn_message(error) from None

    def _observer(self):
        tasks = getattr(self, "_fit_tasks", None)

        def observe(progress):
            if self.callback is not None:
                self.callback(progress)
            if self.verbose:
                print(_line(type(self).__name__, progress), file=sys.stdout, flush=True)
            return tasks is not None and tasks.observe(progress)

        return observe if self.callback is not None or self.verbose or tasks is not None else None

    def _set_training_report(self, report):
        self.fit_status_ = int(report["stop"] == "iteration limit")
        #: How the training went: objective, gap and violation, recomputed in f64.
        self.training_report_ = {key: value for key, value in report.items() if key != "subproblems"}
        if self.fit_status_:
            warnings.warn(
                f"Solver terminated early (max_iter={self.max_iter})."
                "  Consider pre-processing your data with StandardScaler or MinMaxScaler.",
                ConvergenceWarning,
            )
        elif report["stop"] == "cancelled":
            warnings.warn(f"A callback stopped the training: the duality gap is {report['gap']:.2g}.", ConvergenceWarning)
        elif not report["converged"]:
            warnings.warn(
                f"Training ended before tol={self.tol} was reached, which is below the f64 precision of this problem"
                f" or out of reach of the solver: the violation is {report['violation']:.2g}, the duality gap"
                f" {report['gap']:.2g}. Consider scaling the data.",
                ConvergenceWarning,
            )

    def _compiled(self):
        check_is_fitted(self)
        return self._model

    def _threads(self):
        return threads(self.n_jobs)

    def _query(self, method, X):
        """Calls a method of the compiled model; float arrays skip scikit-learn's validation."""
        state = self.__dict__
        rows = quick(X) if state.get("_plain") else None
        if rows is not None:
            try:
                # A few rows are answered on this thread.
                count = 1 if X.shape[0] <= FEW else threads(self.n_jobs)
                return getattr(state["_model"], method)(rows, count)
            except (MercerError, TypeError):
                pass  # the validation below raises scikit-learn's message, or puts the entries of sparse rows in order
        rows = self._prepare_rows(X)
        return getattr(self._model, method)(rows, threads(self.n_jobs))


def gamma_value(gamma, X):
    """The number that scikit-learn's gamma (``"scale"``, ``"auto"`` or a float) stands for."""
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if sp.issparse(X):
        data = X.data.astype(np.float64, copy=False)
        count = X.shape[0] * X.shape[1]
        variance = (data @ data) / count - (data.sum() / count) ** 2
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            variance = X.var(dtype=np.float64)
    if not np.isfinite(variance):
        raise ValueError(
            "The dual coefficients or intercepts are not finite. The input data may contain large"
            " values and need to be preprocessed."
        )
    return 1.0 / (X.shape[1] * float(variance)) if variance != 0 else 1.0


def kernel_text(estimator, X):
    """The kernel text of an estimator's parameters; raises if the kernel is constant."""
    gamma = gamma_value(estimator.gamma, X)
    if gamma == 0.0 and estimator.kernel != "linear":
        raise ValueError(f"gamma is 0; the {estimator.kernel} kernel is then constant")
    return gamma, _kernels.text(estimator.kernel, gamma, estimator.degree, estimator.coef0)


ONE_CLASS_LEFT = "Invalid input - all samples with positive weights belong to the same class."


def example_weights(sample_weight, targets, factors=None, one_class_left=ONE_CLASS_LEFT):
    """One weight for each sample, or None if all are 1; ``factors`` are the class weights."""
    weights = None
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.ndim == 0:
            weights = np.full(len(targets), float(weights))
        if weights.shape != (len(targets),):
            raise ValueError(
                "sample_weight and X have incompatible shapes: "
                f"{weights.shape!r} vs {len(targets)} samples"
            )
        if not np.all(np.isfinite(weights)):
            raise ValueError("sample_weight contains NaN or infinity")
        weights = np.maximum(weights, 0.0)
        if not np.any(weights > 0):
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        if factors is not None and len(np.unique(targets[weights > 0])) < 2:
            raise ValueError(one_class_left)
    if factors is not None and np.any(factors != 1.0):
        of_class = factors[targets.astype(np.intp)]
        weights = of_class if weights is None else weights * of_class
    return weights


def _with_scikit_learn_message(error):
    """The same error with the message of scikit-learn in front."""
    message = {
        "InfeasibleNu": "specified nu is infeasible",
        "KernelNotFinite": "The dual coefficients or intercepts are not finite",
        "Negative": "Negative values in data",
        "NegativeForBins": "Negative values in data",
    }.get(error.kind)
    if message is None:
        return error
    return type(error)(f"{message}: {error}", error.kind, error.fields)


def _line(name, progress):
    count = progress["subproblems"]
    subproblem = f"subproblem {progress['subproblem'] + 1} of {count}, " if count > 1 else ""
    left = progress["time_left"]
    rest = f", about {left:.1f} s left" if left is not None else ""
    return (
        f"[{name}] {subproblem}{progress['iterations']} steps, gap {progress['gap']:.2e}, "
        f"{progress['supports']} supports, {progress['elapsed']:.1f} s{rest}"
    )
