"""Log loss of probabilities on held-out rows, beside scikit-learn's CalibratedClassifierCV.

    python probabilities.py --mercer target/release/mercer [--data DIR]

The same rows, kernel and C for both; five folds, the machine trained on all training rows. Sonar and Haberman come with
the repository, breast cancer, digits (odd against even) and wine with scikit-learn; a9a needs the data directory.
Prints a Markdown table. `flipped` counts queries whose larger probability is not that of the label.
"""

import argparse
import csv
import gzip
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_digits, load_svmlight_file, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

ROOT = Path(__file__).resolve().parents[2]


def table(name):
    with open(ROOT / "datasets" / name / f"{name}.csv") as text:
        rows = list(csv.reader(text))
    try:
        [float(value) for value in rows[0][:-1]]
    except ValueError:
        rows = rows[1:]
    labels = np.unique([row[-1] for row in rows], return_inverse=True)[1]
    return np.array([row[:-1] for row in rows], dtype=float), labels


def sets(data):
    for name in ("sonar", "haberman"):
        yield name, *table(name)
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    X, y = load_digits(return_X_y=True)
    yield "digits, odd", X, y % 2
    yield "wine, 3 classes", *load_wine(return_X_y=True)
    if data is not None and (data / "libsvm/a9a.gz").is_file():
        X, y = load_svmlight_file(gzip.open(data / "libsvm/a9a.gz"))
        yield "a9a, 4000 rows", X[:4000].toarray(), (y[:4000] > 0).astype(int)


def own(program, kind, train, test, gamma, C):
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("train.svm", "test.svm", "model", "out.jsonl")]
        dump_svmlight_file(*train, paths[0], zero_based=False)
        dump_svmlight_file(*test, paths[1], zero_based=False)
        asked = ["--kernel", f"rbf(gamma={gamma!r})", "--formulation", f"c_svc(C={C!r})"]
        subprocess.run(
            [program, "train", paths[0], "-o", paths[2], "--probabilities", kind, "--quiet", *asked], check=True
        )
        asked = ["--probabilities", "-o", paths[3], "--quiet"]
        subprocess.run([program, "predict", paths[2], paths[1], *asked], check=True)
        rows = [json.loads(line) for line in open(paths[3])]
    classes = sorted(np.unique(train[1]))
    shares = np.array([[row["probabilities"][str(c)] for c in classes] for row in rows])
    flipped = sum(row["label"] != max(row["probabilities"], key=row["probabilities"].get) for row in rows)
    return log_loss(test[1], shares, labels=classes), flipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mercer", required=True)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    print("| rows | kind | mercer | scikit-learn | mercer flipped | scikit-learn flipped |")
    print("|---|---|---:|---:|---:|---:|")
    for name, X, y in sets(options.data):
        losses = {}
        for seed in range(3):
            train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=0.4, random_state=seed, stratify=y)
            scale = StandardScaler().fit(train_X)
            train_X, test_X = scale.transform(train_X), scale.transform(test_X)
            gamma, C = 1.0 / X.shape[1], 1.0
            for kind in ("sigmoid", "isotonic"):
                folds = StratifiedKFold(5, shuffle=True, random_state=seed)
                machine = SVC(C=C, gamma=gamma)
                peer = CalibratedClassifierCV(machine, method=kind, cv=folds, ensemble=False).fit(train_X, train_y)
                shares = np.clip(peer.predict_proba(test_X), 1e-12, 1)
                labels = SVC(C=C, gamma=gamma).fit(train_X, train_y).predict(test_X)
                other = int(np.sum(peer.classes_[shares.argmax(axis=1)] != labels))
                loss, flipped = own(options.mercer, kind, (train_X, train_y), (test_X, test_y), gamma, C)
                losses.setdefault(kind, []).append((loss, log_loss(test_y, shares), flipped, other))
        for kind, found in losses.items():
            a, b, c, d = np.mean(found, axis=0)
            print(f"| {name} | {kind} | {a:.4f} | {b:.4f} | {c:.1f} | {d:.1f} |", flush=True)


if __name__ == "__main__":
    main()
