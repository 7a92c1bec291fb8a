"""Estimators that scikit-learn does not have, with its interface.

Like all estimators of this package they take ``n_jobs`` (threads; ``None`` and -1 mean all cores; the result does not
depend on it) and ``callback`` (called with a dictionary ten times a second while training; training ends if it raises),
and answer :meth:`decide`, :meth:`explain` and :meth:`save` beside ``predict``.
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ._callbacks import observed
from ._labels import names_of
from ._training import TrainingMixin, kernel_text, example_weights
from ._rows import FLOATS, checked, pack, threads

__all__ = ["LSSVC", "AdditiveSVC", "KernelFisher", "LowRankSVC"]

_ALL = {
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "verbose": ["verbose"],
    "n_jobs": [Integral, None],
    "callback": [callable, None],
}
_POSITIVE = Interval(Real, 0.0, None, closed="neither")


class _Classifier(ClassifierMixin, TrainingMixin, BaseEstimator):
    """A classifier trained by the compiled module; subclasses choose kernel, formulation and solver."""

    def _task(self, X):
        """The texts of kernel, formulation and solver."""
        raise NotImplementedError

    @observed
    def fit(self, X, y, sample_weight=None):
        """Fits the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            float64 and float32 arrays are used as they are, sparse rows are not densified.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of the penalty of errors; samples of weight zero or less are left out.

        Returns
        -------
        self
        """
        self._validate_params()
        X, y = validate_data(self, checked(X), y, dtype=FLOATS, accept_sparse="csr")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(self.classes_)} class"
            )
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        kernel, formulation, solver = self._task(X)
        passes = getattr(self, "max_iter", -1)
        task = {
            "kernel": kernel,
            "formulation": formulation,
            "solver": solver,
            "targets": codes.astype(np.float64),
            "weights": example_weights(sample_weight, codes, factors),
            # Classes are numbered as they appear.
            "order": np.argsort(codes, kind="stable"),
            "names": names_of(self.classes_),
            "tolerance": None if self.tol is None else float(self.tol),
            "memory": 1 << 30,
            "max_iterations": int(passes) if passes >= 0 else None,
            "threads": threads(self.n_jobs),
            "probabilities": None,
        }
        self._plain = not hasattr(self, "feature_names_in_")
        self._model, report = self._train(X, task)
        self.n_iter_ = report["iterations"]
        self._set_training_report(report)
        return self

    def predict(self, X):
        """Labels of the rows of X."""
        check_is_fitted(self)
        return self._labels(self._query("answers", X))

    def decision_function(self, X):
        """Scores: of the second class if there are two, otherwise one column for each class."""
        check_is_fitted(self)
        scores = self._query("scores", X)
        if len(self.classes_) == 2:
            return -scores.ravel()
        if self._model.output == "one_vs_one":
            return _ovr_decision_function(scores < 0, -scores, len(self.classes_))
        return scores

    def _prepare_rows(self, X):
        check_is_fitted(self)
        return pack(validate_data(self, checked(X), accept_sparse="csr", dtype=FLOATS, reset=False))

    def _labels(self, answers):
        return self.classes_[answers]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class AdditiveSVC(_Classifier):
    """Classification with an additive kernel at the cost of a linear machine, for histograms and counts.

    Values are mapped to one of 255 bins, the kernel is a look-up table, and the machine is one curve per column: training takes
    time in proportion to the number of non-zero values, an answer one table read for each. Several classes are trained
    one against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of errors.
    kernel : str, default="chi2"
        ``"intersection"``, ``"chi2"``, ``"jensen_shannon"``, ``"hellinger"``, ``"power_mean(p=-1)"`` or ``"linear"``.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
    rank : int or "auto", default="auto"
        Numbers per column and level; ``"auto"`` takes 4, 8 or 16 for an error of 1e-3.
    bins : {"auto", "uniform", "power", "quantile"}, default="auto"
        Where the bins lie. ``"quantile"`` takes values below zero.
    intercept_scaling : float, default=1.0
        Value of a constant column; 0 for none.
    tol : float, default=0.1
        LIBLINEAR's rule for stopping.
    class_weight : dict or "balanced", optional
    max_iter : int, default=-1
        Most passes over the examples; -1 for no limit.
    random_state : int, optional
        Seed of the order in which examples are visited.
    verbose : bool, default=False
    n_jobs, callback
        See the module.

    Attributes
    ----------
    classes_ : ndarray
    n_iter_ : int
    training_report_ : dict
        How the training went.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.machines import AdditiveSVC
    >>> histograms = np.array([[8.0, 1, 0], [7, 2, 1], [1, 2, 9], [0, 1, 8]])
    >>> machine = AdditiveSVC().fit(histograms, ["dark", "dark", "light", "light"])
    >>> print(machine.predict([[6.0, 3, 1]])[0])
    dark
    """

    _parameter_constraints: dict = {
        "C": [_POSITIVE],
        "kernel": [str],
        "loss": [StrOptions({"hinge", "squared_hinge", "logistic"})],
        "rank": [Interval(Integral, 1, 16, closed="both"), StrOptions({"auto"})],
        "bins": [StrOptions({"auto", "uniform", "power", "quantile"})],
        "intercept_scaling": [Interval(Real, 0.0, None, closed="left")],
        "tol": [_POSITIVE],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
        **_ALL,
    }

    def __init__(
        self,
        *,
        C=1.0,
        kernel="chi2",
        loss="hinge",
        rank="auto",
        bins="auto",
        intercept_scaling=1.0,
        tol=0.1,
        class_weight=None,
        max_iter=-1,
        random_state=None,
        verbose=False,
        n_jobs=None,
        callback=None,
    ):
        self.C = C
        self.kernel = kernel
        self.loss = loss
        self.rank = rank
        self.bins = bins
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.callback = callback

    def _task(self, X):
        formulation = {"hinge": "c_svc"}.get(self.loss, self.loss)
        seed = 1 if self.random_state is None else int(self.random_state)
        solver = (
            f"additive(rank={self.rank}, bins={self.bins},"
            f" bias={float(self.intercept_scaling)!r}, seed={seed})"
        )
        return self.kernel, f"{formulation}(C={float(self.C)!r})", solver

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        takes_negative = self.kernel == "linear" or self.bins == "quantile"
        tags.input_tags.positive_only = not takes_negative
        return tags


_KERNEL: dict = {
    "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "laplacian", "chi2", "cosine"})],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}


class LowRankSVC(_Classifier):
    """Classification over a low-rank factor of the kernel matrix, for many samples and smooth kernels.

    Training costs ``n k**2`` for n samples and rank k instead of ``n**2`` to ``n**3``; the machine has k supports.
    ``training_report_`` says what was lost. Several classes are trained one against one, over one factor.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of errors.
    kernel : {"linear", "poly", "rbf", "laplacian", "chi2", "cosine"}, default="rbf"
    degree, gamma, coef0
        As in scikit-learn's ``SVC``.
    rank : int or "auto", default="auto"
        Supports; ``"auto"`` multiplies them by two until at most ``loss`` of the objective is lost.
    loss : float, default=0.01
        Share of the objective that may be lost where ``rank`` is ``"auto"``.
    guard : bool, default=True
        Whether an exact machine on a part of the samples is trained beside it, and the better one is kept.
    tol : float, default=1e-3
        Duality gap as a share of the objective.
    class_weight : dict or "balanced", optional
    random_state : int, optional
        Seed of everything drawn.
    verbose : bool, default=False
    n_jobs, callback
        See the module.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mercer.machines import LowRankSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = LowRankSVC(rank=200).fit(X[:1000], y[:1000])
    >>> machine.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: dict = {
        "C": [_POSITIVE],
        **_KERNEL,
        "rank": [Interval(Integral, 1, 65536, closed="both"), StrOptions({"auto"})],
        "loss": [Interval(Real, 0.0, 1.0, closed="both")],
        "guard": ["boolean"],
        "tol": [_POSITIVE],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
        **_ALL,
    }

    def __init__(
        self,
        *,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        rank="auto",
        loss=0.01,
        guard=True,
        tol=1e-3,
        class_weight=None,
        random_state=None,
        verbose=False,
        n_jobs=None,
        callback=None,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.rank = rank
        self.loss = loss
        self.guard = guard
        self.tol = tol
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.callback = callback

    def _task(self, X):
        _, kernel = kernel_text(self, X)
        seed = 1 if self.random_state is None else int(self.random_state)
        solver = (
            f"low_rank(rank={self.rank}, tolerance={float(self.loss)!r},"
            f" guard={'on' if self.guard else 'off'}, seed={seed})"
        )
        return kernel, f"c_svc(C={float(self.C)!r})", solver


class _LeastSquares(_Classifier):
    """A classifier by one linear system; every sample keeps a coefficient."""

    _parameter_constraints: dict = {
        "C": [_POSITIVE],
        **_KERNEL,
        "rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "tol": [_POSITIVE],
        **_ALL,
    }

    def __init__(
        self,
        *,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        rank="auto",
        tol=1e-6,
        class_weight=None,
        verbose=False,
        n_jobs=None,
        callback=None,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.rank = rank
        self.tol = tol
        self.class_weight = class_weight
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.callback = callback

    def _task(self, X):
        _, kernel = kernel_text(self, X)
        return kernel, f"{self._formulation}(C={float(self.C)!r})", f"direct(rank={self.rank})"

    def _set_training_report(self, report):
        super()._set_training_report(report)
        #: Accuracy of every sample under the machine of all others, which the algebra gives for nothing.
        self.leave_one_out_accuracy_ = report["leave_one_out"]


_PARAMETERS = """

    Up to 6,000 samples are solved by Cholesky's factor of all kernel values, more by a low-rank factor whose pivots
    alone are kept. Several classes are trained one against the rest, by one factor.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of squared errors.
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "chi2", "cosine"}, default="rbf"
    degree, gamma, coef0
        As in scikit-learn's ``SVC``.
    rank : int or "auto", default="auto"
        Pivots of a low-rank factor; ``"auto"`` takes all kernel values of few samples.
    tol : float, default=1e-6
        Largest error of an equation, relative to the largest target.
    class_weight : dict or "balanced", optional
    verbose : bool, default=False
    n_jobs, callback
        See the module.

    Attributes
    ----------
    classes_ : ndarray
    leave_one_out_accuracy_ : float or None
    training_report_ : dict
    """


class LSSVC(_LeastSquares):
    __doc__ = (
        "Least-squares SVM: ``(K + I/C) beta - b = y`` with targets of one and minus one." + _PARAMETERS
    )

    _formulation = "ls_svm"


class KernelFisher(_LeastSquares):
    __doc__ = (
        "Kernel Fisher discriminant: the direction that separates the classes best, relative to their spread, and"
        "\n    the mean of all projections as threshold." + _PARAMETERS
    )

    _formulation = "fisher"
