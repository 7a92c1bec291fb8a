"""Our estimators: what scikit-learn's own tests do not ask."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm as theirs
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import mercer.svm as ours
from mercer.errors import MercerError, TrainError

# Linear machines have no kernel: see test_linear.py.
PAIRS = [(getattr(ours, name), getattr(theirs, name)) for name in ours.__all__ if name.endswith(("SVC", "SVR", "SVM"))]
PAIRS = [pair for pair in PAIRS if not pair[0].__name__.startswith("Linear")]
KERNELS = ["linear", "rbf", "poly", "sigmoid"]


def data(kind):
    if issubclass(kind, (theirs.SVR, theirs.NuSVR)):
        X, y = load_diabetes(return_X_y=True)
        return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    X, y = load_iris(return_X_y=True)
    # Novelty detection with a linear kernel needs data on one side of the origin.
    return (X if kind is ours.OneClassSVM else StandardScaler().fit_transform(X)), y


def scores(estimator, X):
    method = getattr(estimator, "decision_function", estimator.predict)
    return method(X)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("our, their", PAIRS)
def test_scores_are_those_of_scikit_learn_to_the_tolerance(our, their, kernel):
    X, y = data(our)
    tol = 1e-5
    if kernel == "sigmoid" and our in (ours.NuSVC, ours.NuSVR):
        pytest.skip("the sigmoid kernel is not semidefinite: the problem has many solutions")
    options = dict(kernel=kernel, tol=tol, gamma=0.1)
    mine, reference = our(**options).fit(X, y), their(**options).fit(X, y)
    one, other = scores(mine, X), scores(reference, X)
    assert one.shape == other.shape
    np.testing.assert_allclose(one, other, atol=0.02 * np.abs(other).max())
    for name in ("dual_coef_", "intercept_", "n_support_", "support_vectors_"):
        mine_has, theirs_has = getattr(mine, name), getattr(reference, name)
        assert np.ndim(mine_has) == np.ndim(theirs_has), name
    assert mine.support_.dtype == reference.support_.dtype
    assert mine.shape_fit_ == reference.shape_fit_
    assert mine.fit_status_ == 0


@pytest.mark.parametrize("our, their", PAIRS)
def test_support_vectors_are_the_rows_named_and_give_the_scores(our, their):
    X, y = data(our)
    machine = our(gamma=0.2).fit(X, y)
    np.testing.assert_array_equal(machine.support_vectors_, X[machine.support_])
    assert machine.n_support_.sum() == len(machine.support_)
    if hasattr(machine, "classes_"):
        owners = y[machine.support_]
        np.testing.assert_array_equal(owners, np.repeat(machine.classes_, machine.n_support_))


def test_words_and_numbers_are_labels():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    by_number, by_name = ours.SVC().fit(X, y), ours.SVC().fit(X, names[y])
    assert list(by_name.classes_) == list(names)
    np.testing.assert_array_equal(names[by_number.predict(X)], by_name.predict(X))
    objects = ours.SVC().fit(X, names[y].astype(object)).predict(X)
    np.testing.assert_array_equal(objects, by_name.predict(X))


@pytest.mark.parametrize("our, their", PAIRS)
def test_f32_f64_and_storage_orders_agree(our, their):
    X, y = data(our)
    X = X.astype(np.float32).astype(np.float64)
    reference = our().fit(X, y)
    for rows in (X.astype(np.float32), np.asfortranarray(X), X[::-1].copy()[::-1]):
        same = our(gamma=reference._gamma).fit(rows, y)
        np.testing.assert_array_equal(scores(same, X), scores(reference, X))
        np.testing.assert_array_equal(scores(reference, rows), scores(reference, X))


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_compressed_rows_give_the_bits_of_dense_ones(container):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    dense, compressed = ours.SVC(gamma=0.001).fit(X, y), ours.SVC(gamma=0.001).fit(container(X), y)
    assert sp.issparse(compressed.support_vectors_) and sp.issparse(compressed.dual_coef_)
    expected = dense.decision_function(X)
    np.testing.assert_array_equal(compressed.decision_function(container(X)), expected)
    np.testing.assert_array_equal(compressed.decision_function(X), expected)
    np.testing.assert_array_equal(dense.decision_function(container(X)), expected)


def test_unsorted_and_repeated_entries_are_put_in_order():
    X = sp.csr_matrix((np.array([2.0, 1.0, 0.5]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    rows = np.array([[-2.0, -1], [-1, -1], [1, 1], [2, 1]])
    machine = ours.SVC(gamma=1).fit(rows, [0, 0, 1, 1])
    assert machine.decision_function(X) == machine.decision_function(np.array([[1.0, 2.5]]))


def test_many_columns_stay_compressed():
    columns = 1_000_000
    X = sp.csr_matrix(
        (np.ones(4), np.array([0, 5, columns - 1, 7], dtype=np.int64), np.arange(5)), shape=(4, columns)
    )
    machine = ours.SVC(kernel="linear").fit(X, [0, 0, 1, 1])
    np.testing.assert_array_equal(machine.predict(X), [0, 0, 1, 1])


def test_tables_of_pandas_polars_and_arrow_are_rows():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    X, y = load_iris(return_X_y=True)
    names = ["a", "b", "c", "d"]
    frame = pandas.DataFrame(X, columns=names)
    machine = ours.SVC().fit(frame, y)
    assert list(machine.feature_names_in_) == names
    expected = ours.SVC().fit(X, y).decision_function(X)
    np.testing.assert_array_equal(machine.decision_function(frame), expected)
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(frame[["b", "a", "c", "d"]])
    for table in (polars.DataFrame(X, schema=names), arrow.table(dict(zip(names, X.T)))):
        other = ours.SVC().fit(table, y)
        np.testing.assert_array_equal(other.decision_function(table), expected)


def test_weights_are_repetitions():
    X, y = make_classification(60, random_state=0)
    twice = np.r_[np.arange(60), np.arange(30)]
    weights = np.where(np.arange(60) < 30, 2.0, 1.0)
    options = dict(tol=1e-8, gamma=0.1)
    weighted = ours.SVC(**options).fit(X, y, sample_weight=weights)
    repeated = ours.SVC(**options).fit(X[twice], y[twice])
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
    )
    by_class = ours.SVC(class_weight={0: 3.0}, **options).fit(X, y)
    by_sample = ours.SVC(**options).fit(X, y, sample_weight=np.where(y == 0, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.decision_function(X), by_sample.decision_function(X))


@pytest.mark.parametrize("our, their", PAIRS)
def test_precomputed_and_callable_kernels_give_the_scores_of_the_kernel(our, their):
    X, y = data(our)
    X, y = X[::2], y[::2]

    def kernel(u, v):
        return np.asarray(u) @ np.asarray(v).T

    options = dict(tol=1e-7)
    plain = our(kernel="linear", **options).fit(X, y)
    given = our(kernel="precomputed", **options).fit(X @ X.T, y)
    called = our(kernel=kernel, **options).fit(X, y)
    expected = scores(plain, X)
    tolerance = dict(atol=1e-3 * np.abs(expected).max())
    np.testing.assert_allclose(scores(given, X @ X.T), expected, **tolerance)
    np.testing.assert_array_equal(scores(called, X), scores(given, X @ X.T))


def product(u, v):
    # Not `u @ v.T`: where both are the same array, numpy multiplies by another routine, with other last bits.
    return (np.asarray(u)[:, None, :] * np.asarray(v)[None, :, :]).sum(axis=2)


def test_pickles_keep_every_bit_and_callables_by_reference():
    X, y = load_iris(return_X_y=True)
    for machine in (ours.SVC(), ours.SVC(kernel=product), ours.NuSVC(nu=0.2, kernel="poly")):
        machine.fit(X, y)
        copy = pickle.loads(pickle.dumps(machine))
        np.testing.assert_array_equal(copy.decision_function(X), machine.decision_function(X))
        assert copy.get_params() == machine.get_params()
        assert b"safetensors" not in pickle.dumps(clone(machine))


def test_the_result_does_not_depend_on_threads():
    X, y = load_digits(return_X_y=True)
    one, all_ = ours.SVC(n_jobs=1).fit(X, y), ours.SVC(n_jobs=-1).fit(X, y)
    np.testing.assert_array_equal(one.dual_coef_, all_.dual_coef_)
    np.testing.assert_array_equal(one.decision_function(X), all_.decision_function(X))


def test_grid_search_in_processes_works():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(ours.SVC(), {"C": [0.1, 1, 10]}, n_jobs=2, cv=3).fit(X, y)
    assert search.best_score_ > 0.9


def slow_problem():
    # Far from zero and ill-conditioned: millions of steps.
    rng = np.random.RandomState(0)
    return rng.normal(loc=100, size=(100, 2)), rng.randint(0, 2, size=100)


def test_a_callback_is_called_and_may_stop_the_training():
    reports = []

    def callback(progress):
        reports.append(progress)
        if len(reports) == 3:
            raise RuntimeError("enough")

    X, y = slow_problem()
    with pytest.raises(RuntimeError, match="enough"):
        ours.SVC(kernel="poly", tol=1e-9, callback=callback).fit(X, y)
    assert len(reports) == 3
    assert reports[0]["iterations"] < reports[2]["iterations"]
    assert set(reports[0]) >= {"gap", "violation", "supports", "elapsed", "time_left", "subproblem", "subproblems"}


def test_verbose_prints_progress(capsys):
    X, y = slow_problem()
    # A line is printed from time to time: a fast processor ends short trainings before the first.
    for steps in [400_000, 4_000_000, 40_000_000]:
        with pytest.warns(Warning):
            ours.SVC(kernel="poly", tol=1e-9, verbose=True, max_iter=steps).fit(X, y)
        printed = capsys.readouterr().out
        if printed:
            break
    assert "[SVC]" in printed


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_stops_training_with_keyboard_interrupt():
    program = textwrap.dedent(
        """
        import numpy as np
        from mercer.svm import SVC
        rng = np.random.RandomState(0)
        X, y = rng.normal(loc=100, size=(100, 2)), rng.randint(0, 2, size=100)
        machine = SVC(kernel="poly", tol=1e-12)
        print("training", flush=True)
        try:
            machine.fit(X, y)
        except KeyboardInterrupt:
            print("interrupted", hasattr(machine, "support_"), flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == "training"
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out.strip() == "interrupted False"


def test_other_threads_run_while_one_trains():
    X, y = slow_problem()
    counted = [0]
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.warns(Warning):
        ours.SVC(kernel="poly", tol=1e-9, max_iter=400_000).fit(X, y)
    stop.set()
    thread.join()
    assert counted[0] > 10


def test_errors_carry_their_fields():
    with pytest.raises(TrainError, match="specified nu is infeasible") as caught:
        ours.NuSVC(nu=0.9).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 0, 1])
    error = caught.value
    assert (error.kind, error.nu, error.limit) == ("InfeasibleNu", 0.9, 0.5)
    assert isinstance(error, MercerError) and isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.fields == error.fields
    with pytest.raises(AttributeError):
        error.nothing  # noqa: B018
    with pytest.raises(ValueError, match="gamma is 0"):
        ours.SVC(gamma=0.0).fit([[0.0], [1.0]], [0, 1])


def test_a_query_of_another_width_or_not_finite_is_refused_as_scikit_learn_does():
    machine = ours.SVC().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    with pytest.raises(ValueError, match="3 features, but SVC is expecting 2"):
        machine.predict(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="NaN"):
        machine.predict(np.array([[np.nan, 0.0]]))
    with pytest.raises(ValueError, match="2D array"):
        machine.predict(np.zeros(2))


def test_decisions_have_ranges_that_contain_the_scores():
    X, y = make_classification(100, random_state=1)
    machine = ours.SVC().fit(X, y)
    decisions = machine.decide(X)
    # The machine's score is positive for the first class, scikit-learn's for the second.
    score = -machine.decision_function(X)
    assert np.all((decisions["low"] <= score) & (score <= decisions["high"]))
    assert set(decisions["certainty"]) == {"exact"}
    np.testing.assert_array_equal(decisions["label"], machine.predict(X))
    nothing = machine.decide(X, budget=0)
    assert set(nothing["certainty"]) == {"unsettled"} and set(nothing["cost"]) == {0}
    reports = machine.explain(X[0])
    assert reports["answered_by"] == "exact" and reports["label"] == machine.predict(X[:1])[0]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("kind", [ours.SVC, ours.NuSVC])
def test_the_larger_of_two_probabilities_is_that_of_the_label(kind):
    X, y = make_classification(300, weights=[0.7], flip_y=0.2, random_state=3)
    options = {"nu": 0.4} if kind is ours.NuSVC else {}
    machine = kind(probability=True, random_state=0, **options).fit(X, y)
    queries = np.random.default_rng(0).normal(size=(2000, X.shape[1]))
    probabilities = machine.predict_proba(queries)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(machine.classes_[probabilities.argmax(axis=1)], machine.predict(queries))
    # And they grow with the score.
    order = np.argsort(machine.decision_function(queries))
    assert np.all(np.diff(probabilities[order, 1]) >= 0)
    copy = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(copy.predict_proba(queries), probabilities)
    again = kind(probability=True, random_state=0, n_jobs=1, **options).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(queries), probabilities)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_probabilities_of_several_classes_are_near_those_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    mine = ours.SVC(probability=True, random_state=0).fit(X, y)
    other = theirs.SVC(probability=True, random_state=0).fit(X, y)
    found, expected = mine.predict_proba(X), other.predict_proba(X)
    assert found.shape == expected.shape
    assert np.mean(np.abs(found - expected)) < 0.03
    assert np.mean(mine.classes_[found.argmax(axis=1)] == mine.predict(X)) > 0.97


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_log_loss_is_near_that_of_scikit_learn_on_unbalanced_classes():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.metrics import log_loss

    X, y = make_classification(1500, weights=[0.85], flip_y=0.1, random_state=1)
    X, queries, y, expected = X[:500], X[500:], y[:500], y[500:]
    mine = ours.SVC(probability=True, random_state=0).fit(X, y).predict_proba(queries)
    other = CalibratedClassifierCV(theirs.SVC(), ensemble=False).fit(X, y).predict_proba(queries)
    # Holding to the side of the label may cost a little.
    assert log_loss(expected, mine) < log_loss(expected, other) + 0.02


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weights_count_in_probabilities():
    X, y = make_classification(200, flip_y=0.1, random_state=5)
    machine = ours.SVC(probability=True, random_state=0)
    plain = machine.fit(X, y).probA_.copy()
    assert machine.fit(X, y, sample_weight=np.full(200, 1.0)).probA_ == pytest.approx(plain)
    assert machine.fit(X, y, sample_weight=np.where(y, 5.0, 1.0)).probA_ != pytest.approx(plain)


def test_a_polynomial_of_degree_0_is_a_constant_as_scikit_learn_has_it():
    X, y = load_iris(return_X_y=True)
    keep = np.r_[0:50, 60:100]
    mine, other = (kind.SVC(kernel="poly", degree=0).fit(X[keep], y[keep]) for kind in (ours, theirs))
    np.testing.assert_array_equal(mine.predict(X), other.predict(X))
