"""What accelerate returns is an estimator of scikit-learn."""

import numpy as np
import pytest
import sklearn.svm as theirs
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import DecisionBoundaryDisplay, partial_dependence, permutation_importance
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted

import mercer


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def fast(cancer):
    X, y = cancer
    return mercer.accelerate(theirs.SVC().fit(X[:300], y[:300]), X[300:])


def test_tags_say_what_it_is(cancer, fast):
    X, y = cancer
    assert is_classifier(fast) and not is_regressor(fast)
    assert get_tags(fast).classifier_tags.multi_class is False and get_tags(fast).input_tags.sparse
    assert is_regressor(mercer.from_sklearn(theirs.SVR().fit(X, y)))
    assert is_outlier_detector(mercer.from_sklearn(theirs.OneClassSVM().fit(X)))
    given = mercer.from_sklearn(theirs.SVC(kernel="precomputed").fit(X @ X.T, y))
    assert get_tags(given).input_tags.pairwise


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1", "roc_auc", "average_precision"])
def test_scorers_take_it(cancer, fast, name):
    X, y = cancer
    source = theirs.SVC().fit(X[:300], y[:300])
    # Scores of the source and of the machine differ by rounding only.
    assert get_scorer(name)(fast, X, y) == pytest.approx(get_scorer(name)(source, X, y), abs=1e-12)


def test_scorers_of_regressions_take_it():
    X, y = load_diabetes(return_X_y=True)
    source = theirs.SVR(C=100).fit(X, y)
    model = mercer.accelerate(source, X, tolerance=0.5)
    for name in ("r2", "neg_mean_absolute_error"):
        assert get_scorer(name)(model, X, y) == pytest.approx(get_scorer(name)(source, X, y), rel=0.01)
    assert model.score(X, y, sample_weight=np.ones(len(y))) == model.score(X, y)


def test_clones_and_fits_change_nothing(cancer, fast):
    X, y = cancer
    for same in (clone(fast), fast.fit(X[:5], y[:5]), FrozenEstimator(fast), clone(FrozenEstimator(fast))):
        check_is_fitted(same)
        np.testing.assert_array_equal(same.predict(X), fast.predict(X))
    other = clone(fast).set_params(n_jobs=1)
    assert other.get_params() == {**fast.get_params(), "n_jobs": 1} and fast.n_jobs is None


def test_pipelines_ensembles_and_validation_take_it(cancer, fast):
    X, y = cancer
    for whole in (make_pipeline(StandardScaler(with_mean=False, with_std=False), fast).fit(X, y),
                  VotingClassifier([("a", fast), ("b", fast)]).fit(X, y)):
        np.testing.assert_array_equal(whole.predict(X), fast.predict(X))
    scores = cross_val_score(fast, X, y, cv=3)
    assert scores.mean() == pytest.approx(fast.score(X, y), abs=0.01)


def test_inspection_and_calibration_take_it(cancer, fast):
    X, y = cancer
    found = permutation_importance(fast, X[:100], y[:100], n_repeats=2, random_state=0)
    assert found.importances_mean.shape == (30,)
    assert partial_dependence(fast, X[:50], [0])["average"].shape[0] == 1
    for cv in (3, None):
        calibrated = CalibratedClassifierCV(FrozenEstimator(fast) if cv is None else fast, cv=cv)
        probabilities = calibrated.fit(X[300:], y[300:]).predict_proba(X)
        assert np.mean(probabilities.argmax(axis=1) == y) > 0.9


def test_a_decision_boundary_can_be_drawn():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    X, y = load_iris(return_X_y=True)
    fast = mercer.from_sklearn(theirs.SVC().fit(X[:, :2], y))
    DecisionBoundaryDisplay.from_estimator(fast, X[:, :2], response_method="predict", grid_resolution=10)


def test_it_shows_itself_alone_and_in_a_diagram(fast):
    assert repr(fast) in fast._repr_mimebundle_()["text/plain"]
    assert "<table>" in fast._repr_mimebundle_()["text/html"]
    assert "Model" in estimator_html_repr(make_pipeline(StandardScaler(), fast))
    assert "Model(" in repr(make_pipeline(StandardScaler(), fast))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_probabilities_of_the_source_are_kept():
    X, y = load_iris(return_X_y=True)
    words = np.array(["c", "a", "b"])[y]
    source = theirs.SVC(probability=True, random_state=0).fit(X, words)
    model = mercer.from_sklearn(source)
    assert model.predict_proba(X).shape == (150, 3)
    np.testing.assert_allclose(model.predict_proba(X), source.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert not hasattr(mercer.from_sklearn(theirs.SVC().fit(X, y)), "predict_proba")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_probabilities_of_two_classes_are_those_of_the_sigmoid(cancer):
    """scikit-learn passes them through an iteration for several classes that ends at 0.0025: see docs/guide/python.md."""
    X, y = cancer
    source = theirs.SVC(probability=True, random_state=0).fit(X[:300], y[:300])
    found = mercer.from_sklearn(source).predict_proba(X)
    sigmoid = 1 / (1 + np.exp(-source._probA * source.decision_function(X) + source._probB))
    np.testing.assert_allclose(found[:, 0], sigmoid, atol=1e-12)
    np.testing.assert_allclose(found, source.predict_proba(X), atol=0.005)
