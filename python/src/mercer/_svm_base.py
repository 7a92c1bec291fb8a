"""Base classes of the estimators in ``mercer.svm``: fit and predict with scikit-learn's parameters and attributes."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
import sklearn.svm as theirs
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Hidden, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from ._callbacks import observed
from ._labels import names_of
from ._quick import are_plain, plain_classes
from ._training import ONE_CLASS_LEFT, TrainingMixin, kernel_text, example_weights
from ._rows import FLOATS, checked, pack, threads
from ._updates import UpdateMixin


#: Whether scikit-learn's own class still has the parameter, which it drops in 1.11; ours keep it.
_IS_DEPRECATED = "probability" in theirs.SVC._parameter_constraints
#: What the parameter may be.
PROBABILITY = {"probability": ["boolean", Hidden(StrOptions({"deprecated"}))]}


class SvmBase(UpdateMixin, TrainingMixin):
    """``fit`` and ``predict`` for the subclasses of scikit-learn's estimators."""

    def _formulation(self):
        raise NotImplementedError

    @observed
    def fit(self, X, y, sample_weight=None, *, keep_rows=False):
        """Fits the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            float64 and float32 arrays are used as they are, sparse rows are not densified. For
            ``kernel="precomputed"`` the kernel values of all pairs of samples.
        y : array-like of shape (n_samples,)
            Labels, or values for a regression.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C; samples of weight zero or less are left out.
        keep_rows : bool
            Keep the rows with the estimator and the files that ``save`` writes, so that ``update`` and ``forget`` need no
            ``original``. Protect such a file like the data.

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
        self.__dict__.pop("_kept_rows", None)
        self._fit_rows(X, targets, sample_weight)
        if keep_rows:
            self._keep(X, y, sample_weight)
        return self

    def _fit_rows(self, X, targets, sample_weight, earlier=None):
        """Trains on checked rows: from nothing, or from the machine that ``earlier`` gives, with its kernel."""
        factors = None
        if hasattr(self, "classes_"):
            factors = getattr(self, "class_weight_", np.ones(len(self.classes_)))
        weights = example_weights(sample_weight, targets, factors, self._one_class_left)
        if earlier is None:
            kernel, rows = self._kernel_of(X)
        else:
            self._probA, self._probB = np.empty(0), np.empty(0)
            kernel, rows = self._model.kernel, X
        order = np.argsort(targets, kind="stable") if hasattr(self, "classes_") else None
        task = {
            "kernel": kernel,
            "formulation": self._formulation(),
            "solver": None,
            "targets": targets if self._impl != "one_class" else [],
            "weights": weights,
            "order": order,
            "names": names_of(self.classes_) if hasattr(self, "classes_") else None,
            "tolerance": float(self.tol),
            "memory": int(self.cache_size * (1 << 20)),
            "max_iterations": self._steps(targets),
            "threads": threads(self.n_jobs),
            "probabilities": self._folds_seed(),
        }
        self._model, report = self._train(rows, task, earlier and earlier())
        self._set_fitted_attributes(X, report, order, targets)
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
        if self.kernel != "precomputed" and are_plain(X, y):
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            self._plain = True
            return X, y
        X, y = validate_data(self, checked(X), y, dtype=FLOATS, accept_sparse="csr")
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                "Precomputed matrix must be a square matrix."
                f" Input is a {X.shape[0]}x{X.shape[1]} matrix."
            )
        # Float arrays without feature names need only the checks of the compiled module.
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
        self._gamma, kernel = kernel_text(self, X)
        return kernel, X

    _one_class_left = ONE_CLASS_LEFT

    def _folds_seed(self):
        """The seed of the folds that probabilities are fitted on, or None."""
        if not getattr(self, "_effective_probability", False):
            return None
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _steps(self, targets):
        if self.max_iter < 0:
            return None
        classes = len(self.classes_) if hasattr(self, "classes_") else 2
        return int(self.max_iter) * (classes * (classes - 1) // 2)

    def _set_fitted_attributes(self, X, report, order, targets):
        """Sets scikit-learn's fitted attributes."""
        subproblems = report["subproblems"]
        examples = [subproblem["examples"] for subproblem in subproblems]
        support = np.unique(np.concatenate(examples)) if examples else np.empty(0, np.int64)
        indices = support if order is None else order[support]
        self.support_ = indices.astype(np.int32)
        if callable(self.kernel) or (isinstance(self.kernel, str) and self.kernel == "precomputed"):
            self.support_vectors_ = np.empty((0, 0))
        else:
            vectors = X[indices]
            self.support_vectors_ = vectors.astype(np.float64, copy=False)
        coefficients = self._coefficients(subproblems, support, indices, targets)
        self.intercept_ = np.array([-subproblem["offset"] for subproblem in subproblems]) + 0.0
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (_num_samples(X),)
        if self._sparse:
            coefficients = _compressed(coefficients)
        self._intercept_ = self.intercept_.copy()
        self._dual_coef_ = self.dual_coef_ = coefficients
        if hasattr(self, "classes_") and len(self.classes_) == 2:
            self.intercept_ = -self.intercept_ + 0.0
            self.dual_coef_ = -coefficients
        self._num_iter = np.array([subproblem["iterations"] for subproblem in subproblems], dtype=np.int32)
        self.n_iter_ = self._num_iter if hasattr(self, "classes_") else int(self._num_iter[0])
        if self._model.sigmoids is not None:
            self._probA, self._probB = map(np.array, self._model.sigmoids)
        self._set_training_report(report)

    def _coefficients(self, subproblems, support, indices, targets):
        if not hasattr(self, "classes_"):
            table = np.zeros((1, len(support)))
            only = subproblems[0]
            table[0, np.searchsorted(support, only["examples"])] = only["coefficients"]
            self._n_support = np.array([len(support), 0], dtype=np.int32)
            return table
        classes = len(self.classes_)
        class_of = targets[indices].astype(np.intp)
        self._n_support = np.bincount(class_of, minlength=classes).astype(np.int32)
        table = np.zeros((classes - 1, len(support)))
        pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
        for (first, second), subproblem in zip(pairs, subproblems):
            places = np.searchsorted(support, subproblem["examples"])
            rows = np.where(class_of[places] == first, second - 1, first)
            table[rows, places] = subproblem["coefficients"]
        return table

    def _compute_kernel(self, X):
        """Values of a callable kernel against all training rows."""
        if not callable(self.kernel):
            return X
        values = self.kernel(X, self._fitted_rows)
        if sp.issparse(values):
            values = values.toarray()
        return np.asarray(values, dtype=np.float64)

    def _prepare_rows(self, X):
        return pack(self._compute_kernel(self._validate_for_predict(X)))

    def _validate_for_predict(self, X):
        check_is_fitted(self)
        if callable(self.kernel):
            return X
        X = validate_data(self, checked(X), accept_sparse="csr", dtype=FLOATS, reset=False)
        if self.kernel == "precomputed" and X.shape[1] != self.shape_fit_[0]:
            raise ValueError(
                f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, "
                "the number of samples at training time"
            )
        vectors = self.support_vectors_
        if not self._sparse and vectors.size > 0 and self.n_support_.sum() != vectors.shape[0]:
            raise ValueError(f"The internal representation of {type(self).__name__} was altered")
        return X

    def _decision_function(self, X):
        scores = self._query("scores", X)
        if hasattr(self, "classes_") and len(self.classes_) == 2:
            return -scores.ravel()
        return scores

    def predict(self, X):
        """Predictions for the rows of X: labels, values, or 1 for inliers and -1 for outliers."""
        return self._labels(self._query("answers", X))

    def _labels(self, answers):
        return answers

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # A callable kernel must not be compared with a string.
        is_given = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise = is_given
        tags.input_tags.sparse = not is_given
        return tags


class ClassifierBase(SvmBase):
    """Classifiers: votes, ties and probabilities."""

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
        return self._labels(self._query("answers", X))

    def _labels(self, answers):
        return self.classes_[answers]

    def _has_probabilities(self):
        if self.probability == "deprecated" or not self.probability:
            raise AttributeError("predict_proba is not available when probability=False")
        return True

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Class probabilities, one column per class: sigmoids (Platt) fitted to the scores of five-fold cross-validation.

        With two classes, the predicted label always has the larger probability; several classes are combined by
        pairwise coupling.
        """
        check_is_fitted(self)
        if self._probA.size == 0:
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False"
            )
        return self._query("probabilities", X)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """Logarithms of the class probabilities."""
        return np.log(self.predict_proba(X))

    def _validate_targets(self, y):
        found = plain_classes(y) if self.class_weight is None else None
        if found is None:
            codes = super()._validate_targets(y)
        else:
            self.classes_, codes = found
            self.class_weight_ = np.ones(len(self.classes_))
        self._effective_probability = False
        if self.probability != "deprecated":
            if _IS_DEPRECATED:
                warnings.warn(
                    "The `probability` parameter was deprecated in scikit-learn 1.9 and will be removed in"
                    " version 1.11. Use `CalibratedClassifierCV(..., ensemble=False)` instead; this class keeps it.",
                    FutureWarning,
                )
            self._effective_probability = bool(self.probability)
        return codes


    if not hasattr(theirs.SVC, "probA_"):

        @property
        def probA_(self):
            """A of the sigmoid of each pair of classes."""
            return self._probA

        @property
        def probB_(self):
            """B of the sigmoid of each pair of classes."""
            return self._probB


class RegressorBase(SvmBase):
    """Regression and novelty detection."""

    def _validate_targets(self, y):
        if type(y) is np.ndarray and y.ndim == 1 and y.dtype == np.float64:
            return y
        return column_or_1d(y, warn=True).astype(np.float64, copy=False)


def _compressed(table):
    """A CSR matrix with all entries stored, as scikit-learn keeps the coefficients of sparse fits."""
    rows, columns = table.shape
    if columns == 0:
        return sp.csr_matrix(table)
    places = np.tile(np.arange(columns, dtype=np.int32), rows)
    starts = np.arange(0, rows * columns + 1, columns, dtype=np.int32)
    return sp.csr_matrix((table.ravel(), places, starts), table.shape)
