"""Times GridSearchCV(SVC) with scikit-learn-intelex on the grid of `cargo xtask bench search`.

    python search.py --data DIR [--rows N]

The first rows of a9a (10,000), 5 folds (row modulo 5), 6 x 6 values of gamma and C. Prints one JSON object:
seconds, and the mean accuracies, gamma after gamma.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import GridSearchCV, PredefinedSplit

import estimators
from tasks import find_task, load_rows, run

ROWS, FOLDS = 10_000, 5
GAMMAS = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
PENALTIES = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, type=Path, help="directory of the data files")
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    task = find_task("a9a")
    rows = load_rows(task, options.data)
    examples, targets = rows.examples[: options.rows], rows.targets[: options.rows]
    with estimators.accelerated():
        from sklearnex.svm import SVC

        grid = GridSearchCV(
            SVC(tol=1e-3, cache_size=1000),
            {"gamma": GAMMAS, "C": PENALTIES},
            cv=PredefinedSplit(np.arange(len(targets)) % FOLDS),
            refit=False,
            error_score="raise",
        )
        started = time.perf_counter()
        grid.fit(examples, targets)
        seconds = time.perf_counter() - started
    found = dict(zip(map(str, grid.cv_results_["params"]), grid.cv_results_["mean_test_score"]))
    means = [found[str({"C": c, "gamma": gamma})] for gamma in GAMMAS for c in PENALTIES]
    print(json.dumps({"seconds": seconds, "means": means} | estimators.machine_facts()))


if __name__ == "__main__":
    run(main)
