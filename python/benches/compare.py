"""Fit and predict times beside scikit-learn and scikit-learn-intelex: same data, same parameters, one run.

    python python/benches/compare.py [--tasks mnist38 a9a] [--repeat 3] [--rows 12000]

Tasks are those of benches/tasks.toml: MNIST 3 against 8 (rbf gamma 0.02, C 10, pixels / 255) and a9a (rbf gamma
0.05, C 1, sparse rows). Data are looked for in $MERCER_DATA, else ../shared/data beside the repository. A peer that is
not installed is left out. The last 4,500 rows of the training files are kept for tuning. Times are the best of --repeat runs; fits
are timed once. Ratios to the peers are printed below each table, with what is aimed at.
"""

import argparse
import gzip
import os
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.svm import SVC as Stock

import mercer
from mercer.svm import SVC as Ours

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("MERCER_DATA", ROOT.parent / "shared" / "data"))


#: Rows kept for tuning; a calibrated contract of one in a thousand wants 4,300.
HELD_OUT = 4500


def idx(name):
    path = DATA / "mnist" / name
    opener = gzip.open if path.with_name(name + ".gz").exists() else open
    with opener(path.with_name(name + ".gz") if opener is gzip.open else path, "rb") as file:
        raw = file.read()
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def mnist38():
    def part(name):
        y = idx(f"{name}-labels-idx1-ubyte")
        keep = (y == 3) | (y == 8)
        return idx(f"{name}-images-idx3-ubyte")[keep].reshape(keep.sum(), -1) / 255.0, y[keep]

    return (*part("train"), *part("t10k"), dict(gamma=0.02, C=10.0))


def libsvm(name):
    path = DATA / "libsvm" / name
    packed = path.with_name(name + ".gz")
    X, y = load_svmlight_file(str(packed if packed.exists() else path), n_features=123)
    # scikit-learn takes no wide indices.
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


def a9a():
    (X, y), (queries, labels) = libsvm("a9a"), libsvm("a9a.t")
    return X, y, queries, labels, dict(gamma=0.05, C=1.0)


def best(work, repeat):
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def single(model, X, seconds=1.0):
    """Time of a call with one row: the best mean of fifty calls, so that what else the computer does counts little."""
    rows = [np.ascontiguousarray(X[i : i + 1]) for i in range(min(50, X.shape[0]))]
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        for call in range(50):
            model.predict(rows[call % len(rows)])
        best = min(best, (time.perf_counter() - started) / 50)
    return best


def peers():
    yield "scikit-learn", Stock
    try:
        from sklearnex.svm import SVC as Intelex
    except ImportError:
        return
    yield "scikit-learn-intelex", Intelex


def overhead():
    """A call with one row of four columns on a machine of two supports: nothing but the way there and back."""
    model = Ours(gamma=1.0).fit(np.array([[0.0] * 4, [1.0] * 4]), [0, 1])
    return single(model, np.zeros((1, 4)))


def run(name, task, rows, repeat):
    X, y, queries, labels, options = task()
    # Queries for tuning must not be training rows: the last rows are kept for that.
    held_out = X[-HELD_OUT:]
    X, y = X[:-HELD_OUT][:rows], y[:-HELD_OUT][:rows]
    print(f"\n{name}: {X.shape[0]} x {X.shape[1]} rows, {queries.shape[0]} queries, {options}")
    print(f"{'':34}{'fit s':>9}{'predict s':>11}{'one row µs':>12}{'supports':>10}{'right %':>9}")

    times = {}

    def line(what, fit, model, supports):
        spent = best(lambda: model.predict(queries), repeat)
        dense = queries if isinstance(queries, np.ndarray) else queries[:200].toarray()
        one = np.nan
        try:
            one = 1e6 * single(model, dense)
        except ValueError:
            pass  # fitted on compressed rows, and takes no others
        right = 100 * np.mean(model.predict(queries) == labels)
        print(f"{what:34}{fit:9.2f}{spent:11.3f}{one:12.1f}{supports:10}{right:9.2f}", flush=True)
        times[what] = fit, spent, one

    stock = None
    for what, kind in peers():
        model = kind(**options)
        fit = best(lambda: model.fit(X, y), 1)
        line(what, fit, model, len(model.support_))
        stock = stock or model
    ours = Ours(**options)
    fit = best(lambda: ours.fit(X, y), 1)
    line("mercer.svm.SVC", fit, ours, len(ours.support_))
    for contract in ("exact", "certified", "calibrated(eps=1e-3)"):
        started = time.perf_counter()
        # Equal rows are common in a9a, so that held-out ones equal supports.
        trusted = name == "a9a"
        fast = mercer.accelerate(
            stock, held_out, contract=contract, training=X, seconds=60, trust_sample=trusted
        )
        made = time.perf_counter() - started
        line(f"accelerate({contract})", made, fast, fast.n_support_)
        print(f"    plan {fast.plan}; {fast.compare(stock, queries)}")
    ratios(name, times)


#: Rows of the table: what is compared with whom, in which column, and how many times as fast it should be.
AIMS = [
    ("fit", "mercer.svm.SVC", "scikit-learn", 0, {"mnist38": 8.0, "a9a": 8.0}),
    ("predict, exact", "mercer.svm.SVC", "scikit-learn-intelex", 1, {}),
    ("predict, certified", "accelerate(certified)", "scikit-learn-intelex", 1, {"mnist38": 2.0}),
    ("predict, calibrated", "accelerate(calibrated(eps=1e-3))", "scikit-learn-intelex", 1, {"mnist38": 15.0}),
    ("one row, exact", "mercer.svm.SVC", "scikit-learn-intelex", 2, {"mnist38": 20.0}),
    ("one row, certified", "accelerate(certified)", "scikit-learn-intelex", 2, {"mnist38": 20.0}),
]


def ratios(name, times):
    for what, own, peer, column, aims in AIMS:
        if peer in times:
            aim = f", aim {aims[name]:g}" if name in aims else ""
            print(f"    {what}: {times[peer][column] / times[own][column]:.1f} times {peer}{aim}")



def main():
    tasks = {"mnist38": mnist38, "a9a": a9a}
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tasks", nargs="+", choices=tasks, default=list(tasks))
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--rows", type=int, default=None, help="examples used, all unless given")
    given = arguments.parse_args()
    print(f"mercer {mercer.__version__}, {mercer._mercer.instruction_set()}, {os.cpu_count()} cores")
    print(f"overhead of a call: {1e6 * overhead():.1f} µs, aim 10")
    for name in given.tasks:
        try:
            run(name, tasks[name], given.rows, given.repeat)
        except FileNotFoundError as error:
            print(f"{name}: left out, {error.filename} is missing")


if __name__ == "__main__":
    main()
