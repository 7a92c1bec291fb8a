"""Attributions: how much each column moved the scores of rows, and their HTML representation in notebooks."""

from __future__ import annotations

from html import escape

import numpy as np
import scipy.sparse as sp

from .errors import QueryError

#: Columns of a row that are drawn, and rows.
MOST_COLUMNS, MOST_ROWS = 12, 5


class Attributions:
    """What ``attribute`` returns.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        Contributions: Shapley values of the columns.
    low, high : ndarray of shape (n_rows, n_features)
        Proved ranges of the contributions in real arithmetic.
    base_values : ndarray of shape (n_rows,)
        Mean score of the background rows.
    scores : ndarray of shape (n_rows,)
        The scores that are explained.
    explained : list of str
        Which score that is, for each row; positive contributions speak for the class named first.
    data : ndarray or sparse matrix
        The rows.
    feature_names : list of str
        Names of the columns.
    """

    def __init__(self, found, explained, data, feature_names):
        self.values, self.low, self.high = found["values"], found["low"], found["high"]
        self.base_values, self.scores = found["base_values"], found["scores"]
        self.explained, self.data, self.feature_names = explained, data, feature_names

    def __len__(self):
        return len(self.values)

    def __repr__(self):
        rows, columns = self.values.shape
        return f"Attributions({rows} rows, {columns} columns)"

    def _repr_html_(self):
        parts = [self._row_html(row) for row in range(min(len(self), MOST_ROWS))]
        if len(self) > MOST_ROWS:
            parts.append(f"<p>{len(self) - MOST_ROWS} more rows</p>")
        return f"<div>{''.join(parts)}</div>"

    def _row_html(self, row):
        """Signed bars of the largest contributions, without scripts or external files."""
        values = self.values[row]
        order = np.argsort(-np.abs(values), kind="stable")
        shown, others = order[:MOST_COLUMNS], order[MOST_COLUMNS:]
        bars = [(f"{self.feature_names[j]} = {self._value(row, j):.4g}", values[j]) for j in shown]
        if len(others):
            bars.append((f"{len(others)} more columns", values[others].sum()))
        longest = max((abs(value) for _, value in bars), default=0.0) or 1.0
        zero, scale, height = 330, 110, 18
        inside = ""
        for number, (name, value) in enumerate(bars):
            top, long = number * height, scale * abs(value) / longest
            left, colour = (zero, "#2a78d6") if value >= 0 else (zero - long, "#c2571a")
            end, anchor = (zero + long + 4, "start") if value >= 0 else (zero - long - 4, "end")
            inside += (
                f'<text x="4" y="{top + 13}">{escape(name[:30])}</text>'
                f'<rect x="{left:.1f}" y="{top + 2}" width="{long:.1f}" height="{height - 4}" fill="{colour}"/>'
                f'<text x="{end:.1f}" y="{top + 13}" text-anchor="{anchor}">{value:+.4g}</text>'
            )
        title = f"{self.explained[row]}: from {self.base_values[row]:.4g} to {self.scores[row]:.4g}"
        return (
            f"<p>{escape(title)}</p>"
            f'<svg role="img" width="520" height="{len(bars) * height + 4}" font-size="11" fill="currentColor">'
            f"<title>{escape(title)}</title>{inside}</svg>"
        )

    def _value(self, row, column):
        return float(self.data[row, column])


def attribute(estimator, X, background, explained):
    """The attributions of a fitted machine; see ``QueryMixin.attribute``."""
    if callable(getattr(estimator, "kernel", None)) or getattr(estimator, "_kernel", None) is not None:
        raise QueryError("scores of a callable kernel cannot be attributed to columns", "NotAttributable")
    if getattr(estimator, "preprocessing_", None):
        names = ", ".join(type(step).__name__ for step in estimator.preprocessing_)
        raise QueryError(
            f"scores cannot be attributed to columns: {names} runs before the machine and may mix them", "Preprocessing"
        )
    # Prepared rows of the estimator: names and number of columns are those it was fitted to.
    rows, others = estimator._prepare_rows(X), estimator._prepare_rows(background)
    names = getattr(estimator, "_by_position", getattr(estimator, "classes_", None))
    found = estimator._compiled().attribute(rows, others, _classes(estimator, names, explained), estimator._threads())
    texts = _texts(names, found)
    data = X if sp.issparse(X) else np.asarray(X)
    data = data.tocsr() if sp.issparse(data) else data
    columns = found["values"].shape[1]
    known = getattr(estimator, "feature_names_in_", None)
    feature_names = [str(name) for name in known] if known is not None else [f"x{j}" for j in range(columns)]
    return Attributions(found, texts, data, feature_names)


def _classes(estimator, names, explained):
    """Positions of the classes of the score, or None for the one that decides."""
    if names is None:
        if explained is not None:
            raise ValueError("explained names a class, and the machine has none")
        return None
    if explained is None:
        # The score of decision_function.
        return (_position(names, estimator.classes_[1]), None) if len(names) == 2 else None
    if isinstance(explained, (tuple, list)):
        if len(explained) != 2:
            raise ValueError(f"explained is {explained!r}; it must be a class, or a pair of classes")
        return tuple(_position(names, label) for label in explained)
    return _position(names, explained), None


def _position(names, label):
    places = np.flatnonzero(np.asarray(names) == label)
    if len(places) != 1:
        raise ValueError(f"there is no class {label!r}; the classes are {', '.join(map(str, names))}")
    return int(places[0])


def _texts(names, found):
    texts = []
    for own, other in zip(found["class"], found["against"]):
        if own < 0:
            texts.append("the score")
        else:
            texts.append(f"{names[own]} against {names[other] if other >= 0 else 'all others'}")
    return texts
