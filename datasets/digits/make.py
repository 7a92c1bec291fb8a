"""Makes digits.csv.gz, digits.model and queries.svm of this folder anew.

    pip install -r benches/peers/requirements.txt
    python datasets/digits/make.py

The rows come with scikit-learn; the machine is the task `digits` of benches/tasks.toml, trained by
LIBSVM inside scikit-learn.
"""

import gzip
import sys
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "benches" / "peers"))

import estimators  # noqa: E402
import libsvm_text as text  # noqa: E402
from tasks import find_task, load_rows  # noqa: E402


def main():
    packed = files("sklearn.datasets.data") / "digits.csv.gz"
    rows = gzip.decompress(packed.read_bytes())
    titles = ",".join([f"p{pixel}" for pixel in range(64)] + ["label"]) + "\n"
    (HERE / "digits.csv.gz").write_bytes(gzip.compress(titles.encode() + rows, mtime=0))

    task = find_task("digits")
    rows = load_rows(task, HERE)
    fitted = estimators.make(task, "libsvm").fit(rows.examples, rows.targets)
    text.write_model(HERE / "digits.model", text.from_estimator(fitted))
    text.write_rows(HERE / "queries.svm", rows.queries, rows.answers)


if __name__ == "__main__":
    main()
