"""A budget that `tune` stored with a model is obeyed alike by all that answer with it: the command, its `bench`, Python and the
server. How a time becomes a limit of cost is tested in `crates/mercer-query`."""

import csv
import gzip
import json
import subprocess

import numpy as np
import pytest
from serving import DIGITS, command, event_named

import mercer
from mercer import Client

if not DIGITS.is_dir():
    pytest.skip("the data are not beside the package", allow_module_level=True)


def run(folder, *arguments, code=0):
    """Runs the command in a folder; returns what it printed."""
    arguments = [command(), *map(str, arguments)]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: {done.stderr}"
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a tuned machine of digits, and the rows that are asked."""
    place = tmp_path_factory.mktemp("budgets")
    lines = gzip.open(DIGITS / "digits.csv.gz", "rt").read().splitlines()
    for name, rows in (("train", lines[1:601]), ("sample", lines[601:1401]), ("asked", lines[1401:])):
        (place / f"{name}.csv").write_text("\n".join([lines[0], *rows]) + "\n")
    run(place, "train", "train.csv", "-o", "m.mercer", "--kernel", "rbf(gamma=0.001)")
    return place


def tune(folder, *arguments, code=0):
    words = ("tune", "m.mercer", "--sample", "sample.csv", "--for", "latency", "--time-limit", "3", "--json", *arguments)
    return run(folder, *words, code=code)


def answers_of_the_server(folder, model, rows):
    """Label and certainty of each row from a server of this model."""
    words = [command(), "serve", str(folder / model), "--json", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        address = event_named(process, "listening")["address"]
        with Client(f"http://{address}", model.split(".")[0]) as client:
            answers = client.decide(rows)
            return [str(label) for label in answers["label"]], list(answers["certainty"])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_stored_budget_is_obeyed_by_everything_that_answers(folder):
    times = json.loads(tune(folder, "-o", "free.mercer").stdout)["times"]
    # Half way to the most costly path: queries that need it stay unsettled.
    budget = (times[0]["microseconds"] + times[-1]["microseconds"]) / 2
    told = json.loads(tune(folder, "-o", "fast.mercer", "--budget-us", budget, "--unsettled", "1").stdout)
    assert told["budget"]["microseconds"] == pytest.approx(budget)
    run(folder, "predict", "fast.mercer", "asked.csv", "--format", "csv", "-o", "answers.csv")
    answers = list(csv.DictReader((folder / "answers.csv").open()))
    labels, certainties = ([answer[name] for answer in answers] for name in ("label", "certainty"))
    timed = json.loads(run(folder, "bench", "fast.mercer", "asked.csv", "--json").stdout)
    assert timed["unsettled"] == certainties.count("unsettled")
    rows = np.loadtxt(folder / "asked.csv", delimiter=",", skiprows=1)[:, :-1]
    decisions = mercer.load(folder / "fast.mercer").decide(rows)
    assert [str(label) for label in decisions["label"]] == labels
    assert list(decisions["certainty"]) == certainties
    assert answers_of_the_server(folder, "fast.mercer", rows) == (labels, certainties)
    costs = np.array([float(answer["cost"]) for answer in answers])
    assert costs.max() <= told["budget"]["multiply_adds"]
    # Given once more as multiply-adds, the limit gives the same answers with the plan that was tuned.
    limit = told["budget"]["multiply_adds"]
    run(folder, "predict", "fast.mercer", "asked.csv", "--format", "csv", "--budget", limit, "-o", "again.csv")
    assert (folder / "again.csv").read_text() == (folder / "answers.csv").read_text()


def meets(folder, budget):
    """Whether a plan settles 99 % of the sample within this time, and all that is asked but 5 %."""
    words = ["m.mercer", "--sample", "sample.csv", "--for", "latency", "--time-limit", "3", "-o", "met.mercer"]
    done = subprocess.run(
        [command(), "tune", *words, "--budget-us", str(budget)], cwd=folder, capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        assert "would settle" in done.stderr, done.stderr
        return False
    told = json.loads(run(folder, "predict", "met.mercer", "asked.csv", "--json").stdout)
    return told["certainties"]["unsettled"] <= 0.05 * told["queries"]


def test_a_budget_that_nothing_meets_says_what_does_and_that_suffices(folder):
    found = []
    # Times vary between runs on a busy computer: what is named is right up to a factor of 1.5 in one of a few attempts. What
    # is named three times too small is not met with half as much again, which is half of what is right.
    for _ in range(4):
        said = json.loads(tune(folder, "-o", "no.mercer", "--budget-us", "0.001", code=1).stdout.splitlines()[-1])
        assert not (folder / "no.mercer").exists()
        enough = float(said["error"].split(" us all of them")[0].split()[-1])
        found.append((enough, meets(folder, 1.5 * enough), meets(folder, 0.5 * enough)))
        if found[-1][1:] == (True, False):
            return
    pytest.fail(f"budgets, whether 1.5 times as much is met, and whether half is: {found}")


def test_a_budget_of_a_stranger_is_in_force_nowhere(tmp_path, monkeypatch):
    """The estimates of the plan do not answer, so a limit that was set for them would leave queries open (ADR 0078)."""
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path / "cache"))
    folder = DIGITS.parents[1] / "crates/mercer-machine/tests/data/trust"
    rows = 4 * np.random.default_rng(0).random((300, 2)) - 2
    lines = ["x,y", *(f"{x!r},{y!r}" for x, y in rows.tolist())]
    (tmp_path / "asked.csv").write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match="budget of 4 us"):
        decisions = mercer.load(folder / "budgeted.mercer").decide(rows)
    assert "unsettled" not in decisions["certainty"]
    expected = [str(label) for label in decisions["label"]], list(decisions["certainty"])
    assert answers_of_the_server(folder, "budgeted.mercer", rows) == expected
    done = run(tmp_path, "predict", folder / "budgeted.mercer", "asked.csv", "--format", "csv")
    assert "budget of 4 us belongs to the whole plan" in done.stderr
    answers = list(csv.DictReader(done.stdout.splitlines()))
    assert ([answer["label"] for answer in answers], [answer["certainty"] for answer in answers]) == expected
