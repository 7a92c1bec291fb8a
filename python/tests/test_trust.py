"""Plans from strangers: forged files raise, what is not verified is left out with a warning, and what was fitted here works."""

import pathlib
import pickle
import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons

import mercer
from mercer.errors import PlanError, QueryError, UnverifiedPlanWarning
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


def test_prediction_sets_of_a_stranger_are_refused_until_they_are_tested(tmp_path, monkeypatch):
    X, y = moons(0)
    svc = SVC().fit(X, y).conformalize(*moons(1, 500), coverage=0.9)
    path, (queries, _) = tmp_path / "sets.mercer", moons(2)
    svc.save(path)
    own = mercer.load(path).predict_set(queries)
    np.testing.assert_array_equal(own, svc.predict_set(queries))
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path / "stranger"))
    other = mercer.load(path)
    with pytest.raises(QueryError, match="not tested here; verify"):
        other.predict_set(queries)
    with pytest.raises(QueryError, match="not tested here"):
        pickle.loads(pickle.dumps(other)).predict_set(queries)
    # A tuned plan, or a copy, changes nothing.
    with pytest.raises(QueryError, match="not tested here"):
        other.with_plan("cascade(low_precision, exact)").predict_set(queries)
    np.testing.assert_array_equal(mercer.load(path, trust_plan=True).predict_set(queries), own)
    mercer.load(path, trust_plan=True).save(tmp_path / "copy.mercer")
    with pytest.raises(QueryError):
        mercer.load(tmp_path / "copy.mercer").predict_set(queries)
    # Tests on samples of a stranger hold or not, and what they say decides.
    for seed in range(3, 23):
        report = other.verify(*moons(seed, 300))
        test = report.verification_["sets_test"]
        assert test["rows"] == 300 and test["needed"] == 271 and test["holds"] == (test["covered"] >= 271)
        if test["holds"]:
            np.testing.assert_array_equal(report.predict_set(queries), own)
            break
        with pytest.raises(QueryError):
            report.predict_set(queries)
    assert test["holds"]
    np.testing.assert_array_equal(mercer.load(path).predict_set(queries), own)
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path / "third"))
    again = mercer.load(path).conformalize(*moons(30, 500))
    assert again.predict_set(queries).any(axis=1).all()
    with pytest.raises(ValueError, match="needs X_sample"):
        other.verify(y_sample=y)


def test_sets_with_a_forged_quantile_never_come_into_use(tmp_path, monkeypatch):
    X, y = moons(0)
    svc = SVC().fit(X, y).conformalize(*moons(1, 500), coverage=0.9)
    stored = svc._model.to_bytes("mercer")
    # The header is JSON within JSON; the number keeps its length. Margins are above -2: no set holds a second class.
    quantile = re.search(rb'quantile\\":(-?[0-9.e-]+)', stored)
    forged = stored[: quantile.start(1)] + b"-9".ljust(len(quantile[1])) + stored[quantile.end(1) :]
    (tmp_path / "forged.mercer").write_bytes(forged)
    model = mercer.load(tmp_path / "forged.mercer")
    assert model.conformal_["coverage"] == 0.9 and model.conformal_["quantile"] == -9
    with pytest.raises(QueryError, match="not tested here"):
        model.predict_set(X)
    report = model.verify(*moons(2, 500)).verification_["sets_test"]
    assert report["covered"] == 0 and not report["holds"]


def test_a_stored_budget_holds_for_the_whole_plan_or_not_at_all(tmp_path):
    path = FORGED / "budgeted.mercer"
    rows = 4 * np.random.default_rng(0).random((400, 2)) - 2
    with pytest.warns(UnverifiedPlanWarning, match="budget of 4 us belongs to the whole plan"):
        part = mercer.load(path)
    whole = mercer.load(path, trust_plan=True)
    limit = whole.tuning_["budget"]["multiply_adds"]
    unsettled = lambda found: np.count_nonzero(found["certainty"] == "unsettled")  # noqa: E731
    assert unsettled(part.decide(rows)) == 0
    assert 0 < unsettled(whole.decide(rows)) == unsettled(whole.decide(rows, budget=limit)) < 400
    # What the caller sets is obeyed by what is left of the plan.
    assert unsettled(part.decide(rows, budget=1)) == 400
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(part.predict(rows), part.decide(rows)["label"])
    assert part.explain(rows[0])["certainty"] != "unsettled"
