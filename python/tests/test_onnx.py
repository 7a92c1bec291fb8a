"""ONNX files that the command ``mercer export`` writes, run by onnxruntime."""

import csv
import io
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

runtime = pytest.importorskip("onnxruntime")


def command():
    """The command: ``$MERCER_COMMAND`` (``cargo xtask test`` sets it), or the one on the path."""
    found = os.environ.get("MERCER_COMMAND") or shutil.which("mercer")
    if found is None or not pathlib.Path(found).exists():
        pytest.skip("there is no command mercer; `cargo xtask test` sets MERCER_COMMAND")
    return found


def mercer(*words):
    done = subprocess.run([command(), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(path, X, y):
    with open(path, "w") as out:
        for row, label in zip(X, y, strict=True):
            values = " ".join(f"{at}:{value!r}" for at, value in enumerate(row.tolist(), 1))
            out.write(f"{label} {values}\n")


def clouds(classes, shift=0.0, seed=3):
    """600 rows around points of a circle; labels are the points' numbers."""
    random = np.random.default_rng(seed)
    y = np.arange(600) % classes
    angle = 2 * np.pi * y / classes
    X = np.c_[np.cos(angle), np.sin(angle)] * 3 + random.normal(size=(600, 2)) * 0.8 + shift
    return X, y


TASKS = {
    "binary": (2, 0.0, "c_svc(C=1)", "rbf(gamma=0.5)"),
    "binary, polynomial": (2, 0.0, "c_svc(C=1)", "polynomial(degree=3, gamma=0.2, coef0=1)"),
    "binary, linear": (2, 0.0, "c_svc(C=1)", "linear"),
    "ten classes": (10, 0.0, "c_svc(C=1)", "rbf(gamma=0.5)"),
    "regression": (10, 0.0, "epsilon_svr(C=1)", "rbf(gamma=0.5)"),
    "novelty": (2, 0.0, "one_class(nu=0.2)", "rbf(gamma=0.5)"),
    "far away": (2, 1e6, "c_svc(C=1)", "rbf(gamma=0.5)"),
}


def predictions(tmp_path, name):
    """What mercer answers, what onnxruntime answers, and what the export reported about its sample."""
    classes, shift, formulation, kernel = TASKS[name]
    X, y = clouds(classes, shift)
    queries, labels = clouds(classes, shift, seed=4)
    write(tmp_path / "d.svm", X, y)
    write(tmp_path / "q.svm", queries, labels)
    model, onnx = tmp_path / "m.mercer", tmp_path / "m.onnx"
    mercer("train", tmp_path / "d.svm", "-o", model, "--kernel", kernel, "--formulation", formulation)
    report = json.loads(
        mercer("export", model, "--format", "onnx", "-o", onnx, "--sample", tmp_path / "q.svm", "--json")
    )
    table = mercer("predict", model, tmp_path / "q.svm", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(table)))
    session = runtime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}[source.type]
    assert (kind is np.float64) == (name == "far away")
    outputs = session.run(None, {source.name: queries.astype(kind)})
    return rows, dict(zip([output.name for output in session.get_outputs()], outputs, strict=True)), report


@pytest.mark.parametrize("name", [name for name in TASKS if "binary" in name or "classes" in name])
def test_labels_are_those_of_mercer(tmp_path, name):
    rows, found, report = predictions(tmp_path, name)
    labels = np.array([int(row["label"]) for row in rows])
    differ = int(np.sum(found["label"].ravel() != labels))
    # The runtime also computes in f32, so it may change labels that the format alone does not.
    assert report["changed"] == 0 and report["queries"] == 600
    close = sum(min(abs(float(row["low"])), abs(float(row["high"]))) < 1e-4 for row in rows)
    assert differ <= close, f"{differ} labels differ, {close} queries are within 1e-4 of the boundary"


def test_far_rows_keep_their_labels(tmp_path):
    rows, found, report = predictions(tmp_path, "far away")
    labels = np.array([int(row["label"]) for row in rows])
    assert report["changed"] == 0
    assert np.array_equal(found["label"].ravel(), labels)


def test_scores_of_two_classes_are_minus_f_and_f(tmp_path):
    """The first column is not the score of the first class (sklearn-onnx issue 990)."""
    rows, found, _ = predictions(tmp_path, "binary")
    scores = np.array([(float(row["low"]) + float(row["high"])) / 2 for row in rows])
    assert np.allclose(found["scores"][:, 1], scores, atol=1e-4)
    assert np.allclose(found["scores"][:, 0], -scores, atol=1e-4)


def test_scores_of_several_classes_are_one_per_pair(tmp_path):
    _, found, _ = predictions(tmp_path, "ten classes")
    assert found["scores"].shape == (600, 45)


@pytest.mark.parametrize("name", ["regression", "novelty"])
def test_values_and_novelties_are_those_of_mercer(tmp_path, name):
    rows, found, report = predictions(tmp_path, name)
    answers = np.array([float(row["label"]) for row in rows])
    values = found["score"].ravel()
    if name == "regression":
        # `changed` counts values that are not the same to the last bit.
        assert np.allclose(values, answers, rtol=1e-5, atol=1e-5)
    else:
        assert report["changed"] == 0
        assert np.mean(np.where(values > 0, 1, -1) == answers) >= 0.998


def test_the_report_tells_how_many_labels_the_format_loses(tmp_path):
    """Supports that differ beyond the 24 bits of a single: the file alone moves the boundary."""
    model = tmp_path / "close.model"
    model.write_text(
        "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 1e-8\nlabel 1 -1\nnr_sv 1 1\nSV\n"
        "1 1:1.00000001 \n-1 1:1 \n"
    )
    sample, onnx = tmp_path / "q.svm", tmp_path / "m.onnx"
    sample.write_text("1 1:1.5\n-1 1:0.5\n")
    report = json.loads(
        mercer("export", model, "--format", "onnx", "-o", onnx, "--sample", sample, "--json")
    )
    assert (report["changed"], report["queries"]) == (1, 2)
    session = runtime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    label = session.run(["label"], {"rows": np.array([[1.5], [0.5]], np.float32)})[0]
    assert label.ravel().tolist() == [-1, -1]


TABLES = {
    "two classes": (2, "c_svc(C=1)", "chi2", "additive", []),
    "five classes": (5, "c_svc(C=1)", "intersection", "additive", []),
    "five classes, quantiles": (5, "c_svc(C=1)", "intersection", "additive(bins=quantile)", []),
    "five classes, one against one": (5, "c_svc(C=1)", "hellinger", "additive", ["--scheme", "one-vs-one"]),
    "scaled": (3, "c_svc(C=1)", "chi2", "additive", ["--scale", "max_abs"]),
    "regression": (5, "epsilon_svr(C=1)", "jensen_shannon", "additive", []),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_tables_answer_in_f64_as_mercer_does(tmp_path, name):
    classes, formulation, kernel, solver, more = TABLES[name]
    (X, y), (queries, labels) = clouds(classes), clouds(classes, seed=4)
    X, queries = np.abs(X), np.abs(queries)
    queries[::7, 0] = 0.0
    queries[::11] *= 3.0  # beyond the bins
    write(tmp_path / "d.svm", X, y)
    write(tmp_path / "q.svm", queries, labels)
    model, onnx = tmp_path / "m.mercer", tmp_path / "m.onnx"
    train = ["train", tmp_path / "d.svm", "-o", model, "--kernel", kernel, "--formulation", formulation]
    mercer(*train, "--solver", solver, *more)
    mercer("export", model, "-o", onnx)
    rows = list(csv.DictReader(io.StringIO(mercer("predict", model, tmp_path / "q.svm", "--format", "csv"))))
    session = runtime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].type == "tensor(double)"
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"rows": queries}), strict=True))
    answers = np.array([float(row["label"]) for row in rows])
    low, high = (np.array([float(row[end]) for row in rows]) for end in ("low", "high"))
    # Two columns: the sum of a row is rounded once or twice, whatever its order.
    if name == "regression":
        assert found["score"].dtype == np.float64
        assert np.allclose(found["score"].ravel(), answers, rtol=1e-15, atol=1e-15)
        return
    assert np.array_equal(found["label"].ravel(), answers)
    scores = found["scores"]
    if classes == 2:
        margin = scores[:, 0]
    elif "one against one" in name:
        pairs = [(a, b) for a in range(classes) for b in range(a + 1, classes)]
        own = np.where([[w == a for a, _ in pairs] for w in answers], scores, np.inf)
        other = np.where([[w == b for _, b in pairs] for w in answers], -scores, np.inf)
        margin = np.minimum(own, other).min(axis=1)
    else:
        ordered = np.sort(scores, axis=1)
        margin = ordered[:, -1] - ordered[:, -2]
    assert np.all((low - 1e-14 <= margin) & (margin <= high + 1e-14))
