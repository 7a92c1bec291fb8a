"""Additive kernels beside LIBLINEAR; called by `cargo xtask bench additive`.

    python additive.py --rows DIR --mercer PROGRAM --pmsvm PROGRAM --tables PROGRAM [--repeats N] [--times-only] SET=C ...

DIR holds SET.train.svm and SET.test.svm as `mercer reproduce yw12 --write-rows DIR` writes them. LIBLINEAR (`-s 3`)
on the rows and on rows mapped by three numbers per non-zero ([VZ12], chi2), Mercer and the printed PmSVM-LUT are
trained in turns, one thread each, at the same C, bias 1, tolerance 0.1; reading and mapping are not counted. The sets
`zipf` and `uniform` are made here: 1.2 million columns, words that occur as in a language, or all equally often.
Prints one JSON object. Needs liblinear-official and scikit-learn.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import problem, train
from sklearn.datasets import load_svmlight_file
from sklearn.metrics.pairwise import additive_chi2_kernel

# Rows of the machine whose labels are compared with the exact one's, and queries.
EXACT_ROWS, EXACT_QUERIES = 3000, 2000


def told(text):
    """Progress, beside the result."""
    print(f"additive: {text}", file=sys.stderr, flush=True)


def read(path):
    """Labels and rows."""
    rows, labels = load_svmlight_file(str(path), zero_based=False)
    return labels, rows


def mapped(rows):
    """The map of Vedaldi and Zisserman for chi2: three numbers for each non-zero."""
    rows = sp.csr_matrix(rows)
    step = 2 * np.pi / (5.86 + 3.65)
    sizes = [np.sqrt(step / np.cosh(np.pi * k * step)) for k in (0, 1)]
    x = np.maximum(rows.data, 1e-300)
    values = np.empty((len(x), 3))
    values[:, 0] = sizes[0] * np.sqrt(x)
    values[:, 1] = sizes[1] * np.sqrt(2 * x) * np.cos(step * np.log(x))
    values[:, 2] = sizes[1] * np.sqrt(2 * x) * np.sin(step * np.log(x))
    columns = (3 * rows.indices[:, None] + np.arange(3)).ravel()
    return sp.csr_matrix((values.ravel(), columns, 3 * rows.indptr), (rows.shape[0], 3 * rows.shape[1]))


def program(words):
    """What a program prints; it may say that it stalled at f32 precision (3)."""
    ended = subprocess.run(words, capture_output=True, text=True)
    if ended.returncode not in (0, 3):
        raise RuntimeError(ended.stderr)
    return json.loads(ended.stdout)


def seconds_of(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Times:
    """Seconds of each program in each turn, told as they come."""

    def __init__(self, set_name, repeats):
        self.all, self.set_name, self.repeats = {}, set_name, repeats

    def add(self, name, seconds):
        own = self.all.setdefault(name, [])
        own.append(seconds)
        told(f"{self.set_name}, turn {len(own)} of {self.repeats}: {name} {seconds:.3f} s")


def own(options, path, kernel, c, solver="additive"):
    return program(
        [options.mercer, "train", path, "-o", options.rows / "own.mercer", "--kernel", kernel, "--solver", solver]
        + ["--formulation", f"c_svc(C={c})", "--threads", "1", "--json"]
    )


def answering(options, model, rows):
    """Nanoseconds for a non-zero value and for a row: to find bins, to read entries, and in all."""
    told(f"{model.stem}: answering")
    return program([options.tables, model, rows])


def wide(path, spread, rows=40_000, columns=1_200_000, words=100):
    """Rows of unit length over very many columns; labels lean on a word's own weight."""
    random = np.random.default_rng(1)
    if spread == "zipf":
        ranks = np.minimum(np.exp(random.random((rows, words)) * np.log(columns)).astype(int) - 1, columns - 1)
    else:
        ranks = random.integers(0, columns, (rows, words))
    names, lean = random.permutation(columns), random.normal(size=columns)
    with open(path, "w") as out:
        for row in ranks:
            found, counts = np.unique(row, return_counts=True)
            sizes = np.log1p(counts)
            sizes /= np.linalg.norm(sizes)
            label = 1 if sizes @ lean[found] + 0.1 * random.normal() > 0 else -1
            order = np.argsort(names[found])
            entries = zip(names[found][order] + 1, sizes[order])
            out.write(f"{label} " + " ".join(f"{column}:{size:.6g}" for column, size in entries) + "\n")


def measured_wide(options, spread, c):
    path = options.rows / f"{spread}.train.svm"
    wide(path, spread)
    labels, rows = read(path)
    plain, words = problem(labels, rows, 1), f"-s 3 -c {c} -B 1 -e 0.1 -q"
    turns, found = Times(spread, options.repeats), None
    for _ in range(options.repeats):
        turns.add("LIBLINEAR", seconds_of(lambda: train(plain, words)))
        found = own(options, path, "chi2", c)
        turns.add("mercer chi2", found["seconds"])
        turns.add("mercer chi2, without preparation", found["seconds"] - found["linear"]["preparation_seconds"])
        turns.add("mercer linear", own(options, path, "linear", c, "linear")["seconds"])
    times = turns.all
    base = times["LIBLINEAR"]
    lines = {
        name: {"median": statistics.median(all), "least": min(all), "most": max(all)}
        | {"/ LIBLINEAR": statistics.median(a / b for a, b in zip(all, base))}
        | {"ns_per_nonzero": 1e9 * statistics.median(all) / rows.nnz}
        for name, all in times.items()
    }
    table, count = found["linear"], len(labels)
    per = (table["example_bytes"] - 24 * count) / max(table["nonzeros"], 1)
    return {"rows": count, "nonzeros": table["nonzeros"], "times": lines, "bytes_per_nonzero_beside_24_per_row": per}


def measured(options, name, path, c):
    labels, rows = read(path)
    plain, wide = problem(labels, rows, 1), problem(labels, mapped(rows), 1)
    words = f"-s 3 -c {c} -B 1 -e 0.1 -q"
    turns, found = Times(name, options.repeats), {}
    add, times = turns.add, turns.all
    for _ in range(options.repeats):
        add("LIBLINEAR", seconds_of(lambda: train(plain, words)))
        add("LIBLINEAR on mapped rows", seconds_of(lambda: train(wide, words)))
        for kernel in ("chi2", "intersection"):
            found[kernel] = own(options, path, kernel, c)
            if kernel == "chi2":
                kept = options.rows / f"{name}.mercer"
                (options.rows / "own.mercer").replace(kept)
            add(f"mercer {kernel}", found[kernel]["seconds"])
            add(f"mercer {kernel}, without preparation",
                found[kernel]["seconds"] - found[kernel]["linear"]["preparation_seconds"])
        add("mercer linear", own(options, path, "linear", c, "linear")["seconds"])
        add("PmSVM-LUT as printed", program([options.pmsvm, path, str(c)])["seconds"])
    base = {name: times[name] for name in ("LIBLINEAR", "PmSVM-LUT as printed", "LIBLINEAR on mapped rows")}
    ratio = lambda name, to: statistics.median(a / b for a, b in zip(times[name], base[to]))
    lines = {
        name: {"median": statistics.median(all), "least": min(all), "most": max(all)}
        | {f"/ {to}": ratio(name, to) for to in base}
        for name, all in times.items()
    }
    table, count = found["chi2"]["linear"], len(labels)
    per = (table["example_bytes"] - 24 * count) / max(table["nonzeros"], 1)
    asked = answering(options, kept, options.rows / f"{name}.test.svm")
    return {"rows": count, "nonzeros": table["nonzeros"], "times": lines, "answering": asked,
            "bytes_per_nonzero_beside_24_per_row": per}


def gram(left, right):
    """2xy/(x+y) summed over columns, from scikit-learn's -(x-y)^2/(x+y)."""
    halves = left.sum(axis=1)[:, None] + right.sum(axis=1)[None, :]
    return (halves + additive_chi2_kernel(left, right)) / 2


def exact_scores(kernel, signs, c, queries):
    """Dual coordinate descent on kernel values, a constant column included, until nothing moves by 1e-4."""
    beta, field = np.zeros(len(signs)), np.zeros(len(signs))
    order = np.random.default_rng(1)
    for _ in range(3000):
        moved = 0.0
        for i in order.permutation(len(signs)):
            alpha = signs[i] * beta[i]
            new = min(max(alpha - (signs[i] * field[i] - 1) / kernel[i, i], 0.0), c)
            if new != alpha:
                change = signs[i] * (new - alpha)
                beta[i] += change
                field += change * kernel[i]
                moved = max(moved, abs(change) * kernel[i, i])
        if moved < 1e-4:
            break
    return queries @ beta


def agreement(options, name, c):
    """The share of test rows with the labels of the exact additive machine, both trained on the first rows."""
    told(f"{name}: labels beside the exact machine's")
    labels, rows = read(options.rows / f"{name}.train.svm")
    asked_labels, asked = read(options.rows / f"{name}.test.svm")
    width = max(rows.shape[1], asked.shape[1])
    if width > 2000:
        return None
    dense = lambda rows, count: sp.csr_matrix((rows.data, rows.indices, rows.indptr), (rows.shape[0], width))[:count].toarray()
    # Every so many rows, so that all classes are among them.
    stride = max(1, rows.shape[0] // EXACT_ROWS)
    rows, labels = sp.csr_matrix(rows)[::stride][:EXACT_ROWS], np.asarray(labels)[::stride][:EXACT_ROWS]
    left, right = dense(rows, EXACT_ROWS), dense(sp.csr_matrix(asked), EXACT_QUERIES)
    kernel, queries = gram(left, left) + 1, gram(right, left) + 1
    classes = np.unique(labels)
    questions = classes[1:] if len(classes) == 2 else classes
    scores = np.stack([exact_scores(kernel, np.where(labels == c, 1.0, -1.0), c, queries) for c in questions])
    answers = np.where(scores[0] > 0, classes[1], classes[0]) if len(classes) == 2 else classes[scores.argmax(axis=0)]
    part, test = options.rows / "part.svm", options.rows / "asked.svm"
    write(part, left, labels)
    write(test, right, asked_labels[: len(right)])
    model = options.rows / "part.mercer"
    program([options.mercer, "train", part, "-o", model, "--kernel", "chi2", "--solver", "additive", "--json"]
            + ["--formulation", f"c_svc(C={c})", "--tolerance", "1e-3"])
    said = subprocess.run([options.mercer, "predict", model, test], check=True, capture_output=True, text=True)
    ours = np.array([float(line.split(",")[0].split()[0]) for line in said.stdout.splitlines() if line[:1] in "-0123456789"])
    return {"rows": len(labels), "queries": len(ours), "equal": float(np.mean(ours == answers[: len(ours)]))}


def write(path, rows, labels):
    with open(path, "w") as out:
        for label, row in zip(labels, rows):
            at = np.flatnonzero(row)
            out.write(f"{label:g} " + " ".join(f"{i + 1}:{row[i]:.17g}" for i in at) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", required=True, type=Path)
    parser.add_argument("--mercer", required=True, type=Path)
    parser.add_argument("--pmsvm", required=True, type=Path)
    parser.add_argument("--tables", required=True, type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--times-only", action="store_true", help="no labels of the exact machine")
    parser.add_argument("--times-only", action="store_true", help="no labels of the exact machine")
    parser.add_argument("sets", nargs="+", metavar="SET=C")
    options = parser.parse_args()
    found = {"versions": {"liblinear-official": version("liblinear-official")}, "sets": {}}
    for text in options.sets:
        name, c = text.split("=")
        if name in ("zipf", "uniform"):
            found["sets"][name] = measured_wide(options, name, float(c))
            continue
        path = options.rows / f"{name}.train.svm"
        if not path.is_file():
            told(f"{name} is left out: there is no {path}")
            continue
        found["sets"][name] = measured(options, name, path, float(c))
        if not options.times_only:
            found["sets"][name]["labels"] = agreement(options, name, float(c))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
