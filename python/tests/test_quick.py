"""Plain arrays take a shorter way through ``fit``: the same machines, and the same refusals, as by scikit-learn's validation."""

import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from mercer.svm import SVC, SVR, NuSVC, OneClassSVM


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def same(a, b):
    for name in ("support_", "support_vectors_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.n_features_in_ == b.n_features_in_


@pytest.mark.parametrize("kind", [SVC, NuSVC, SVR])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_and_lists_give_the_same_machine(iris, kind, dtype):
    X, y = iris[0].astype(dtype), iris[1]
    quick = kind().fit(X, y)
    same(quick, kind().fit(np.asfortranarray(X), y))
    same(quick, kind().fit(X, list(y)))
    if kind is not SVR:
        np.testing.assert_array_equal(quick.classes_, kind().fit(X, list(y)).classes_)
        np.testing.assert_array_equal(quick.class_weight_, np.ones(3))


def test_other_threads_train_the_same_machine(iris):
    first, found = SVC().fit(*iris), []
    threads = [threading.Thread(target=lambda: found.append(SVC().fit(*iris))) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 3
    for other in found:
        same(first, other)


def test_wrong_arrays_are_refused_in_scikit_learns_words(iris):
    X, y = iris
    for bad, message in ((np.nan, "contains NaN"), (np.inf, "contains infinity")):
        wrong = X.copy()
        wrong[3, 1] = bad
        with pytest.raises(ValueError, match=message):
            SVC().fit(wrong, y)
    # The sum of these overflows, and each is finite.
    with pytest.raises(ValueError, match="not finite"):
        SVC(gamma="scale").fit(np.full_like(X, 1e308) * np.sign(np.arange(len(X)) - 70.5)[:, None], y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVC().fit(X, y[:-1])
    with pytest.raises(ValueError, match="greater than one"):
        SVC().fit(X, np.zeros(len(X), int))
    with pytest.raises(ValueError, match="Unknown label type"):
        SVC().fit(X, y + 0.5)
    with pytest.raises(ValueError, match="minimum of 1"):
        SVC().fit(X[:0], y[:0])
    with pytest.warns(UserWarning, match="unique classes"):
        SVC().fit(X, np.arange(len(X)))
    with pytest.raises(ValueError, match="NaN"):
        SVR().fit(X, np.where(y == 1, np.nan, y))


def test_parameters_are_checked_again_when_they_change(iris):
    svc = SVC(C=1.0).fit(*iris)
    for wrong in ({"C": -1.0}, {"C": "1"}, {"degree": 2.5}, {"kernel": "none"}, {"break_ties": 1.5}):
        with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter"):
            clone(svc).set_params(**wrong).fit(*iris)
    # True equals 1, but is no number of threads; 1 and 1.0 both are a C.
    svc.set_params(C=1, cache_size=100).fit(*iris)
    names = SVC().get_params()
    SVC._get_param_names().clear()
    assert SVC().get_params() == names


def test_names_of_columns_are_forgotten_with_an_array(iris):
    pandas = pytest.importorskip("pandas")
    X, y = iris
    svc = SVC().fit(pandas.DataFrame(X, columns=list("abcd")), y)
    assert list(svc.feature_names_in_) == list("abcd")
    svc.fit(X, y)
    assert not hasattr(svc, "feature_names_in_")
    assert OneClassSVM().fit(X).n_features_in_ == 4
