"""Attributions beside shap: the same values, and the time of both, in one run.

    python python/benches/attributions.py [--rows 5] [--background 20] [--repeats 3]

For each machine: the largest difference from shap's values, relative to the largest value, and seconds for all rows. shap's
`ExactExplainer` enumerates all subsets and takes at most a dozen columns here; with more, its `KernelExplainer` samples 2,048 subsets.
"""

import argparse
import time
import warnings

import numpy as np
import shap
import sklearn.svm
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import mercer

warnings.filterwarnings("ignore")
#: Columns that ExactExplainer enumerates.
MOST_EXACT = 12


def machines():
    """Name, estimator of scikit-learn, fitted, and its rows."""
    scaled = lambda X: StandardScaler().fit_transform(X)
    X, y = datasets.load_iris(return_X_y=True)
    yield "iris 2 classes, rbf", sklearn.svm.SVC().fit(scaled(X)[:100], y[:100]), scaled(X)[:100]
    X, y = datasets.load_diabetes(return_X_y=True)
    X, y = scaled(X), (y - y.mean()) / y.std()
    yield "diabetes, rbf", sklearn.svm.SVR().fit(X, y), X
    yield "diabetes, polynomial 3", sklearn.svm.SVR(kernel="poly", coef0=1.0).fit(X, y), X
    yield "diabetes, linear", sklearn.svm.SVR(kernel="linear").fit(X, y), X
    X, y = datasets.load_breast_cancer(return_X_y=True)
    yield "cancer, rbf", sklearn.svm.SVC().fit(scaled(X), y), scaled(X)
    X, y = datasets.load_digits(return_X_y=True)
    is_some = (y == 3) | (y == 8)
    yield "digits 3 and 8, rbf", sklearn.svm.SVC().fit(X[is_some] / 16, y[is_some]), X[is_some] / 16


def score_of(estimator):
    return estimator.decision_function if hasattr(estimator, "decision_function") else estimator.predict


def by_shap(estimator, rows, background):
    function = score_of(estimator)
    if rows.shape[1] <= MOST_EXACT:
        masker = shap.maskers.Independent(background, max_samples=len(background))
        explainer = shap.explainers.Exact(function, masker)
        return "exact", lambda: explainer(rows, max_evals=2 ** (rows.shape[1] + 1)).values
    explainer = shap.KernelExplainer(function, background)
    return "sampled", lambda: explainer.shap_values(rows, nsamples=2048, silent=True)


def best(call, repeats):
    """The least seconds of a call, and what it returned last."""
    least = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        found = call()
        least = min(least, time.perf_counter() - start)
    return least, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--background", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.rows} rows, {options.background} background rows; seconds: best of {options.repeats}")
    print(f"{'machine':<24}{'columns':>8}{'supports':>9}{'shap':>9}{'shap s':>10}{'mercer s':>10}{'times':>8}{'difference':>12}{'range':>9}")
    for name, estimator, X in machines():
        rng = np.random.default_rng(0)
        places = rng.permutation(len(X))
        rows, background = X[places[: options.rows]], X[places[-options.background :]]
        model = mercer.from_sklearn(estimator)
        kind, theirs = by_shap(estimator, rows, background)
        their_time, their_values = best(theirs, 1 if kind == "sampled" else options.repeats)
        our_time, ours = best(lambda: model.attribute(rows, background), options.repeats)
        size = np.abs(ours.values).max()
        difference = np.abs(ours.values - np.asarray(their_values).reshape(ours.values.shape)).max() / size
        width = (ours.high - ours.low).max() / size
        print(
            f"{name:<24}{X.shape[1]:>8}{len(estimator.support_):>9}{kind:>9}{their_time:>10.4f}{our_time:>10.4f}"
            f"{their_time / our_time:>8.0f}{difference:>12.1e}{width:>9.1e}"
        )


if __name__ == "__main__":
    main()
