"""Models as transformers of Spark: scoring, saving, loading."""

from __future__ import annotations

import os

from pyspark import keyword_only
from pyspark.ml.base import Model
from pyspark.ml.linalg import VectorUDT
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from .. import _mercer
from ..errors import DataError
from ._params import ScoringParams, feature_columns
from ._scoring import Scorer

#: Bytes of a model in one row of the saved table.
CHUNK = 4 << 20


class KernelModel(Model, ScoringParams, MLReadable, MLWritable):
    """Scores rows with a model of any kind that mercer reads; also what the estimators of ``mercer.spark`` return.

    ``transform`` keeps all columns and adds ``decision``, a struct of ``label``, ``low``, ``high``, ``certainty`` and ``cost``
    with the bits of ``mercer predict``, and ``prediction``: the number of the class (its name if that is a number, else its
    position in ``classes``), the value of a regression, or 1 and -1. ``rawPrediction`` (exact scores, whatever the plan) and
    ``probability`` are added if their columns are named: those of estimators name ``rawPrediction``.

    Examples
    --------
    >>> import mercer, tempfile, os
    >>> from mercer.svm import SVC
    >>> from mercer.spark import KernelModel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.mercer")
    ...     SVC().fit([[-1.0], [1.0]], ["minus", "plus"]).save(path)
    ...     model = KernelModel.fromFile(path, featuresCol="x")
    >>> model.classes
    ['minus', 'plus']
    """

    budget = Param(Params._dummy(), "budget", "multiply-adds for a row at most", typeConverter=TypeConverters.toInt)
    tolerance = Param(Params._dummy(), "tolerance", "a regression's value may be off by this", typeConverter=TypeConverters.toFloat)
    threshold = Param(
        Params._dummy(), "threshold", "two classes: what the score is compared with", typeConverter=TypeConverters.toFloat
    )

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol="features",
        featuresCols=None,
        predictionCol="prediction",
        rawPredictionCol="",
        probabilityCol="",
        decisionCol="decision",
        idCol=None,
        budget=None,
        tolerance=None,
        threshold=None,
    ):
        super().__init__()
        self._setDefault(
            featuresCol="features",
            featuresCols=None,
            predictionCol="prediction",
            rawPredictionCol="",
            probabilityCol="",
            decisionCol="decision",
            idCol=None,
            budget=None,
            tolerance=None,
            threshold=None,
        )
        self._set(**{name: value for name, value in self._input_kwargs.items() if value is not None})
        self._bytes, self._is_believed, self._indices = None, False, None
        #: What training says of itself: rounds, objective, gap, bytes moved.
        self.report = {}

    @staticmethod
    def fromFile(path, *, trustPlan=False, **params):
        """A model from a file on the driver: our own, LIBSVM or LIBLINEAR text, or an ONNX SVM."""
        model = KernelModel(**params)
        model._take(_mercer.Model.load(os.fspath(path), trustPlan))
        return model

    @staticmethod
    def fromModel(model, **params):
        """The model of ``mercer.load``, ``mercer.from_sklearn``, ``accelerate`` or a fitted estimator of ``mercer.svm``."""
        found = KernelModel(**params)
        found._take(model._as_model()._saveable())
        return found

    def _take(self, compiled, indices=None):
        """Takes a compiled model; ``indices`` are the numbers of its classes."""
        self._bytes, self._is_believed = bytes(compiled.to_bytes("mercer")), not compiled.left_out
        self._compiled_model = compiled
        names = compiled.classes
        if indices is None and names:
            are_numbers = all(not isinstance(name, str) for name in names)
            indices = [float(name) for name in names] if are_numbers else [float(at) for at in range(len(names))]
        self._indices = indices
        return self

    def _compiled(self):
        if self._bytes is None:
            raise DataError("the model is empty; KernelModel.fromFile reads one", "NoModel")
        return self._compiled_model

    @property
    def classes(self):
        """Names of the classes, by position; empty for regression."""
        return self._compiled().classes

    @property
    def numClasses(self):
        return len(self.classes)

    @property
    def numFeatures(self):
        return self._compiled().features

    @property
    def plan(self):
        return self._compiled().plan

    def toModel(self):
        """The same machine as ``mercer.Model``, for arrays on the driver."""
        from .._model import Model as LocalModel

        return LocalModel(self._compiled())

    def saveFile(self, path):
        """Writes the model to a file on the driver that ``mercer.load`` and ``mercer predict`` read."""
        self._compiled().save(os.fspath(path), "mercer")

    def _transform(self, dataset):
        compiled = self._compiled()
        names = {
            "decision": self.getDecisionCol(),
            "prediction": self.getPredictionCol(),
            "raw": self.getRawPredictionCol() if compiled.classes else "",
            "probability": self.getProbabilityCol() if compiled.sigmoids is not None else "",
        }
        names = {what: name for what, name in names.items() if name}
        if self.getProbabilityCol() and self.isSet(self.probabilityCol) and compiled.sigmoids is None:
            raise DataError("the model has no probabilities; train it with them, or leave probabilityCol out", "NoProbabilities")
        taken = [name for name in names.values() if name in dataset.columns]
        if taken:
            raise DataError(f"the table has a column {taken[0]!r} already; another name can be set", "SparkColumn")
        query = (self.getOrDefault("budget"), self.getOrDefault("tolerance"), None, self.getOrDefault("threshold"))
        columns = feature_columns(self)
        check_columns(dataset, columns)
        scorer = Scorer(self._bytes, self._is_believed, columns, names, query)
        scorer.indices, scorer.id_column = self._indices, self.getIdCol()
        schema = StructType(dataset.schema.fields + [StructField(name, self._kind(what)) for what, name in names.items()])

        def score(batches):
            return scorer(batches)

        return dataset.mapInArrow(score, schema)

    def _kind(self, what):
        if what != "decision":
            return DoubleType() if what == "prediction" else VectorUDT()
        is_text = any(isinstance(name, str) for name in self.classes)
        label = StructField("label", StringType() if is_text else DoubleType())
        ends = [StructField("low", DoubleType()), StructField("high", DoubleType())]
        return StructType([label, *ends, StructField("certainty", StringType()), StructField("cost", LongType())])

    def copy(self, extra=None):
        other = super().copy(extra)
        other.report = dict(self.report)
        return other

    def write(self):
        return ModelWriter(self)

    @classmethod
    def read(cls):
        return ModelReader(cls)


def check_columns(dataset, columns):
    """Refuses columns that the table does not have."""
    for name in columns:
        if name is not None and name not in dataset.columns:
            raise DataError(f"there is no column {name!r}; the table has {', '.join(dataset.columns)}", "SparkColumn")


class Writer(MLWriter):
    """A writer that replaces what is there on Connect as well, where Spark's own needs the JVM."""

    def __init__(self, instance):
        super().__init__()
        self.instance = instance

    def save(self, path):
        if self.shouldOverwrite and is_remote():
            from pyspark.ml.connect.readwrite import RemoteMLWriter

            RemoteMLWriter.handleOverwrite(path, True)
            self.saveImpl(path)
        else:
            super().save(path)

    def saveImpl(self, path):
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sparkSession)


class ModelWriter(Writer):
    def saveImpl(self, path):
        model = self.instance
        compiled = model._compiled()
        more = {"classNumbers": model._indices, "report": model.report}
        DefaultParamsWriter.saveMetadata(model, path, self.sparkSession, extraMetadata=more)
        whole = bytes(compiled.to_bytes("mercer"))
        rows = [(at, bytearray(whole[start : start + CHUNK])) for at, start in enumerate(range(0, len(whole), CHUNK))]
        table = self.sparkSession.createDataFrame(rows, "place int, bytes binary")
        table.coalesce(1).write.parquet(os.path.join(path, "model"))


class ModelReader(MLReader):
    def __init__(self, cls):
        super().__init__()
        self.cls = cls

    def load(self, path):
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        model = self.cls()
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        rows = self.sparkSession.read.parquet(os.path.join(path, "model")).collect()
        whole = b"".join(bytes(row["bytes"]) for row in sorted(rows, key=lambda row: row["place"]))
        # What a file says of its own plan is not believed: it is verified, as by `mercer.load`.
        model._take(_mercer.Model.from_bytes(whole), metadata["classNumbers"])
        model.report = metadata["report"]
        return model
