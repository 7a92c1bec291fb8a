"""Time of one query of a pipeline: scikit-learn's, the model that accelerate makes of it, and the same after save and load.

    python python/benches/pipeline.py

Scalers become part of the model, so the last two should take the same time. Digits; the best of several turns over 200 queries, one
query a call.
"""

import tempfile
import time
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import mercer

QUERIES = 200
TURNS = 7


def microseconds(models, rows):
    """The least time of a query of each model, in turns."""
    best = [float("inf")] * len(models)
    for _ in range(TURNS):
        for number, model in enumerate(models):
            start = time.perf_counter()
            for row in rows:
                model.predict(row)
            best[number] = min(best[number], time.perf_counter() - start)
    return [1e6 * spent / len(rows) for spent in best]


def main():
    X, y = load_digits(return_X_y=True)
    sample, rows = X[900:1400], [X[row : row + 1] for row in range(1400, 1400 + QUERIES)]
    print("| steps | scikit-learn, us | accelerate | after save and load | ratio |")
    print("|---|---|---|---|---|")
    for steps in ([], [StandardScaler()], [MinMaxScaler()]):
        source = make_pipeline(*steps, SVC()).fit(X[:900], y[:900])
        fast = mercer.accelerate(source, sample, aim="latency", seconds=5)
        with tempfile.TemporaryDirectory() as folder:
            fast.save(Path(folder) / "m.mercer")
            again = mercer.load(Path(folder) / "m.mercer")
        theirs, before, after = microseconds([source, fast, again], rows)
        names = " → ".join(type(step).__name__ for step in [*steps, source[-1]])
        print(f"| {names} | {theirs:.1f} | {before:.2f} | {after:.2f} | {before / after:.2f} |", flush=True)


if __name__ == "__main__":
    main()
