"""What all estimators share: weights, progress, errors and the quick way to the compiled half."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from . import _kernels, _mercer
from ._asking import QueryOptions
from ._rows import FEW, QUICK, pack, threads
from .errors import MercerError, TrainError


class Learning(QueryOptions):
    """Training in the compiled half, and answers from it."""

    def _learn(self, rows, task):
        """The compiled model and what is known of its training."""
        try:
            return _mercer.train(pack(rows), task, self._observer())
        except TrainError as error:
            raise _as_scikit_learn_says(error) from None

    def _observer(self):
        def tell(progress):
            if self.callback is not None:
                self.callback(progress)
            if self.verbose:
                print(_line(type(self).__name__, progress), file=sys.stdout, flush=True)

        return tell if self.callback is not None or self.verbose else None

    def _conclude(self, report):
        self.fit_status_ = int(report["stop"] == "iteration limit")
        #: How the training went: objective, gap and violation, recomputed in doubles.
        self.training_report_ = {key: value for key, value in report.items() if key != "parts"}
        if self.fit_status_:
            warnings.warn(
                f"Solver terminated early (max_iter={self.max_iter})."
                "  Consider pre-processing your data with StandardScaler or MinMaxScaler.",
                ConvergenceWarning,
            )
        elif not report["converged"]:
            warnings.warn(
                f"Training ended before tol={self.tol} was reached, which is below what doubles can tell apart here or"
                f" too far for the solver: the violation is {report['violation']:.2g}, the duality gap"
                f" {report['gap']:.2g}. Consider scaling the data.",
                ConvergenceWarning,
            )

    def _compiled(self):
        check_is_fitted(self)
        return self._model

    def _threads(self):
        return threads(self.n_jobs)

    def _ask(self, method, X):
        """Asks the compiled model; plain arrays go there without another look."""
        state = self.__dict__
        if type(X) is np.ndarray and X.dtype in QUICK and X.ndim == 2 and state.get("_plain"):
            try:
                # A few rows stay on this thread: how many there could be need not be asked.
                count = 1 if len(X) <= FEW else threads(self.n_jobs)
                return getattr(state["_model"], method)(X, count)
            except MercerError:
                pass  # what is wrong is said in scikit-learn's words below
        rows = self._ready(X)
        return getattr(self._model, method)(rows, threads(self.n_jobs))


def gamma_of(gamma, X):
    """scikit-learn's words for gamma as a number."""
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
    """The text of an estimator's kernel parameters; refuses those under which all rows are alike."""
    gamma = gamma_of(estimator.gamma, X)
    if gamma == 0.0 and estimator.kernel != "linear":
        raise ValueError(f"gamma is 0; the {estimator.kernel} kernel is then constant")
    if estimator.kernel == "poly" and estimator.degree == 0:
        raise ValueError("degree is 0; the polynomial kernel is then constant")
    return gamma, _kernels.text(estimator.kernel, gamma, estimator.degree, estimator.coef0)


ONE_CLASS_LEFT = "Invalid input - all samples with positive weights belong to the same class."


def weights_of(sample_weight, targets, factors=None, one_class_left=ONE_CLASS_LEFT):
    """One weight for each sample, or None if all are one; ``factors`` are those of the classes."""
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


def _as_scikit_learn_says(error):
    """The same error, in words that scikit-learn's users look for."""
    said = {
        "InfeasibleNu": "specified nu is infeasible",
        "KernelNotFinite": "The dual coefficients or intercepts are not finite",
        "Negative": "Negative values in data",
        "NegativeForBins": "Negative values in data",
    }.get(error.kind)
    if said is None:
        return error
    return type(error)(f"{said}: {error}", error.kind, error.fields)


def _line(name, progress):
    part = f"question {progress['part'] + 1} of {progress['parts']}, " if progress["parts"] > 1 else ""
    left = progress["time_left"]
    rest = f", about {left:.1f} s left" if left is not None else ""
    return (
        f"[{name}] {part}{progress['iterations']} steps, gap {progress['gap']:.2e}, "
        f"{progress['supports']} supports, {progress['elapsed']:.1f} s{rest}"
    )
