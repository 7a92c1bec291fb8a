"""Scores on Spark: the bits of one process, whatever the partitioning and the type of the columns."""

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.linalg import Vectors
from tables import arrays, frame

from mercer.errors import DataError
from mercer.spark import KernelModel
from mercer.svm import SVC, SVR


def collected(found):
    return sorted(found.collect(), key=lambda row: row["id"])


def decisions(rows):
    fields = ("label", "low", "high", "certainty", "cost")
    return [tuple(row["decision"][field] for field in fields) for row in rows]


def plain(expected):
    return [tuple(value.item() for value in row) for row in expected]


@pytest.fixture(scope="module")
def three():
    X, y = arrays(classes=3)
    names = np.array(["left", "middle", "right"])
    return X, y, SVC(probability=True).fit(X, names[y])


def test_scores_have_the_bits_of_one_process(spark, three):
    X, y, svc = three
    table = frame(spark, X, y).cache()
    expected, raw, chances = plain(svc.decide(X)), svc.decision_function(X), svc.predict_proba(X)
    model = KernelModel.fromModel(svc, rawPredictionCol="raw", probabilityCol="chances")
    for params, partitions in (({}, 1), ({"featuresCol": "array"}, 7), ({"featuresCols": ["a", "b", "c"]}, 200)):
        stage = model.copy({model.getParam(name): value for name, value in params.items()})
        rows = collected(stage.transform(table.repartition(partitions)))
        assert decisions(rows) == expected
        assert np.array([row["raw"].toArray() for row in rows]).tobytes() == raw.tobytes()
        assert np.array([row["chances"].toArray() for row in rows]).tobytes() == chances.tobytes()
        assert [["left", "middle", "right"][int(row["prediction"])] for row in rows] == [row[0] for row in expected]
        assert [row["weight"] for row in rows] == [1.0 + at % 3 for at in range(len(X))], "other columns are kept"
    table.unpersist()


@pytest.mark.modes("local")
def test_plans_and_empty_partitions(spark):
    X, y = arrays()
    svc = SVC().fit(X, y)
    from mercer import from_sklearn

    model = from_sklearn(svc).with_plan("cascade(low_precision, exact)", X)
    stage = KernelModel.fromModel(model)
    assert "low_precision" in stage.plan
    table = frame(spark, X[:5], y[:5]).repartition(20)
    assert decisions(collected(stage.transform(table))) == plain(model.decide(X[:5]))
    assert stage.transform(table.filter("id < 0")).collect() == []


@pytest.mark.modes("local")
def test_values_of_a_regression(spark):
    X, y = arrays()
    svr = SVR().fit(X, X[:, 0])
    rows = collected(KernelModel.fromModel(svr).transform(frame(spark, X, y)))
    assert [row["prediction"] for row in rows] == svr.predict(X).tolist()


def test_bad_rows_are_named(spark, three):
    svc = three[2]
    model = KernelModel.fromModel(svc, featuresCol="f", idCol="id", decisionCol="d")

    def message(values, kind="array<double>", stage=model):
        table = spark.createDataFrame([(7, values)], f"id long, f {kind}")
        with pytest.raises(Exception) as caught:
            stage.transform(table).collect()
        return str(caught.value)

    assert "the row with id = 7: column 'f' is null" in message(None)
    assert "the row with id = 7: entry 2 of column 'f' is null" in message([1.0, None, 1.0])
    assert "the row with id = 7: column 'f' holds 2 values; 3 are needed" in message([1.0, 2.0])
    assert "the row with id = 7: entry 3 of column 'f' is nan" in message([1.0, 2.0, float("nan")])
    assert "column 'f' has the type string" in message("x", "string")
    several = KernelModel.fromModel(svc, featuresCols=["f", "id", "id"])
    assert "row 1 of partition" in message(float("inf"), "double", several)
    table = spark.createDataFrame([(1, Vectors.dense([1.0, 2.0]))], ["id", "f"])
    with pytest.raises(Exception, match="column 'f' holds 2 values; 3 are needed"):
        model.transform(table).collect()
    with pytest.raises(DataError, match="no column 'g'; the table has id, f"):
        model.copy({model.featuresCol: "g"}).transform(table)
    with pytest.raises(DataError, match="a column 'id' already"):
        model.copy({model.decisionCol: "id"}).transform(table)
    with pytest.raises(DataError, match="the model is empty"):
        KernelModel().transform(table)


def test_models_are_saved_overwritten_and_loaded(spark, three, tmp_path):
    X, y, svc = three
    model, table = KernelModel.fromModel(svc, predictionCol="answer"), frame(spark, X[:50], y[:50])
    expected = decisions(collected(model.transform(table)))
    path = str(tmp_path / "pipeline")
    PipelineModel([model]).write().save(path)
    with pytest.raises(Exception, match="(?i)exist"):
        PipelineModel([model]).write().save(path)
    PipelineModel([model]).write().overwrite().save(path)
    again = PipelineModel.load(path).stages[0]
    assert again.uid == model.uid and again.getPredictionCol() == "answer" and again.classes == model.classes
    assert decisions(collected(again.transform(table))) == expected
    model.write().overwrite().save(path)
    assert KernelModel.load(path).plan == model.plan
    assert isinstance(Pipeline(stages=[model]).fit(table), PipelineModel)
