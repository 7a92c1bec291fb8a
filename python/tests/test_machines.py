"""Machines that scikit-learn does not have."""

import pathlib
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import mercer
from mercer.errors import MercerError
from mercer.machines import LSSVC, AdditiveSVC, KernelFisher, LowRankSVC


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.3, random_state=0)


def exact_chi2_scores(X, y, queries, C, bias=1.0):
    """The additive chi2 machine without offset, by projected gradient on its dual: slow and plain."""

    def values(a, b):
        total = a[:, None, :] + b[None, :, :]
        terms = np.divide(2 * a[:, None, :] * b[None, :, :], total, where=total > 0, out=np.zeros_like(total))
        return terms.sum(axis=2) + bias * bias

    Q = values(X, X) * np.outer(y, y)
    alpha = np.zeros(len(y))
    for _ in range(3000):
        for i in range(len(y)):
            alpha[i] = np.clip(alpha[i] - (Q[i] @ alpha - 1) / Q[i, i], 0, C)
    return values(queries, X) @ (alpha * y)


def test_additive_is_the_exact_additive_machine():
    random = np.random.default_rng(3)
    # 17 values have separate bins, so binning changes nothing.
    X = random.integers(0, 17, size=(40, 6)).astype(float)
    y = np.where(X[:, 0] + X[:, 1] > X[:, 2] + X[:, 3], 1, -1)
    queries = random.integers(0, 17, size=(30, 6)).astype(float)
    expected = exact_chi2_scores(X, y, queries, C=0.1)
    machine = AdditiveSVC(C=0.1, rank=16, bins="uniform", tol=1e-6).fit(X, y)
    found = machine.decision_function(queries)
    assert np.max(np.abs(found - expected)) < 0.02 * np.max(np.abs(expected))


def test_labels_of_any_kind_in_any_order(digits):
    X, _, y, _ = digits
    names = np.array([f"digit {label}" for label in y])
    numbers = AdditiveSVC(C=0.01).fit(X, y)
    words = AdditiveSVC(C=0.01).fit(X, names)
    assert list(words.predict(X[:50])) == [f"digit {label}" for label in numbers.predict(X[:50])]
    order = np.argmax(numbers.decision_function(X[:50]), axis=1)
    assert np.array_equal(numbers.classes_[order], numbers.predict(X[:50]))


def test_sparse_rows_and_threads_change_nothing(digits):
    X, queries, y, _ = digits
    dense = AdditiveSVC(C=0.01, n_jobs=1).fit(X, y)
    sparse = AdditiveSVC(C=0.01, n_jobs=2).fit(sp.csr_matrix(X), y)
    assert np.array_equal(
        dense.decision_function(queries), sparse.decision_function(sp.csr_matrix(queries))
    )


def test_files_pickles_and_clones(digits, tmp_path):
    X, queries, y, _ = digits
    machine = AdditiveSVC(C=0.01, kernel="intersection").fit(X, y)
    machine.save(tmp_path / "digits.mercer")
    expected = machine.predict(queries)
    assert np.array_equal(mercer.load(tmp_path / "digits.mercer").predict(queries), expected)
    assert np.array_equal(pickle.loads(pickle.dumps(machine)).predict(queries), expected)
    assert np.array_equal(clone(machine).fit(X, y).predict(queries), expected)


def test_weights_move_the_border():
    X = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])
    y = np.array([0, 0, 1, 0, 1, 1])
    even = AdditiveSVC(kernel="linear", tol=1e-4).fit(X, y)
    pushed = AdditiveSVC(kernel="linear", tol=1e-4).fit(X, y, sample_weight=[1, 1, 1, 50, 1, 1])
    assert pushed.decision_function([[4.0]])[0] < even.decision_function([[4.0]])[0]
    heavy = AdditiveSVC(kernel="linear", tol=1e-4, class_weight={0: 50}).fit(X, y)
    assert heavy.decision_function([[4.0]])[0] < even.decision_function([[4.0]])[0]


def test_negative_values_are_an_error_that_tells_what_to_do():
    with pytest.raises(MercerError, match="quantile"):
        AdditiveSVC().fit([[-1.0, 2.0], [1.0, 2.0]], [0, 1])


def test_least_squares_is_kernel_ridge_with_a_bias(digits):
    """On centred targets and kernel values the least-squares SVM is scikit-learn's KernelRidge."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.preprocessing import KernelCenterer

    X, queries, y, _ = digits
    X, y = X[:300] / 16, np.where(y[:300] < 5, 1.0, -1.0)
    machine = LSSVC(C=10.0, gamma=0.5).fit(X, y)
    values = lambda a, b: np.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))
    centre = KernelCenterer().fit(values(X, X))
    ridge = KernelRidge(alpha=0.1, kernel="precomputed").fit(centre.transform(values(X, X)), y - y.mean())
    expected = ridge.predict(centre.transform(values(queries[:100] / 16, X))) + y.mean()
    assert machine.decision_function(queries[:100] / 16) == pytest.approx(expected, abs=1e-9)


def test_leave_one_out_is_that_of_as_many_fits(digits):
    X, _, y, _ = digits
    X, y = X[:60] / 16, y[:60] % 3
    for kind in (LSSVC, KernelFisher):
        machine = kind(C=5.0, gamma=0.3)
        whole = clone(machine).fit(X, y)
        keep = np.arange(60)
        right = [
            clone(machine).fit(X[keep != i], y[keep != i]).predict(X[i : i + 1])[0] == y[i] for i in range(60)
        ]
        assert whole.leave_one_out_accuracy_ == pytest.approx(np.mean(right))


def test_fisher_differs_from_least_squares_by_its_threshold(digits):
    X, queries, y, _ = digits
    X, y = X[:200] / 16, y[:200] == 3
    plain = LSSVC(C=2.0).fit(X, y).decision_function(queries / 16)
    fisher = KernelFisher(C=2.0).fit(X, y).decision_function(queries / 16)
    slope, shift = np.polyfit(plain, fisher, 1)
    assert slope > 0 and fisher == pytest.approx(slope * plain + shift, abs=1e-8)


def test_low_rank_comes_near_the_exact_machine(digits):
    from mercer.svm import SVC

    X, queries, y, labels = digits
    exact = SVC(gamma=0.001).fit(X, y)
    machine = LowRankSVC(gamma=0.001, rank=300, guard=False).fit(X, y)
    assert machine._model.supports <= 300
    assert machine.score(queries, labels) > exact.score(queries, labels) - 0.01
    best = machine.classes_[np.argmax(machine.decision_function(queries), axis=1)]
    assert np.mean(best == machine.predict(queries)) > 0.99


def test_every_machine_becomes_a_model_and_goes_faster(digits):
    X, queries, y, _ = digits
    for estimator in (AdditiveSVC(C=0.01), LSSVC(gamma=1e-3), KernelFisher(gamma=1e-3), LowRankSVC()):
        machine = clone(estimator).fit(X, y)
        fast = mercer.accelerate(machine, queries[:200], seconds=2)
        np.testing.assert_array_equal(fast.predict(queries), machine.predict(queries))


def test_more_than_four_threads_per_core_are_refused(monkeypatch, digits):
    X, _, y, _ = digits
    machine = AdditiveSVC(n_jobs=10**6)
    with pytest.raises(ValueError, match="n_jobs asks for 1000000 threads; at most"):
        machine.fit(X, y)
    monkeypatch.setenv("OMP_NUM_THREADS", "1000000")
    with pytest.raises(ValueError, match="OMP_NUM_THREADS asks for"):
        clone(machine).set_params(n_jobs=None).fit(X, y)


@pytest.mark.parametrize(
    "name",
    ["columns_2pow62_panic.mercer", "craft_cols_sparse_4294967296.mercer", "wide_column.model", "merged_overflow.model"],
)
def test_files_made_to_harm_are_read_or_refused(name):
    """Never a PanicException, which is no Exception."""
    path = pathlib.Path(__file__).parents[2] / "crates/mercer-machine/tests/data/trust" / name
    try:
        model = mercer.load(path)
    except MercerError as error:
        assert str(error)
    else:
        assert model.predict(sp.csr_matrix(np.ones((1, 1)))).shape == (1,)


def test_sparse_vectors_may_be_narrower_than_the_examples():
    """scikit-learn-intelex cuts sparse support vectors behind the last column with a value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    X[:, 3:] = 0.0
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    source = SVC(gamma=0.5).fit(sp.csr_matrix(X), y)
    source.support_vectors_ = source.support_vectors_[:, :3]
    queries = rng.normal(size=(30, 5))
    truth = SVC(gamma=0.5).fit(X, y).predict(queries)
    np.testing.assert_array_equal(mercer.from_sklearn(source).predict(queries), truth)
    np.testing.assert_array_equal(mercer.from_sklearn(source).predict(sp.csr_matrix(queries)), truth)
