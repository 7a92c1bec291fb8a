"""Methods of every fitted machine beyond ``predict``: decide, tune, compress, explain, save and export."""

from __future__ import annotations

import json
import os

import numpy as np

from . import _mercer
from ._attribution import attribute
from ._labels import check_stored

CERTAINTIES = np.array(["unsettled", "calibrated", "certified", "exact"])


class QueryMixin:
    """Decisions, explanations and files, for estimators and models.

    A subclass provides its compiled model (``_compiled``), the conversion of input rows (``_prepare_rows``) and of
    answers to labels (``_labels``), and the number of threads (``_threads``).
    """

    def decide(self, X, *, budget=None, tolerance=None, require=None, threshold=None):
        """Decisions with their ranges, certainties and costs.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features)
        budget : int, optional
            Maximum number of multiply-adds per query; a query that needs more is ``unsettled``. That of the tuned
            model by default.
        tolerance : float, optional
            For regression: a value is settled once it is proved to lie within this distance of the exact one.
        require : {"certified"}, optional
            Queries that exceed their budget are evaluated exactly instead.
        threshold : float, optional
            For two classes and novelty: what the score (that of ``low`` and ``high``) is compared with in place of 0.
            Answers are then proved or exact, never calibrated.

        Returns
        -------
        ndarray of shape (n_queries,)
            A structured array with the fields ``label``, ``low``, ``high`` (a range that contains the score, or
            with several classes the margin of the winner), ``certainty`` and ``cost`` in multiply-adds.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.svm import SVC
        >>> X = np.array([[-2.0, -1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
        >>> svc = SVC().fit(X, ["left", "left", "right", "right"])
        >>> decisions = svc.decide([[-3.0, 0.0], [3.0, 1.0]])
        >>> [str(label) for label in decisions["label"]]
        ['left', 'right']
        >>> [str(word) for word in decisions["certainty"]]
        ['exact', 'exact']
        """
        model = self._compiled()
        options = _query_options(budget, tolerance, require, threshold)
        found = model.decide(self._prepare_rows(X), options, self._threads())
        label = self._labels(found["answer"])
        kinds = [
            ("label", label.dtype),
            ("low", np.float64),
            ("high", np.float64),
            ("certainty", CERTAINTIES.dtype),
            ("cost", np.uint64),
        ]
        decisions = np.empty(len(label), dtype=kinds)
        decisions["label"] = label
        decisions["low"], decisions["high"] = found["low"], found["high"]
        decisions["certainty"] = CERTAINTIES[found["certainty"]]
        decisions["cost"] = found["cost"]
        return decisions

    def tune(
        self,
        X_sample,
        *,
        y_sample=None,
        contract="certified",
        aim="throughput",
        budget_us=None,
        unsettled=0.01,
        tolerance=None,
        training=None,
        seconds=30.0,
        seed=1,
        trust_sample=False,
    ):
        """Finds the fastest plan on this computer that satisfies a contract.

        The sample is split into disjoint parts: stages are fitted on one, plans are timed on another, and the chosen
        plan is validated once on the last. An estimator is changed in place; a ``Model`` is not changed, and a new one
        is returned.

        Parameters
        ----------
        X_sample : array-like or sparse matrix of shape (n_queries, n_features)
            Queries from the distribution expected in use; no training rows.
        y_sample : array-like of shape (n_queries,), optional
            Their targets. Where equal rows are common they tell training rows among the sample from natural repeats.
        contract : str
            ``"certified"``: the same labels, proved. ``"calibrated(eps=1e-3, delta=0.05)"``: with 95 %
            confidence, at most one query in a thousand from the distribution of the sample disagrees with the exact
            machine. ``"exact"``: every query is evaluated in full.
        aim : {"throughput", "latency"}
            What to optimise: batches on all threads, or one query at a time.
        budget_us : float, optional
            Maximum microseconds per query, which later queries obey; ``tuning_["budget"]`` gives the number of
            multiply-adds that they are limited to, by the times measured here.
        unsettled : float
            Share of the queries that the budget may leave unsettled; if no plan settles more, a ``ValueError`` says
            what budget suffices.
        tolerance : float, optional
            Values of a regression may be off by this much, proved.
        training : array-like, optional
            Training rows, for stages that are fitted to them.
        seconds : float
            Time limit of the search; it then keeps the best plan so far.
        seed : int
            Seed of the split of the sample.
        trust_sample : bool
            Accept a sample that repeats training rows: for data in which equal rows are common.

        Returns
        -------
        self or Model
            Its ``tuning_`` reports the candidates, their timings, the validation, and the reason for the choice.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from mercer.svm import SVC
        >>> X, y = load_digits(return_X_y=True)
        >>> svc = SVC().fit(X[:900], y[:900]).tune(X[900:1500])
        >>> svc.tuning_["final_test"]["disagreements"]
        0
        """
        sample = self._prepare_rows(X_sample)
        options = {
            "targets": None if y_sample is None else self._targets(y_sample),
            "contract": contract,
            "aim": aim,
            "budget_us": None if budget_us is None else float(budget_us),
            "unsettled": float(unsettled),
            "tolerance": None if tolerance is None else float(tolerance),
            "training": None if training is None else self._prepare_rows(training),
            "seconds": float(seconds),
            "seed": int(seed),
            "trust_sample": bool(trust_sample),
        }
        found = self._compiled().tune(sample, options, self._threads())
        return self._tuned(found, tolerance)

    def _tuned(self, compiled, tolerance):
        self._model = compiled
        return self

    def compress(
        self,
        method="greedy",
        *,
        size=None,
        error=None,
        disagreement=None,
        certified=None,
        X_sample=None,
        training=None,
        tolerance=None,
        keep_vectors=False,
    ):
        """A smaller machine that approximates this one, with a report of the error.

        Parameters
        ----------
        method : str
            ``"greedy"``, ``"moved"``, ``"quadratic"``, ``"exact_basis"``, ``"regression"``, ``"primal"`` or
            ``"lasso"``, with optional parameters: ``"moved(iterations=200)"``.
        size : int, optional
            Number of vectors.
        error : float, optional
            The fewest vectors with ``|W - W~| <= error |W|``.
        disagreement : float, optional
            The fewest vectors with at most this share of disagreements on ``X_sample``.
        certified : float, optional
            The fewest vectors that prove the label of at least this share of ``X_sample``.
        X_sample : array-like or sparse matrix, optional
            Queries from the distribution expected in use; disagreements are counted on them.
        training : array-like or sparse matrix, optional
            Training rows, for methods that learn from them.
        tolerance : float, optional
            Regression values that differ by at most this count as equal.
        keep_vectors : bool
            Keep support vectors for linear machines too, instead of one weight vector.

        Returns
        -------
        Model
            An independent machine; ``compression_`` reports its distance from this one.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from mercer.svm import SVC
        >>> X, y = load_digits(return_X_y=True)
        >>> small = SVC().fit(X[:900], y[:900]).compress(size=100, X_sample=X[900:1200])
        >>> small.n_support_, small.compression_["agreement"]["queries"]
        (100, 300)
        """
        model = self._as_model()
        options = {
            "method": method,
            "size": None if size is None else int(size),
            "error": None if error is None else float(error),
            "disagreement": None if disagreement is None else float(disagreement),
            "certified": None if certified is None else float(certified),
            "sample": None if X_sample is None else self._prepare_rows(X_sample),
            "training": None if training is None else self._prepare_rows(training),
            "tolerance": None if tolerance is None else float(tolerance),
            "keep_vectors": bool(keep_vectors),
        }
        small, report = model._saveable_machine().compress(options, self._threads())
        return model._with_compiled(small, compression_=json.loads(report))

    def _as_model(self):
        from ._convert import from_sklearn

        return from_sklearn(self, n_jobs=self.n_jobs)

    @property
    def tuning_(self):
        """The tuning report, with the keys of ``mercer tune --json``; None if the plan was not tuned."""
        report = self._compiled().tuning
        return None if report is None else json.loads(report)

    def explain(self, x, *, budget=None, tolerance=None, require=None):
        """How one query is answered, step by step.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features)
        budget, tolerance, require
            As for :meth:`decide`.

        Returns
        -------
        dict
            The decision, the stages of the plan, the stage that answered it (``answered_by``), and the
            range of the score after each step.
        """
        if getattr(x, "ndim", None) == 1 or (isinstance(x, (list, tuple)) and np.ndim(x) == 1):
            x = [x] if isinstance(x, (list, tuple)) else x.reshape(1, -1)
        explanation = self._compiled().explain(self._prepare_rows(x), _query_options(budget, tolerance, require))
        label = self._labels(explanation.pop("answer"))[0]
        explanation["certainty"] = str(CERTAINTIES[explanation["certainty"]])
        return {"label": label, **explanation}

    def attribute(self, X, background, *, explained=None):
        """How much each column moved the score of each row away from its mean over background rows.

        The contributions are Shapley values with the interventional value function: a column that is not in the
        coalition has the values of the background rows. They are exact but for rounding, which ``low`` and ``high`` bound:
        nothing is sampled. Kernels: linear, sums over columns, ``rbf``, ``laplacian``, exponentials of sums, and
        polynomials of degree at most 16.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        background : array-like or sparse matrix of shape (n_background, n_features)
            Rows to compare with, such as a hundred training rows; the time grows with their number.
        explained : label or pair of labels, optional
            The class whose score is explained; with more than two classes and one-vs-one (every ``SVC``) a pair: the class
            and the one it is compared with. By default the score that decides: of two classes the one of
            ``decision_function``, of several that of the winner against the runner-up.

        Returns
        -------
        Attributions
            ``values``, ``low`` and ``high`` of shape (n_rows, n_features), ``base_values`` and ``scores`` of shape (n_rows,),
            ``explained``, a text for each row. ``values.sum(axis=1) + base_values`` is ``scores``, up to rounding.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.svm import SVR
        >>> X = np.array([[0.0, 0.0], [1.0, 5.0], [2.0, 1.0], [3.0, 4.0]])
        >>> svr = SVR(kernel="linear", C=100, epsilon=0.01).fit(X, 2 * X[:, 0])
        >>> svr.attribute([[3.0, 4.0]], background=X).values.round(1) + 0.0
        array([[3., 0.]])
        """
        return attribute(self, X, background, explained)

    def conformalize(self, X, y, *, coverage=0.9):
        """Calibrates prediction sets (split-conformal prediction) on rows that the machine and its plan have not seen.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows like those of later use: neither training rows nor rows of the sample of ``tune``.
        y : array-like of shape (n_rows,)
            Their labels or values.
        coverage : float
            The probability with which a set holds the true target, over the draw of these rows and of the query.

        Returns
        -------
        self or Model
            An estimator is changed in place, a ``Model`` is not; ``conformal_`` has coverage, rows and quantile.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from mercer.svm import SVC
        >>> X, y = load_digits(return_X_y=True)
        >>> svc = SVC(C=0.1).fit(X[:600], y[:600]).conformalize(X[600:1200], y[600:1200], coverage=0.95)
        >>> sets = svc.predict_set(X[1200:])
        >>> sets.shape == (597, 10) and bool(sets.any(axis=1).all())
        True
        """
        rows = self._prepare_rows(X)
        found = self._compiled().conformalize(rows, self._targets(y), float(coverage))
        return self._conformalized(found)

    def _targets(self, y):
        """Positions of classes, or values, as the machine takes them."""
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(f"y has {y.ndim} dimensions; it must have one")
        names = getattr(self, "_by_position", getattr(self, "classes_", None))
        return [float(target) for target in (y if names is None else _positions(names, y))]

    def _conformalized(self, compiled):
        self._model = compiled
        return self

    @property
    def conformal_(self):
        """Coverage, rows and quantile of the prediction sets; None if they were not calibrated."""
        found = self._compiled().conformal
        return None if found is None else dict(zip(("coverage", "rows", "quantile"), found))

    def predict_set(self, X, *, allow_empty=False, return_certainty=False):
        """Prediction sets of a classifier: a table of booleans, one column for each of ``classes_``. Needs ``conformalize`` first.

        Membership is decided by proved ranges where they suffice, else by exact scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            The rows.
        allow_empty : bool
            Whether a row that fits no class well enough gets an empty set. The coverage is then the one asked; otherwise the
            predicted label always belongs to its set, and a classifier that is right more often covers more.
        return_certainty : bool
            Also return how each set was decided: ``"certified"`` (by ranges) or ``"exact"``.

        Returns
        -------
        array of shape (n_rows, n_classes), or that and an array of shape (n_rows,)
        """
        rows = self._prepare_rows(X)
        found = self._compiled().predict_sets(rows, None, self._threads(), bool(allow_empty))
        if "members" not in found:
            raise ValueError("a regression has no sets of labels; predict_interval gives intervals")
        names = getattr(self, "_by_position", None)
        sets = found["members"] if names is None else found["members"][:, np.argsort(self._rank)]
        return (sets, CERTAINTIES[found["certainty"]]) if return_certainty else sets

    def predict_interval(self, X, *, tolerance=None):
        """Prediction intervals of a regression: both ends, an array of shape (n_rows, 2). Needs ``conformalize`` first.

        ``tolerance`` lets the plan stop once a value is proved to be that close; intervals are wider by as much at most.
        """
        found = self._compiled().predict_sets(self._prepare_rows(X), tolerance, self._threads())
        if "interval" not in found:
            raise ValueError("a classifier has no intervals; predict_set gives sets of labels")
        return found["interval"]

    def save(self, path):
        """Writes the machine with its plan to a file that ``mercer.load`` and the command ``mercer`` read.

        The file holds the support vectors, which are rows of the training data.
        """
        self._export("mercer", path)

    def to_onnx(self, path=None):
        """The machine as an ONNX model: bytes, or a file if a path is given. ONNX stores f32 only."""
        return self._export("onnx", path)

    def to_libsvm(self, path=None):
        """The machine as LIBSVM model text: bytes, or a file if a path is given."""
        return self._export("libsvm", path)

    def to_c(self, path=None, *, single=False, plan=False):
        """The machine as a C source file without dependencies: bytes, or a file if a path is given.

        Parameters
        ----------
        single : bool
            Compute in ``float``.
        plan : bool
            Write the plan as well: ``mercer_answer`` of the file gives the decisions of :meth:`decide`, to the bit. A stage
            that has no C is refused by name.
        """
        if not plan:
            return self._export("c-float" if single else "c", path)
        if single:
            raise ValueError("a plan is written in its own arithmetic: single=True and plan=True exclude each other")
        return self._saveable().plan_in_c(None if path is None else os.fspath(path))

    def _export(self, format, path):
        model = self._saveable()
        if hasattr(self, "classes_") and not format.startswith("c"):
            check_stored(self.classes_, model.classes)
        if path is None:
            return model.to_bytes(format)
        model.save(os.fspath(path), format)
        return None

    def _saveable(self):
        return self._compiled()

    def __copy__(self):
        other = object.__new__(type(self))
        other.__dict__ = dict(self.__dict__)
        return other

    def __getstate__(self):
        """The attributes; the machine and its plan as the bytes of a model file, which pickle, joblib and skops keep."""
        state = dict(super().__getstate__())
        if "_model" in state:
            state["_model"] = state["_model"].to_bytes("mercer")
        return state

    def __setstate__(self, state):
        if "_model" in state:
            state = {**state, "_model": _mercer.Model.from_bytes(state["_model"])}
        super().__setstate__(state)


def _positions(names, y):
    """Positions of labels among the classes of a machine."""
    order = np.argsort(names)
    places = np.searchsorted(np.asarray(names)[order], y)
    known = order[np.minimum(places, len(order) - 1)]
    strange = np.flatnonzero(np.asarray(names)[known] != y)
    if len(strange):
        row = strange[0]
        raise ValueError(f"row {row + 1} has the label {y[row]}; the classes are {', '.join(map(str, names))}")
    return known


def _query_options(budget, tolerance, require, threshold=None):
    if require not in (None, "certified"):
        raise ValueError(f"require is {require!r}; it must be None or 'certified'")
    if budget is not None and budget < 0:
        raise ValueError(f"budget is {budget}; it must be at least 0")
    return {
        "budget": None if budget is None else int(budget),
        "tolerance": None if tolerance is None else float(tolerance),
        "require_certified": require == "certified",
        "threshold": None if threshold is None else float(threshold),
    }
