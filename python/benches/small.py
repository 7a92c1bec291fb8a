"""CPU time of fits and grid searches on small data, beside scikit-learn's, in one run.

    python python/benches/small.py [--repeats 5] [--grid-repeats 3] [--no-grid]

Prints a line for the fits and one for the grid search on each data set: the best CPU time of several runs of scikit-learn's and of our
estimator, in turns, and their ratio (below 1: ours takes less). CPU time counts all threads. A grid has nine candidates in three folds. Data come with scikit-learn or are drawn with a fixed seed.
"""

import argparse
import time

import numpy as np
import sklearn.svm
from sklearn import datasets
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import mercer.svm


def data_sets():
    """Name, rows, targets and the estimator's name of ten small sets, from 50 rows up."""
    bundled = [("iris", "iris"), ("wine", "wine"), ("cancer", "breast_cancer"), ("digits", "digits")]
    for name, loader in bundled:
        X, y = getattr(datasets, f"load_{loader}")(return_X_y=True)
        yield name, StandardScaler().fit_transform(X), y, "SVC"
        if name == "iris":
            yield "iris, 50 rows", StandardScaler().fit_transform(X)[::3], y[::3], "SVC"
    X, y = datasets.make_moons(200, noise=0.2, random_state=0)
    yield "moons", X, y, "SVC"
    X, y = datasets.make_classification(500, 20, random_state=0)
    yield "classification", X, y, "SVC"
    X, y = datasets.load_diabetes(return_X_y=True)
    yield "diabetes", StandardScaler().fit_transform(X), (y - y.mean()) / y.std(), "SVR"
    X, y = datasets.make_friedman1(300, random_state=0)
    yield "friedman1", X, (y - y.mean()) / y.std(), "SVR"
    grid = np.linspace(0, 6, 60)[:, None]
    yield "sine, 60 rows", grid, np.sin(grid[:, 0]), "SVR"


def grids():
    """The ten sets with values of gamma around one over the columns, and the digits as they come."""
    for name, X, y, kind in data_sets():
        yield name, X, y, kind, [gamma / X.shape[1] for gamma in (0.1, 1, 10)]
    yield ("digits, unscaled", *datasets.load_digits(return_X_y=True), "SVC", [1e-4, 1e-3, 1e-2])


def best_cpu(theirs, ours, repeats):
    """The least CPU seconds of each of two calls, made in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        for which, call in enumerate((theirs, ours)):
            start = time.process_time()
            call()
            best[which] = min(best[which], time.process_time() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--grid-repeats", type=int, default=3)
    parser.add_argument("--no-grid", action="store_true", help="leave out the grid searches")
    options = parser.parse_args()
    print(f"{'data':<22}{'rows':>6}{'scikit-learn ms':>17}{'mercer ms':>11}{'ratio':>7}")
    for name, X, y, kind in data_sets():
        theirs, ours = getattr(sklearn.svm, kind)(), getattr(mercer.svm, kind)()
        # Short fits are repeated within a turn, so that the clock's step does not count.
        inner = max(1, 4000 // len(X))
        times = best_cpu(
            lambda: [theirs.fit(X, y) for _ in range(inner)],
            lambda: [ours.fit(X, y) for _ in range(inner)],
            options.repeats,
        )
        a, b = (1e3 * t / inner for t in times)
        print(f"{name:<22}{len(X):>6}{a:>17.3f}{b:>11.3f}{b / a:>7.2f}", flush=True)
    if not options.no_grid:
        for name, X, y, kind, gammas in grids():
            grid = {"C": [0.1, 1, 10], "gamma": gammas}
            searches = [GridSearchCV(getattr(m, kind)(), grid, cv=3) for m in (sklearn.svm, mercer.svm)]
            a, b = best_cpu(*(lambda s=s: s.fit(X, y) for s in searches), options.grid_repeats)
            print(f"{name + ', grid':<22}{len(X):>6}{1e3 * a:>17.1f}{1e3 * b:>11.1f}{b / a:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
