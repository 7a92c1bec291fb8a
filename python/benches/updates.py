"""Updates beside a training from the start, on the same rows and to the same gap, in one run.

    python python/benches/updates.py [--repeats 3] [--only digits]

An update ends at a duality gap of at most a millionth of the objective. The training from the start is `SVC.fit` on all rows with the
largest `tol` of 1e-3, 5e-4, 2e-4, 1e-4, ... that ends there too, found beforehand and not timed; and `fit` with the default `tol`, which ends
earlier. scikit-learn has no warm start for kernel machines: its `SVC.fit` on all rows is the last time.

Two machines are updated: one of `fit` with the default `tol`, which is farther from its optimum than that, so that the update finishes its
work too ("after fit"); and one that is itself at a gap of a millionth, as every machine of an update is ("in a stream").
"""

import argparse
import copy
import time

import numpy as np
import sklearn.svm
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from mercer import svm

GAP = 1e-6


def problems():
    """Name, estimator class, parameters, rows and targets."""
    X, y = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    yield "digits, 10 classes", "SVC", {"C": 10.0}, X[order] / 16, y[order]
    X, y = datasets.make_classification(8000, 20, n_informative=10, flip_y=0.1, random_state=0)
    yield "8,000 rows, noisy", "SVC", {"C": 1.0}, StandardScaler().fit_transform(X), y
    X, y = datasets.make_classification(8000, 20, n_informative=10, flip_y=0.0, class_sep=1.5, random_state=0)
    yield "8,000 rows, clean", "SVC", {"C": 10.0}, StandardScaler().fit_transform(X), y
    X, y = datasets.make_friedman1(6000, noise=1.0, random_state=0)
    yield "friedman1", "SVR", {"C": 10.0, "epsilon": 0.5}, X, y


def best(make, repeats):
    """The least time of a call on the clock and of all threads on processors, and what it gave; `make` prepares it outside of the time."""
    clock = processor = float("inf")
    for _ in range(repeats):
        call = make()
        start, used = time.perf_counter(), time.process_time()
        found = call()
        clock = min(clock, time.perf_counter() - start)
        processor = min(processor, time.process_time() - used)
    return (clock, processor), found


def share(machine):
    report = machine.training_report_
    return report["gap"] / abs(report["objective"])


def tight(kind, parameters, X, y):
    """The largest tol of 1e-3, 5e-4, 2e-4, ... at which the gap is small enough."""
    reaches = lambda tol: share(kind(**parameters, tol=tol).fit(X, y)) <= GAP
    tol = 1e-3
    while tol > 1e-9 and not reaches(tol):
        tol /= 10
    return next((factor * tol for factor in (5, 2) if tol < 1e-3 and reaches(factor * tol)), tol)


def shown(seconds):
    return f"{seconds[0]:7.3f} s, processor {seconds[1]:7.3f} s"


def row(name, seconds, machine, reference):
    report = machine.training_report_
    off = abs(report["objective"] - reference) / abs(reference)
    print(
        f"  {name:32} {shown(seconds)} {report['iterations']:>9} iterations  gap {share(machine):.1e}"
        f"  objective off by {off:.1e}",
        flush=True,
    )


def in_a_stream(machine, X, y):
    """A machine of these rows that is the result of an update: of the last row."""
    return machine.fit(X[:-1], y[:-1]).update(X[-1:], y[-1:], original=(X[:-1], y[:-1]))


def compare(name, kind_name, parameters, X, y, repeats):
    kind, peer = getattr(svm, kind_name), getattr(sklearn.svm, kind_name)
    gamma = 1.0 / (X.shape[1] * X.var())
    parameters = {**parameters, "gamma": gamma}
    rows = len(y)
    # The rows after adding are the same in each case.
    tols = {}
    for part, forgets in [(0.01, False), (0.05, False), (0.1, False), (0.05, True)]:
        count = int(part * rows)
        start = slice(0, rows) if forgets else slice(0, rows - count)
        old, change = (X[start], y[start]), (X[rows - count :], y[rows - count :])
        final = (X[: rows - count], y[: rows - count]) if forgets else (X, y)
        what = f"{count} rows {'forgotten' if forgets else 'added'}, {len(final[1])} after"
        print(f"{name}: {what}")
        if len(final[1]) not in tols:
            tols[len(final[1])] = tight(kind, parameters, *final)
        tol = tols[len(final[1])]
        fitted = {
            "after fit": kind(**parameters).fit(*old),
            "in a stream": in_a_stream(kind(**parameters), *old),
        }

        def warm(first):
            machine = copy.deepcopy(first)
            method = machine.forget if forgets else machine.update
            return lambda: method(*change, original=old)

        cold_seconds, cold = best(lambda: lambda: kind(**parameters, tol=tol).fit(*final), repeats)
        default_seconds, default = best(lambda: lambda: kind(**parameters).fit(*final), repeats)
        peer_seconds, _ = best(lambda: lambda: peer(**parameters).fit(*final), repeats)
        reference = cold.training_report_["objective"]
        ratios = []
        for case, first in fitted.items():
            seconds, updated = best(lambda: warm(first), repeats)
            row(f"update {case}", seconds, updated, reference)
            ratios.append((case, *(cold / warm for cold, warm in zip(cold_seconds, seconds))))
        row(f"fit to the same gap (tol={tol:g})", cold_seconds, cold, reference)
        row("fit, default tol (1e-3)", default_seconds, default, reference)
        print(f"  {'scikit-learn, default tol (1e-3)':32} {shown(peer_seconds)}")
        for case, clock, processors in ratios:
            print(f"  {case}: the fit to the same gap takes {clock:.1f} times as long, {processors:.1f} of processors", flush=True)


def run(repeats=3, only=""):
    """The lines of all problems whose name has this in it."""
    print(f"best of {repeats}; scikit-learn {sklearn.__version__}")
    for problem in problems():
        if only in problem[0]:
            compare(*problem, repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="problems whose name has this in it")
    options = parser.parse_args()
    run(options.repeats, options.only)


if __name__ == "__main__":
    main()
