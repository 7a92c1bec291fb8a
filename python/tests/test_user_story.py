"""What a demanding user tries in an afternoon, one short check for each thing. Every part has tests of its own; this says that
all of them work together on one computer, with the command and the programs of others."""

import ctypes
import io
import json
import shutil
import subprocess
import time

import joblib
import mlflow.sklearn
import numpy as np
import pytest
import skl2onnx
import skops.io
from scipy import sparse
from serving import command
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC
from sklearn.svm import LinearSVC as TheirLinearSVC

import mercer
import mercer.onnx
from mercer.machines import AdditiveSVC
from mercer.svm import SVC, LinearSVC, LinearSVR, l1_min_c

X, Y = load_digits(return_X_y=True)
TRAINED, SAMPLE, ASKED = slice(0, 500), slice(500, 1300), slice(1300, 1797)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables with the label last, and a trained machine."""
    place = tmp_path_factory.mktemp("story")
    names = ",".join([*(f"p{column}" for column in range(64)), "digit"])
    for name, rows in (("train", TRAINED), ("sample", SAMPLE), ("asked", ASKED)):
        table = np.column_stack([X[rows], Y[rows]])
        np.savetxt(place / f"{name}.csv", table, fmt="%g", delimiter=",", header=names, comments="")
    run(place, "train", "train.csv", "-o", "m.mercer", "--kernel", "rbf(gamma=0.001)")
    return place


@pytest.fixture(scope="module")
def source():
    return make_pipeline(StandardScaler(), TheirSVC()).fit(X[TRAINED], Y[TRAINED])


@pytest.fixture(scope="module")
def fast(source):
    return mercer.accelerate(source, X[SAMPLE], seconds=3)


def run(folder, *arguments, code=0, given=None):
    """Runs the command in a folder; returns what it printed."""
    arguments = [command(), *map(str, arguments)]
    done = subprocess.run(arguments, cwd=folder, input=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: {done.stderr}"
    return done


def told(folder, *arguments, code=0):
    """The object that the command prints."""
    return json.loads(run(folder, *arguments, "--json", code=code).stdout.splitlines()[-1])


def test_budgets_are_met_or_refused_and_what_is_open_is_marked(folder):
    tune = ("tune", "m.mercer", "--sample", "sample.csv", "--for", "latency", "--time-limit", "2")
    error = told(folder, *tune, "-o", "no.mercer", "--budget-us", "0.001", code=1)["error"]
    assert "would settle" in error and not (folder / "no.mercer").exists()
    done = run(folder, "predict", "m.mercer", "asked.csv", "--budget", "1", "--format", "csv")
    lines = done.stdout.splitlines()[1:]
    assert len(lines) == 497 and all("unsettled" in line for line in lines)
    assert "497 of 497 queries are unsettled" in done.stderr


def test_one_rule_says_which_column_is_the_target(folder):
    assert told(folder, "train", "train.csv", "-o", "t.mercer")["target"]["column"] == "digit"
    assert told(folder, "convert", "train.csv", "-o", "train.svm")["target"]["column"] == "digit"
    targets = [int(line.split()[0]) for line in (folder / "train.svm").read_text().splitlines()]
    np.testing.assert_array_equal(targets, Y[TRAINED])
    assert told(folder, "predict", "t.mercer", "asked.csv", "-o", "t.txt")["accuracy"] > 0.9
    curve = "a,b\n" + "".join(f"{row},{row * 1.37}\n" for row in range(300))
    (folder / "curve.csv").write_text(curve)
    assert "regression" in told(folder, "train", "curve.csv", "-o", "no.mercer", code=1)["error"]


def test_outputs_are_checked_before_the_work(folder):
    started = time.monotonic()
    for output, sentence in (("none/m.mercer", "no folder"), ("train.csv", "reads this file"), (".", "folder")):
        assert sentence in told(folder, "train", "train.csv", "-o", output, code=1)["error"]
    assert time.monotonic() - started < 30, "three starts of the command on a busy computer"


def test_pipelines_are_folded_kept_and_answer_alike(source, fast, folder):
    assert fast.preprocessing_ == []
    np.testing.assert_array_equal(fast.predict(X[ASKED]), source.predict(X[ASKED]))
    fast.save(folder / "pipeline.mercer")
    np.testing.assert_array_equal(mercer.load(folder / "pipeline.mercer").predict(X[ASKED]), source.predict(X[ASKED]))
    other = mercer.from_sklearn(make_pipeline(PCA(10), TheirSVC()).fit(X[TRAINED], Y[TRAINED]))
    with pytest.raises(ValueError, match="PCA"):
        other.save(folder / "other.mercer")


def test_skops_mlflow_and_joblib_keep_models(fast, tmp_path):
    answers = fast.predict(X[ASKED])
    kept = skops.io.loads(skops.io.dumps(fast), trusted=mercer.SKOPS_TYPES)
    np.testing.assert_array_equal(kept.predict(X[ASKED]), answers)
    mlflow.sklearn.save_model(fast, tmp_path / "kept", skops_trusted_types=mercer.SKOPS_TYPES, pip_requirements=["mercer"])
    np.testing.assert_array_equal(mlflow.sklearn.load_model(str(tmp_path / "kept")).predict(X[ASKED]), answers)
    file = io.BytesIO()
    joblib.dump(fast, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file).predict(X[ASKED]), answers)


@pytest.mark.parametrize("last", [SVC(), LinearSVC(), AdditiveSVC()], ids=repr)
def test_skl2onnx_converts_whole_pipelines(last):
    runtime = pytest.importorskip("onnxruntime")
    mercer.onnx.register()
    whole = make_pipeline(StandardScaler(with_mean=False), last).fit(X[TRAINED], Y[TRAINED])
    rows = X[ASKED].astype(np.float32)
    graph = skl2onnx.to_onnx(whole, rows[:1])
    session = runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    label = session.run(None, {session.get_inputs()[0].name: rows})[0]
    assert np.mean(label == whole.predict(rows)) >= 0.99


def test_accelerate_compares_with_its_source(source, fast):
    found = fast.comparison_
    assert {"single_us", "batch_us"} <= set(found["source"]) & set(found["model"])
    assert found["kept"] in ("source", "model")
    np.testing.assert_array_equal(fast.decide(X[ASKED])["label"], source.predict(X[ASKED]))


def test_sparse_text_is_answered_as_by_its_source():
    words = np.array("kernel margin support vector goal match team score rain cloud wind sun".split())
    random = np.random.default_rng(0)
    topic = random.integers(3, size=400)
    texts = [" ".join(random.choice(words[4 * t : 4 * t + 4], 6)) + " " + random.choice(words) for t in topic]
    rows = TfidfVectorizer().fit_transform(texts)
    assert sparse.issparse(rows)
    theirs = TheirLinearSVC().fit(rows[:300], topic[:300])
    np.testing.assert_array_equal(mercer.from_sklearn(theirs).predict(rows), theirs.predict(rows))
    assert LinearSVC().fit(rows[:300], topic[:300]).score(rows[300:], topic[300:]) >= theirs.score(rows[300:], topic[300:]) - 0.02


def test_training_rows_as_a_sample_are_told_with_the_way_out(folder):
    done = run(folder, "tune", "m.mercer", "--sample", "train.csv", "-o", "s.mercer", "--time-limit", "1")
    assert "--trust-sample" in done.stderr
    with pytest.raises(ValueError, match="trust_sample"):
        SVC().fit(X, Y).tune(X, y_sample=Y, contract="calibrated(eps=0.05, delta=0.05)", seconds=1)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_plan_in_c_gives_the_labels_of_the_plan(folder):
    plan = ("--plan", "cascade(low_precision, exact)")
    run(folder, "compile", "m.mercer", *plan, "-o", "plan.mercer")
    run(folder, "export", "plan.mercer", "-o", "plan.c")
    flags = ["-std=c99", "-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "plan.c", "-o", "plan.so", "-lm"], cwd=folder, check=True)
    decide = ctypes.CDLL(str(folder / "plan.so")).mercer_decide
    model = mercer.load(folder / "plan.mercer")
    rows = np.ascontiguousarray(X[ASKED][:100])
    labels = [model.classes_[decide(row.ctypes.data_as(ctypes.c_void_p))] for row in rows]
    np.testing.assert_array_equal(labels, model.predict(rows))
    assert subprocess.run(["gcc", "-ffast-math", "-c", "plan.c", "-o", "x"], cwd=folder, capture_output=True).returncode != 0
    # The name says the format, and a sentence says what the format cannot hold.
    said = run(folder, "export", "plan.mercer", "-o", "plan.onnx").stderr
    assert "is not in the file, only the machine" in said and (folder / "plan.onnx").stat().st_size > 1000


def test_check_advises_and_index_0_is_taken_as_libsvm_takes_it(folder):
    (folder / "wide.csv").write_text("a,b,y\n" + "".join(f"{row % 7},{1e5 * row},{row % 2}\n" for row in range(40)))
    assert "--scale" in run(folder, "check", "wide.csv").stdout
    (folder / "zero.svm").write_text("1 0:1 1:2\n-1 0:2 1:1\n" * 10)
    run(folder, "svm-train", "-q", "zero.svm", "zero.model")
    assert run(folder, "svm-predict", "zero.svm", "zero.model", "zero.txt").stdout.startswith("Accuracy = 100%")


def test_reproduce_without_data_says_where_they_belong(folder):
    error = told(folder, "reproduce", "dm03", "--data", "/nonexistent", code=5)
    assert "MERCER_DATA" in error["error"] and error["exit_code"] == 5


def test_every_verb_prints_one_object_with_the_same_names(folder):
    timed = told(folder, "bench", "m.mercer", "asked.csv", "--repeats", "1")
    seen = told(folder, "inspect", "m.mercer")
    assert timed["features"] == seen["features"] == 64
    assert set(told(folder, "inspect", "nothing", code=1)) == {"error", "hint", "exit_code"}


def test_predict_answers_a_line_when_a_line_comes(folder):
    words = [command(), "predict", "m.mercer", "-", "--input-format", "libsvm", "--quiet"]
    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    expected = mercer.load(folder / "m.mercer").predict(X[ASKED][:5])
    try:
        for row, label in zip(X[ASKED][:5], expected, strict=True):
            values = " ".join(f"{column + 1}:{value:g}" for column, value in enumerate(row) if value)
            process.stdin.write(f"0 {values}\n")
            process.stdin.flush()
            assert float(process.stdout.readline()) == label
    finally:
        process.stdin.close()
        process.stdout.close()
        assert process.wait(60) == 0
    piped = run(folder, "convert", "asked.csv", "-o", "-", "--format", "libsvm").stdout
    assert len(piped.splitlines()) == 497


def test_scripts_of_libsvm_go_on(folder):
    values = X[TRAINED][:60] @ X[TRAINED][:60].T / 1000
    label = np.where(Y[TRAINED][:60] < 5, 1, -1)
    lines = [
        f"{label[row]} 0:{row + 1} " + " ".join(f"{column + 1}:{value}" for column, value in enumerate(values[row]))
        for row in range(60)
    ]
    (folder / "kernel.svm").write_text("\n".join(lines) + "\n")
    run(folder, "svm-train", "-q", "-t", "4", "kernel.svm", "kernel.model")
    run(folder, "svm-predict", "kernel.svm", "kernel.model", "kernel.txt")
    theirs = TheirSVC(kernel="precomputed").fit(values, label).predict(values)
    np.testing.assert_array_equal(np.loadtxt(folder / "kernel.txt"), theirs)
    assert "ERROR: C <= 0" in run(folder, "svm-train", "-c", "0", "kernel.svm", "no.model", code=1).stderr


def test_models_are_estimators(fast):
    rows, right = X[ASKED][:60], Y[ASKED][:60]
    assert get_scorer("accuracy")(fast, rows, right) == fast.score(rows, right)
    assert permutation_importance(fast, rows, right, n_repeats=1).importances.shape == (64, 1)
    assert FrozenEstimator(fast).fit(rows, right).predict(rows).shape == (60,)
    assert "Model" in fast._repr_html_()
    grid = GridSearchCV(clone(SVC()), {"C": [1, 10]}, cv=3).fit(X[TRAINED], Y[TRAINED])
    theirs = GridSearchCV(TheirSVC(), {"C": [1, 10]}, cv=3).fit(X[TRAINED], Y[TRAINED])
    assert grid.best_params_ == theirs.best_params_
    assert LinearSVR().fit(X[TRAINED], Y[TRAINED]).predict(rows).shape == (60,) and l1_min_c(rows, right) > 0
