"""Plans from strangers: forged files raise, what is not verified is left out with a warning, and what was fitted here works."""

import pathlib
import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons

import mercer
from mercer.errors import PlanError, UnverifiedPlanWarning
from mercer.svm import SVC

FORGED = pathlib.Path(__file__).parents[2] / "crates/mercer-machine/tests/data/trust"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder that nobody else has."""
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("path", sorted(FORGED.glob("forged_plan_*.mercer")), ids=lambda path: path.stem)
def test_forged_plans_are_refused(path):
    with pytest.raises(PlanError):
        mercer.load(path)
    with pytest.raises(PlanError):
        mercer._mercer.Model.from_bytes(path.read_bytes())


def test_a_forged_plan_is_used_only_where_the_caller_vouches_for_it():
    model = mercer.load(FORGED / "forged_plan_anytime.mercer", trust_plan=True)
    assert model.verification == "trusted"
    with pytest.raises(PlanError, match="cannot be believed"):
        model.verify()


def moons(seed, rows=400):
    return make_moons(rows, noise=0.2, random_state=seed)


def test_what_was_fitted_here_works_without_a_further_step(tmp_path, monkeypatch):
    X, y = moons(0)
    model = SVC().fit(X, y).tune(moons(1, 3000)[0], contract="calibrated(eps=0.05, delta=0.1)", seconds=5)
    path = tmp_path / "fast.mercer"
    model.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = mercer.load(path)
        copied = pickle.loads(pickle.dumps(again))
    assert again.verification in ("known", "exact")
    assert copied.plan == again.plan
    queries = moons(2)[0]
    np.testing.assert_array_equal(again.predict(queries), model.predict(queries))


def test_an_estimating_plan_of_a_stranger_is_left_out_until_it_is_tested(tmp_path, monkeypatch):
    X, y = moons(0)
    sample = moons(1, 16000)[0]
    model = mercer.from_sklearn(__import__("sklearn.svm").svm.SVC().fit(X, y))
    fast = model.with_plan("cascade(pca(1, 2), low_precision, exact)", sample)
    assert fast.verification == "fitted"
    path = tmp_path / "fast.mercer"
    fast.save(path)
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path / "stranger"))
    with pytest.warns(UnverifiedPlanWarning, match="calibration"):
        other = mercer.load(path)
    assert other.verification == "not verified"
    assert other.plan == "cascade(low_precision, exact)"
    assert set(other.decide(sample[:200])["certainty"]) <= {"certified", "exact"}
    tested = other.verify(moons(7, 40000)[0])
    assert tested.verification_["test"]["holds"]
    assert tested.plan == fast.plan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mercer.load(path).verification == "known"


def test_bytes_that_the_caller_vouched_for_are_not_remembered(tmp_path, cache):
    model = mercer.load(FORGED / "forged_plan_spectral.mercer", trust_plan=True)
    model.save(tmp_path / "copy.mercer")
    with pytest.raises(PlanError):
        mercer.load(tmp_path / "copy.mercer")
