"""scikit-learn's interface of a fitted model: tags, parameters, clones, scores. Answers are in ``_model.py``."""

from __future__ import annotations

import copy

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.validation import _check_feature_names

_KINDS = {"value": "regressor", "novelty": "outlier_detector"}


class FittedEstimator(BaseEstimator):
    """An estimator that is fitted and stays as it is.

    Meta-estimators may clone and fit it, as they do with ``sklearn.frozen.FrozenEstimator``: both change nothing. A subclass
    has ``_model`` (the compiled model) and ``predict``.
    """

    @classmethod
    def _get_param_names(cls):
        return ["break_ties", "decision_function_shape", "n_jobs", "tolerance"]

    def __sklearn_clone__(self):
        return copy.copy(self)

    def __sklearn_is_fitted__(self):
        return True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = _KINDS.get(self._model.output, "classifier")
        tags.target_tags.required = False
        if tags.estimator_type == "classifier":
            tags.classifier_tags = ClassifierTags(multi_class=len(self.classes_) > 2)
        elif tags.estimator_type == "regressor":
            tags.regressor_tags = RegressorTags()
        is_given = self._model.kernel == "precomputed" and self._kernel is None
        tags.input_tags.pairwise = is_given
        tags.input_tags.sparse = not is_given and not self.preprocessing_
        tags.input_tags.positive_only = False
        return tags

    def fit(self, X, y=None, **params):
        """Returns the model as it is: it was fitted before. To train again, fit the estimator it was made from."""
        return self

    def score(self, X, y, sample_weight=None):
        """Accuracy, or R² of a regression."""
        measure = r2_score if self._model.output == "value" else accuracy_score
        return measure(y, self.predict(X), sample_weight=sample_weight)

    def _set_features(self, source):
        """Takes the number and the names of the columns from the estimator that this model was made from."""
        count = getattr(source, "n_features_in_", None)
        self.n_features_in_ = self._model.features if count is None else count
        names = getattr(source, "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _check_names(self, X):
        """Refuses a table whose columns have other names; rows without names are taken in their order."""
        if hasattr(X, "columns") and hasattr(self, "feature_names_in_"):
            _check_feature_names(self, X, reset=False)
