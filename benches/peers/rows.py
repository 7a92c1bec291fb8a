"""Writes the rows of tasks as LIBSVM text: TASK.train.svm and TASK.test.svm; trains nothing.

    python rows.py --data DIR --out DIR TASK ...
"""

import argparse
from pathlib import Path

import libsvm_text as text
from tasks import find_task, load_rows, run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    parser.add_argument("--data", required=True, type=Path, help="directory of the data files")
    parser.add_argument("--out", required=True, type=Path, help="directory to write to")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for task in map(find_task, options.tasks):
        rows = load_rows(task, options.data)
        text.write_rows(options.out / f"{task['name']}.train.svm", rows.examples, rows.targets)
        text.write_rows(options.out / f"{task['name']}.test.svm", rows.queries, rows.answers)


if __name__ == "__main__":
    run(main)
