"""scikit-learn's callbacks, the parameter that it drops, and threads."""

import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
import mercer.svm as ours
from mercer.machines import LSSVC

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")


class Recorder:
    """Counts tasks; stops after some."""

    def __init__(self, stop_after=None):
        self.events, self.stop_after = [], stop_after

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.parent is None))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(("end", context.parent is None))
        if context.parent is None:
            self.fitted = fitted_estimator
        ended = sum(event == ("end", False) for event in self.events)
        return self.stop_after is not None and ended >= self.stop_after


ESTIMATORS = [ours.SVC(), ours.NuSVC(nu=0.1), ours.SVR(), ours.OneClassSVM(), ours.LinearSVC(), ours.LinearSVR(), LSSVC()]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_every_task_that_begins_ends(estimator):
    X, y = load_digits(return_X_y=True)
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(X[:300], y[:300])
    events = recorder.events
    assert events[0] == "setup" and events[-1] == "teardown"
    assert events[1] == ("begin", True) and events[-2] == ("end", True)
    assert events.count(("begin", False)) == events.count(("end", False)) == 20
    np.testing.assert_array_equal(recorder.fitted.predict(X), estimator.predict(X))
    assert not hasattr(estimator, "_fit_tasks")


def test_callbacks_are_closed_after_a_failed_fit():
    recorder = Recorder()
    with pytest.raises(ValueError):
        ours.SVC().set_callbacks(recorder).fit([[0.0], [1.0]], [1, 1])
    assert recorder.events[-1] == "teardown"


def test_a_callback_may_stop_a_long_training_and_what_it_has_is_kept():
    X, y = make_classification(6000, 30, n_informative=20, flip_y=0.3, random_state=0)
    svc = ours.SVC(C=1e4, gamma=0.001, tol=1e-9).set_callbacks(Recorder(stop_after=1))
    with pytest.warns(ConvergenceWarning, match="callback stopped"):
        svc.fit(X, y)
    assert svc.training_report_["stop"] == "cancelled" and svc.predict(X[:5]).shape == (5,)


def test_callbacks_of_scikit_learn_work_in_meta_estimators():
    pytest.importorskip("rich", reason="scikit-learn's progress bars need rich")
    X, y = load_digits(return_X_y=True)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    ours.SVC().set_callbacks(monitor, callback.ProgressBar()).fit(X[:200], y[:200])
    assert monitor.get_logs()
    search = GridSearchCV(make_pipeline(StandardScaler(), ours.SVC()), {"svc__C": [1, 10]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an estimator without callbacks is warned of
        search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X[:200], y[:200])
    assert search.best_score_ > 0.8


WITHOUT_PROBABILITY = """
    import inspect
    import sklearn.svm._base as base
    import sklearn.svm._classes as classes

    # What is left when the deprecated parameter is gone, as announced for scikit-learn 1.11.
    for name in ("_check_proba", "predict_proba", "predict_log_proba", "probA_", "probB_"):
        delattr(base.BaseSVC, name)
    for kind in (base.BaseLibSVM, classes.SVC, classes.NuSVC, classes.SVR, classes.NuSVR, classes.OneClassSVM):
        kind._parameter_constraints = {
            key: value for key, value in kind._parameter_constraints.items() if key != "probability"
        }
    for kind in (classes.SVC, classes.NuSVC):
        def refuse(self, *, C=1.0, kernel="rbf"):
            raise TypeError("there is no parameter probability")
        kind.__init__ = refuse

    import numpy as np
    import warnings
    warnings.simplefilter("error")
    from sklearn.base import clone
    from sklearn.datasets import load_iris
    from mercer.svm import SVC, NuSVC
    X, y = load_iris(return_X_y=True)
    for machine in (SVC(probability=True), NuSVC(probability=True, nu=0.2)):
        machine = clone(machine).fit(X, y)
        assert machine.predict_proba(X).shape == (150, 3) and machine.probA_.shape == (3,)
        assert np.allclose(np.exp(machine.predict_log_proba(X)).sum(axis=1), 1)
    assert not hasattr(SVC().fit(X, y), "predict_proba")
    assert SVC(C=2).get_params()["C"] == 2
"""


def test_probabilities_stay_when_scikit_learn_drops_them():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WITHOUT_PROBABILITY)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_many_threads_share_a_model_and_train_their_own():
    """Under free-threaded Python they run at the same time; the module does not switch the lock on."""
    X, y = load_digits(return_X_y=True)
    svc = ours.SVC().fit(X[:500], y[:500])
    fast = mercer.accelerate(svc)
    expected, problems = svc.predict(X), []

    def work(seed):
        try:
            for _ in range(5):
                np.testing.assert_array_equal(fast.predict(X), expected)
                np.testing.assert_array_equal(svc.predict(X[seed : seed + 3]), expected[seed : seed + 3])
                assert ours.SVC().fit(X[:100], y[:100]).score(X[:100], y[:100]) > 0.9
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]
    if hasattr(sys, "_is_gil_enabled") and "free-threading" in sys.version:
        assert not sys._is_gil_enabled()
