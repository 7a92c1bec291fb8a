"""Models of others: the same labels, proved, and the same scores."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm as theirs
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

import mercer
import mercer.svm as ours
from mercer import _rounding
from mercer.errors import ConversionError, ModelError

QUERIES = 10_000


def blobs(classes, shift=0.0, seed=0):
    """Training rows, labels, and queries between the classes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 6))
    y = rng.integers(classes, size=400)
    X = centres[y] + 0.8 * rng.normal(size=(400, 6)) + shift
    queries = rng.normal(size=(QUERIES, 6)) * 1.5 + shift
    return X, y, queries


def same(source, model, queries):
    """Labels agree but where rounding decides, and scores to 1e-9 of the largest."""
    found = model.compare(source, queries)
    assert found["rows"] == QUERIES
    assert found["different"] == 0, found
    print(f"{type(source).__name__}: {found['within_rounding']} of {QUERIES} within rounding")
    if hasattr(source, "decision_function"):
        expected = source.decision_function(queries)
        scores = model.decision_function(queries)
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    return found


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "sigmoid"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", [theirs.SVC, theirs.NuSVC])
def test_classifiers_keep_their_labels(kind, classes, kernel):
    X, y, queries = blobs(classes)
    source = kind(kernel=kernel, **({"nu": 0.1} if kind is theirs.NuSVC else {})).fit(X, y)
    fast = mercer.accelerate(source, queries[:500], contract="certified")
    same(source, fast, queries)
    same(source, mercer.accelerate(source, contract="exact"), queries)
    report = fast.tuning_
    assert report["contract"] == "certified" and report["final_test"]["disagreements"] == 0
    assert report["exact_times"]["batch_us"] > 0 and fast.plan in ["exact", *(t["plan"] for t in report["tried"])]


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("classes", [2, 3])
def test_compressed_rows_keep_their_labels(classes, kernel):
    X, y, queries = blobs(classes)
    X, queries = sp.csr_matrix(np.maximum(X, 0)), sp.csr_matrix(np.maximum(queries, 0))
    for source in (theirs.SVC(kernel=kernel), theirs.NuSVC(kernel=kernel, nu=0.2)):
        source.fit(X, y)
        same(source, mercer.accelerate(source, queries[:500]), queries)


def test_sparse_supports_that_are_cut_behind_their_last_value_have_all_columns():
    """scikit-learn-intelex keeps sparse supports without the columns behind the last value."""
    X, y, queries = blobs(3)
    X[:, 4:] = 0.0
    source = theirs.SVC().fit(sp.csr_matrix(X), y)
    queries = sp.csr_matrix(queries)
    expected = source.predict(queries)
    source.support_vectors_ = source.support_vectors_[:, :4]
    model = mercer.from_sklearn(source)
    assert model.n_features_in_ == 6
    np.testing.assert_array_equal(model.predict(queries), expected)


@pytest.mark.parametrize("shift", [1e3, 1e4, 1e5, 1e6])
@pytest.mark.parametrize(
    "source",
    [
        theirs.SVC(gamma=0.2),
        theirs.NuSVC(gamma=0.2, nu=0.2),
        theirs.OneClassSVM(gamma=0.2, nu=0.2),
        theirs.LinearSVC(random_state=0, max_iter=100),
    ],
    ids=lambda source: type(source).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_data_far_from_zero_keep_their_labels(source, shift):
    X, y, queries = blobs(3, shift)
    source.fit(X, y)
    found = mercer.accelerate(source, queries[:500]).compare(source, queries)
    assert found["different"] == 0
    assert found["equal"] >= QUERIES - 10


@pytest.mark.parametrize("shift", [1e3, 1e6])
@pytest.mark.parametrize(
    "source", [theirs.SVR(gamma=0.2), theirs.NuSVR(gamma=0.2), KernelRidge(kernel="rbf", gamma=0.2)]
)
def test_values_far_from_zero_are_kept_to_the_rounding_of_the_source(source, shift):
    X, y, queries = blobs(3, shift)
    source.fit(X, y.astype(float))
    model = mercer.accelerate(source, contract="exact")
    off = np.abs(model.predict(queries) - source.predict(queries))
    assert np.all(off <= _rounding.bound(source, queries))


def test_words_are_labels_and_the_shape_of_scores_is_kept():
    X, y, queries = blobs(4)
    words = np.array(["a", "b", "c", "d"])[y]
    for shape in ("ovr", "ovo"):
        source = theirs.SVC(decision_function_shape=shape).fit(X, words)
        same(source, mercer.accelerate(source, queries[:100]), queries)
    ties = theirs.SVC(break_ties=True).fit(X, words)
    same(ties, mercer.accelerate(ties, queries[:100]), queries)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix])
def test_novelty_keeps_its_labels(rows):
    X, _, queries = blobs(2)
    X, queries = rows(np.maximum(X, 0)), rows(np.maximum(queries, 0))
    source = theirs.OneClassSVM(nu=0.2).fit(X)
    same(source, mercer.accelerate(source, queries[:500]), queries)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_classifiers_keep_their_labels(classes, rows):
    X, y, queries = blobs(classes)
    X, queries = rows(np.maximum(X, 0)), rows(np.maximum(queries, 0))
    source = theirs.LinearSVC(random_state=0).fit(X, y)
    same(source, mercer.accelerate(source, queries[:500]), queries)


@pytest.mark.parametrize(
    "source",
    [
        theirs.SVR(),
        theirs.NuSVR(kernel="poly"),
        theirs.LinearSVR(random_state=0),
        KernelRidge(kernel="rbf"),
        KernelRidge(kernel="linear"),
        KernelRidge(kernel="polynomial", degree=2),
        KernelRidge(kernel="laplacian", gamma=0.1),
    ],
    ids=lambda source: f"{type(source).__name__}-{getattr(source, 'kernel', '')}",
)
def test_regressions_keep_their_values(source):
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    queries = np.random.default_rng(1).normal(size=(QUERIES, X.shape[1]))
    for rows in (np.asarray, lambda X: sp.csr_matrix(np.maximum(X, 0))):
        if rows is not np.asarray and getattr(source, "kernel", "") == "laplacian":
            continue  # scikit-learn's takes no sparse rows
        source.fit(rows(X), y)
        model = mercer.accelerate(source, rows(X))
        found = model.compare(source, rows(queries))
        assert found["rows"] == QUERIES and found["largest"] <= 1e-9
        assert model.plan == "exact"


def test_values_within_a_tolerance_are_proved():
    X, y = load_diabetes(return_X_y=True)
    source = theirs.SVR(C=100).fit(X, y)
    model = mercer.accelerate(source, X, tolerance=0.5)
    assert np.max(np.abs(model.predict(X) - source.predict(X))) <= 0.5


def test_pipelines_and_searches_are_seen_through():
    X, y = load_digits(return_X_y=True)
    for scaler in (StandardScaler(), MinMaxScaler()):
        source = make_pipeline(scaler, theirs.SVC()).fit(X[:800], y[:800])
        fast = mercer.accelerate(source, X[800:1000], seconds=2)
        np.testing.assert_array_equal(fast.predict(X), source.predict(X))
        again = pickle.loads(pickle.dumps(fast))
        np.testing.assert_array_equal(again.decision_function(X), fast.decision_function(X))
    search = GridSearchCV(theirs.SVC(), {"C": [1, 10]}, cv=2).fit(X[:300], y[:300])
    np.testing.assert_array_equal(mercer.from_sklearn(search).predict(X), search.predict(X))


@pytest.mark.parametrize(
    "steps",
    [
        (StandardScaler(),),
        (MinMaxScaler((-1, 1)),),
        (MaxAbsScaler(),),
        (RobustScaler(),),
        (Normalizer(),),
        (StandardScaler(with_mean=False), MinMaxScaler()),
    ],
    ids=lambda steps: "-".join(type(step).__name__ for step in steps),
)
def test_files_hold_pipelines_of_scalers(steps, tmp_path):
    X, y, queries = blobs(3, shift=5.0)
    source = make_pipeline(*steps, theirs.SVC(gamma=0.5)).fit(X, y)
    fast = mercer.accelerate(source, queries[:300], seconds=2)
    fast.save(tmp_path / "pipeline.mercer")
    again = mercer.load(tmp_path / "pipeline.mercer")
    assert again.plan == fast.plan
    np.testing.assert_array_equal(again.predict(queries), source.predict(queries))
    expected = source.decision_function(queries)
    np.testing.assert_allclose(again.decision_function(queries), expected, atol=1e-9 * np.abs(expected).max())


def test_other_steps_stay_in_python():
    X, y = load_digits(return_X_y=True)
    fast = mercer.accelerate(make_pipeline(PCA(10), theirs.SVC()).fit(X[:300], y[:300]))
    with pytest.raises(ConversionError, match="PCA.*pickle"):
        fast.save("nowhere.mercer")


def test_given_and_callable_kernels_are_taken():
    X, y = load_iris(return_X_y=True)

    def kernel(u, v):
        return (np.asarray(u) @ np.asarray(v).T + 1.0) ** 2

    called = theirs.SVC(kernel=kernel).fit(X, y)
    np.testing.assert_array_equal(mercer.from_sklearn(called).predict(X), called.predict(X))
    values = kernel(X, X)
    given = theirs.SVC(kernel="precomputed").fit(values, y)
    np.testing.assert_array_equal(mercer.from_sklearn(given).predict(values), given.predict(values))


def test_files_of_every_kind_come_back(tmp_path):
    X, y = load_iris(return_X_y=True)
    svc = ours.SVC(gamma=0.5).fit(X, y)
    svc.save(tmp_path / "iris.mercer")
    svc.to_libsvm(tmp_path / "iris.libsvm")
    svc.to_onnx(tmp_path / "iris.onnx")
    assert b"double" in svc.to_c() and b"float" in svc.to_c(single=True)
    for name in ("iris.mercer", "iris.libsvm", "iris.onnx"):
        model = mercer.load(tmp_path / name)
        np.testing.assert_array_equal(model.predict(X), svc.predict(X))
        fast = mercer.accelerate(tmp_path / name, X)
        np.testing.assert_array_equal(fast.predict(X), svc.predict(X))
    mine = mercer.load(tmp_path / "iris.mercer")
    np.testing.assert_array_equal(mine.decision_function(X), svc.decision_function(X))
    fast = mercer.accelerate(svc, X)
    fast.save(tmp_path / "fast.mercer")
    assert mercer.load(tmp_path / "fast.mercer").plan == fast.plan


def test_an_onnx_file_runs_elsewhere(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    X, y = load_iris(return_X_y=True)
    svc = ours.SVC(gamma=0.5).fit(X, y)
    session = runtime.InferenceSession(svc.to_onnx(), providers=["CPUExecutionProvider"])
    label = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[0]
    assert np.mean(label == svc.predict(X)) >= 0.99


def test_decisions_of_a_fast_model_are_certified_or_exact():
    X, y, queries = blobs(2)
    fast = mercer.from_sklearn(theirs.SVC().fit(X, y)).with_plan("cascade(low_precision, exact)")
    decisions = fast.decide(queries)
    assert set(decisions["certainty"]) <= {"certified", "exact"}
    assert np.mean(decisions["certainty"] == "certified") > 0.9
    report = fast.explain(queries[0])
    assert report["stages"] == ["low_precision", "exact"] and report["steps"]
    score = fast._model.scores(queries, 0).ravel()
    assert np.all((decisions["low"] <= score) & (score <= decisions["high"]))
    assert "low_precision" in repr(fast) and "<table>" in fast._repr_html_() and fast.tuning_ is None


def test_what_cannot_be_is_refused_by_name(tmp_path):
    with pytest.raises(ConversionError, match="StandardScaler"):
        mercer.from_sklearn(StandardScaler())
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ConversionError, match="2 outputs"):
        mercer.from_sklearn(KernelRidge().fit(X, np.c_[y, y]))
    with pytest.raises(ConversionError, match="degree"):
        mercer.from_sklearn(KernelRidge(kernel="poly", degree=2.5).fit(X[:, :3] ** 2, y))
    with pytest.raises(ValueError, match="contract"):
        mercer.accelerate(theirs.SVR().fit(X, y), X, contract="hopeful")
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(ModelError, match="not a model file"):
        mercer.load(tmp_path / "text")
    with pytest.raises(OSError):
        mercer.load(tmp_path / "absent")


def test_a_calibrated_contract_states_what_it_rests_on():
    X, y, _ = blobs(2)
    random = np.random.default_rng(8)
    source = theirs.SVC(gamma=0.1).fit(X, y)
    queries = X[random.integers(0, len(X), 9000)] + 0.5 * random.normal(size=(9000, X.shape[1]))
    fast = mercer.accelerate(source, queries[:4000], contract="calibrated(eps=0.01, delta=0.05)", seconds=20)
    report = fast.tuning_
    assert report["contract"].startswith("calibrated(eps=0.01")
    disagreement = np.mean(fast.predict(queries[4000:]) != source.predict(queries[4000:]))
    assert disagreement < 0.02  # eps, and room for bad luck
    if fast._model.calibration is not None:
        eps, delta, tested, _, bound = fast._model.calibration
        assert (eps, delta) == (0.01, 0.05) and bound <= eps and tested >= 299
    # A sample that is too small is report so by what is kept: proofs only.
    small = mercer.accelerate(source, queries[:200], contract="calibrated(eps=1e-3)")
    assert small._model.calibration is None


def test_an_estimator_takes_the_plan_it_is_tuned_to():
    X, y, queries = blobs(3)
    svc = ours.SVC().fit(X, y)
    before = svc.predict(queries)
    assert svc.tuning_ is None
    assert svc.tune(queries[:600], aim="latency", seconds=5) is svc
    assert svc.tuning_["aim"] == "latency"
    np.testing.assert_array_equal(svc.predict(queries), before)
    again = pickle.loads(pickle.dumps(svc))
    assert again.tuning_ == svc.tuning_
    with pytest.raises(ValueError, match="aim"):
        svc.tune(queries, aim="fame")


def test_a_tuned_model_shows_pictures_and_escapes_names():
    X, y, queries = blobs(2)
    named = np.where(y == y[0], "<b>one</b>", "two & more")
    fast = mercer.accelerate(theirs.SVC().fit(X, named), queries[:300], seconds=5)
    page = fast._repr_html_()
    assert page.count("<svg") == 2 and "polyline" in page and "<b>one" not in page


def test_smaller_machines_say_how_far_they_are(tmp_path):
    X, y, queries = blobs(3)
    svc = ours.SVC().fit(X, y)
    small = svc.compress(size=40, X_sample=queries[:2000])
    report = small.compression_
    assert small.n_support_ == report["after"] <= 40 and report["before"] == svc._model.supports
    assert report["agreement"]["queries"] == 2000
    disagreement = np.mean(small.predict(queries) != svc.predict(queries))
    assert abs(disagreement - report["agreement"]["disagreement_rate"]) < 0.03
    small.save(tmp_path / "small.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "small.mercer").predict(queries), small.predict(queries))
    assert "compressed</th><td>from" in small._repr_html_()
    # Each goal is reached.
    near = svc.compress(error=0.05)
    assert near.compression_["weight_error"]["relative"] <= 0.05
    alike = svc.compress("moved", disagreement=0.01, X_sample=queries[:1000])
    assert alike.compression_["agreement"]["disagreement_rate"] <= 0.01
    proved = svc.compress(certified=0.5, X_sample=queries[:500])
    assert proved.compression_["agreement"]["certified_share"] >= 0.5
    # Pipelines keep their steps, models of others are taken too.
    source = make_pipeline(StandardScaler(), theirs.SVC()).fit(X, y)
    less = mercer.from_sklearn(source).compress(error=0.02, X_sample=queries[:500])
    assert np.mean(less.predict(queries) == source.predict(queries)) > 0.98
    linear = ours.SVC(kernel="linear").fit(X, y).compress("exact_basis")
    assert linear.n_support_ == 0 and linear.compression_["method"] == "weights"
    with pytest.raises(ValueError, match="only one of"):
        svc.compress(size=3, error=0.1)
    with pytest.raises(ValueError, match="compressor"):
        svc.compress("hope", size=3)


def test_labels_of_the_sample_tell_training_rows_from_natural_repeats():
    """One-hot rows repeat by nature. A tenth of training rows among them shows in the labels alone."""
    random = np.random.default_rng(1)

    def drawn(rows):
        X = (random.random((rows, 40)) < 0.1).astype(float)
        return X, ((X[:, 0] > 0) == (random.random(rows) < 0.7)).astype(int)

    (X, y), (other, others) = drawn(8000), drawn(8000)
    source = ours.SVC(gamma=0.5).fit(X, y)
    mixed, of_mixed = np.vstack([X[:800], other[800:]]), np.append(y[:800], others[800:])
    tuning = {"contract": "calibrated(eps=0.1, delta=0.1)", "seconds": 1}
    with pytest.raises(ValueError, match="rows of the training data.*trust_sample=True"):
        mercer.accelerate(source, mixed, y_sample=of_mixed, **tuning)
    mercer.accelerate(source, mixed, **tuning)
    mercer.accelerate(source, other, y_sample=others, **tuning)
    mercer.accelerate(source, mixed, y_sample=of_mixed, trust_sample=True, **tuning)
    with pytest.raises(ValueError, match="y_sample has 3 targets, X_sample 8000 rows"):
        mercer.accelerate(source, mixed, y_sample=of_mixed[:3])
    with pytest.raises(ValueError, match="the label 7"):
        mercer.accelerate(source, mixed, y_sample=of_mixed + 7)
    with pytest.raises(TypeError, match="need X_sample: y_sample"):
        mercer.accelerate(source, y_sample=of_mixed)
