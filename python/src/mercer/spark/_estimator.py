"""What the estimators have in common: packing, one packed table for many params, models of trained machines."""

from __future__ import annotations

import logging
import threading
import weakref

import numpy as np
from pyspark.ml.base import Estimator, _FitMultipleIterator
from pyspark.ml.util import DefaultParamsReadable, MLWritable

from ..errors import TrainError
from . import _packing
from ._blocks import Blocks
from ._model import KernelModel, Writer
from ._params import TrainingParams, feature_columns

log = logging.getLogger("mercer.spark")
#: Bytes of rows that one job sends to the tasks, about.
SENT = 32 << 20


class BlockEstimator(Estimator, TrainingParams, DefaultParamsReadable, MLWritable):
    """An estimator that trains over packed blocks.

    The trained machine has the same bits however the table is partitioned. ``setProgress`` takes a function that is called on
    the driver with a dictionary after every round; without one, rounds are logged (logger ``mercer.spark``, level INFO).
    """

    def __init__(self):
        super().__init__()
        self._progress = None
        self._setDefault(
            featuresCol="features",
            featuresCols=None,
            labelCol="label",
            predictionCol="prediction",
            rawPredictionCol="rawPrediction",
            probabilityCol="",
            decisionCol="decision",
            idCol=None,
            C=1.0,
            seed=1,
        )

    def _take(self, values):
        self._set(**{name: value for name, value in values.items() if value is not None})

    def setProgress(self, function):
        """Calls ``function`` with a dictionary after every round."""
        self._progress = function
        return self

    def _tell(self, blocks, **facts):
        """Progress: what is known of the round, and the bytes that were moved so far."""
        facts.update(bytes_sent=blocks.session.counts.sent, bytes_received=blocks.session.counts.received)
        log.info("%s", ", ".join(f"{name} {value}" for name, value in facts.items()))
        if self._progress is not None:
            self._progress(facts)

    def _source(self):
        weight = self.getWeightCol() if self.isDefined(self.weightCol) else None
        return _packing.Source(feature_columns(self), self.getLabelCol(), weight or None, self.getIdCol())

    def _check(self):
        if not (self.getC() > 0 and np.isfinite(self.getC())):
            raise TrainError(f"C is {self.getC()}; it must be more than 0", "Option")
        if not self.getTol() > 0:
            raise TrainError(f"tol is {self.getTol()}; it must be more than 0", "Option")

    def _fit(self, dataset):
        self._check()
        blocks = Blocks(dataset, self._source())
        try:
            return self._model(dataset, blocks)
        finally:
            blocks.release()

    def fitMultiple(self, dataset, paramMaps):
        """Models for all params, over one packed table for each choice of columns."""
        stages = [self.copy(params) for params in paramMaps]
        lock, packed, left = threading.Lock(), {}, [len(stages)]

        def release():
            while packed:
                packed.popitem()[1].release()

        def fit(index):
            stage = stages[index]
            try:
                stage._check()
                with lock:
                    key = repr(vars(stage._source()))
                    if key not in packed:
                        packed[key] = Blocks(dataset, stage._source())
                return stage._model(dataset, packed[key])
            finally:
                with lock:
                    left[0] -= 1
                    if not left[0]:
                        release()

        models = _FitMultipleIterator(fit, len(stages))
        # Who stops before the last model leaves packed rows behind otherwise.
        weakref.finalize(models, release)
        return models

    def _model(self, dataset, blocks):
        names = class_names(dataset.schema[self.getLabelCol()], blocks.classes)
        before = blocks.session.counts.all()
        compiled, report = self._train(blocks, names)
        report.update({name: now - before[name] for name, now in blocks.session.counts.all().items()})
        model = KernelModel()
        model._take(compiled, blocks.classes.tolist())
        model._resetUid(self.uid)
        model.report = {"rows": blocks.rows, **report}
        return self._copyValues(model)

    def write(self):
        return Writer(self)


def class_names(field, classes):
    """Names of the classes: those that a StringIndexer left with the column, else the numbers."""
    named = (field.metadata or {}).get("ml_attr", {}).get("vals")
    if named and all(label == int(label) and 0 <= label < len(named) for label in classes):
        return [str(named[int(label)]) for label in classes]
    return [float(label) for label in classes]


class Pair:
    """Two classes of one-vs-one, and the rows that belong to them: ``signs`` are +1 for rows of the first class, else -1."""

    def __init__(self, blocks, first, second):
        self.first, self.second, self.is_all = first, second, len(blocks.classes) == 2
        labels, self.weights, self.starts = blocks.labels, blocks.weights, blocks.starts
        if not self.is_all:
            self.rows = np.flatnonzero((labels == first) | (labels == second))
            labels, self.weights = labels[self.rows], self.weights[self.rows]
            self.starts = np.searchsorted(self.rows, self.starts)
        self.signs = np.where(labels == first, np.int8(1), np.int8(-1))

    def numbers(self, places):
        """Numbers in the table of some rows of the pair."""
        return places if self.is_all else self.rows[places]

    def places(self):
        """A function, for tasks, that says which rows of a block belong to the pair: None for all."""
        first, second, is_all = self.first, self.second, self.is_all
        return lambda labels: None if is_all else np.flatnonzero((labels == first) | (labels == second))


def pairs(blocks):
    """The pairs of one-vs-one, in the order of machines, made one by one: each holds some bytes for each of its rows."""
    count = len(blocks.classes)
    return (Pair(blocks, first, second) for first in range(count) for second in range(first + 1, count))


def draw(rows, count, seed, round):
    """So many of the rows, in increasing order; it depends on the seed, the round and the numbers of the rows alone."""
    if len(rows) <= count:
        return rows
    state = np.full(len(rows), np.uint64(seed))
    with np.errstate(over="ignore"):
        for part in (np.uint64(round), rows.astype(np.uint64)):
            state = _packing._mixed(state + part)
    return np.sort(rows[np.argpartition(state, count - 1)[:count]])
