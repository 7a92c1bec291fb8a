"""Trains the machine of each predicting task and writes, for a task T, into the output directory

T.model          LIBSVM model text            T.libsvm.pred  LIBSVM's answers, one per line
T.train.svm      the examples                 T.decision     LIBSVM's decision values
T.test.svm       the queries with labels      T.intelex.pickle  the fitted sklearnex estimator

    python prepare.py --data DIR --out DIR [TASK ...]
"""

import argparse
import json
import pickle
import time
from pathlib import Path

import numpy as np

import estimators
import libsvm_text as text
from tasks import TaskError, find_task, load_rows, load_tasks, run

CHECKED = 200  # queries evaluated again from the written file


def prepare(task, data, out):
    rows = load_rows(task, data)
    path = lambda suffix: out / f"{task['name']}.{suffix}"  # noqa: E731
    trainer = task.get("trainer", "libsvm")
    started = time.perf_counter()
    fitted = estimators.make(task, trainer).fit(rows.examples, rows.targets)
    seconds = time.perf_counter() - started
    if trainer == "intelex":
        path("intelex.pickle").write_bytes(pickle.dumps(fitted))

    machine = text.from_estimator(fitted)
    text.write_model(path("model"), machine)
    text.write_rows(path("train.svm"), rows.examples, rows.targets)
    text.write_rows(path("test.svm"), rows.queries, rows.answers)

    # LIBSVM answers, also where another trainer found the machine.
    columns = rows.examples.shape[1]
    judge = fitted if trainer == "libsvm" else estimators.stock(machine, columns)
    values = estimators.decisions(judge, machine, rows.queries)
    answers = text.votes(machine, values)
    text.write_values(path("libsvm.pred"), answers)
    text.write_values(path("decision"), values)
    return {
        "task": task["name"],
        "trainer": trainer,
        "seconds": round(seconds, 2),
        "examples": rows.examples.shape[0],
        "queries": rows.queries.shape[0],
        "columns": columns,
        "supports": machine.supports.shape[0],
        "expected_supports": task.get("supports"),
        "quality": estimators.quality(task, answers, rows.answers),
        "trainer_differs": int((np.abs(fitted.predict(rows.queries) - answers) > 1e-8).sum()),
        "check": check(path("model"), rows, values),
    }


def check(path, rows, values):
    """Evaluates the written file anew, with numpy, and compares with LIBSVM's decision values."""
    again = text.read_model(path, rows.examples.shape[1])
    queries, values = rows.queries[:CHECKED], values[:CHECKED]
    scores = text.decisions(again, queries)
    gap = float(np.abs(scores - values).max())
    answers, expected = text.votes(again, scores), text.votes(again, values)
    differ = int((np.abs(answers - expected) > 1e-8).sum())
    if differ or gap > 1e-8 * max(1.0, float(np.abs(values).max())):
        raise TaskError(f"{path.name}: {differ} answers differ, decision values by {gap:.3g}")
    return {"queries": int(queries.shape[0]), "answers_differ": differ, "largest_gap": gap}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="default: all that predict")
    parser.add_argument("--data", required=True, type=Path, help="directory of the data files")
    parser.add_argument("--out", required=True, type=Path, help="directory to write to")
    options = parser.parse_args()
    every = [name for name, task in load_tasks().items() if task.get("predictor")]
    tasks = [find_task(name) for name in options.tasks or every]
    options.out.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        print(json.dumps(prepare(task, options.data, options.out)), flush=True)


if __name__ == "__main__":
    run(main)
