"""``update`` and ``forget``: a fitted estimator or a model learns more rows, or forgets some, without starting over."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import scipy.sparse as sp
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _mercer
from ._labels import names_of
from ._rows import FLOATS, checked, pack
from ._training import example_weights
from .errors import TrainError


class UpdateMixin:
    """Training from the machine of earlier rows; ``fit`` is in ``SvmBase``."""

    def update(
        self, X, y=None, *, original=None, sample_weight=None, original_weight=None, keep_rows=False
    ):
        """Adds rows: the machine becomes that of all rows, the objective to a millionth.

        The training starts from the coefficients of the fitted machine, which takes less time than ``fit`` on all rows where few
        are new. gamma stays as it was fitted; C, nu, epsilon and tol are those of the estimator now.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_new, n_features)
            The new rows.
        y : array-like of shape (n_new,), optional
            Their labels or values; new classes are allowed. Not used for novelty detection.
        original : (X0, y0), optional
            The rows that the estimator was fitted on, and their targets (X0 alone for novelty detection). A machine holds its
            support vectors only, and a row that is none can become one. Not needed after ``keep_rows=True``, which ``fit`` takes too.
        sample_weight, original_weight : array-like, optional
            Weights of the new and of the original rows.
        keep_rows : bool
            Keep all rows with the estimator and the files that ``save`` writes, so that later calls need no ``original``.

        Returns
        -------
        self

        Examples
        --------
        >>> from mercer.svm import SVC
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> classifier = SVC(kernel="linear").fit(X, y)
        >>> classifier.update([[1.2]], [1], original=(X, y), keep_rows=True).predict([[1.3]]).tolist()
        [1]
        >>> classifier.forget([[1.2]], [1]).training_report_["update"]["rows"]
        4
        """
        return self._change((X, y, sample_weight), None, original, original_weight, keep_rows)

    def forget(self, X, y=None, *, original=None, original_weight=None, keep_rows=False):
        """Takes rows away: the machine becomes that of the rows that are left, the objective to a millionth.

        Each row of ``X`` with its target takes away one equal original row, the first that is left; a row that is not
        there is an error, and nothing changes. The other parameters are those of ``update``.
        """
        return self._change(None, (X, y), original, original_weight, keep_rows)

    def _keep(self, X, y, sample_weight):
        """Keeps copies of the rows of a fit."""
        if callable(self.kernel) or self.kernel == "precomputed":
            raise ValueError("keep_rows=True keeps rows, and this kernel has kernel values")
        weights = None if sample_weight is None else np.maximum(np.asarray(sample_weight, dtype=np.float64), 0.0)
        if weights is not None and weights.ndim == 0:
            weights = np.full(X.shape[0], float(weights))
        self._kept_rows = (X.copy(), np.array(y), weights)

    def _saveable(self):
        """The compiled model with the kept rows."""
        compiled = super()._saveable()
        if not hasattr(self, "_kept_rows"):
            return compiled
        X, y, weights = self._kept_rows
        factors = []
        if hasattr(self, "classes_"):
            given = getattr(self, "class_weight_", np.ones(len(self.classes_)))
            names = names_of(self.classes_)
            factors = [(name, float(factor)) for name, factor in zip(names, given) if factor != 1.0]
        is_novelty = self._impl == "one_class"
        return _mercer.with_kept_rows(compiled, _labelled(pack(X), None if is_novelty else y, weights), factors)

    def _change(self, added, forgotten, original, original_weight, keep_rows):
        check_is_fitted(self)
        if callable(self.kernel) or self.kernel == "precomputed":
            raise ValueError("update and forget need rows, and this kernel has kernel values; fit again instead")
        before = dict(self.__dict__)
        try:
            return self._changed(added, forgotten, original, original_weight, keep_rows)
        except BaseException:
            # The estimator stays as it was.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _changed(self, added, forgotten, original, original_weight, keep_rows):
        is_kept = original is None
        X, y, weights = self._original_rows(original, original_weight)
        rows, targets, factors = X, y, weights
        count = {"added": 0, "forgotten": 0}
        if forgotten is not None:
            gone_X, gone_y = self._checked_rows(*forgotten)
            places = _places(X, y, gone_X, gone_y)
            kept = np.setdiff1d(np.arange(X.shape[0]), places)
            rows, targets = X[kept], y[kept]
            factors = None if weights is None else weights[kept]
            count["forgotten"] = gone_X.shape[0]
        if added is not None:
            new_X, new_y = self._checked_rows(*added[:2])
            new_weights = _weights(added[2], new_X.shape[0], "sample_weight")
            if factors is not None or new_weights is not None:
                ones = np.ones(rows.shape[0]), np.ones(new_X.shape[0])
                factors = np.concatenate(
                    [ones[0] if factors is None else factors, ones[1] if new_weights is None else new_weights]
                )
            rows, targets = _joined(rows, new_X), np.concatenate([targets, new_y])
            count["added"] = new_X.shape[0]
        old_classes = getattr(self, "classes_", None)
        codes = self._validate_targets(targets)
        self._sparse, self._plain = sp.issparse(rows), False
        self._fit_rows(rows, codes, factors, lambda: self._earlier(X, y, weights, old_classes))
        self.training_report_["update"].update(count)
        self.__dict__.pop("_kept_rows", None)
        if keep_rows or is_kept:
            self._kept_rows = (rows, targets, factors)
        return self

    def _original_rows(self, original, original_weight):
        if original is None:
            if not hasattr(self, "_kept_rows"):
                raise ValueError(
                    "the original rows are needed: a machine holds its support vectors only, and a row that is none can become"
                    " one; give original=(X, y), and keep_rows=True to keep the rows for later calls"
                )
            if original_weight is not None:
                raise ValueError("original_weight is given without original; the kept rows have their weights")
            return self._kept_rows
        pair = original if isinstance(original, tuple) and len(original) == 2 else (original, None)
        X, y = self._checked_rows(*pair)
        return X, y, _weights(original_weight, X.shape[0], "original_weight")

    def _checked_rows(self, X, y):
        X = validate_data(self, checked(X), accept_sparse="csr", dtype=FLOATS, reset=False)
        if self._impl == "one_class":
            return X, np.ones(X.shape[0])
        if y is None:
            raise ValueError("the rows need their targets")
        y = column_or_1d(y)
        if len(y) != X.shape[0]:
            raise ValueError(f"there are {X.shape[0]} rows and {len(y)} targets")
        return X, y

    def _earlier(self, X, y, weights, old_classes):
        """The machine and the original rows, with classes as codes of the new ones; classes that are gone come after them."""
        if old_classes is None:
            targets = [] if self._impl == "one_class" else np.asarray(y, dtype=np.float64)
            return {"model": self._model, "names": None, "rows": pack(X), "targets": targets, "weights": weights}
        known = {name: code for code, name in enumerate(self.classes_.tolist())}
        for name in old_classes.tolist():
            known.setdefault(name, len(known))
        names = [float(known[name]) for name in old_classes.tolist()]
        try:
            targets = np.array([known[name] for name in np.asarray(y).tolist()], dtype=np.float64)
        except KeyError as error:
            raise ValueError(f"the original rows have the class {error.args[0]!r}, which was not fitted") from None
        factors = np.ones(len(known))
        given = getattr(self, "class_weight_", None)
        if given is not None:
            factors[: len(given)] = given
        weights = example_weights(weights, targets, factors)
        return {"model": self._model, "names": names, "rows": pack(X), "targets": targets, "weights": weights}


class ModelUpdateMixin:
    """Updates of a ``Model``: what it was trained with is in its file, or is given."""

    def update(
        self, X, y=None, *, original=None, sample_weight=None, original_weight=None, formulation=None, keep_rows=False
    ):
        """The model of all rows, the objective to a millionth: a new ``Model``, this one does not change.

        The rows that it was trained on are those of its file (``fit(..., keep_rows=True)``, ``mercer train --keep-rows``), or
        ``original``. Plan, probabilities and prediction sets belong to the old machine and are left out.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_new, n_features)
            The new rows, as they are given to ``predict``.
        y : array-like of shape (n_new,), optional
            Their labels or values; new classes are allowed. Not used for novelty detection.
        original : (X0, y0), optional
            The rows that the machine was trained on, and their targets, where the model does not keep them.
        sample_weight, original_weight : array-like, optional
            Weights of the new and of the original rows.
        formulation : str, optional
            What was minimised, such as ``c_svc(C=1)``, where the model does not say it.
        keep_rows : bool
            Keep all rows with the new model; one that keeps rows goes on to.

        Returns
        -------
        Model
            ``training_report_`` has the objective, the gap and what changed.

        Examples
        --------
        >>> import mercer, os, tempfile
        >>> from mercer.svm import SVC
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "line.mercer")
        ...     SVC(kernel="linear").fit(X, y, keep_rows=True).save(path)
        ...     model = mercer.load(path)
        >>> model.update([[1.2]], [1]).training_report_["update"]["rows"]
        5
        """
        added = self._labelled_rows(X, y, sample_weight)
        return self._updated(added, None, original, original_weight, formulation, keep_rows)

    def forget(self, X, y=None, *, original=None, original_weight=None, formulation=None, keep_rows=False):
        """The model of the rows that are left: each row of ``X`` with its target takes away one equal original row, and a row that
        is not there is an error. A new ``Model``; the other parameters are those of ``update``."""
        gone = self._labelled_rows(X, y, None)
        return self._updated(None, gone, original, original_weight, formulation, keep_rows)

    def _updated(self, added, forgotten, original, original_weight, formulation, keep_rows):
        if original is not None:
            pair = original if isinstance(original, tuple) and len(original) == 2 else (original, None)
            original = self._labelled_rows(*pair, original_weight)
        elif original_weight is not None:
            raise ValueError("original_weight is given without original; the kept rows have their weights")
        change = {
            "added": added,
            "forgotten": forgotten,
            "original": original,
            "formulation": formulation,
            "keep_rows": bool(keep_rows),
            "threads": self._threads(),
        }
        compiled, report = _mercer.update_model(self._model, change)
        report.pop("subproblems")
        return self._of_update(compiled, report)

    def _labelled_rows(self, X, y, weights):
        if self._kernel is not None or self.kernel == "precomputed":
            raise ValueError("update and forget need rows, and this kernel has kernel values; train again instead")
        if self._model.output == "novelty":
            y = None
        elif y is None:
            raise ValueError("the rows need their targets")
        rows = self._prepare_rows(X)
        return _labelled(rows, y, None if weights is None else np.asarray(weights, dtype=np.float64))


def _labelled(rows, y, weights):
    """Rows with values, or with the names of their classes as machines have them."""
    numbers, names = None, None
    if y is not None:
        y = column_or_1d(y)
        labels, codes = np.unique(y, return_inverse=True)
        found = names_of(labels)
        if all(isinstance(name, float) for name in found):
            numbers = np.array(found, dtype=np.float64)[codes]
        else:
            names = [str(found[code]) for code in codes]
    return {"rows": rows, "numbers": numbers, "names": names, "weights": weights}


def _weights(weights, rows, name):
    if weights is None:
        return None
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (rows,):
        raise ValueError(f"{name} has the shape {weights.shape}, and there are {rows} rows")
    return weights


def _joined(first, second):
    if sp.issparse(first) or sp.issparse(second):
        return sp.vstack([sp.csr_matrix(first), sp.csr_matrix(second)], format="csr")
    return np.vstack([first, second])


def _keys(X, is_dense):
    """The bytes of each row; zeros of either sign are the same."""
    if is_dense:
        X = np.ascontiguousarray(np.asarray(X, dtype=np.float64) + 0.0)
        data, width = X.tobytes(), X.itemsize * X.shape[1]
        return [data[at * width : (at + 1) * width] for at in range(X.shape[0])]
    X = sp.csr_matrix(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    columns, values = X.indices.astype(np.int64), X.data
    return [
        (columns[start:end].tobytes(), values[start:end].tobytes()) for start, end in zip(X.indptr, X.indptr[1:])
    ]


def _places(X, y, gone_X, gone_y):
    """Positions of the rows to forget among the original ones."""
    are_dense = not sp.issparse(X) and not sp.issparse(gone_X)
    wanted = _keys(gone_X, are_dense)
    asked = set(wanted)
    found = defaultdict(list)
    for place, (key, target) in enumerate(zip(_keys(X, are_dense), np.asarray(y).tolist())):
        if key in asked:
            found[key].append((place, target))
    places = []
    for number, (key, target) in enumerate(zip(wanted, np.asarray(gone_y).tolist()), start=1):
        same = [pair for pair in found[key] if pair[1] == target]
        if same:
            found[key].remove(same[0])
            places.append(same[0][0])
            continue
        reason = "is none of the original rows, or was asked for before"
        if found[key]:
            reason = "is one of the original rows, but with another target"
        raise TrainError(f"row {number} of the rows to forget {reason}", "NoSuchRow")
    return np.array(places, dtype=np.intp)
