"""Scoring in tasks: batches of rows in, the same batches with answers out. What the answers are called is in ``_model``."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from sklearn.utils.multiclass import _ovr_decision_function

from .. import _mercer
from .._model import _pairwise_columns
from .._query import CERTAINTIES, _query_options
from ..errors import MercerError
from . import _rows

#: Models of this process by digest: Python workers are used again for later tasks.
_loaded: dict = {}


def task_threads():
    """The processors that Spark gave to this task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return max(1, context.cpus()) if context is not None else 1


def load(bytes, trust):
    key = hashlib.sha256(bytes).digest(), trust
    if key not in _loaded:
        while len(_loaded) >= 4:
            _loaded.pop(next(iter(_loaded)))
        _loaded[key] = _mercer.Model.from_bytes(bytes, trust)
    return _loaded[key]


class Scorer:
    """What a task needs to score rows: it is pickled into the plan of the query."""

    def __init__(self, model, trust, columns, names, query):
        #: Bytes of the model file; whether its plan was believed on the driver.
        self.model, self.trust = model, trust
        #: Columns of features; output columns by what they hold; options of ``decide``.
        self.columns, self.names, self.query = columns, names, query
        #: The number of each class, by position; column of row ids for errors.
        self.indices, self.id_column = None, None

    def __call__(self, batches):
        model, place = load(self.model, self.trust), _rows.Place(self.id_column)
        for batch in batches:
            if batch.num_rows:
                yield self._scored(model, batch, place)
                place.after(batch)

    def _scored(self, model, batch, place):
        rows = _rows.features(batch, self.columns, model.features, place)
        threads = task_threads()
        try:
            found = model.decide(rows, _query_options(*self.query), threads)
            added = self._answers(model, found)
            for what, method in (("raw", raw_predictions), ("probability", _probabilities)):
                if self.names.get(what):
                    added[self.names[what]] = _rows.vectors(method(model, rows, threads, self.indices))
        except MercerError:
            _rows.check_finite(batch, rows, self.columns, place)
            raise
        arrays = [*batch.columns, *added.values()]
        return pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, *added])

    def _answers(self, model, found):
        answer, added = found["answer"], {}
        if self.names.get("decision"):
            labels = pa.array(model.classes) if model.classes else pa.array(answer.astype(np.float64))
            label = labels.take(pa.array(answer)) if model.classes else labels
            certainty = pa.array(CERTAINTIES.tolist()).take(pa.array(found["certainty"]))
            cost = pa.array(found["cost"].astype(np.int64))
            parts = [label, pa.array(found["low"]), pa.array(found["high"]), certainty, cost]
            added[self.names["decision"]] = pa.StructArray.from_arrays(parts, ["label", "low", "high", "certainty", "cost"])
        if self.names.get("prediction"):
            numbers = answer if self.indices is None else np.asarray(self.indices)[answer]
            added[self.names["prediction"]] = pa.array(numbers.astype(np.float64))
        return added


def raw_predictions(model, rows, threads, indices):
    """Exact scores: one column for each class, in the order of their numbers; the largest is the class of most votes."""
    scores = model.scores(rows, threads)
    if indices is None:
        return scores
    # A positive score speaks for the first class in the machine's own order.
    rank = np.argsort(indices)
    if model.output == "one_vs_rest" and len(indices) > 2:
        return scores[:, rank]
    if len(indices) == 2:
        first = scores[:, 0] if indices[0] < indices[1] else -scores[:, 0]
        return np.column_stack([first, -first])
    columns, signs = _pairwise_columns(rank)
    scores = scores[:, columns] * signs
    return _ovr_decision_function(scores < 0, -scores, len(indices))


def _probabilities(model, rows, threads, indices):
    found = model.probabilities(rows, threads)
    return found if indices is None else found[:, np.argsort(indices)]
