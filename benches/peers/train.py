"""Times the peers' training on one task; prints one JSON object.

    python train.py --data DIR [--peer libsvm|intelex] [--rows N] TASK

Each peer runs in a process of its own, so that its peak memory is its own. `objective` is the dual
objective LIBSVM prints, 1/2 a'Qa - sum a (one-vs-one: summed over the pairs; epsilon-SVR:
1/2 b'Kb + epsilon sum |b| - sum b y), computed from the found coefficients; null for nu machines.
"""

import argparse
import json
import resource
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np

import estimators
import libsvm_text as text
from tasks import REGRESSIONS, find_task, load_rows, run

PEERS = ("libsvm", "intelex")
BLOCK = 2048  # rows of the kernel matrix held at once


def peak_mb():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def quadratic(machine):
    """1/2 c'Kc, summed over the pairs of classes."""
    dense = machine.supports.toarray()
    weights = np.zeros((len(dense), len(machine.rho)))
    for pair, (chosen, coefficients) in enumerate(text.pairwise(machine)):
        weights[chosen, pair] = coefficients
    total = 0.0
    for start in range(0, len(dense), BLOCK):
        part = slice(start, start + BLOCK)
        total += (weights[part] * (text.kernel_matrix(machine, dense[part], dense) @ weights)).sum()
    return 0.5 * total


def objective(task, fitted, targets):
    if task["formulation"] not in ("c_svc", "epsilon_svr"):
        return None
    machine = text.from_estimator(fitted)
    value = quadratic(machine) - np.abs(machine.coefficients).sum()
    if task["formulation"] in REGRESSIONS:
        found = np.ravel(machine.coefficients)
        value += (1.0 + task["epsilon"]) * np.abs(found).sum() - found @ targets[fitted.support_]
    return float(value)


def measure(task, data, peer, count):
    rows = load_rows(task, data)
    examples, targets = rows.examples[:count], rows.targets[:count]
    estimator = estimators.make(task, peer)
    before = peak_mb()
    fit = lambda: estimator.fit(examples, targets)  # noqa: E731
    with estimators.accelerated() if peer == "intelex" else nullcontext():
        seconds, used, elsewhere = estimators.timed(fit)
    peak = peak_mb()
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(used, 3),
        "objective": objective(task, estimator, targets),
        "n_support": int(estimator.support_vectors_.shape[0]),
        **estimators.quality(task, estimator.predict(rows.queries), rows.answers),
        "peak_mb": peak,
        "peak_before_fit_mb": before,
        "cores_busy_elsewhere": round(elsewhere, 2),
        "examples": int(examples.shape[0]),
        "columns": int(examples.shape[1]),
    }


def in_own_process(options, peer):
    command = [sys.executable, __file__, options.task, "--data", str(options.data), "--peer", peer]
    command += ["--rows", str(options.rows)] if options.rows else []
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return {"failed": done.returncode}
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--data", required=True, type=Path, help="directory of the data files")
    parser.add_argument("--peer", choices=PEERS, help="one peer, in this process")
    parser.add_argument("--rows", type=int, help="the first rows only")
    options = parser.parse_args()
    task = find_task(options.task)
    if options.peer:
        print(json.dumps(measure(task, options.data, options.peer, options.rows)))
        return
    report = {"task": task["name"], "cache_mb": estimators.CACHE_MB}
    report |= {peer: in_own_process(options, peer) for peer in PEERS}
    print(json.dumps(report | estimators.machine_facts(), indent=1))


if __name__ == "__main__":
    run(main)
