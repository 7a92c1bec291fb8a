"""Attributions: Shapley values from the definition, scikit-learn's habits, and sentences for bad input."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC as TheirSVC

import mercer
from mercer.errors import QueryError
from mercer.machines import AdditiveSVC, LSSVC
from mercer.svm import SVC, SVR, OneClassSVM


def enumerated(function, x, background):
    """Shapley values from the definition: a weighted sum over all subsets of columns."""
    columns = len(x)
    value = {}
    for subset in itertools.product([False, True], repeat=columns):
        value[subset] = function(np.where(subset, x, background)).mean()
    found = np.zeros(columns)
    for subset, of_subset in value.items():
        size = sum(subset)
        for j in range(columns):
            if not subset[j]:
                weight = math.factorial(size) * math.factorial(columns - size - 1) / math.factorial(columns)
                larger = subset[:j] + (True,) + subset[j + 1 :]
                found[j] += weight * (value[larger] - of_subset)
    return found


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.mark.parametrize(
    "estimator", [SVC(), SVC(kernel="poly", coef0=1.0), SVC(kernel="linear"), SVR(), OneClassSVM(nu=0.2)], ids=str
)
def test_contributions_are_those_of_the_definition_and_ranges_contain_them(iris, estimator):
    X, y = iris[0][50:], iris[1][50:] == "virginica"
    estimator.fit(X, y.astype(float)) if not isinstance(estimator, OneClassSVM) else estimator.fit(X)
    score = estimator.predict if isinstance(estimator, SVR) else estimator.decision_function
    found = estimator.attribute(X[:4], background=X[60:70])
    for row in range(4):
        expected = enumerated(score, X[row], X[60:70])
        np.testing.assert_allclose(found.values[row], expected, atol=1e-9)
        assert np.all(found.low[row] <= found.values[row]) and np.all(found.values[row] <= found.high[row])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, found.scores, atol=1e-9)
    np.testing.assert_allclose(found.scores, score(X[:4]), rtol=1e-12)


def test_several_classes_say_which_score_is_explained(iris):
    X, y = iris
    svc = SVC(decision_function_shape="ovo").fit(X, y)
    found = svc.attribute(X[::40], background=X[::10])
    for text, label in zip(found.explained, svc.predict(X[::40])):
        assert text.startswith(f"{label} against ") and not text.endswith(label)
    pair = svc.attribute(X[:3], background=X[::10], explained=("setosa", "virginica"))
    assert pair.explained == ["setosa against virginica"] * 3
    np.testing.assert_allclose(pair.scores, svc.decision_function(X[:3])[:, 1], rtol=1e-12)
    other = svc.attribute(X[:3], background=X[::10], explained=["virginica", "setosa"])
    np.testing.assert_array_equal(other.values, -pair.values)
    with pytest.raises(ValueError, match="there is no class 'rosa'"):
        svc.attribute(X[:3], background=X, explained=("rosa", "setosa"))
    with pytest.raises(QueryError, match="no score of that class"):
        svc.attribute(X[:3], background=X, explained="setosa")


def test_models_explain_raw_columns_and_the_score_of_decision_function():
    X, y = load_breast_cancer(return_X_y=True)
    source = make_pipeline(StandardScaler(), TheirSVC()).fit(X[:300], y[:300])
    model = mercer.from_sklearn(source)
    found = model.attribute(X[300:302], background=X[:30])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, source.decision_function(X[300:302]), atol=1e-8)
    swapped = mercer.from_sklearn(TheirSVC().fit(X[:300, :4], 1 - y[:300]))
    np.testing.assert_allclose(
        swapped.attribute(X[300:302, :4], X[:30, :4]).scores, swapped.decision_function(X[300:302, :4]), rtol=1e-12
    )


def test_sparse_rows_have_the_contributions_of_dense_ones(iris):
    X = np.where(np.abs(iris[0]) < 0.5, 0.0, iris[0])
    svr = SVR().fit(X, X[:, 0])
    dense, sparse = svr.attribute(X[:3], X[90:]), svr.attribute(sp.csr_matrix(X[:3]), sp.csr_matrix(X[90:]))
    np.testing.assert_array_equal(dense.values, sparse.values)
    assert "<svg" in sparse._repr_html_()


def test_notebooks_draw_bars_and_names_are_escaped(iris):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(iris[0], columns=["<b>", "two", "three", "four"])
    found = SVC().fit(table, iris[1]).attribute(table[:7], background=table[90:])
    html = found._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html and html.count("<svg") == 5 and "2 more rows" in html
    assert found.feature_names[1] == "two" and len(found) == 7 and "7 rows" in repr(found)


def test_bad_input_gets_a_sentence(iris):
    X, y = iris
    svc = SVC().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        svc.attribute(X[:2], background=X[:, :3])
    with pytest.raises(ValueError):
        svc.attribute(X[:2], background=X[:0])
    with pytest.raises(QueryError, match="sigmoid.*cannot be attributed"):
        SVC(kernel="sigmoid").fit(X, y).attribute(X[:2], X)
    with pytest.raises(QueryError, match="callable kernel"):
        SVC(kernel=lambda a, b: a @ b.T).fit(X, y).attribute(X[:2], X)
    with pytest.raises(ValueError, match="the machine has none"):
        SVR().fit(X, X[:, 0]).attribute(X[:2], X, explained=1)
    mixed = mercer.from_sklearn(make_pipeline(PCA(2), TheirSVC()).fit(X, y))
    with pytest.raises(QueryError, match="PCA runs before the machine"):
        mixed.attribute(X[:2], X)
    scaled = mercer.from_sklearn(make_pipeline(Normalizer(), TheirSVC()).fit(X, y))
    with pytest.raises(QueryError, match="divides each row by its length"):
        scaled.attribute(X[:2], X)


def by_shap(score, rows, background):
    """shap's exact values; it is in the extra `test`, so a missing shap is an error and not a reason to skip."""
    import shap

    masker = shap.maskers.Independent(background, max_samples=len(background))
    return shap.explainers.Exact(score, masker)(rows).values


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_shap_gives_the_same_values(iris, kernel):
    X = iris[0]
    svr = SVR(kernel=kernel, coef0=1.0).fit(X, X[:, 0] ** 2)
    found = svr.attribute(X[50:53], X[:20])
    np.testing.assert_allclose(found.values, by_shap(svr.predict, X[50:53], X[:20]), atol=1e-6)


def test_shap_gives_the_same_values_of_laplacian_and_additive_machines(iris):
    X, y = iris[0][50:] - iris[0].min(), iris[1][50:]
    for machine in (LSSVC(kernel="laplacian", gamma=0.25), AdditiveSVC(kernel="chi2")):
        machine.fit(X, y)
        found = machine.attribute(X[:3], X[20:40])
        expected = by_shap(machine.decision_function, X[:3], X[20:40])
        np.testing.assert_allclose(found.values, expected, atol=1e-6)


def test_shap_gives_the_same_values_of_a_pair_of_classes(iris):
    X, y = iris
    svc = SVC(decision_function_shape="ovo").fit(X, y)
    # Setosa against virginica, the second pair.
    score = lambda rows: svc.decision_function(rows)[:, 1]
    found = svc.attribute(X[50:53], X[::8], explained=("setosa", "virginica"))
    np.testing.assert_allclose(found.values, by_shap(score, X[50:53], X[::8]), atol=1e-6)
