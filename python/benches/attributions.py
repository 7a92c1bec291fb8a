"""Attributions beside shap: the same values, and the time of both, in one run.

    python python/benches/attributions.py [--rows 5] [--background 20] [--repeats 3]

For each machine: the largest difference from shap's values, relative to the largest value, and seconds for all rows. shap's
`ExactExplainer` enumerates all subsets and takes at most a dozen columns here; with more, its `KernelExplainer` samples 2,048 subsets.
Of three classes one pair is explained; shap gets its score by a wrapper.
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
from mercer import machines as ours

warnings.filterwarnings("ignore")
#: Columns that ExactExplainer enumerates.
MOST_EXACT = 12


#: The pair of classes that is explained.
PAIR = (0, 2)


def machines():
    """Name, fitted estimator, its rows and the number of supports; estimators of scikit-learn where it has the kernel."""
    scaled = lambda X: StandardScaler().fit_transform(X)
    X, y = datasets.load_iris(return_X_y=True)
    yield "iris 2 classes, rbf", sklearn.svm.SVC().fit(scaled(X)[:100], y[:100]), scaled(X)[:100]
    yield "iris, a pair of 3, rbf", sklearn.svm.SVC(decision_function_shape="ovo").fit(scaled(X), y), scaled(X)
    is_two = y > 0
    yield "iris 2 classes, laplacian", ours.LSSVC(kernel="laplacian", gamma=0.25).fit(scaled(X)[is_two], y[is_two]), scaled(X)[is_two]
    X, y = datasets.load_diabetes(return_X_y=True)
    X, y = scaled(X), (y - y.mean()) / y.std()
    yield "diabetes, rbf", sklearn.svm.SVR().fit(X, y), X
    yield "diabetes, polynomial 3", sklearn.svm.SVR(kernel="poly", coef0=1.0).fit(X, y), X
    yield "diabetes, linear", sklearn.svm.SVR(kernel="linear").fit(X, y), X
    positive = X - X.min(axis=0)
    yield "diabetes, additive", ours.AdditiveSVC(kernel="chi2").fit(positive, y > 0), positive
    X, y = datasets.load_breast_cancer(return_X_y=True)
    yield "cancer, rbf", sklearn.svm.SVC().fit(scaled(X), y), scaled(X)
    X, y = datasets.load_digits(return_X_y=True)
    is_some = (y == 3) | (y == 8)
    yield "digits 3 and 8, rbf", sklearn.svm.SVC().fit(X[is_some] / 16, y[is_some]), X[is_some] / 16


def score_of(estimator):
    if len(getattr(estimator, "classes_", ())) > 2:
        number = [(i, j) for i in range(3) for j in range(i + 1, 3)].index(PAIR)
        return lambda rows: estimator.decision_function(rows)[:, number]
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


def run(rows_asked=5, background_rows=20, repeats=3):
    """One line for each machine."""
    print(f"{rows_asked} rows, {background_rows} background rows; seconds: best of {repeats}")
    print(f"{'machine':<26}{'columns':>8}{'supports':>9}{'shap':>9}{'shap s':>10}{'mercer s':>10}{'times':>8}{'difference':>12}{'range':>9}")
    for name, estimator, X in machines():
        rng = np.random.default_rng(0)
        places = rng.permutation(len(X))
        rows, background = X[places[:rows_asked]], X[places[-background_rows:]]
        is_ours = hasattr(estimator, "attribute")
        model = estimator if is_ours else mercer.from_sklearn(estimator)
        several = len(getattr(estimator, "classes_", ())) > 2
        options = {"explained": PAIR} if several else {}
        kind, theirs = by_shap(estimator, rows, background)
        their_time, their_values = best(theirs, 1 if kind == "sampled" else repeats)
        our_time, ours_found = best(lambda: model.attribute(rows, background, **options), repeats)
        size = np.abs(ours_found.values).max()
        theirs_found = np.asarray(their_values).reshape(ours_found.values.shape)
        difference = np.abs(ours_found.values - theirs_found).max() / size
        width = (ours_found.high - ours_found.low).max() / size
        supports = len(getattr(estimator, "support_", ())) or "-"
        print(
            f"{name:<26}{X.shape[1]:>8}{supports:>9}{kind:>9}{their_time:>10.4f}{our_time:>10.4f}"
            f"{their_time / our_time:>8.0f}{difference:>12.1e}{width:>9.1e}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--background", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    run(options.rows, options.background, options.repeats)


if __name__ == "__main__":
    main()
