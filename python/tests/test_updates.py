"""``update`` and ``forget`` reach the machine of a training on all rows that are left."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import make_classification, make_friedman1

import mercer
from mercer import svm
from mercer.errors import TrainError


def classes(rows, kinds, seed=0):
    return make_classification(rows, 6, n_informative=5, n_redundant=0, n_classes=kinds, flip_y=0.1, random_state=seed)


def objective(machine):
    """The objective; of formulations with nu without the scale of the machine, for which the sum of |coefficients| stands."""
    report = machine.training_report_
    is_nu = type(machine).__name__.startswith("Nu")
    return report["objective"] / (np.abs(machine.dual_coef_).sum() ** 2 if is_nu else 1.0)


def agree(warm, cold):
    """Both objectives are at most a millionth above the least one, so they differ by no more."""
    warm_report, cold_report = warm.training_report_, cold.training_report_
    assert warm_report["converged"] and warm_report["update"]["relative_gap"] <= 1e-6
    assert cold_report["gap"] <= 1e-6 * abs(cold_report["objective"])
    assert abs(objective(warm) - objective(cold)) <= 1e-6 * abs(objective(cold))


@pytest.mark.parametrize("kinds", [2, 4])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
def test_an_update_of_a_classifier_is_a_fit_of_all_rows(kinds, form):
    X, y = classes(600, kinds)
    X, y = form(X), np.array(["a", "b", "c", "d"])[y]
    new = {"gamma": 0.2, "C": 3.0}
    cold = svm.SVC(**new, tol=1e-7).fit(X, y)
    warm = svm.SVC(**new).fit(X[:560], y[:560])
    assert warm.update(X[560:], y[560:], original=(X[:560], y[:560])) is warm
    agree(warm, cold)
    assert (warm.predict(X) == cold.predict(X)).all()
    assert np.abs(warm.decision_function(X) - cold.decision_function(X)).max() < 1e-2
    assert warm.support_vectors_.shape[0] == warm.n_support_.sum()
    assert np.abs(np.asarray(warm.support_.max())) < 600
    changes = warm.training_report_["update"]
    assert (changes["original"], changes["added"], changes["rows"]) == (560, 40, 600)
    assert changes["stayed"] + changes["came"] == len(warm.support_)


def test_forgetting_undoes_an_update_with_kept_rows():
    X, y = classes(500, 3)
    weights = np.linspace(0.5, 2.0, 500)
    first = svm.SVC(gamma=0.2, tol=1e-7).fit(X[:460], y[:460], sample_weight=weights[:460])
    machine = copy.deepcopy(first)
    machine.update(
        X[460:], y[460:], original=(X[:460], y[:460]), original_weight=weights[:460],
        sample_weight=weights[460:], keep_rows=True,
    )
    agree(machine, svm.SVC(gamma=0.2, tol=1e-7).fit(X, y, sample_weight=weights))
    machine = pickle.loads(pickle.dumps(machine))
    machine.forget(X[460:], y[460:])
    agree(machine, first)
    machine.fit(X, y)
    with pytest.raises(ValueError, match="the original rows are needed"):
        machine.forget(X[:1], y[:1])


@pytest.mark.parametrize(
    "machine", [svm.SVR(C=5.0, epsilon=0.2), svm.NuSVR(C=5.0, nu=0.4)], ids=["SVR", "NuSVR"]
)
def test_regressions_are_updated(machine):
    X, y = make_friedman1(400, noise=0.5, random_state=0)
    machine.set_params(gamma=0.5)
    tight = copy.deepcopy(machine).set_params(tol=1e-8).fit(X[:380], y[:380])
    machine.fit(X, y).forget(X[380:], y[380:], original=(X, y))
    agree(machine, tight)
    assert np.abs(machine.predict(X) - tight.predict(X)).max() < 1e-2


def test_novelty_detection_and_nu_svc_are_updated():
    X, y = classes(500, 2)
    cold = svm.OneClassSVM(nu=0.3, gamma=0.2, tol=1e-8).fit(X)
    warm = svm.OneClassSVM(nu=0.3, gamma=0.2).fit(X[:470]).update(X[470:], original=X[:470])
    agree(warm, cold)
    assert abs(warm.offset_ - cold.offset_) < 1e-3 * abs(cold.offset_)
    cold = svm.NuSVC(nu=0.5, gamma=0.2, tol=1e-8).fit(X, y)
    warm = svm.NuSVC(nu=0.5, gamma=0.2).fit(X[:470], y[:470]).update(X[470:], y[470:], original=(X[:470], y[:470]))
    agree(warm, cold)
    assert (warm.predict(X) == cold.predict(X)).mean() > 0.99


def test_classes_may_come_and_go_anywhere_in_their_order():
    X, y = classes(600, 4)
    has = y != 1
    cold = svm.SVC(gamma=0.2, tol=1e-7)
    machine = svm.SVC(gamma=0.2).fit(X[has], y[has])
    machine.update(X[~has], y[~has], original=(X[has], y[has]), keep_rows=True)
    agree(machine, cold.fit(X, y))
    assert machine.classes_.tolist() == [0, 1, 2, 3]
    assert (machine.predict(X) == cold.predict(X)).all()
    machine.forget(X[y == 0], y[y == 0])
    agree(machine, cold.fit(X[y != 0], y[y != 0]))
    assert machine.classes_.tolist() == [1, 2, 3]
    assert (machine.predict(X) == cold.predict(X)).all()


def test_gamma_stays_as_it_was_fitted():
    X, y = classes(300, 2)
    machine = svm.SVC().fit(X[:280], y[:280])
    gamma = machine._gamma
    machine.update(10 * X[280:], y[280:], original=(X[:280], y[:280]))
    agree(machine, svm.SVC(gamma=gamma, tol=1e-7).fit(np.vstack([X[:280], 10 * X[280:]]), y))


def test_what_does_not_fit_is_refused_and_nothing_changes():
    X, y = classes(200, 2)
    other, _ = classes(200, 2, seed=1)
    machine = svm.SVC(gamma=0.2).fit(X, y)
    before, scores = dict(machine.__dict__), machine.decision_function(other)
    for error, words, call in [
        (ValueError, "the original rows are needed", lambda: machine.update(X[:1], y[:1])),
        (TrainError, "not those of the machine", lambda: machine.update(X[:1], y[:1], original=(other, y))),
        (TrainError, "row 1 of the rows to forget is none", lambda: machine.forget(other[:1], y[:1], original=(X, y))),
        (TrainError, "another target", lambda: machine.forget(X[:1], 1 - y[:1], original=(X, y))),
        (TrainError, "row 2", lambda: machine.forget(X[[3, 3]], y[[3, 3]], original=(X, y))),
        (ValueError, "features", lambda: machine.update(X[:, :3], y, original=(X, y))),
        (ValueError, "need their targets", lambda: machine.update(X, original=(X, y))),
        (ValueError, "3 rows and 2 targets", lambda: machine.update(X[:3], y[:2], original=(X, y))),
        (ValueError, "original_weight", lambda: machine.update(X[:3], y[:3], original=(X, y), original_weight=[1.0])),
    ]:
        with pytest.raises(error, match=words):
            call()
        assert machine.__dict__.keys() == before.keys()
        assert all(machine.__dict__[name] is before[name] for name in before)
        assert (machine.decision_function(other) == scores).all()
    given = svm.SVC(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="fit again"):
        given.update(X, y, original=(X, y))


LEARNERS = {
    "SVC": lambda **tight: svm.SVC(gamma=0.2, C=3.0, class_weight={"a": 2.0}, **tight),
    "SVR": lambda **tight: svm.SVR(gamma=0.5, C=5.0, epsilon=0.2, **tight),
    "NuSVR": lambda **tight: svm.NuSVR(gamma=0.5, C=5.0, nu=0.4, **tight),
    "OneClassSVM": lambda **tight: svm.OneClassSVM(gamma=0.2, nu=0.3, **tight),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_models_of_files_that_keep_their_rows_are_updated(name, tmp_path):
    make = LEARNERS[name]
    if name == "SVC":
        X, y = classes(400, 3)
        y = np.array(["a", "b", "c"])[y]
    else:
        X, y = make_friedman1(400, noise=0.5, random_state=0)
    weights = np.linspace(0.5, 2.0, 400)
    args = lambda part: (X[part], None if name == "OneClassSVM" else y[part])
    make().fit(*args(slice(0, 370)), sample_weight=weights[:370], keep_rows=True).save(tmp_path / "kept.mercer")
    first = mercer.load(tmp_path / "kept.mercer")
    more = first.update(*args(slice(370, 400)), sample_weight=weights[370:])
    assert more is not first and not hasattr(first, "training_report_")
    cold = make(tol=1e-8).fit(*args(slice(0, 400)), sample_weight=weights)
    found, expected = more.training_report_, cold.training_report_
    assert found["update"]["added"] == 30 and found["update"]["rows"] == 400
    assert found["converged"] and found["update"]["relative_gap"] <= 1e-6
    if name != "NuSVR":
        assert abs(found["objective"] - expected["objective"]) <= 1e-6 * abs(expected["objective"])
    size = np.abs(_scores(cold, X)).max()
    assert np.abs(_scores(more, X) - _scores(cold, X)).max() < 1e-2 * size
    # What is saved keeps all rows, and forgets what was added.
    more.save(tmp_path / "more.mercer")
    less = mercer.load(tmp_path / "more.mercer").forget(*args(slice(370, 400)))
    assert less.training_report_["update"]["forgotten"] == 30 and less.training_report_["update"]["rows"] == 370
    assert np.abs(_scores(less, X) - _scores(first, X)).max() < 1e-2 * size


def _scores(machine, X):
    return machine.decision_function(X) if hasattr(machine, "decision_function") else machine.predict(X)


def test_models_without_rows_take_them_or_say_what_is_missing(tmp_path):
    X, y = classes(300, 2)
    svm.SVC(gamma=0.2).fit(X[:280], y[:280]).save(tmp_path / "bare.mercer")
    model = mercer.load(tmp_path / "bare.mercer")
    more = model.update(X[280:], y[280:], original=(X[:280], y[:280]))
    cold = svm.SVC(gamma=0.2, tol=1e-8).fit(X, y)
    assert abs(more.training_report_["objective"] - cold.training_report_["objective"]) <= 1e-6 * abs(
        cold.training_report_["objective"]
    )
    assert (more.predict(X) == cold.predict(X)).all() and more.classes_.tolist() == [0, 1]
    theirs = mercer.from_sklearn(sklearn.svm.SVC(gamma=0.2).fit(X[:280], y[:280]))
    given = theirs.update(X[280:], y[280:], original=(X[:280], y[:280]), formulation="c_svc(C=1)")
    np.testing.assert_allclose(given.decision_function(X), cold.decision_function(X), atol=1e-2)
    with pytest.raises(ValueError, match="the original rows are needed"):
        model.update(X[280:], y[280:])
    with pytest.raises(ValueError, match="does not say what was minimised"):
        theirs.update(X[280:], y[280:], original=(X[:280], y[:280]))
    with pytest.raises(ValueError, match="need their targets"):
        model.update(X[280:], original=(X[:280], y[:280]))
    with pytest.raises(TrainError, match="not those of the machine"):
        model.update(X[280:], y[280:], original=(X[:100], y[:100]))
    with pytest.raises(ValueError, match="kernel has kernel values"):
        svm.SVC(kernel="precomputed").fit(X @ X.T, y, keep_rows=True)


def test_fit_keeps_copies_of_its_rows():
    X, y = classes(300, 2)
    given = X.copy()
    machine = svm.SVC(gamma=0.2).fit(given, y, keep_rows=True)
    given[:] = 0.0
    machine.forget(X[:10], y[:10])
    agree(machine, svm.SVC(gamma=0.2, tol=1e-7).fit(X[10:], y[10:]))
    with pytest.raises(ValueError, match="the original rows are needed"):
        machine.fit(X, y).forget(X[:1], y[:1])
