"""Rows of the linear tasks, and LIBLINEAR's time on them; called by `cargo xtask bench linear`.

    python linear.py --data DIR --out DIR [--tolerance T] [--problem P] [TASK ...]

Writes TASK.svm (LIBSVM text; word counts become tf-idf of unit length) and prints one JSON object: for each task
and problem the best seconds of three trainings (reading not counted) and the primal objective reached.
Needs liblinear-official.
"""

import argparse
import bz2
import gzip
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import problem, svm_read_problem, train

TASKS = {
    "a9a": "libsvm/a9a.gz",
    "w8a": "libsvm/w8a.gz",
    "newsgroups": "text/20newsgroups.counts.svm.gz",
    "sector": "text/sector.scale.bz2",
}
# LIBLINEAR's number of each problem, all with a penalised bias, and its stopping tolerance unless --tolerance says otherwise.
PROBLEMS = {
    "c_svc": (3, 0.1),
    "squared_hinge": (1, 0.1),
    "logistic": (7, 0.1),
    "squared_hinge_l1": (5, 0.01),
    "logistic_l1": (6, 0.01),
}
REPEATS = 3


def unpack(source, target):
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(source.suffix, open)
    with opener(source, "rb") as packed:
        target.write_bytes(packed.read())


def tf_idf(path):
    labels, rows = svm_read_problem(str(path), return_scipy=True)
    rows = sp.csr_matrix(rows)
    seen = np.bincount(rows.indices, minlength=rows.shape[1])
    rows.data = np.log1p(rows.data)
    rows = rows @ sp.diags(np.log(rows.shape[0] / np.maximum(seen, 1)))
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1)).A1
    rows = sp.csr_matrix(sp.diags(1 / np.maximum(lengths, 1e-300)) @ rows)
    with open(path, "w") as out:
        for at, label in enumerate(labels):
            part = slice(rows.indptr[at], rows.indptr[at + 1])
            values = zip(rows.indices[part], rows.data[part])
            out.write(f"{label:g} " + " ".join(f"{i + 1}:{x:.6g}" for i, x in values) + "\n")


def objective(model, rows, labels, kind):
    """The primal objective, summed over the questions."""
    classes = model.get_labels()
    total = 0.0
    for number in range(1 if len(classes) == 2 else len(classes)):
        weights, bias = model.get_decfun(number)
        weights = np.asarray(weights)
        scores = rows[:, : len(weights)] @ weights + bias
        margins = np.where(labels == classes[number], scores, -scores)
        slack = np.maximum(0, 1 - margins)
        loss = {
            "c_svc": lambda: slack.sum(),
            "squared_hinge": lambda: (slack**2).sum(),
            "logistic": lambda: np.logaddexp(0, -margins).sum(),
        }[kind.removesuffix("_l1")]()
        if kind.endswith("_l1"):
            total += np.abs(weights).sum() + abs(bias) + loss
        else:
            total += 0.5 * (weights @ weights + bias * bias) + loss
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--tolerance", type=float, help="LIBLINEAR's -e")
    parser.add_argument("--problem", choices=PROBLEMS, help="only this one")
    parser.add_argument("tasks", nargs="*")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = {"versions": {"liblinear-official": version("liblinear-official")}, "tasks": {}}
    for name, source in TASKS.items():
        if options.tasks and name not in options.tasks:
            continue
        if not (options.data / source).is_file():
            print(f"{name} is left out: there is no {source}", file=sys.stderr)
            continue
        path = options.out / f"{name}.svm"
        if not path.is_file():
            unpack(options.data / source, path)
            if "counts" in source:
                tf_idf(path)
        labels, rows = svm_read_problem(str(path), return_scipy=True)
        asked = problem(labels, rows, 1)
        found["tasks"][name] = {}
        for kind, (number, tolerance) in PROBLEMS.items():
            if options.problem not in (None, kind):
                continue
            times = []
            for _ in range(REPEATS):
                started = time.perf_counter()
                model = train(asked, f"-s {number} -c 1 -B 1 -e {options.tolerance or tolerance} -q")
                times.append(time.perf_counter() - started)
            reached = objective(model, sp.csr_matrix(rows), np.asarray(labels), kind)
            found["tasks"][name][kind] = {"seconds": min(times), "objective": reached}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
