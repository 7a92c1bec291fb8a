"""Prediction sets beside MAPIE: coverage, size and time on fresh rows, in one run.

    python python/benches/prediction_sets.py [--repeats 3]

A third of the rows trains, a third is held out, a third is fresh. MAPIE calibrates on all held-out rows, and once more on the half that
calibrates ours, because the other half tunes our plan. Its classifier works on probabilities (`lac`), so the machine there is
scikit-learn's `SVC(probability=True)`; ours on margins. Its sets may be empty: ours are shown with and without. Regressions use
absolute residuals in both. "By ranges" is the share of our sets that needed no exact score. On digits 0.99 is asked as well: there sets
need several labels.
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


def problems():
    """Name, rows, targets, whether they are classes, and the coverage asked."""
    X, y = datasets.load_digits(return_X_y=True)
    yield "digits", X / 16, y, True, 0.9
    yield "digits", X / 16, y, True, 0.99
    X, y = datasets.make_classification(6000, 20, n_informative=10, flip_y=0.1, random_state=0)
    yield "classification", X, y, True, 0.9
    X, y = datasets.make_classification(6000, 20, n_informative=10, n_classes=5, flip_y=0.05, random_state=0)
    yield "5 classes", X, y, True, 0.9
    X, y = datasets.make_friedman1(6000, noise=2.0, random_state=0)
    yield "friedman1", X, y, False, 0.9


def best(call, repeats):
    least = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        found = call()
        least = min(least, time.perf_counter() - start)
    return least, found


def by_mapie(is_classes, machine, calibration, X, coverage):
    kind = SplitConformalClassifier if is_classes else SplitConformalRegressor
    options = {"conformity_score": "lac"} if is_classes else {}
    mapie = kind(machine, confidence_level=coverage, prefit=True, **options).conformalize(*calibration)
    if is_classes:
        return lambda: mapie.predict_set(X)[1][:, :, 0]
    return lambda: mapie.predict_interval(X)[1][:, :, 0]


def measured(found, classes, y):
    """Coverage and mean size."""
    if classes is not None:
        return found[np.arange(len(y)), np.searchsorted(classes, y)].mean(), found.sum(axis=1).mean()
    return ((found[:, 0] <= y) & (y <= found[:, 1])).mean(), (found[:, 1] - found[:, 0]).mean()


def compare(name, X, y, is_classes, coverage, repeats):
    order = np.random.default_rng(0).permutation(len(X))
    fit, held, fresh = np.array_split(order, 3)
    X = StandardScaler().fit(X[fit]).transform(X)
    half = len(held) // 2
    tuning, own = held[:half], held[half:]
    kind = sklearn.svm.SVC if is_classes else sklearn.svm.SVR
    machine = kind(probability=True) if is_classes else kind()
    machine.fit(X[fit], y[fit])
    plain = kind().fit(X[fit], y[fit])
    model = mercer.from_sklearn(plain).tune(X[tuning], seconds=4.0)
    model = model.conformalize(X[own], y[own], coverage=coverage)
    classes = model.classes_ if is_classes else None
    rows = X[fresh]
    mapie = lambda part: by_mapie(is_classes, machine, (X[part], y[part]), rows, coverage)
    calls = [("MAPIE", len(held), mapie(held)), ("MAPIE", len(own), mapie(own))]
    by_ranges = {}
    if is_classes:
        for label, allow_empty in (("mercer, empty sets", True), ("mercer", False)):
            ask = lambda allow_empty=allow_empty: model.predict_set(rows, allow_empty=allow_empty)
            calls.append((label, len(own), ask))
            how = model.predict_set(rows, allow_empty=allow_empty, return_certainty=True)[1]
            by_ranges[label] = f"{100 * (how == 'certified').mean():.1f} %"
    else:
        calls.append(("mercer", len(own), lambda: model.predict_interval(rows)))
    for label, count, call in calls:
        seconds, found = best(call, repeats)
        covered, size = measured(found, classes, y[fresh])
        print(
            f"{name:<16}{coverage:>6}{len(fresh):>7}{label:>20}{count:>12}{covered:>9.4f}{size:>8.3f}"
            f"{1e6 * seconds / len(fresh):>9.2f}{by_ranges.get(label, '-'):>11}",
            flush=True,
        )
    print(f"  plan: {model.plan}", flush=True)


def run(repeats=3):
    """The lines of all problems."""
    print(f"{'data':<16}{'asked':>6}{'fresh':>7}{'':>20}{'calibrated':>12}{'covered':>9}{'size':>8}{'us each':>9}{'by ranges':>11}")
    for problem in problems():
        compare(*problem, repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    run(parser.parse_args().repeats)


if __name__ == "__main__":
    main()
