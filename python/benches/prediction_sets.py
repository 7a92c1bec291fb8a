"""Prediction sets beside MAPIE: coverage, size and time on fresh rows, in one run.

    python python/benches/prediction_sets.py [--repeats 3]

Both calibrate the same machine on the same held-out rows. MAPIE's classifier works on probabilities (`lac`), so the machine there is
scikit-learn's `SVC(probability=True)`; ours on margins. Regressions use absolute residuals in both, so their intervals are compared too.
"""

import argparse
import time
import warnings

import numpy as np
import sklearn.svm
from mapie.classification import SplitConformalClassifier
from mapie.regression import SplitConformalRegressor
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import mercer

warnings.filterwarnings("ignore")
COVERAGE = 0.9


def problems():
    """Name, rows and targets; training, calibration and fresh rows are thirds, drawn by a seed."""
    X, y = datasets.load_digits(return_X_y=True)
    yield "digits", X / 16, y, True
    X, y = datasets.make_classification(6000, 20, n_informative=10, flip_y=0.1, random_state=0)
    yield "classification", X, y, True
    X, y = datasets.make_friedman1(6000, noise=2.0, random_state=0)
    yield "friedman1", X, y, False


def best(call, repeats):
    least = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        found = call()
        least = min(least, time.perf_counter() - start)
    return least, found


def by_mapie(is_classes, machine, calibration, X):
    kind = SplitConformalClassifier if is_classes else SplitConformalRegressor
    options = {"conformity_score": "lac"} if is_classes else {}
    mapie = kind(machine, confidence_level=COVERAGE, prefit=True, **options).conformalize(*calibration)
    if is_classes:
        return lambda: mapie.predict_set(X)[1][:, :, 0]
    return lambda: mapie.predict_interval(X)[1][:, :, 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{'data':<16}{'fresh':>7}{'':>10}{'covered':>9}{'size':>8}{'us each':>9}")
    for name, X, y, is_classes in problems():
        order = np.random.default_rng(0).permutation(len(X))
        fit, held, fresh = np.array_split(order, 3)
        X = StandardScaler().fit(X[fit]).transform(X)
        kind = sklearn.svm.SVC if is_classes else sklearn.svm.SVR
        machine = kind(probability=True) if is_classes else kind()
        machine.fit(X[fit], y[fit])
        theirs = by_mapie(is_classes, machine, (X[held], y[held]), X[fresh])
        plain = (kind()).fit(X[fit], y[fit])
        # One half of the held-out rows tunes the plan, the other calibrates the sets.
        half = len(held) // 2
        model = mercer.from_sklearn(plain).tune(X[held[:half]], seconds=5.0)
        model = model.conformalize(X[held[half:]], y[held[half:]], coverage=COVERAGE)
        ours = (lambda: model.predict_set(X[fresh])) if is_classes else (lambda: model.predict_interval(X[fresh]))
        for who, call in (("MAPIE", theirs), ("mercer", ours)):
            seconds, found = best(call, options.repeats)
            if is_classes:
                covered = found[np.arange(len(fresh)), np.searchsorted(model.classes_, y[fresh])].mean()
                size = found.sum(axis=1).mean()
            else:
                covered = ((found[:, 0] <= y[fresh]) & (y[fresh] <= found[:, 1])).mean()
                size = (found[:, 1] - found[:, 0]).mean()
            print(f"{name:<16}{len(fresh):>7}{who:>10}{covered:>9.4f}{size:>8.3f}{1e6 * seconds / len(fresh):>9.2f}")


if __name__ == "__main__":
    main()
