"""Time per row of linear machines on sparse text: scikit-learn's LinearSVC and the model that accelerate makes of it.

``python benches/linear_text.py [folder of the text data]``; without an argument the folder is ``text`` in MERCER_DATA or in
``../shared/data`` beside the repository. Times are the best of several runs, in turns, on all threads that ``n_jobs`` allows.
"""

import os
import sys
import warnings
from pathlib import Path

from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC

import mercer
from mercer import _comparison

SETS = {"20newsgroups.counts.svm.gz": None, "reuters.counts.svm.gz": None, "sector.counts.svm.gz": None,
        "rcv1_small.train.svm.gz": None}


def folder():
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    data = os.environ.get("MERCER_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data"
    return Path(data) / "text"


def main():
    # Batches take less than a millisecond: more turns than accelerate takes.
    _comparison.RUNS, _comparison.SECONDS = 60, 0.5
    print("| data | rows | columns | classes | values per row | scikit-learn, batch | ours | scikit-learn, one row | ours | threads |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in SETS:
        path = folder() / name
        if not path.exists():
            print(f"{path} is not there; skipped", file=sys.stderr)
            continue
        X, y = load_svmlight_file(str(path))
        half = X.shape[0] // 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = LinearSVC(C=0.1, max_iter=200).fit(X[:half], y[:half])
        queries = X[half:]
        for n_jobs in (1, None):
            model = mercer.from_sklearn(source, n_jobs=n_jobs)
            assert model.compare(source, queries)["different"] == 0
            found = _comparison.compare_times(source, model, queries)
            theirs, ours = found["source"], found["model"]
            print(
                f"| {name.split('.')[0]} | {queries.shape[0]} | {X.shape[1]} | {len(source.classes_)}"
                f" | {queries.nnz / queries.shape[0]:.0f} | {theirs['batch_us']:.2f} us | {ours['batch_us']:.2f} us"
                f" | {theirs['single_us']:.1f} us | {ours['single_us']:.1f} us | {n_jobs or 'all'} |",
                flush=True,
            )


main()
