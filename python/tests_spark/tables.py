"""Tables that the tests train and score."""

import numpy as np
from pyspark.ml.linalg import Vectors


def arrays(rows=400, seed=3, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    X[rng.random(X.shape) < 0.2] = 0.0
    y = (X[:, 0] + X[:, 1] ** 2 > 0.6).astype(int)
    if classes == 3:
        y = y + (X[:, 2] > 0.3)
    return X, y


def vector(row, kind):
    if kind == "dense":
        return Vectors.dense(row)
    places = np.flatnonzero(row)
    return Vectors.sparse(len(row), places.tolist(), row[places].tolist())


def frame(spark, X, y, order=None, kind="mixed"):
    """A table of ids, vectors, arrays, plain columns, labels and weights."""
    order = range(len(X)) if order is None else order
    kinds = {"mixed": lambda at: ("dense", "sparse")[at % 2]}.get(kind, lambda at: kind)
    rows = [(int(at), vector(X[at], kinds(at)), X[at].tolist(), *X[at].tolist(), float(y[at]), 1.0 + int(at) % 3) for at in order]
    return spark.createDataFrame(rows, ["id", "features", "array", "a", "b", "c", "label", "weight"])


def file_bytes(model, folder):
    path = folder / "model.mercer"
    model.saveFile(path)
    return path.read_bytes()
