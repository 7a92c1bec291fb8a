"""Pipelines: scalers become part of the machine, other steps stay in front of it and are named."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm as theirs
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

import mercer
import mercer.svm as ours
from mercer.errors import ConversionError


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


SCALERS = [
    [StandardScaler()],
    [MinMaxScaler((-1, 1))],
    [MaxAbsScaler()],
    [RobustScaler()],
    [Normalizer()],
    [StandardScaler(with_mean=False), MinMaxScaler()],
    [MinMaxScaler(), StandardScaler(), MaxAbsScaler()],
]


@pytest.mark.parametrize("steps", SCALERS, ids=lambda steps: "-".join(type(step).__name__ for step in steps))
@pytest.mark.parametrize("kind", [theirs.SVC, ours.SVC, theirs.SVR, theirs.LinearSVC])
def test_scalers_are_part_of_the_machine_at_once(digits, kind, steps):
    X, y = digits
    source = make_pipeline(*steps, kind()).fit(X[:400], y[:400])
    model = mercer.from_sklearn(source)
    assert model.preprocessing_ == [] and "scaling" in repr(model)
    # One query goes straight to the compiled module: no step of scikit-learn is called.
    for step in source.named_steps.values():
        if not isinstance(step, kind):
            step.transform = None
    expected = model.predict(X)
    for step in source.named_steps.values():
        step.__dict__.pop("transform", None)
    found = model.compare(source, X)
    assert found.get("different", 0) == 0 and found.get("largest", 0.0) <= 1e-12
    np.testing.assert_array_equal(model.predict(X[:1]), expected[:1])


def test_other_steps_stay_in_front_and_are_named(digits):
    X, y = digits
    steps = [("scale", StandardScaler()), ("pca", PCA(10)), ("again", MinMaxScaler()), ("svc", theirs.SVC())]
    source = Pipeline(steps).fit(X[:400], y[:400])
    fast = mercer.accelerate(source, X[400:700], seconds=2)
    assert [type(step).__name__ for step in fast.preprocessing_] == ["StandardScaler", "PCA"]
    assert repr(fast).startswith("Model(StandardScaler → PCA → scaling → rbf")
    assert "StandardScaler, PCA" in fast._repr_html_()
    assert fast.n_features_in_ == 64
    np.testing.assert_array_equal(fast.predict(X), source.predict(X))
    again = pickle.loads(pickle.dumps(fast))
    np.testing.assert_array_equal(again.decision_function(X), fast.decision_function(X))


@pytest.mark.parametrize("write", ["save", "to_onnx", "to_c", "to_libsvm"])
def test_files_of_other_steps_are_refused_with_a_sentence(digits, tmp_path, write):
    """``save`` of a scaler before a PCA was an error of shapes that could not be broadcast."""
    X, y = digits
    source = make_pipeline(StandardScaler(), PCA(20), StandardScaler(), theirs.SVC()).fit(X[:400], y[:400])
    model = mercer.from_sklearn(source)
    with pytest.raises(ConversionError, match="StandardScaler, PCA .*pickle"):
        getattr(model, write)(tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_nested_pipelines_searches_and_nothing_are_seen_through(digits):
    X, y = digits
    inner = make_pipeline(MinMaxScaler(), "passthrough", theirs.SVC())
    search = GridSearchCV(make_pipeline(StandardScaler(), inner), {"pipeline__svc__C": [1, 10]}, cv=2)
    search.fit(X[:300], y[:300])
    model = mercer.from_sklearn(search)
    assert model.preprocessing_ == []
    np.testing.assert_array_equal(model.predict(X), search.predict(X))


def test_sparse_rows_stay_sparse_under_scalers_that_keep_zeros(digits):
    X, y = digits
    rows = sp.csr_matrix(X)
    source = make_pipeline(MaxAbsScaler(), theirs.SVC()).fit(rows[:400], y[:400])
    model = mercer.from_sklearn(source)
    assert model.compare(source, rows)["different"] == 0
    np.testing.assert_array_equal(model.predict(rows), model.predict(X))


def test_f32_rows_are_scaled_in_f64(digits):
    X, y = digits
    source = make_pipeline(StandardScaler(), theirs.SVC()).fit(X[:400], y[:400])
    model = mercer.from_sklearn(source)
    narrow = (X / 7).astype(np.float32)
    assert model.compare(source, narrow)["different"] == 0
    np.testing.assert_array_equal(model.decision_function(narrow), model.decision_function(narrow.astype(float)))


def test_names_of_columns_are_kept_and_compared(digits, tmp_path):
    X, y = digits
    table = pd.DataFrame(X, columns=[f"pixel {number}" for number in range(64)])
    for source in (
        make_pipeline(StandardScaler(), theirs.SVC()).fit(table[:400], y[:400]),
        make_pipeline(StandardScaler(), PCA(10), theirs.SVC()).fit(table[:400], y[:400]),
        ours.SVC().fit(table[:400], y[:400]),
    ):
        model = mercer.from_sklearn(source)
        assert list(model.feature_names_in_) == list(table.columns) and model.n_features_in_ == 64
        np.testing.assert_array_equal(model.predict(table), source.predict(table))
        np.testing.assert_array_equal(model.predict(X), source.predict(table))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(table.rename(columns={"pixel 3": "other"}))
        if not model.preprocessing_:
            model.save(tmp_path / "named.mercer")
            assert list(mercer.load(tmp_path / "named.mercer").feature_names_in_) == list(table.columns)
