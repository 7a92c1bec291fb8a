"""accelerate compares with its source, and sparse rows go straight to the compiled module."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm as theirs
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
import mercer.svm as ours
from mercer import _accelerate
from mercer.errors import SourceIsFasterWarning

X, Y = load_digits(return_X_y=True)


def times(source, model):
    return {"rows": 9, "source": {"batch_us": source[0], "single_us": source[1]},
            "model": {"batch_us": model[0], "single_us": model[1]}}


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix, sp.csr_array, pd.DataFrame, np.ndarray.tolist])
@pytest.mark.filterwarnings("ignore::mercer.errors.SourceIsFasterWarning")
def test_both_are_measured_on_the_sample(container):
    rows = container(X[400:600])
    source = theirs.LinearSVC().fit(container(X[:400]), Y[:400])
    fast = mercer.accelerate(source, rows, seconds=2)
    found = fast.comparison_
    assert set(found) == {"rows", "source", "model", "kept", "reason"} and found["rows"] == 200
    for side in ("source", "model"):
        assert found[side]["batch_us"] > 0 and found[side]["single_us"] > 0
    assert "LinearSVC takes" in found["reason"] and found["reason"] in fast._repr_html_()
    np.testing.assert_array_equal(fast.predict(rows), source.predict(rows))


def test_a_faster_source_keeps_its_arithmetic_and_a_warning_says_so(monkeypatch):
    monkeypatch.setattr(_accelerate, "compare_times", lambda *_: times((0.7, 90.0), (6.9, 3.0)))
    source = make_pipeline(StandardScaler(), theirs.LinearSVC()).fit(X[:400], Y[:400])
    with pytest.warns(SourceIsFasterWarning, match="Pipeline takes 0.7 us per row in batches, the plan 6.9 us"):
        fast = mercer.accelerate(source, X[400:600], seconds=2)
    assert fast.comparison_["kept"] == "source" and "answers of Pipeline" in repr(fast)
    np.testing.assert_array_equal(fast.decision_function(X), source.decision_function(X))
    again = pickle.loads(pickle.dumps(fast))
    np.testing.assert_array_equal(again.decision_function(X), source.decision_function(X))
    # The machine is still there, and a plan that is asked for is used.
    assert set(fast.decide(X[:5])["certainty"]) <= {"exact", "certified"}
    other = fast.with_plan("exact")
    assert other._source is None and other.comparison_ is None
    # One query at a time, the machine is the faster one.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mercer.accelerate(source, X[400:600], seconds=2, aim="latency").comparison_["kept"] == "model"


def test_our_own_estimators_and_files_run_the_plan(monkeypatch, tmp_path):
    monkeypatch.setattr(_accelerate, "compare_times", lambda *_: times((0.7, 0.7), (6.9, 6.9)))
    source = ours.LinearSVC().fit(X[:400], Y[:400])
    assert mercer.accelerate(source, X[400:600], seconds=2).comparison_["kept"] == "model"
    source.save(tmp_path / "m.mercer")
    assert mercer.accelerate(tmp_path / "m.mercer", X[400:600], seconds=2).comparison_ is None


def machines():
    rows = sp.csr_matrix(X[:400])
    for kind in (ours.LinearSVC, ours.SVC):
        machine = kind().fit(rows, Y[:400])
        yield machine
        yield mercer.from_sklearn(machine)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("value", [np.float64, np.float32, np.int64])
def test_sparse_rows_of_every_type_give_the_bits_of_dense_ones(index, value):
    rows = sp.csr_matrix(X[400:500]).astype(value)
    rows.indptr, rows.indices = rows.indptr.astype(index), rows.indices.astype(index)
    for machine in machines():
        expected = machine.decision_function(X[400:500])
        np.testing.assert_array_equal(machine.decision_function(rows), expected)
        np.testing.assert_array_equal(machine.decision_function(rows[:3]), expected[:3])
        backwards = sp.csr_matrix((rows.data[::-1], rows.indices[::-1], rows.indptr[-1] - rows.indptr[::-1]), rows.shape)
        np.testing.assert_array_equal(machine.decision_function(backwards), expected[::-1])


def test_bad_sparse_rows_are_refused():
    for machine in machines():
        with pytest.raises(ValueError, match="63"):
            machine.predict(sp.csr_matrix(X[:20, :63]))
        with pytest.raises(ValueError, match="NaN"):
            machine.predict(sp.csr_matrix(np.where(X[:20] == 5, np.nan, X[:20])))
        short = sp.csr_matrix(X[:20])
        short.indptr = short.indptr[:-1]
        with pytest.raises(ValueError, match="damaged|indptr"):
            machine.predict(short)
        beyond = sp.csr_matrix(X[:20])
        beyond.indices[3] = 1000
        with pytest.raises(ValueError, match="damaged|index"):
            machine.predict(beyond)


def test_stored_zeros_change_nothing():
    rows = sp.csr_matrix(X[400:500])
    rows.data[::3] = 0.0
    rows.data[1::7] = -0.0
    for machine in machines():
        np.testing.assert_array_equal(machine.decision_function(rows), machine.decision_function(rows.toarray()))
        np.testing.assert_array_equal(machine.predict(rows), machine.predict(rows.toarray()))
