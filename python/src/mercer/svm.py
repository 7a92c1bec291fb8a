"""Support vector machines with scikit-learn's parameters, attributes and signs.

``from mercer.svm import SVC`` replaces ``from sklearn.svm import SVC``. The classes are subclasses of
scikit-learn's, so that everything which recognises those recognises these; training and answering are ours.

Beside scikit-learn's parameters each takes

``n_jobs``
    Threads; ``None`` and -1 mean all cores. The result does not depend on it.
``callback``
    Called with a dictionary (``iterations``, ``part``, ``parts``, ``violation``, ``gap``, ``supports``,
    ``elapsed``, ``time_left``) ten times a second while training; training ends if it raises.

``shrinking`` and ``random_state`` are accepted and change nothing: training is deterministic.

>>> from mercer.svm import SVC
>>> X = [[-2, -1], [-1, -1], [1, 1], [2, 1]]
>>> svc = SVC(kernel="linear").fit(X, ["left", "left", "right", "right"])
>>> print(svc.predict([[-0.8, -1]])[0])
left
>>> svc.support_.tolist()
[1, 2]
"""

from __future__ import annotations

import sys
import warnings
from numbers import Integral

import numpy as np
import scipy.sparse as sp
import sklearn.svm as theirs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from . import _kernels, _mercer
from ._asking import Asking
from ._convert import _names
from ._rows import FEW, FLOATS, QUICK, pack, threads
from .errors import MercerError, TrainError

__all__ = ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"]

#: A price of errors without end: no coefficient reaches it.
ENDLESS = 1e12

_MORE = {"n_jobs": [Integral, None], "callback": [callable, None]}


class _Fitting(Asking):
    """Training and answering, over the parameters and properties of scikit-learn's classes."""

    def _formulation(self):
        raise NotImplementedError

    def fit(self, X, y, sample_weight=None):
        """Learns from examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Doubles and singles are taken as they are, compressed rows are not densified. For
            ``kernel="precomputed"`` the kernel values of all pairs of samples.
        y : array-like of shape (n_samples,)
            Labels, or values for a regression.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C; samples of weight zero or less are left out.

        Returns
        -------
        self
        """
        self._validate_params()
        X, y = self._checked(X, y)
        targets = self._validate_targets(y)
        samples = _num_samples(X)
        if len(targets) != samples:
            raise ValueError(
                f"X and y have incompatible shapes.\nX has {samples} samples, but y has {len(targets)}."
            )
        weights = self._weights(sample_weight, targets)
        kernel, rows = self._kernel_of(X)
        order = np.argsort(targets, kind="stable") if hasattr(self, "classes_") else None
        task = {
            "kernel": kernel,
            "formulation": self._formulation(),
            "targets": targets if self._impl != "one_class" else [],
            "weights": weights,
            "order": order,
            "names": _names(self.classes_) if hasattr(self, "classes_") else None,
            "tolerance": float(self.tol),
            "memory": int(self.cache_size * (1 << 20)),
            "max_iterations": self._steps(targets),
            "threads": threads(self.n_jobs),
            "probabilities": self._folds_seed(),
        }
        try:
            self._model, report = _mercer.train(pack(rows), task, self._observer())
        except TrainError as error:
            raise _as_scikit_learn_says(error) from None
        self._publish(X, report, order, targets)
        return self

    def _checked(self, X, y):
        is_sparse = sp.issparse(X)
        if is_sparse and isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported.")
        self._sparse = is_sparse and not callable(self.kernel)
        if callable(self.kernel):
            check_consistent_length(X, y)
            self._plain = False
            return X, y
        X, y = validate_data(self, X, y, dtype=FLOATS, accept_sparse="csr")
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                "Precomputed matrix must be a square matrix."
                f" Input is a {X.shape[0]}x{X.shape[1]} matrix."
            )
        # Rows without names and of the right kind need no checks but those of the compiled half.
        self._plain = self.kernel != "precomputed" and not hasattr(self, "feature_names_in_")
        return X, y

    def _kernel_of(self, X):
        """The kernel's text, and the rows that training reads."""
        self._probA, self._probB = np.empty(0), np.empty(0)
        if callable(self.kernel):
            self._gamma = 0.0
            self._fitted_rows = X
            values = self._compute_kernel(X)
            samples = _num_samples(X)
            if values.shape != (samples, samples):
                raise ValueError(
                    f"the kernel gave values of shape {values.shape} for {samples} samples; "
                    "X.shape[0] should be equal to X.shape[1]"
                )
            return "precomputed", values
        if self.kernel == "precomputed":
            self._gamma = 0.0
            return "precomputed", X
        self._gamma = self._gamma_of(X)
        if self._gamma == 0.0 and self.kernel != "linear":
            raise ValueError(f"gamma is 0; the {self.kernel} kernel is then constant")
        if self.kernel == "poly" and self.degree == 0:
            raise ValueError("degree is 0; the polynomial kernel is then constant")
        return _kernels.text(self.kernel, self._gamma, self.degree, self.coef0), X

    def _gamma_of(self, X):
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma == "auto":
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

    def _weights(self, sample_weight, targets):
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
            if hasattr(self, "classes_") and len(np.unique(targets[weights > 0])) < 2:
                raise ValueError(self._one_class_left)
        factors = getattr(self, "class_weight_", None)
        if factors is not None and np.any(factors != 1.0):
            of_class = factors[targets.astype(np.intp)]
            weights = of_class if weights is None else weights * of_class
        return weights

    _one_class_left = (
        "Invalid input - all samples with positive weights belong to the same class."
    )

    def _folds_seed(self):
        """The seed of the folds that probabilities are fitted on, if they are wanted."""
        if not getattr(self, "_effective_probability", False):
            return None
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _steps(self, targets):
        if self.max_iter < 0:
            return None
        classes = len(self.classes_) if hasattr(self, "classes_") else 2
        return int(self.max_iter) * (classes * (classes - 1) // 2)

    def _observer(self):
        def tell(progress):
            if self.callback is not None:
                self.callback(progress)
            if self.verbose:
                print(_line(type(self).__name__, progress), file=sys.stdout, flush=True)

        return tell if self.callback is not None or self.verbose else None

    def _publish(self, X, report, order, targets):
        """The attributes that scikit-learn's users and tools read."""
        parts = report["parts"]
        named = [part["examples"] for part in parts]
        support = np.unique(np.concatenate(named)) if named else np.empty(0, np.int64)
        own = support if order is None else order[support]
        self.support_ = own.astype(np.int32)
        if callable(self.kernel) or (isinstance(self.kernel, str) and self.kernel == "precomputed"):
            self.support_vectors_ = np.empty((0, 0))
        else:
            vectors = X[own]
            self.support_vectors_ = vectors.astype(np.float64, copy=False)
        coefficients = self._coefficients(parts, support, own, targets)
        self.intercept_ = np.array([-part["offset"] for part in parts]) + 0.0
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (_num_samples(X),)
        if self._sparse:
            coefficients = _compressed(coefficients)
        self._intercept_ = self.intercept_.copy()
        self._dual_coef_ = self.dual_coef_ = coefficients
        if hasattr(self, "classes_") and len(self.classes_) == 2:
            self.intercept_ = -self.intercept_ + 0.0
            self.dual_coef_ = -coefficients
        self._num_iter = np.array([part["iterations"] for part in parts], dtype=np.int32)
        self.n_iter_ = self._num_iter if hasattr(self, "classes_") else int(self._num_iter[0])
        if self._model.sigmoids is not None:
            self._probA, self._probB = map(np.array, self._model.sigmoids)
        self._conclude(report)

    def _coefficients(self, parts, support, own, targets):
        if not hasattr(self, "classes_"):
            table = np.zeros((1, len(support)))
            table[0, np.searchsorted(support, parts[0]["examples"])] = parts[0]["coefficients"]
            self._n_support = np.array([len(support), 0], dtype=np.int32)
            return table
        classes = len(self.classes_)
        of = targets[own].astype(np.intp)
        self._n_support = np.bincount(of, minlength=classes).astype(np.int32)
        table = np.zeros((classes - 1, len(support)))
        pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
        for (first, second), part in zip(pairs, parts):
            places = np.searchsorted(support, part["examples"])
            rows = np.where(of[places] == first, second - 1, first)
            table[rows, places] = part["coefficients"]
        return table

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
                f"tol={self.tol} is below what doubles can tell apart here: the violation is"
                f" {report['violation']:.2g}, the duality gap {report['gap']:.2g}.",
                ConvergenceWarning,
            )

    def _compute_kernel(self, X):
        """Values of a callable kernel against all training rows."""
        if not callable(self.kernel):
            return X
        values = self.kernel(X, self._fitted_rows)
        if sp.issparse(values):
            values = values.toarray()
        return np.asarray(values, dtype=np.float64)

    def _compiled(self):
        check_is_fitted(self)
        return self._model

    def _threads(self):
        return threads(self.n_jobs)

    def _ready(self, X):
        return pack(self._compute_kernel(self._validate_for_predict(X)))

    def _validate_for_predict(self, X):
        check_is_fitted(self)
        if callable(self.kernel):
            return X
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        if self.kernel == "precomputed" and X.shape[1] != self.shape_fit_[0]:
            raise ValueError(
                f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, "
                "the number of samples at training time"
            )
        vectors = self.support_vectors_
        if not self._sparse and vectors.size > 0 and self.n_support_.sum() != vectors.shape[0]:
            raise ValueError(f"The internal representation of {type(self).__name__} was altered")
        return X

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

    def _decision_function(self, X):
        scores = self._ask("scores", X)
        if hasattr(self, "classes_") and len(self.classes_) == 2:
            return -scores.ravel()
        return scores

    def predict(self, X):
        """Answers for the rows of X: labels, values, or 1 and -1 for inliers and outliers."""
        return self._labels(self._ask("answers", X))

    def _labels(self, answers):
        return answers

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # scikit-learn compares: a callable kernel is not the word.
        is_given = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise = is_given
        tags.input_tags.sparse = not is_given
        return tags


class _Classifying(_Fitting):
    """What classifiers add: the vote and its ties."""

    def predict(self, X):
        """Labels of the rows of X."""
        if self.break_ties:
            check_is_fitted(self)
            if self.decision_function_shape == "ovo":
                raise ValueError(
                    "break_ties must be False when decision_function_shape is 'ovo'"
                )
            if len(self.classes_) > 2:
                return self._labels(np.argmax(self.decision_function(X), axis=1))
        return self._labels(self._ask("answers", X))

    def _labels(self, answers):
        return self.classes_[answers]

    def _has_probabilities(self):
        return self._check_proba()

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Probabilities of the classes, by sigmoids fitted to scores of five folds; one column for each.

        With two classes the larger one is always that of the label; with several they are coupled.
        """
        check_is_fitted(self)
        if self._probA.size == 0:
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False"
            )
        return self._ask("probabilities", X)

    def _validate_targets(self, y):
        codes = super()._validate_targets(y)
        self._effective_probability = False
        if self.probability != "deprecated":
            warnings.warn(
                "The `probability` parameter was deprecated in scikit-learn 1.9 and will be removed in"
                " version 1.11. Use `CalibratedClassifierCV(..., ensemble=False)` instead.",
                FutureWarning,
            )
            self._effective_probability = bool(self.probability)
        return codes


class SVC(_Classifying, theirs.SVC):
    """C-support vector classification; parameters and attributes as ``sklearn.svm.SVC``.

    >>> from sklearn.datasets import load_iris
    >>> from mercer.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> SVC().fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = {**theirs.SVC._parameter_constraints, **_MORE}

    def __init__(
        self,
        *,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        probability="deprecated",
        tol=1e-3,
        cache_size=200,
        class_weight=None,
        verbose=False,
        max_iter=-1,
        decision_function_shape="ovr",
        break_ties=False,
        random_state=None,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            C=C,
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            shrinking=shrinking,
            probability=probability,
            tol=tol,
            cache_size=cache_size,
            class_weight=class_weight,
            verbose=verbose,
            max_iter=max_iter,
            decision_function_shape=decision_function_shape,
            break_ties=break_ties,
            random_state=random_state,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def _formulation(self):
        return f"c_svc(C={_price(self.C)!r})"


class NuSVC(_Classifying, theirs.NuSVC):
    """Classification with a bound nu on the share of errors; as ``sklearn.svm.NuSVC``.

    >>> from sklearn.datasets import load_iris
    >>> from mercer.svm import NuSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> NuSVC(nu=0.1).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = {**theirs.NuSVC._parameter_constraints, **_MORE}
    _one_class_left = "specified nu is infeasible"

    def __init__(
        self,
        *,
        nu=0.5,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        probability="deprecated",
        tol=1e-3,
        cache_size=200,
        class_weight=None,
        verbose=False,
        max_iter=-1,
        decision_function_shape="ovr",
        break_ties=False,
        random_state=None,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            nu=nu,
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            shrinking=shrinking,
            probability=probability,
            tol=tol,
            cache_size=cache_size,
            class_weight=class_weight,
            verbose=verbose,
            max_iter=max_iter,
            decision_function_shape=decision_function_shape,
            break_ties=break_ties,
            random_state=random_state,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def _formulation(self):
        return f"nu_svc(nu={float(self.nu)!r})"


class _Regressing(_Fitting):
    """What regressions and novelty detection add."""

    def _validate_targets(self, y):
        return column_or_1d(y, warn=True).astype(np.float64, copy=False)


class SVR(_Regressing, theirs.SVR):
    """Regression with a tube of width epsilon; as ``sklearn.svm.SVR``.

    >>> from mercer.svm import SVR
    >>> line = SVR(kernel="linear", C=10, epsilon=0.01).fit([[0], [1], [2]], [0, 2, 4])
    >>> abs(line.predict([[1.5]])[0] - 3) < 0.02
    np.True_
    """

    _parameter_constraints = {**theirs.SVR._parameter_constraints, **_MORE}

    def __init__(
        self,
        *,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        tol=1e-3,
        C=1.0,
        epsilon=0.1,
        shrinking=True,
        cache_size=200,
        verbose=False,
        max_iter=-1,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            C=C,
            epsilon=epsilon,
            shrinking=shrinking,
            cache_size=cache_size,
            verbose=verbose,
            max_iter=max_iter,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def _formulation(self):
        return f"epsilon_svr(C={_price(self.C)!r}, epsilon={float(self.epsilon)!r})"


class NuSVR(_Regressing, theirs.NuSVR):
    """Regression with a bound nu on the share outside the tube; as ``sklearn.svm.NuSVR``.

    >>> from mercer.svm import NuSVR
    >>> line = NuSVR(kernel="linear", C=10).fit([[0], [1], [2]], [0, 2, 4])
    >>> abs(line.predict([[1.5]])[0] - 3) < 0.02
    np.True_
    """

    _parameter_constraints = {**theirs.NuSVR._parameter_constraints, **_MORE}

    def __init__(
        self,
        *,
        nu=0.5,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        tol=1e-3,
        cache_size=200,
        verbose=False,
        max_iter=-1,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            nu=nu,
            C=C,
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            shrinking=shrinking,
            tol=tol,
            cache_size=cache_size,
            verbose=verbose,
            max_iter=max_iter,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def _formulation(self):
        return f"nu_svr(nu={float(self.nu)!r}, C={_price(self.C)!r})"


class OneClassSVM(_Regressing, theirs.OneClassSVM):
    """Novelty detection; as ``sklearn.svm.OneClassSVM``.

    >>> from mercer.svm import OneClassSVM
    >>> usual = OneClassSVM(gamma=0.5).fit([[0.0], [0.44], [0.45], [0.46], [1.0]])
    >>> usual.predict([[0.45], [5.0]]).tolist()
    [1, -1]
    """

    _parameter_constraints = {**theirs.OneClassSVM._parameter_constraints, **_MORE}

    def __init__(
        self,
        *,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        tol=1e-3,
        nu=0.5,
        shrinking=True,
        cache_size=200,
        verbose=False,
        max_iter=-1,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            nu=nu,
            shrinking=shrinking,
            cache_size=cache_size,
            verbose=verbose,
            max_iter=max_iter,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X, y=None, sample_weight=None):
        """Learns what usual rows look like; ``y`` is ignored."""
        super().fit(X, np.ones(_num_samples(X)), sample_weight=sample_weight)
        self.offset_ = -self._intercept_
        return self

    def decision_function(self, X):
        """Scores; positive for rows that look usual."""
        return self._decision_function(X).ravel()

    def _labels(self, answers):
        return answers.astype(np.intp, copy=False)

    def _formulation(self):
        return f"one_class(nu={float(self.nu)!r})"


def _price(C):
    return float(C) if np.isfinite(C) else ENDLESS


def _compressed(table):
    """All entries of a table in compressed rows, as scikit-learn keeps coefficients of sparse fits."""
    rows, columns = table.shape
    if columns == 0:
        return sp.csr_matrix(table)
    places = np.tile(np.arange(columns, dtype=np.int32), rows)
    starts = np.arange(0, rows * columns + 1, columns, dtype=np.int32)
    return sp.csr_matrix((table.ravel(), places, starts), table.shape)


def _as_scikit_learn_says(error):
    """The same error, in words that scikit-learn's users look for."""
    said = {
        "InfeasibleNu": "specified nu is infeasible",
        "KernelNotFinite": "The dual coefficients or intercepts are not finite",
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
