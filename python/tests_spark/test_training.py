"""Training on Spark: the machines of one process, the same bits for any partitioning, and sentences for bad tables."""

import threading

import numpy as np
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.classification import OneVsRest
from pyspark.ml.evaluation import BinaryClassificationEvaluator, MulticlassClassificationEvaluator
from pyspark.ml.feature import StringIndexer
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from conftest import MODE
from tables import arrays, file_bytes, frame

from mercer.errors import DataError, TrainError
from mercer.spark import AdditiveSVC, KernelModel, KernelSVC, LinearSVC, LowRankSVC
from mercer.svm import SVC

EXACT = {"kernel": "rbf(gamma=0.5)", "C": 2.0, "workingSetSize": 120, "tol": 1e-4}


@pytest.fixture(scope="module")
def table(spark):
    X, y = arrays()
    cached = frame(spark, X, y).cache()
    yield cached
    cached.unpersist()


def test_the_exact_machine_is_that_of_svc(spark, table):
    X, y = arrays()
    weights = 1.0 + np.arange(len(X)) % 3
    told = []
    estimator = KernelSVC(**EXACT, idCol="id", weightCol="weight").setProgress(told.append)
    model = estimator.fit(table)
    report = model.report
    assert report["converged"] and report["violation"] <= 1e-4 and report["rounds"] == told[-1]["round"] > 1
    svc = SVC(C=2, gamma=0.5, tol=1e-6).fit(X, y, sample_weight=weights)
    coefficients = np.zeros(len(X))
    coefficients[svc.support_] = np.abs(svc.dual_coef_[0])
    signs = np.where(y == y.min(), 1.0, -1.0)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    beta = signs * coefficients
    objective = 0.5 * beta @ np.exp(-0.5 * squares) @ beta - coefficients.sum()
    assert abs(report["objective"] - objective) <= report["gap"] + 1e-6 * abs(objective)
    found = sorted(model.transform(table).collect(), key=lambda row: row["id"])
    scores = np.array([row["rawPrediction"][1] for row in found])
    assert np.allclose(scores, svc.decision_function(X), atol=5e-3)
    assert [row["prediction"] for row in found] == (scores > 0).astype(float).tolist()
    assert BinaryClassificationEvaluator().evaluate(model.transform(table)) > 0.9
    assert report["bytes_received"] > 8 * len(X) * report["rounds"]


@pytest.mark.modes("local")
def test_bits_do_not_depend_on_partitions_or_order(spark, table, tmp_path):
    X, y = arrays()
    sorted_by_label = frame(spark, X, y, np.argsort(y, kind="stable"), kind="dense")
    for estimator in (KernelSVC(**EXACT), KernelSVC(**EXACT, idCol="id"), LowRankSVC(landmarks=30), LinearSVC(maxIter=5)):
        first = file_bytes(estimator.fit(table.coalesce(1)), tmp_path)
        # Most of the partitions are empty, and each holds one label.
        partitions = 200 if isinstance(estimator, LinearSVC) else 5
        assert file_bytes(estimator.fit(sorted_by_label.repartition(partitions, "label")), tmp_path) == first


@pytest.mark.modes("local")
def test_three_classes_by_name(spark):
    X, y = arrays(classes=3)
    names = np.array(["low", "high", "mid"])
    rows = [(row.tolist(), str(names[label])) for row, label in zip(X, y)]
    named = spark.createDataFrame(rows, ["features", "word"])
    stages = [StringIndexer(inputCol="word", outputCol="label"), KernelSVC(kernel="rbf(gamma=0.5)", workingSetSize=150)]
    fitted = Pipeline(stages=stages).fit(named)
    found = fitted.transform(named).collect()
    assert set(fitted.stages[1].classes) == {"low", "high", "mid"} and fitted.stages[1].numClasses == 3
    assert all(fitted.stages[1].classes[int(row["prediction"])] == row["decision"]["label"] for row in found)
    assert all(int(np.argmax(row["rawPrediction"].toArray())) == row["prediction"] for row in found)
    local = SVC(C=1, gamma=0.5, tol=1e-5).fit(X, names[y])
    agree = np.mean([row["decision"]["label"] == label for row, label in zip(found, local.predict(X))])
    assert agree >= 0.995


def test_cross_validation_packs_each_fold_once(spark, table, monkeypatch):
    from mercer.spark import _estimator

    packed = []

    class Counted(_estimator.Blocks):
        def __init__(self, *arguments):
            packed.append(1)
            super().__init__(*arguments)

    monkeypatch.setattr(_estimator, "Blocks", Counted)
    estimator = KernelSVC(kernel="rbf(gamma=0.5)", idCol="id")
    grid = ParamGridBuilder().addGrid(estimator.C, [0.001, 1.0]).build()
    evaluator = MulticlassClassificationEvaluator(metricName="accuracy")
    search = CrossValidator(
        estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, parallelism=2, seed=1
    )
    found = search.fit(table)
    assert len(packed) == 3, "two folds and the best params on all rows"
    assert found.avgMetrics[1] > 0.85 and found.avgMetrics[1] > found.avgMetrics[0]
    assert isinstance(found.bestModel, KernelModel) and found.bestModel.getPredictionCol() == "prediction"


@pytest.mark.modes("local")
def test_estimators_are_saved_and_used_by_others(spark, table, tmp_path):
    estimator = LowRankSVC(landmarks=25, C=3.0, idCol="id")
    estimator.write().overwrite().save(str(tmp_path / "estimator"))
    again = LowRankSVC.load(str(tmp_path / "estimator"))
    assert again.getOrDefault("landmarks") == 25 and again.getC() == 3.0 and again.uid == estimator.uid
    several = OneVsRest(classifier=LinearSVC(maxIter=3)).fit(table)
    assert set(row["prediction"] for row in several.transform(table).select("prediction").collect()) <= {0.0, 1.0}


@pytest.mark.modes("local")
def test_approximate_machines_reach_their_optimum(spark, table):
    X, y = arrays()
    low = LowRankSVC(kernel="rbf(gamma=0.5)", landmarks=400, C=1.0, tol=1e-8).fit(table)
    signs, kernel = np.where(y == 0, 1.0, -1.0), np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    assert low.report["converged"]
    # With all rows as landmarks this is the L2-SVM: the hinge dual with a ridge of 1 / C.
    from scipy.optimize import minimize

    def dual(alpha):
        beta = signs * alpha
        product = kernel @ beta + beta
        return 0.5 * beta @ product - alpha.sum(), signs * product - 1

    limits = [(0, None)] * len(X)
    free = minimize(dual, np.zeros(len(X)), jac=True, bounds=limits, constraints={"type": "eq", "fun": lambda a: signs @ a, "jac": lambda a: signs}, method="SLSQP", options={"maxiter": 100, "ftol": 1e-9})
    assert abs(low.report["objective"] + free.fun) <= 2e-3 * abs(free.fun)
    for estimator, width in ((LinearSVC(C=0.05, tol=5e-2, passes=3), X), (AdditiveSVC(C=0.05, tol=5e-2, passes=3), np.abs(X))):
        source = table if width is X else frame(spark, np.abs(X), y)
        model = estimator.fit(source)
        report = model.report
        assert report["converged"] and 0 <= report["gap"] <= 5e-2 * report["objective"]
        scores = np.array([row["rawPrediction"][0] for row in sorted(model.transform(source).collect(), key=lambda row: row["id"])])
        loss = 0.05 * np.maximum(0, 1 - signs * scores).sum()
        assert loss <= report["objective"], "the objective holds the loss of the machine that is returned"


@pytest.mark.parametrize("kind", [KernelSVC, LowRankSVC, LinearSVC, AdditiveSVC])
def test_constructors_keep_what_they_are_given(kind):
    estimator = kind(C=0.25, idCol="number", maxIter=7)
    assert (estimator.getC(), estimator.getIdCol(), estimator.getMaxIter()) == (0.25, "number", 7)


@pytest.mark.modes("local")
def test_landmarks_that_are_equal_still_give_a_machine(spark):
    X, y = arrays(60)
    once = LowRankSVC(kernel="rbf(gamma=0.5)", landmarks=60, C=2.0).fit(frame(spark, X, y)).report
    twice = LowRankSVC(kernel="rbf(gamma=0.5)", landmarks=120).fit(frame(spark, np.vstack([X, X]), np.concatenate([y, y]))).report
    # Each row twice at half the C, and twice the landmarks with the same span: the same problem.
    assert twice["landmarks"] == 120 and abs(twice["objective"] - once["objective"]) <= 1e-5 * once["objective"]


@pytest.mark.modes("local")
def test_trainings_side_by_side_count_their_own_bytes(spark, table):
    estimator = LowRankSVC(landmarks=20, idCol="id")
    alone = estimator.fit(table).report
    models, found = estimator.fitMultiple(table, [{}, {}]), []
    threads = [threading.Thread(target=lambda: found.append(next(models)[1].report)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    for report in found:
        assert report["bytes_sent"] == alone["bytes_sent"] and report["rounds"] == alone["rounds"]


@pytest.mark.modes("local")
def test_packed_rows_are_released(spark, table):
    def kept():
        return spark._jsparkSession.sharedState().cacheManager().isEmpty()

    table.unpersist()
    assert kept(), "nothing is persisted before"
    with pytest.raises(DataError, match="two rows have the same id"):
        KernelSVC(idCol="weight").fit(table.selectExpr("features", "label", "cast(weight as long) as weight"))
    models = LinearSVC(maxIter=1).fitMultiple(table, [{}, {}])
    next(models)
    assert not kept()
    del models
    assert kept(), "an iterator that is given up releases its rows"
    table.cache()


def test_a_cancelled_training_ends(spark, table):
    ended, name = threading.Event(), "a-training-of-mine"

    def cancel():
        while not ended.wait(0.05):
            spark.interruptTag(name) if MODE == "connect" else spark.sparkContext.cancelJobGroup(name)

    started = []

    def begin(facts):
        if not started:
            started.append(threading.Thread(target=cancel))
            started[0].start()

    if MODE == "connect":
        spark.addTag(name)
    else:
        spark.sparkContext.setJobGroup(name, "a training", interruptOnCancel=True)
    try:
        with pytest.raises(Exception, match="(?i)cancel|interrupt"):
            KernelSVC(tol=1e-15, maxIter=100_000, workingSetSize=50).setProgress(begin).fit(table)
    finally:
        ended.set()
        started[0].join()
        if MODE == "connect":
            spark.removeTag(name)
        else:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)

    def interrupt(facts):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LinearSVC().setProgress(interrupt).fit(table)


def test_tables_that_cannot_be_trained_are_refused(spark, table):
    def message(rows, schema="id long, features array<double>, label double, weight double", **params):
        bad = spark.createDataFrame(rows, schema)
        with pytest.raises((DataError, TrainError)) as caught:
            KernelSVC(idCol="id", weightCol="weight", **params).fit(bad)
        return str(caught.value)

    good = (1, [1.0, 2.0], 0.0, 1.0)
    assert message([good, (2, [1.0, 2.0], 0.0, 1.0)]) == "all rows have the label 0; two classes at least are needed"
    assert "column 'features' holds 1 values; 2 are needed" in message(
        [good, (3, [1.0, 2.0], 1.0, 1.0), (2, [1.0], 1.0, 1.0)]
    )
    assert message([good, (2, None, 1.0, 1.0)]) == "the row with id = 2: column 'features' is null"
    assert "the row with id = 2: entry 1 of column 'features' is inf" in message([good, (2, [float("inf"), 1.0], 1.0, 1.0)])
    assert message([good, (2, [1.0, 1.0], None, 1.0)]) == "the row with id = 2: column 'label' is null"
    assert "column 'weight' is -1.0; weights must not be negative" in message([good, (2, [1.0, 1.0], 1.0, -1.0)])
    assert message([good, (1, [1.0, 1.0], 1.0, 1.0)]) == "two rows have the same id 1 in column 'id'; ids must be unique"
    assert message([]) == "the table has no rows"
    assert "C is 0.0" in message([good], C=0.0)
    with pytest.raises(DataError, match="must hold numbers"):
        KernelSVC(labelCol="features").fit(table)
    with pytest.raises(DataError, match="no column 'other'"):
        KernelSVC(featuresCol="other").fit(table)
    with pytest.raises(DataError, match=r"the row with id = \d+: entry [123] of column 'features' is -.*; additive kernels need"):
        AdditiveSVC(idCol="id").fit(table)
    with pytest.raises(DataError, match=r"row \d+ of partition \d+: column 'b' is -.*; additive kernels need values that are not negative"):
        AdditiveSVC(featuresCols=["a", "b"]).fit(table.filter("a >= 0"))
