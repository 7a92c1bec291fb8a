"""Prediction sets and intervals: coverage, shapes in scikit-learn's order, files, and sentences for bad input."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_friedman1
from sklearn.svm import SVC as TheirSVC

import mercer
from mercer.errors import MercerError
from mercer.svm import SVC, SVR, OneClassSVM


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order] / 16, np.array([f"digit {label}" for label in y])[order]


def test_sets_hold_the_labels_as_often_as_promised_and_never_are_empty(digits):
    X, y = digits
    svc = SVC(C=0.05).fit(X[:300], y[:300]).conformalize(X[300:1000], y[300:1000], coverage=0.9)
    sets = svc.predict_set(X[1000:])
    assert sets.dtype == bool and sets.shape == (797, 10) and sets.any(axis=1).all()
    truth = np.searchsorted(svc.classes_, y[1000:])
    covered = sets[np.arange(797), truth].mean()
    # Beta(631, 70) and a count over 797 rows: five standard deviations below 0.9.
    assert covered >= 0.9 - 5 * np.sqrt(0.09 / 702 + 0.09 / 797)
    labels = np.searchsorted(svc.classes_, svc.predict(X[1000:]))
    assert sets[np.arange(797), labels].all()
    assert svc.conformal_["coverage"] == 0.9 and svc.conformal_["rows"] == 700


def test_sets_that_may_be_empty_cover_as_often_as_asked_however_accurate_the_machine_is(digits):
    X, y = digits
    svc = SVC(C=1.0).fit(X[:300], y[:300]).conformalize(X[300:1000], y[300:1000], coverage=0.8)
    sets = svc.predict_set(X[1000:])
    own, how = svc.predict_set(X[1000:], allow_empty=True, return_certainty=True)
    truth = np.searchsorted(svc.classes_, y[1000:])
    # Labels are right more often than asked.
    assert sets[np.arange(797), truth].mean() > 0.9 and sets.sum(axis=1).min() == 1
    # Beta(561, 140) and a count over 797 rows: five standard deviations around 0.8.
    assert abs(own[np.arange(797), truth].mean() - 0.8) <= 5 * np.sqrt(0.16 / 702 + 0.16 / 797)
    assert own.sum(axis=1).min() == 0 and not (own & ~sets).any() and set(how) == {"exact"}


def test_plans_decide_most_sets_by_ranges(digits):
    X, y = digits
    model = mercer.from_sklearn(TheirSVC(C=0.05).fit(X[:300], y[:300])).with_plan("cascade(low_precision, exact)")
    model = model.conformalize(X[300:1000], y[300:1000], coverage=0.95)
    for allow_empty in (False, True):
        sets, how = model.predict_set(X[1000:], allow_empty=allow_empty, return_certainty=True)
        exact = model.with_plan("exact").predict_set(X[1000:], allow_empty=allow_empty)
        np.testing.assert_array_equal(sets, exact)
        assert (how == "certified").mean() > 0.5


def test_columns_follow_classes_whatever_the_order_of_the_model(digits):
    X, y = digits
    is_some = (y == "digit 3") | (y == "digit 8")
    X, y = X[is_some], y[is_some]
    rows = np.where(y[:150] == y[0])[0], np.where(y[:150] != y[0])[0]
    for order in (np.concatenate(rows), np.concatenate(rows[::-1])):
        source = TheirSVC(C=0.01).fit(X[order], y[order])
        model = mercer.from_sklearn(source).conformalize(X[150:], y[150:], coverage=0.99)
        sets, labels = model.predict_set(X[:150]), model.predict(X[:150])
        assert sets[np.arange(150), np.searchsorted(model.classes_, labels)].all()


def test_intervals_hold_the_values_and_files_keep_them(tmp_path):
    X, y = make_friedman1(900, noise=1.0, random_state=0)
    svr = SVR(C=10).fit(X[:300], y[:300])
    svr.conformalize(X[300:600], y[300:600], coverage=0.9)
    intervals = svr.predict_interval(X[600:])
    inside = (intervals[:, 0] <= y[600:]) & (y[600:] <= intervals[:, 1])
    assert inside.mean() >= 0.9 - 5 * np.sqrt(0.09 / 302 + 0.09 / 300)
    np.testing.assert_allclose(intervals.mean(axis=1), svr.predict(X[600:]), rtol=1e-12)
    svr.save(tmp_path / "m.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m.mercer").predict_interval(X[600:]), intervals)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(svr)).predict_interval(X[600:]), intervals)
    wide = svr.predict_interval(X[600:], tolerance=0.1)
    assert np.all(wide[:, 0] <= intervals[:, 0]) and np.all(intervals[:, 1] <= wide[:, 1])


def test_models_are_not_changed_and_other_scores_drop_the_calibration(digits):
    X, y = digits
    model = mercer.from_sklearn(TheirSVC().fit(X[:300], y[:300]))
    other = model.conformalize(X[300:600], y[300:600])
    assert model.conformal_ is None and other.conformal_["coverage"] == 0.9
    assert other.with_plan("cascade(low_precision, exact)").conformal_ == other.conformal_
    assert other.compress(size=50).conformal_ is None


def test_bad_input_gets_a_sentence(digits):
    X, y = digits
    svc = SVC().fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="has no prediction sets"):
        svc.predict_set(X[:2])
    with pytest.raises(MercerError, match="the coverage is 2"):
        svc.conformalize(X[:50], y[:50], coverage=2)
    with pytest.raises(MercerError, match="8 rows are too few to promise a coverage of 0.9: 9 are needed"):
        svc.conformalize(X[:8], y[:8])
    with pytest.raises(ValueError, match="row 3 has the label"):
        svc.conformalize(X[:50], np.where(np.arange(50) == 2, "digit 11", y[:50]))
    with pytest.raises(MercerError, match="targets"):
        svc.conformalize(X[:50], y[:49])
    with pytest.raises(ValueError, match="predict_set gives sets"):
        svc.conformalize(X[:50], y[:50]).predict_interval(X[:2])
    with pytest.raises(MercerError, match="novelty"):
        OneClassSVM().fit(X[:100]).conformalize(X[:50], np.ones(50))
