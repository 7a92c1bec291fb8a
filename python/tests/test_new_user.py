"""A new user's session, with the command and Python on the same files: what one of them writes the other reads, with the same
answers. Each thing alone is tested elsewhere (`crates/mercer-cli/tests/it`, the other files here)."""

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.inspection import permutation_importance
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC

import mercer
from mercer.svm import SVC

ROOT = Path(__file__).parents[2]
DATASETS = ROOT / "datasets"

if not DATASETS.is_dir():
    pytest.skip("the data are not beside the package", allow_module_level=True)


def command():
    """The command `mercer` of this source tree, or the installed one."""
    built = ROOT / "target" / "debug" / "mercer"
    found = os.environ.get("MERCER_COMMAND") or (str(built) if built.exists() else shutil.which("mercer"))
    if not found:
        pytest.skip("the command mercer is not built; `cargo build` does it")
    return found


def run(folder, *arguments, code=0, given=None):
    """Runs the command in a folder; returns what it printed."""
    arguments = [str(argument) for argument in arguments]
    done = subprocess.run([command(), *arguments], cwd=folder, input=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: {done.stderr}"
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the digits as a table: the first 600 rows to train on, the next 300 to ask."""
    place = tmp_path_factory.mktemp("session")
    lines = gzip.open(DATASETS / "digits" / "digits.csv.gz", "rt").read().splitlines()
    (place / "train.csv").write_text("\n".join(lines[:601]) + "\n")
    (place / "asked.csv").write_text("\n".join([lines[0], *lines[601:901]]) + "\n")
    return place


def table(path):
    """Rows and labels of a table whose last column is the label."""
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    return values[:, :-1], values[:, -1].astype(int)


def labels(text):
    return np.array([float(line) for line in text.splitlines()]).astype(int)


def test_a_table_is_read_alike_by_every_verb(folder):
    run(folder, "convert", "train.csv", "-o", "train.svm")
    told = json.loads(run(folder, "train", "train.csv", "-o", "a.mercer", "--kernel", "rbf(gamma=0.001)", "--json").stdout)
    assert told["target"]["column"] == "label"
    run(folder, "train", "train.svm", "-o", "b.mercer", "--kernel", "rbf(gamma=0.001)")
    # The table still has its label column: it is used for the accuracy.
    told = json.loads(run(folder, "predict", "a.mercer", "asked.csv", "-o", "a.txt", "--json").stdout)
    assert told["accuracy"] > 0.9 and told["queries"] == 300
    run(folder, "convert", "asked.csv", "-o", "asked.svm")
    run(folder, "predict", "b.mercer", "asked.svm", "-o", "b.txt")
    assert (folder / "a.txt").read_text() == (folder / "b.txt").read_text()


def test_python_and_the_command_train_the_same_machine(folder):
    X, y = table(folder / "train.csv")
    asked, _ = table(folder / "asked.csv")
    svc = SVC(gamma=0.001).fit(X, y)
    run(folder, "train", "train.csv", "-o", "same.mercer", "--kernel", "rbf(gamma=0.001)")
    np.testing.assert_array_equal(mercer.load(folder / "same.mercer").predict(asked), svc.predict(asked))
    svc.save(folder / "python.mercer")
    answered = run(folder, "predict", "python.mercer", "asked.csv", "-o", "-").stdout
    np.testing.assert_array_equal(labels(answered), svc.predict(asked))


def test_a_scikit_learn_pipeline_becomes_a_file_that_the_command_answers(folder):
    X, y = table(folder / "train.csv")
    asked, _ = table(folder / "asked.csv")
    source = make_pipeline(StandardScaler(), TheirSVC()).fit(X, y)
    fast = mercer.from_sklearn(source)
    assert fast.preprocessing_ == []
    fast.save(folder / "pipeline.mercer")
    answered = run(folder, "predict", "pipeline.mercer", "asked.csv", "-o", "-").stdout
    np.testing.assert_array_equal(labels(answered), source.predict(asked))
    # Other steps stay in front; a file cannot hold them, and says so.
    other = mercer.from_sklearn(make_pipeline(PCA(10), TheirSVC()).fit(X, y))
    with pytest.raises(ValueError, match="PCA"):
        other.save(folder / "other.mercer")
    assert not (folder / "other.mercer").exists()


def test_an_accelerated_model_is_an_estimator_and_keeps_its_labels(folder):
    X, y = table(folder / "train.csv")
    asked, right = table(folder / "asked.csv")
    source = TheirSVC(gamma=0.001).fit(X, y)
    fast = mercer.accelerate(source, asked, seconds=2)
    np.testing.assert_array_equal(fast.predict(asked), source.predict(asked))
    assert get_scorer("accuracy")(fast, asked, right) == source.score(asked, right)
    assert permutation_importance(fast, asked[:40], right[:40], n_repeats=1).importances.shape == (64, 1)
    assert "final_test" in fast.tuning_ and fast.comparison_["model"]["batch_us"] > 0
    joblib.dump(fast, folder / "fast.joblib")
    np.testing.assert_array_equal(joblib.load(folder / "fast.joblib").predict(asked), fast.predict(asked))
    # The plan goes along in the file, and the command says what is known of it.
    fast.save(folder / "fast.mercer")
    told = json.loads(run(folder, "inspect", "fast.mercer", "--json").stdout)
    assert told["plan"] in (fast.plan, None)
    assert set(told["tuning"] or {}) <= set(fast.tuning_)


def test_a_search_over_ours_finds_what_theirs_finds(folder):
    X, y = table(folder / "train.csv")
    grid = {"C": [1, 10], "gamma": [1e-4, 1e-3]}
    ours, theirs = (GridSearchCV(kind(), grid, cv=3).fit(X, y) for kind in (SVC, TheirSVC))
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=0.01)


def test_mistakes_are_one_sentence_in_the_first_second_and_leave_no_file(folder):
    for arguments, sentence in (
        (("train", "train.csv", "-o", "nowhere/m.mercer"), "there is no folder 'nowhere'"),
        (("train", "train.csv", "-o", "train.csv"), "train.csv"),
        (("train", "absent.csv", "-o", "m.mercer"), "absent.csv"),
        (("tune", "a.mercer", "--sample", "asked.csv", "-o", "m.mercer", "--budget-us", "0.001", "--time-limit", "2"), "would settle"),
    ):
        said = run(folder, *arguments, code=1).stderr
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1 and sentence in errors[0], said
        told = json.loads(run(folder, *arguments, "--json", code=1).stdout.splitlines()[-1])
        assert told["exit_code"] == 1 and sentence in told["error"]
    assert not (folder / "m.mercer").exists() and (folder / "train.csv").stat().st_size > 10_000


def test_scripts_of_libsvm_go_on(folder):
    run(folder, "svm-train", "-q", "-g", "0.001", "train.svm", "libsvm.model")
    printed = run(folder, "svm-predict", "asked.svm", "libsvm.model", "out.txt").stdout
    assert printed.startswith("Accuracy = 9")
    X, y = table(folder / "train.csv")
    asked, _ = table(folder / "asked.csv")
    np.testing.assert_array_equal(labels((folder / "out.txt").read_text()), TheirSVC(gamma=0.001).fit(X, y).predict(asked))
    # Both ends read the other's model.
    np.testing.assert_array_equal(mercer.load(folder / "libsvm.model").predict(asked), labels((folder / "out.txt").read_text()))
    for wrong, message in (("-g -1", "gamma < 0"), ("-c 0", "C <= 0"), ("-t 1 -d -1", "degree of polynomial kernel < 0")):
        said = run(folder, "svm-train", *wrong.split(), "train.svm", "no.model", code=1).stderr
        assert f"ERROR: {message}" in said
