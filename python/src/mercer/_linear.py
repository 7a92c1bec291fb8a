"""Linear machines with scikit-learn's parameters, attributes and signs."""

from __future__ import annotations

import warnings
from numbers import Integral

import numpy as np
import sklearn.svm as theirs
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm._base import _get_liblinear_solver_type
from sklearn.svm._classes import _validate_dual_parameter
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ._callbacks import observed
from ._convert import compile_linear
from ._labels import names_of
from ._training import TrainingMixin, example_weights
from ._rows import FLOATS, checked, pack, threads

_FORMULATIONS = {"hinge": "c_svc", "squared_hinge": "squared_hinge"}
_MORE = {"n_jobs": [Integral, None], "callback": [callable, None]}


class _Linear(TrainingMixin):
    """What linear classification and regression share."""

    def _solver(self):
        if self.fit_intercept and self.intercept_scaling <= 0:
            raise ValueError(
                f"Intercept scaling is {self.intercept_scaling!r} but needs to be greater than 0. To disable"
                " fitting an intercept, set fit_intercept=False."
            )
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        seed = 1
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        space = "dual" if self._is_dual else "primal"
        passes = max(1, int(self.max_iter))
        return f"linear(space={space}, bias={bias!r}, seed={seed}, passes={passes})"

    def _set_report(self, report, examples):
        """Iterations, the training report, and a warning where the solver did not converge."""
        steps = max(subproblem["iterations"] for subproblem in report["subproblems"])
        self.n_iter_ = -(-steps // examples) if self._is_dual else steps
        #: How the training went: objective, gap and violation.
        self.training_report_ = {key: value for key, value in report.items() if key != "subproblems"}
        # A gap of nothing is the end, whatever a tolerance below rounding says.
        if not report["converged"] and abs(report["gap"]) > 1e-12 * abs(report["objective"]):
            warnings.warn(
                "Liblinear failed to converge, increase the number of iterations. (Nor did Mercer: the"
                f" duality gap is {report['gap']:.2g} at an objective of {abs(report['objective']):.2g}.)",
                ConvergenceWarning,
            )

    def _fit_theirs(self, X, y, sample_weight):
        """Problems that our solvers do not minimise: trained by scikit-learn, predicted by the compiled module."""
        super().fit(X, y, sample_weight=sample_weight)
        self._plain = not hasattr(self, "feature_names_in_")
        self._model = compile_linear(self, getattr(self, "classes_", None))
        self.training_report_ = {"solver": "scikit-learn"}
        return self

    def _prepare_rows(self, X):
        check_is_fitted(self)
        return pack(validate_data(self, checked(X), accept_sparse="csr", dtype=FLOATS, reset=False))


class LinearSVC(_Linear, theirs.LinearSVC):
    """Linear classification; parameters and attributes as ``sklearn.svm.LinearSVC``.

    ``penalty="l1"`` and ``multi_class="crammer_singer"`` are no kernel machines: scikit-learn's own code trains
    them, and the answers are ours. ``n_iter_`` counts passes over the examples (``dual=True``) or steps of Newton's
    method (``dual=False``) of the subproblem that took most. All computations are in f64.

    Beside scikit-learn's parameters it takes ``n_jobs`` (classes are trained side by side; the result does not
    depend on it) and ``callback``.

    >>> from sklearn.datasets import load_iris
    >>> from mercer.svm import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> svc = LinearSVC(C=0.1).fit(X, y)
    >>> svc.coef_.shape, svc.score(X, y) > 0.9
    ((3, 4), True)
    """

    _parameter_constraints = {**theirs.LinearSVC._parameter_constraints, **_MORE}

    def __init__(
        self,
        penalty="l2",
        loss="squared_hinge",
        *,
        dual="auto",
        tol=1e-4,
        C=1.0,
        multi_class="ovr",
        fit_intercept=True,
        intercept_scaling=1,
        class_weight=None,
        verbose=0,
        random_state=None,
        max_iter=1000,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            penalty,
            loss,
            dual=dual,
            tol=tol,
            C=C,
            multi_class=multi_class,
            fit_intercept=fit_intercept,
            intercept_scaling=intercept_scaling,
            class_weight=class_weight,
            verbose=verbose,
            random_state=random_state,
            max_iter=max_iter,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X, y, sample_weight=None):
        """Learns from examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            float64 and float32 arrays are used as they are, sparse rows are not densified.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C; samples of weight zero or less are left out.

        Returns
        -------
        self
        """
        self._validate_params()
        if self.penalty == "l1" or self.multi_class == "crammer_singer":
            return self._fit_theirs(X, y, sample_weight)
        return self._fit_ours(X, y, sample_weight)

    @observed
    def _fit_ours(self, X, y, sample_weight):
        X, y = validate_data(self, checked(X), y, dtype=FLOATS, accept_sparse="csr")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        # Refuses what scikit-learn refuses.
        self._is_dual = _validate_dual_parameter(self.dual, self.loss, self.penalty, self.multi_class, X)
        _get_liblinear_solver_type(self.multi_class, self.penalty, self.loss, self._is_dual)
        if len(self.classes_) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data contains only one"
                f" class: {self.classes_[0]!r}"
            )
        factors = _class_factors(self.class_weight, self.classes_, y, sample_weight)
        weights = example_weights(sample_weight, codes, factors)
        task = {
            "kernel": "linear",
            "formulation": f"{_FORMULATIONS[self.loss]}(C={float(self.C)!r})",
            "solver": self._solver(),
            "targets": codes.astype(np.float64),
            "weights": weights,
            # Classes are numbered as they appear.
            "order": np.argsort(codes, kind="stable"),
            "names": names_of(self.classes_),
            "tolerance": float(self.tol),
            "memory": 1 << 30,
            "max_iterations": None,
            "threads": threads(self.n_jobs),
            "probabilities": None,
        }
        self._plain = not hasattr(self, "feature_names_in_")
        self._model, report = self._train(X, task)
        self._set_fitted_attributes(report, len(codes) if weights is None else int(np.count_nonzero(weights)))
        return self

    def _set_fitted_attributes(self, report, examples):
        """The attributes that scikit-learn's users and tools read, in its signs."""
        weights, offsets = self._model.weights
        if len(self.classes_) == 2:
            # Our score is positive for the first class.
            weights, offsets = -weights, -offsets
        self.coef_ = weights + 0.0
        self.intercept_ = -offsets + 0.0 if self.fit_intercept else 0.0
        self._set_report(report, examples)

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
        return scores

    def _labels(self, answers):
        return self.classes_[answers]


class LinearSVR(_Linear, theirs.LinearSVR):
    """Linear regression with a tube of width epsilon; parameters and attributes as ``sklearn.svm.LinearSVR``.

    ``loss="squared_epsilon_insensitive"`` is trained by scikit-learn's own code, and the answers are ours. ``n_iter_`` counts
    passes over the examples. All computations are in f64.

    Beside scikit-learn's parameters it takes ``n_jobs`` and ``callback``.

    >>> from mercer.svm import LinearSVR
    >>> line = LinearSVR(C=10, max_iter=10000).fit([[0], [1], [2]], [0, 2, 4])
    >>> abs(line.predict([[1.5]])[0] - 3) < 0.01
    np.True_
    """

    _parameter_constraints = {**theirs.LinearSVR._parameter_constraints, **_MORE}

    def __init__(
        self,
        *,
        epsilon=0.0,
        tol=1e-4,
        C=1.0,
        loss="epsilon_insensitive",
        fit_intercept=True,
        intercept_scaling=1.0,
        dual="auto",
        verbose=0,
        random_state=None,
        max_iter=1000,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            epsilon=epsilon,
            tol=tol,
            C=C,
            loss=loss,
            fit_intercept=fit_intercept,
            intercept_scaling=intercept_scaling,
            dual=dual,
            verbose=verbose,
            random_state=random_state,
            max_iter=max_iter,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X, y, sample_weight=None):
        """Learns from examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            float64 and float32 arrays are used as they are, sparse rows are not densified.
        y : array-like of shape (n_samples,)
            Values.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C; samples of weight zero or less are left out.

        Returns
        -------
        self
        """
        self._validate_params()
        if self.loss != "epsilon_insensitive":
            return self._fit_theirs(X, y, sample_weight)
        return self._fit_ours(X, y, sample_weight)

    @observed
    def _fit_ours(self, X, y, sample_weight):
        X, y = validate_data(self, checked(X), y, dtype=FLOATS, accept_sparse="csr", y_numeric=True)
        # Refuses what scikit-learn refuses.
        self._is_dual = _validate_dual_parameter(self.dual, self.loss, "l2", "ovr", X)
        _get_liblinear_solver_type("ovr", "l2", self.loss, self._is_dual)
        weights = example_weights(sample_weight, y)
        task = {
            "kernel": "linear",
            "formulation": f"epsilon_svr(C={float(self.C)!r}, epsilon={float(self.epsilon)!r})",
            "solver": self._solver(),
            "targets": y.astype(np.float64),
            "weights": weights,
            "order": None,
            "names": None,
            "tolerance": float(self.tol),
            "memory": 1 << 30,
            "max_iterations": None,
            "threads": threads(self.n_jobs),
            "probabilities": None,
        }
        self._plain = not hasattr(self, "feature_names_in_")
        self._model, report = self._train(X, task)
        weights_, offsets = self._model.weights
        self.coef_ = weights_.ravel() + 0.0
        self.intercept_ = -offsets + 0.0 if self.fit_intercept else 0.0
        self._set_report(report, len(y) if weights is None else int(np.count_nonzero(weights)))
        return self

    def predict(self, X):
        """Values of the rows of X."""
        check_is_fitted(self)
        return self._query("answers", X)

    def _labels(self, answers):
        return answers


def _class_factors(class_weight, classes, y, sample_weight):
    if class_weight == "balanced" and sample_weight is not None:
        try:
            return compute_class_weight(
                class_weight, classes=classes, y=y, sample_weight=np.asarray(sample_weight)
            )
        except TypeError:
            pass  # scikit-learn before 1.8 counts rows only
    return compute_class_weight(class_weight, classes=classes, y=y)
