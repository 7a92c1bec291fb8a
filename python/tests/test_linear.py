"""LinearSVC: scikit-learn's parameters, attributes and signs, and its solutions."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm as theirs
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import mercer
import mercer.svm as ours

TIGHT = dict(tol=1e-8, max_iter=20000)


def scaled(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def objective(machine, X, y, weights=1.0):
    """What LIBLINEAR minimises, the bias included."""
    scores = machine.decision_function(X).reshape(len(y), -1)
    classes = machine.classes_ if scores.shape[1] > 1 else machine.classes_[1:]
    slack = np.maximum(0, 1 - np.where(y[:, None] == classes, 1, -1) * scores)
    loss = slack**2 if machine.loss == "squared_hinge" else slack
    bias = np.asarray(machine.intercept_) / machine.intercept_scaling
    return 0.5 * ((machine.coef_**2).sum() + (bias**2).sum()) + machine.C * (np.asarray(weights) * loss.T).sum()


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer, load_digits])
@pytest.mark.parametrize("loss, dual", [("squared_hinge", False), ("squared_hinge", True), ("hinge", True)])
def test_the_solution_is_that_of_scikit_learn(load, loss, dual):
    X, y = scaled(load)
    options = dict(loss=loss, dual=dual, C=0.01, random_state=0, **TIGHT)
    mine, other = ours.LinearSVC(**options).fit(X, y), theirs.LinearSVC(**options).fit(X, y)
    assert mine.coef_.shape == other.coef_.shape and mine.intercept_.shape == other.intercept_.shape
    assert objective(mine, X, y) <= objective(other, X, y) * (1 + 1e-6)
    # Hinge solutions are unique in the weights, though flat: both are within the gap of the best.
    allowed = 1e-5 if loss == "squared_hinge" else 1e-3
    np.testing.assert_allclose(mine.coef_, other.coef_, atol=allowed * np.abs(other.coef_).max())
    np.testing.assert_allclose(mine.intercept_, other.intercept_, atol=allowed)
    np.testing.assert_allclose(mine.decision_function(X), X @ mine.coef_.T + mine.intercept_
                               if len(mine.classes_) > 2 else (X @ mine.coef_.T + mine.intercept_).ravel(),
                               atol=1e-9)
    assert isinstance(mine.n_iter_, int) and mine.training_report_["converged"]


def test_unscaled_columns_converge_where_scikit_learn_does():
    for load in (load_iris, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            mine, other = ours.LinearSVC().fit(X, y), theirs.LinearSVC().fit(X, y)
        assert objective(mine, X, y) <= objective(other, X, y) * (1 + 1e-3)
        # LIBLINEAR's rule looks at slopes, which unscaled columns make large; a smaller tol closes the gap.
        report = ours.LinearSVC(tol=1e-7).fit(X, y).training_report_
        assert report["gap"] <= 1e-3 * abs(report["objective"])


def test_values_are_not_rounded():
    # One column far from zero, distinguished in the ninth digit only.
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    X = np.c_[1.0 + 1e-6 * x, rng.normal(size=300)]
    y = x > 0
    options = dict(C=1e12, fit_intercept=False, dual=False, tol=1e-10, max_iter=2000)
    assert ours.LinearSVC(**options).fit(X, y).score(X, y) == theirs.LinearSVC(**options).fit(X, y).score(X, y)


@pytest.mark.parametrize("dual", [True, False])
def test_weights_are_repetitions_and_classes_have_their_own(dual):
    X, y = make_classification(120, random_state=2)
    counts = np.random.default_rng(0).integers(0, 4, size=120)
    machine = ours.LinearSVC(dual=dual, C=0.1, **TIGHT)
    weighted = clone(machine).fit(X, y, sample_weight=counts)
    repeated = clone(machine).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    heavy = clone(machine).set_params(class_weight={1: 5.0}).fit(X, y)
    same = clone(machine).fit(X, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    np.testing.assert_allclose(heavy.coef_, same.coef_, atol=1e-6)
    theirs_balanced = theirs.LinearSVC(class_weight="balanced", dual=dual, C=0.1, random_state=0, **TIGHT).fit(X, y)
    balanced = clone(machine).set_params(class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(balanced.coef_, theirs_balanced.coef_, atol=1e-5)


@pytest.mark.parametrize("dual", [True, False])
def test_sparse_rows_f32_and_threads_change_nothing(dual):
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    machine = ours.LinearSVC(dual=dual, C=0.1, random_state=0)
    plain = clone(machine).fit(X, y)
    for rows in (sp.csr_matrix(X), X.astype(np.float32), np.asfortranarray(X)):
        np.testing.assert_array_equal(clone(machine).fit(rows, y).coef_, plain.coef_)
    np.testing.assert_array_equal(clone(machine).set_params(n_jobs=1).fit(X, y).coef_, plain.coef_)
    np.testing.assert_array_equal(plain.predict(sp.csr_matrix(X)), plain.predict(X))


def test_intercepts_are_scaled_and_may_be_left_out():
    X, y = scaled(load_breast_cancer)
    for scaling in (0.1, 1.0, 100.0):
        options = dict(intercept_scaling=scaling, C=0.01, dual=False, **TIGHT)
        mine, other = ours.LinearSVC(**options).fit(X, y), theirs.LinearSVC(**options).fit(X, y)
        np.testing.assert_allclose(mine.intercept_, other.intercept_, rtol=1e-4, atol=1e-6)
    assert ours.LinearSVC(fit_intercept=False).fit(X, y).intercept_ == 0.0
    with pytest.raises(ValueError, match="[Ii]ntercept"):
        ours.LinearSVC(intercept_scaling=0).fit(X, y)


def test_what_is_no_kernel_machine_is_trained_by_scikit_learn():
    X, y = scaled(load_iris)
    for options in ({"penalty": "l1", "dual": False}, {"multi_class": "crammer_singer"}):
        mine = ours.LinearSVC(random_state=0, **options).fit(X, y)
        other = theirs.LinearSVC(random_state=0, **options).fit(X, y)
        np.testing.assert_array_equal(mine.coef_, other.coef_)
        np.testing.assert_array_equal(mine.predict(X), other.predict(X))
        assert mine.training_report_["solver"] == "scikit-learn"
    with pytest.raises(ValueError, match="Unsupported set of arguments"):
        ours.LinearSVC(loss="hinge", dual=False).fit(X, y)


def test_it_has_the_methods_of_every_machine(tmp_path):
    X, y = load_iris(return_X_y=True)
    words = np.array(["c", "a", "b"])[y]
    for rows, labels in ((X, words), (X[y > 0], words[y > 0])):
        machine = ours.LinearSVC(C=0.1).fit(rows, labels)
        decisions = machine.decide(rows)
        assert set(decisions["certainty"]) == {"exact"}
        np.testing.assert_array_equal(decisions["label"], machine.predict(rows))
        machine.save(tmp_path / "linear.mercer")
        for again in (mercer.load(tmp_path / "linear.mercer"), pickle.loads(pickle.dumps(machine))):
            np.testing.assert_array_equal(again.predict(rows), machine.predict(rows))
            np.testing.assert_array_equal(again.decision_function(rows), machine.decision_function(rows))
        fast = mercer.accelerate(machine, rows)
        assert fast.compare(machine, rows)["different"] == 0


def test_a_callback_stops_it_and_an_early_stop_is_reported():
    X, y = make_classification(2000, 60, random_state=1)

    def stop(progress):
        raise KeyError(progress["iterations"])

    with pytest.raises(KeyError):
        ours.LinearSVC(dual=True, C=1e4, tol=1e-12, max_iter=10**6, callback=stop).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="failed to converge"):
        machine = ours.LinearSVC(dual=True, max_iter=3, tol=1e-9, C=100).fit(X, y)
    assert machine.n_iter_ == 3


def test_the_logistic_machine_of_the_compiled_half_is_that_of_scikit_learn():
    X, y = scaled(load_breast_cancer)
    other = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, y)
    for space in ("dual", "primal"):
        task = dict.fromkeys(["weights", "order", "names", "max_iterations", "probabilities"])
        task |= {
            "kernel": "linear", "formulation": "logistic(C=0.5)", "solver": f"linear(space={space}, bias=0)",
            "targets": np.where(y == 1, 1.0, -1.0), "tolerance": 1e-7, "memory": 1 << 28, "threads": 0,
        }
        model, report = mercer._mercer.train(X, task)
        assert report["converged"] and abs(report["gap"]) < 1e-6 * abs(report["objective"])
        np.testing.assert_allclose(model.weights[0], other.coef_, atol=1e-5)


def tube(machine, X, y, weights=1.0):
    """What LIBLINEAR's support vector regression minimises, the bias included."""
    slack = np.maximum(0, np.abs(machine.predict(X) - y) - machine.epsilon)
    bias = np.sum(np.asarray(machine.intercept_)) / machine.intercept_scaling
    return 0.5 * ((machine.coef_**2).sum() + bias**2) + machine.C * (weights * slack).sum()


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.3}, {"fit_intercept": False}, {"C": 0.01, "intercept_scaling": 5.0}])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_regressions_are_those_of_scikit_learn(options, container):
    X, y = diabetes()
    rows, weights = container(X), np.linspace(0.1, 2, len(y))
    options = {"random_state": 0, "max_iter": 200_000, "tol": 1e-6, **options}
    mine, other = (kind(**options).fit(rows, y, sample_weight=weights) for kind in (ours.LinearSVR, theirs.LinearSVR))
    assert mine.coef_.shape == other.coef_.shape and np.shape(mine.intercept_) == np.shape(other.intercept_)
    assert tube(mine, X, y, weights) <= tube(other, X, y, weights) * (1 + 1e-4)
    np.testing.assert_allclose(mine.predict(rows), X @ mine.coef_ + mine.intercept_, atol=1e-12)
    assert isinstance(mine.n_iter_, int) and mine.training_report_["converged"]
    model = mercer.from_sklearn(mine)
    np.testing.assert_array_equal(model.predict(rows), mine.predict(rows))


def test_a_squared_tube_is_trained_by_scikit_learn():
    X, y = diabetes()
    options = dict(loss="squared_epsilon_insensitive", dual=False)
    mine, other = ours.LinearSVR(**options).fit(X, y), theirs.LinearSVR(**options).fit(X, y)
    np.testing.assert_array_equal(mine.coef_, other.coef_)
    np.testing.assert_allclose(mine.predict(X), other.predict(X), atol=1e-12)
    assert mine.training_report_ == {"solver": "scikit-learn"}


def test_what_scikit_learn_refuses_is_refused():
    X, y = diabetes()
    with pytest.raises(ValueError, match="dual=False"):
        ours.LinearSVR(dual=False).fit(X, y)
    with pytest.raises(ValueError, match="[Ii]ntercept.scaling"):
        ours.LinearSVR(intercept_scaling=0).fit(X, y)


def test_the_smallest_c_is_there_too():
    X, y = scaled(load_iris)
    assert ours.l1_min_c(X, y) == theirs.l1_min_c(X, y)
