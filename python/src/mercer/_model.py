"""Fitted models: loaded from files, converted from scikit-learn, or accelerated."""

from __future__ import annotations

import json
import os

import numpy as np
import scipy.sparse as sp
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_array

from . import _mercer, _html, _rounding, _preprocessing
from ._comparison import some
from ._estimator import FittedEstimator
from ._labels import labels_of
from ._query import QueryMixin
from ._rows import FEW, FLOATS, checked, pack, quick, threads
from ._updates import ModelUpdateMixin
from .errors import ConversionError, MercerError

__all__ = ["Model", "load"]


class Model(ModelUpdateMixin, QueryMixin, FittedEstimator):
    """A fitted machine: what ``load``, ``from_sklearn`` and ``accelerate`` return.

    It is an estimator of scikit-learn that is fitted already: scorers, pipelines, inspection and calibration take it, and a
    clone of it is as fitted as it is.

    Attributes
    ----------
    classes_ : ndarray
        The sorted labels; classifiers only.
    n_features_in_, feature_names_in_
        Number and names of the columns, where known; names are compared where rows have some.
    preprocessing_ : list
        Steps of a pipeline that run in Python before the machine; scalers are part of the machine.
    plan : str
        How queries are answered: ``exact``, or a cascade of stages, cheap ones first, that ends with the exact one.
    comparison_ : dict
        Times per row of this model and of the estimator that ``accelerate`` made it from, in batches and one query at a
        time, on the sample; ``kept`` is ``"source"`` where that estimator is the faster one and ``predict`` and
        ``decision_function`` use its own arithmetic. None without a sample.
    tuning_ : dict
        Report of ``accelerate`` or ``tune``: candidates, timings, validation, with the keys of ``mercer tune --json``; None if
        the plan was not tuned.
    verification_ : dict
        Report of ``verify``; only after it.
    training_report_ : dict
        Report of ``update`` or ``forget``; only after one of them.
    compression_ : dict
        Report of ``compress``: sizes and errors, with the keys of ``mercer compress --json``; None if the machine
        was not compressed.

    Examples
    --------
    >>> import mercer
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mercer.from_sklearn(SVC().fit(X, y))
    >>> model.plan
    'exact'
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(self, compiled, *, classes=None, kernel=None, fitted_rows=None, **options):
        self._model = compiled
        self.preprocessing_ = []
        # The estimator whose own arithmetic answers, where it is faster.
        self._source, self.comparison_ = None, None
        self._kernel, self._fitted_rows = kernel, fitted_rows
        self.compression_ = None
        self.decision_function_shape = options.pop("decision_function_shape", "ovr")
        self.break_ties = options.pop("break_ties", False)
        self.n_jobs = options.pop("n_jobs", None)
        self.tolerance = options.pop("tolerance", None)
        if options:
            raise TypeError(f"unknown options: {', '.join(options)}")
        self.n_features_in_ = compiled.features
        if compiled.names is not None:
            self.feature_names_in_ = np.asarray(compiled.names, dtype=object)
        if compiled.classes:
            names = compiled.classes if classes is None else classes
            self._by_position = labels_of(names)
            self.classes_, self._rank = np.unique(self._by_position, return_inverse=True)

    @property
    def plan(self) -> str:
        return self._model.plan

    @property
    def verification(self) -> str:
        """How far the plan is believed: ``exact`` (there is none), ``fitted`` (in this process), ``known`` (fitted or verified by
        this user before), ``verified`` (when it was loaded), ``not verified`` (some stages are left out) or ``trusted``."""
        return self._model.verification

    def verify(self, X_sample=None, y_sample=None):
        """Verifies the plan and the prediction sets of a model that comes from elsewhere, and remembers the result for this user.

        Parameters
        ----------
        X_sample : array-like or sparse matrix, optional
            Queries like those of later use, unknown to whoever made the file: the calibration is tested on them.
        y_sample : array-like, optional
            Their targets: prediction sets are tested on both. They hold if they cover as many of these rows as it takes to
            promise their coverage; of correct sets about every second test says no, and ``conformalize`` calibrates them then.

        Returns
        -------
        Model
            The same machine with all stages that are verified, and prediction sets that hold; ``verification_`` has the report.

        Raises
        ------
        PlanError
            If a constant that a certificate rests on, or the calibration, is wrong.
        """
        sample = None if X_sample is None else self._prepare_rows(X_sample)
        if y_sample is not None and sample is None:
            raise ValueError("y_sample needs X_sample: the rows that have these targets")
        targets = None if y_sample is None else self._targets(y_sample)
        compiled, report = self._model.verify(sample, targets, self._threads())
        return self._with_compiled(compiled, verification_=json.loads(report))

    @property
    def kernel(self) -> str:
        return self._model.kernel

    @property
    def n_support_(self) -> int:
        """Number of distinct support vectors."""
        return self._model.supports

    def _with_compiled(self, compiled, **changes):
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, "_model": compiled, "_source": None, "comparison_": None, **changes}
        return other

    def _behind(self, steps, source):
        """The same machine behind the steps of a pipeline, for the rows of ``source``."""
        compiled, before = self._model, list(steps)
        if self._kernel is None and self.kernel != "precomputed":
            compiled, before = _preprocessing.fold(compiled, before)
        other = self._with_compiled(compiled, preprocessing_=before)
        other._set_features(source)
        names = getattr(other, "feature_names_in_", None)
        if names is not None and not before and len(names) == compiled.features:
            other._model = compiled.with_names([str(name) for name in names])
        return other

    def with_plan(self, plan, X_sample=None, *, seconds=None):
        """The same machine under another plan, such as ``cascade(low_precision, exact)``."""
        sample = None if X_sample is None else self._prepare_rows(X_sample)
        return self._with_compiled(self._model.with_plan(plan, sample, self._threads(), seconds))

    def _conformalized(self, compiled):
        return self._with_compiled(compiled)

    def _of_update(self, compiled, report):
        """The model of an update, whose classes may be others."""
        options = {name: getattr(self, name) for name in ("decision_function_shape", "break_ties", "n_jobs")}
        other = type(self)(compiled, **options)
        other.preprocessing_ = self.preprocessing_
        other.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            other.feature_names_in_ = self.feature_names_in_
        other.training_report_ = report
        return other

    def _tuned(self, compiled, tolerance):
        return self._with_compiled(compiled, tolerance=tolerance)

    def predict(self, X):
        """Labels, values, or 1 for inliers and -1 for outliers, as the contract of the plan promises."""
        if self._source is not None:
            return self._source.predict(X)
        if self.break_ties and len(self.classes_) > 2:
            return self.classes_[np.argmax(self.decision_function(X), axis=1)]
        if self.tolerance is not None:
            return self.decide(X, tolerance=self.tolerance)["label"]
        return self._labels(self._query("answers", X))

    def decision_function(self, X):
        """Exact scores in scikit-learn's shape and signs, whatever the plan."""
        if self._source is not None and hasattr(self._source, "decision_function"):
            return self._source.decision_function(X)
        scores = self._query("scores", X)
        if self._model.output in ("value", "novelty"):
            return scores.ravel()
        if scores.shape[1] == 1:
            sign = 1.0 if self._rank[0] == 1 else -1.0
            return sign * scores.ravel()
        classes = len(self.classes_)
        position = np.argsort(self._rank)
        if self._model.output == "one_vs_rest":
            return scores[:, position]
        columns, signs = _pairwise_columns(position)
        scores = scores[:, columns] * signs
        if self.decision_function_shape == "ovr":
            return _ovr_decision_function(scores < 0, -scores, classes)
        return scores

    def _has_probabilities(self):
        return self._model.sigmoids is not None

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Class probabilities, one column per class, from the sigmoids of the source."""
        return self._query("probabilities", X)[:, np.argsort(self._rank)]

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """Logarithms of the class probabilities."""
        return np.log(self.predict_proba(X))

    def compare(self, source, X):
        """Compares answers with those of the estimator this machine was made from.

        Returns
        -------
        dict
            ``rows``; ``equal`` labels; ``within_rounding``, labels that differ where a score is smaller
            than the rounding error of the source's own evaluation; ``different``, all others. For
            regressions ``largest``, the largest difference relative to the largest value.
        """
        mine, reference = self.predict(X), np.asarray(source.predict(X))
        if self._model.output == "value":
            largest = np.max(np.abs(mine - reference), initial=0.0)
            size = max(np.max(np.abs(reference), initial=0.0), np.finfo(float).tiny)
            return {"rows": len(mine), "largest": float(largest / size)}
        differ = np.flatnonzero(mine != reference)
        within = 0
        if len(differ):
            rows = some(X, differ)
            scores = np.abs(self._query("scores", rows))
            bounds = _rounding.bound(source, rows)
            within = int(np.sum(np.any(scores <= bounds[:, None], axis=1)))
        return {
            "rows": len(mine),
            "equal": len(mine) - len(differ),
            "within_rounding": within,
            "different": len(differ) - within,
        }

    @property
    def _is_plain(self):
        """Whether rows need no preprocessing in Python."""
        return not self.preprocessing_ and self._kernel is None

    def _compiled(self):
        return self._model

    def _threads(self):
        return threads(self.n_jobs)

    def _labels(self, answers):
        if self._model.output == "novelty":
            return answers.astype(np.intp, copy=False)
        if self._model.output == "value":
            return answers
        return self._by_position[answers]

    def _prepare_rows(self, X):
        self._check_names(X)
        for step in self.preprocessing_:
            X = step.transform(X)
        if self._kernel is not None:
            values = self._kernel(X, self._fitted_rows)
            return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
        return pack(check_array(checked(X), accept_sparse="csr", dtype=FLOATS, order=None))

    def _query(self, method, X):
        rows = quick(X) if self._is_plain else None
        if rows is not None:
            try:
                count = 1 if X.shape[0] <= FEW else threads(self.n_jobs)
                return getattr(self._model, method)(rows, count)
            except (MercerError, TypeError):
                check_array(X, accept_sparse="csr")  # raises scikit-learn's message, if it has one
        return getattr(self._model, method)(self._prepare_rows(X), threads(self.n_jobs))

    def _as_model(self):
        return self

    def _saveable_machine(self):
        if self._kernel is not None:
            raise ConversionError("a callable kernel stays in Python; pickle this model instead", "Kernel")
        return self._model

    def _saveable(self):
        """The compiled model, unless steps in Python belong to it."""
        if self.preprocessing_:
            raise _preprocessing.refusal(self.preprocessing_)
        return self._saveable_machine()

    def __repr__(self):
        steps = "".join(f"{type(step).__name__} → " for step in self.preprocessing_)
        scaled = "" if self._model.scaling is None else "scaling → "
        what = f"{len(self.classes_)} classes" if hasattr(self, "classes_") else self._model.output
        answers = f"plan {self.plan}" if self._source is None else f"answers of {type(self._source).__name__}"
        return f"Model({steps}{scaled}{self.kernel}, {what}, {self.n_support_} supports, {answers})"

    def _repr_html_(self):
        rows = [("kernel", self.kernel), ("supports", self.n_support_), ("plan", self.plan)]
        if self._model.scaling is not None:
            rows.append(("scaling of rows", self._model.scaling))
        if self.preprocessing_:
            names = ", ".join(type(step).__name__ for step in self.preprocessing_)
            rows.append(("before it, in Python", names))
        if self.comparison_ is not None:
            rows.append(("compared", self.comparison_["reason"]))
        if self.compression_ is not None:
            report = self.compression_
            size, error = report["before"], report["weight_error"]["relative"]
            text = f"from {size} supports, by {report['method']}, |W - W~| = {error:.2e} |W|"
            rows.append(("compressed", text))
        if hasattr(self, "classes_"):
            rows.insert(0, ("classes", ", ".join(map(str, self.classes_))))
        return _html.page("mercer.Model", rows, self.tuning_)

    def _repr_mimebundle_(self, **kwargs):
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def load(path, *, n_jobs=None, trust_plan=False) -> Model:
    """Reads a model file: our own, LIBSVM or LIBLINEAR text, or an ONNX SVM.

    The plan of a file from elsewhere is verified; stages that would take long to verify, or that rest on a calibration,
    are left out with a warning until ``Model.verify`` or ``mercer verify`` has verified them. ``trust_plan=True`` believes the
    plan as it is: only for files whose maker you trust.

    Examples
    --------
    >>> import mercer, os, tempfile
    >>> from mercer.svm import SVC
    >>> svc = SVC().fit([[-1.0], [-2.0], [1.0], [2.0]], ["minus", "minus", "plus", "plus"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "signs.mercer")
    ...     svc.save(path)
    ...     print(mercer.load(path).predict([[3.0]])[0])
    plus
    """
    return Model(_mercer.Model.load(os.fspath(path), trust_plan), n_jobs=n_jobs)


def _pairwise_columns(position):
    """For each pair of classes in sorted order: the column of its one-vs-one score, and the sign."""
    classes = len(position)
    number = {}
    for first in range(classes):
        for second in range(first + 1, classes):
            number[first, second] = len(number)
    columns, signs = [], []
    for i in range(classes):
        for j in range(i + 1, classes):
            a, b = position[i], position[j]
            columns.append(number[min(a, b), max(a, b)])
            signs.append(1.0 if a < b else -1.0)
    return np.array(columns), np.array(signs)
