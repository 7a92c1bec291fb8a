"""Models in pickle, joblib, skops and mlflow."""

import copy
import io
import pickle

import joblib
import mlflow.sklearn
import numpy as np
import pytest
import skops.io
import sklearn.svm as theirs
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
import mercer.svm as ours
from mercer.machines import LSSVC, LowRankSVC

X, Y = load_digits(return_X_y=True)
ROWS, LABELS, QUERIES = X[:300], Y[:300], X[300:700]


def tuned():
    return mercer.accelerate(theirs.SVC().fit(ROWS, LABELS), X[700:1100], seconds=2)


MODELS = {
    "SVC": lambda: ours.SVC().fit(ROWS, LABELS),
    "SVC of words": lambda: ours.SVC().fit(ROWS, np.array(list("abcdefghij"))[LABELS]),
    "SVR": lambda: ours.SVR().fit(ROWS, LABELS),
    "OneClassSVM": lambda: ours.OneClassSVM().fit(ROWS),
    "LinearSVC": lambda: ours.LinearSVC().fit(ROWS, LABELS),
    "LSSVC": lambda: LSSVC(gamma=0.001).fit(ROWS, LABELS),
    "LowRankSVC": lambda: LowRankSVC(rank=50).fit(ROWS, LABELS),
    "tuned in place": lambda: ours.SVC().fit(ROWS, LABELS).tune(X[700:1100], seconds=2),
    "accelerated": tuned,
    "accelerated pipeline": lambda: mercer.from_sklearn(
        make_pipeline(StandardScaler(), PCA(10), theirs.SVC()).fit(ROWS, LABELS)
    ),
    "in a pipeline": lambda: make_pipeline(StandardScaler(), ours.SVC()).fit(ROWS, LABELS),
}


@pytest.fixture(params=MODELS, scope="module")
def model(request):
    return MODELS[request.param]()


def check(again, model):
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(QUERIES), model.predict(QUERIES))
    if hasattr(model, "decision_function"):
        np.testing.assert_array_equal(again.decision_function(QUERIES), model.decision_function(QUERIES))
    if hasattr(model, "tuning_"):
        assert again.tuning_ == model.tuning_


def test_pickles_joblib_and_copies_keep_everything(model):
    check(pickle.loads(pickle.dumps(model)), model)
    check(copy.deepcopy(model), model)
    check(copy.copy(model), model)
    kept = io.BytesIO()
    joblib.dump(model, kept)
    kept.seek(0)
    check(joblib.load(kept), model)


def test_the_state_is_plain_bytes(model):
    """skops builds objects from their state; a state with a compiled object in it cannot be built."""
    last = model[-1] if hasattr(model, "steps") else model
    assert isinstance(last.__getstate__()["_model"], bytes)
    assert not isinstance(last._model, bytes)


def test_skops_keeps_everything_and_asks_for_our_types_alone(model):
    kept = skops.io.dumps(model)
    assert set(skops.io.get_untrusted_types(data=kept)) <= set(mercer.SKOPS_TYPES)
    check(skops.io.loads(kept, trusted=mercer.SKOPS_TYPES), model)


def test_skops_types_name_every_estimator():
    import importlib

    from mercer import machines, svm

    for module in (svm, machines):
        for name in module.__all__:
            if isinstance(getattr(module, name), type):
                kind = getattr(module, name)
                assert f"{kind.__module__}.{kind.__name__}" in mercer.SKOPS_TYPES
    for path in mercer.SKOPS_TYPES:
        module, name = path.rsplit(".", 1)
        assert isinstance(getattr(importlib.import_module(module), name), type)


@pytest.mark.parametrize("name", ["SVC", "accelerated", "in a pipeline"])
def test_mlflow_saves_and_loads_in_its_default_format(name, tmp_path):
    model, folder = MODELS[name](), tmp_path / "model"
    mlflow.sklearn.save_model(model, folder, skops_trusted_types=mercer.SKOPS_TYPES, pip_requirements=["mercer"])
    assert (folder / "model.skops").exists()
    check(mlflow.sklearn.load_model(str(folder)), model)


def test_mlflow_cannot_be_told_our_types_from_here_and_says_what_to_pass(tmp_path):
    """docs/guide/python.md says why; once this passes without the list, it can go from there."""
    with pytest.raises(mlflow.exceptions.MlflowException, match="skops_trusted_types") as refused:
        mlflow.sklearn.save_model(MODELS["SVC"](), tmp_path / "model", pip_requirements=["mercer"])
    assert "mercer.svm.SVC" in str(refused.value)
