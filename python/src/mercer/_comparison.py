"""Times per row of a model and of the estimator that it was made from, on the same rows. What follows from them is decided in
``_accelerate.py``."""

from __future__ import annotations

import time

import numpy as np

#: Seconds that each of the four measurements may take, but for one run each.
SECONDS = 0.1
#: Rows of a first run, which tells how many rows the time allows.
FEW_ROWS = 64
#: Queries that are asked one at a time.
ALONE = 20
#: Runs of which the fastest counts.
RUNS = 7


def compare_times(source, model, X):
    """Microseconds per row of both: in batches of the sample, and one query at a time."""
    batches = _batches(source, model, X)
    alone = _fastest([_one_by_one(source, X), _one_by_one(model, X)])
    rows = min(_count(X), ALONE)
    source_times, model_times = (
        {"batch_us": batch, "single_us": 1e6 * spent / rows} for batch, spent in zip(batches, alone, strict=True)
    )
    return {"rows": _count(X), "source": source_times, "model": model_times}


def some(X, rows):
    """Some rows of an array, a table, a sparse matrix or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[row] for row in rows]


def _batches(source, model, X):
    """The time of a batch, of as many rows as the slower of the two answers in time."""
    count = _count(X)
    first = some(X, np.arange(min(count, FEW_ROWS)))
    slowest = max(_fastest([lambda: source.predict(first), lambda: model.predict(first)])) / _count(first)
    rows = int(np.clip(SECONDS / (2 * max(slowest, 1e-9)), min(count, FEW_ROWS), count))
    batch = X if rows == count else some(X, np.arange(rows))
    return [1e6 * spent / rows for spent in _fastest([lambda: source.predict(batch), lambda: model.predict(batch)])]


def _one_by_one(model, X):
    rows = [some(X, np.array([row])) for row in range(min(_count(X), ALONE))]

    def run():
        for row in rows:
            model.predict(row)

    return run


def _fastest(works):
    """The seconds of the fastest run of each, in turns so that both meet the same computer."""
    best, started = [np.inf] * len(works), time.perf_counter()
    for _ in range(RUNS):
        for number, work in enumerate(works):
            before = time.perf_counter()
            work()
            best[number] = min(best[number], time.perf_counter() - before)
        if time.perf_counter() - started > SECONDS * len(works):
            break
    return best


def _count(X):
    return X.shape[0] if hasattr(X, "shape") else len(X)
