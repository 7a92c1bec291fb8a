"""What every fitted machine can be asked beyond ``predict``."""

from __future__ import annotations

import json
import os

import numpy as np

CERTAINTIES = np.array(["unsettled", "calibrated", "certified", "exact"])


class QueryOptions:
    """Decisions, explanations and files, for estimators and models alike.

    A subclass says what its compiled model is (``_compiled``), how rows reach it (``_ready``), what the
    labels of its answers are (``_labels``), and how many threads work (``_threads``).
    """

    def decide(self, X, *, budget=None, tolerance=None, require=None):
        """Decisions with their ranges, certainties and costs.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features)
        budget : int, optional
            Most multiply-adds that one query may cost; a query that needs more is ``unsettled``.
        tolerance : float, optional
            Half-width at which the value of a regression is settled.
        require : {"certified"}, optional
            Queries whose budget does not suffice are answered exactly instead.

        Returns
        -------
        ndarray of shape (n_queries,)
            Structured, with the fields ``label``, ``low``, ``high`` (a range that contains the score, or
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
        demand = _demand(budget, tolerance, require)
        found = model.decide(self._ready(X), demand, self._threads())
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
        contract="certified",
        aim="throughput",
        budget_us=None,
        tolerance=None,
        training=None,
        seconds=30.0,
        seed=1,
        trust_sample=False,
    ):
        """Finds the fastest plan on this computer that honours a contract.

        The sample is cut into parts that never meet: stages are fitted to one, plans are measured on another, and the
        plan that is kept is tested once on the last. The estimator itself takes the plan; a ``Model`` stays as it is and
        a new one is returned.

        Parameters
        ----------
        X_sample : array-like or sparse matrix of shape (n_queries, n_features)
            Queries such as will be asked, none of them a training row.
        contract : str
            ``"certified"``: the same labels, proved. ``"calibrated(eps=1e-3, delta=0.05)"``: at most one in a thousand
            gets another label, with 95 % confidence, for queries like the sample's. ``"exact"``: evaluated in full.
        aim : {"throughput", "latency"}
            What is to be fast: batches on all threads, or one query at a time.
        budget_us : float, optional
            Most microseconds that one query may take; ``tuning_["budget"]`` says how many multiply-adds that is.
        tolerance : float, optional
            Values of a regression may be off by this much, proved.
        training : array-like, optional
            Training rows, to learn from where something is estimated.
        seconds : float
            When the search ends with the best plan so far.
        seed : int
            Decides how the sample is cut.
        trust_sample : bool
            The sample may repeat training rows: for data in which equal rows are common.

        Returns
        -------
        self or Model
            Its ``tuning_`` says what was tried, measured and tested, and why this plan was kept.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from mercer.svm import SVC
        >>> X, y = load_digits(return_X_y=True)
        >>> svc = SVC().fit(X[:900], y[:900]).tune(X[900:1500])
        >>> svc.tuning_["verification"]["disagreements"]
        0
        """
        wish = {
            "contract": contract,
            "aim": aim,
            "budget_us": None if budget_us is None else float(budget_us),
            "tolerance": None if tolerance is None else float(tolerance),
            "training": None if training is None else self._ready(training),
            "seconds": float(seconds),
            "seed": int(seed),
            "trust_sample": bool(trust_sample),
        }
        found = self._compiled().tune(self._ready(X_sample), wish, self._threads())
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
        """A smaller machine that stands for this one, and how far it is from it.

        Parameters
        ----------
        method : str
            ``"greedy"``, ``"moved"``, ``"quadratic"``, ``"exact_basis"``, ``"regression"``, ``"primal"`` or
            ``"lasso"``, with parameters where wanted: ``"moved(iterations=200)"``.
        size : int, optional
            This many vectors.
        error : float, optional
            The fewest vectors with ``|W - W~| <= error |W|``.
        disagreement : float, optional
            The fewest vectors that give at most this share of ``X_sample`` another label.
        certified : float, optional
            The fewest vectors that prove the label of at least this share of ``X_sample``.
        X_sample : array-like or sparse matrix, optional
            Queries such as will be asked; labels are counted on them.
        training : array-like or sparse matrix, optional
            Training rows, for methods that learn from them.
        tolerance : float, optional
            How far a value of a regression may be off to count as the same.
        keep_vectors : bool
            Linear machines keep vectors instead of becoming their weights.

        Returns
        -------
        Model
            Its exact answers are exact for itself; ``compression_`` says how far it is from this machine.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from mercer.svm import SVC
        >>> X, y = load_digits(return_X_y=True)
        >>> small = SVC().fit(X[:900], y[:900]).compress(size=100, X_sample=X[900:1200])
        >>> small.n_support_, small.compression_["judged"]["queries"]
        (100, 300)
        """
        model = self._as_model()
        wanted = {
            "method": method,
            "size": None if size is None else int(size),
            "error": None if error is None else float(error),
            "disagreement": None if disagreement is None else float(disagreement),
            "certified": None if certified is None else float(certified),
            "sample": None if X_sample is None else self._ready(X_sample),
            "training": None if training is None else self._ready(training),
            "tolerance": None if tolerance is None else float(tolerance),
            "keep_vectors": bool(keep_vectors),
        }
        small, told = model._saveable_machine().compress(wanted, self._threads())
        return model._under(small, compression_=json.loads(told))

    def _as_model(self):
        from ._convert import from_sklearn

        return from_sklearn(self, n_jobs=self.n_jobs)

    @property
    def tuning_(self):
        """How the plan was found: plans tried, times, the test and the reason; None if nobody looked for one."""
        told = self._compiled().tuning
        return None if told is None else json.loads(told)

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
            The decision, the stages of the plan, which one closed the query, and what was known after
            each step.
        """
        if getattr(x, "ndim", None) == 1 or (isinstance(x, (list, tuple)) and np.ndim(x) == 1):
            x = [x] if isinstance(x, (list, tuple)) else x.reshape(1, -1)
        told = self._compiled().explain(self._ready(x), _demand(budget, tolerance, require))
        label = self._labels(told.pop("answer"))[0]
        told["certainty"] = str(CERTAINTIES[told["certainty"]])
        return {"label": label, **told}

    def save(self, path):
        """Writes the machine with its plan to a file that ``mercer.load`` and the command ``mercer`` read.

        The file holds the support vectors, which are rows of the training data.
        """
        self._saveable().save(os.fspath(path), "mercer")

    def to_onnx(self, path=None):
        """The machine as an ONNX model: bytes, or a file if a path is given. ONNX holds singles only."""
        return self._export("onnx", path)

    def to_libsvm(self, path=None):
        """The machine as LIBSVM model text: bytes, or a file if a path is given."""
        return self._export("libsvm", path)

    def to_c(self, path=None, *, single=False):
        """The machine as a C source file without dependencies: bytes, or a file if a path is given."""
        return self._export("c-float" if single else "c", path)

    def _export(self, format, path):
        model = self._saveable()
        if path is None:
            return model.to_bytes(format)
        model.save(os.fspath(path), format)
        return None

    def _saveable(self):
        return self._compiled()


def _demand(budget, tolerance, require):
    if require not in (None, "certified"):
        raise ValueError(f"require is {require!r}; it must be None or 'certified'")
    if budget is not None and budget < 0:
        raise ValueError(f"budget is {budget}; it must be at least 0")
    return {
        "budget": None if budget is None else int(budget),
        "tolerance": None if tolerance is None else float(tolerance),
        "require_certified": require == "certified",
    }
