"""The peers' estimators for a task: scikit-learn (LIBSVM) and its Intel extension (oneDAL)."""

import io
import logging
import os
import platform
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np
import sklearn.svm
import threadpoolctl
from scipy import sparse
from sklearn.metrics import accuracy_score, mean_squared_error

import libsvm_text
from tasks import REGRESSIONS, TaskError, parse_call

CACHE_MB = 1000
NAMES = {
    "c_svc": ("SVC", ["C"]),
    "nu_svc": ("NuSVC", ["nu"]),
    "one_class": ("OneClassSVM", ["nu"]),
    "epsilon_svr": ("SVR", ["C", "epsilon"]),
    "nu_svr": ("NuSVR", ["C", "nu"]),
}
KERNELS = {"rbf": "rbf", "polynomial": "poly", "linear": "linear", "sigmoid": "sigmoid"}
DEFAULTS = {"degree": 3, "gamma": 1.0, "coef0": 0.0}


def kernel_settings(task):
    kernel, positional, named = parse_call(task["kernel"])
    if kernel not in KERNELS or positional or set(named) - set(DEFAULTS):
        raise TaskError(f"task {task['name']}: the peers have no kernel '{task['kernel']}'")
    settings = DEFAULTS | named
    return {**settings, "kernel": KERNELS[kernel], "degree": int(settings["degree"])}


def make(task, peer):
    """An unfitted estimator; `peer` is libsvm or intelex."""
    if peer == "intelex":
        from sklearnex import svm as module
    elif peer == "libsvm":
        module = sklearn.svm
    else:
        raise TaskError(f"no peer '{peer}'; known are libsvm, intelex")
    name, wanted = NAMES[task["formulation"]]
    settings = kernel_settings(task) | {key: task[key] for key in wanted}
    tolerance = task.get("tolerance", 1e-3)
    return getattr(module, name)(cache_size=CACHE_MB, tol=tolerance, **settings)


def stock(machine, columns, as_sparse=False):
    """A scikit-learn classifier that answers with a machine read from LIBSVM text."""
    if machine.svm_type != "c_svc":
        raise TaskError(f"no scikit-learn classifier is made from a {machine.svm_type} machine")
    if machine.labels != sorted(machine.labels):
        machine = libsvm_text.turned(machine)
    classes = np.array(machine.labels)
    model = sklearn.svm.SVC(
        kernel=KERNELS[machine.kernel],
        gamma=machine.gamma,
        coef0=machine.coef0,
        degree=machine.degree,
    )
    rows = np.eye(len(classes), columns)
    model.fit(sparse.csr_matrix(rows) if as_sparse else rows, classes)  # sets what is not set below
    kind = sparse.csr_matrix if as_sparse else np.ascontiguousarray
    sign = -1.0 if len(classes) == 2 else 1.0
    model.support_vectors_ = kind(machine.supports.toarray())
    model.support_ = np.arange(machine.supports.shape[0], dtype=np.int32)
    model._n_support = np.array(machine.counts, dtype=np.int32)
    model._dual_coef_ = kind(machine.coefficients.T)
    model._intercept_ = -machine.rho
    model.dual_coef_, model.intercept_ = sign * model._dual_coef_, sign * model._intercept_
    return model


def decisions(estimator, machine, queries):
    """scikit-learn's decision values with the signs and the order of LIBSVM's file."""
    if not machine.labels:
        one_class = machine.svm_type == "one_class"
        values = estimator.decision_function(queries) if one_class else estimator.predict(queries)
        return values.reshape(-1, 1)
    estimator.set_params(decision_function_shape="ovo")
    values = estimator.decision_function(queries)
    if values.ndim == 2:
        return values
    turned = machine.labels[0] == estimator.classes_[1]
    return (values if turned else -values).reshape(-1, 1)


def quality(task, answers, truth):
    """Accuracy, or the mean squared error of a regression."""
    if task["formulation"] in REGRESSIONS:
        return {"mean_squared_error": float(mean_squared_error(truth, answers))}
    return {"accuracy": float(accuracy_score(truth, answers))}


@contextmanager
def accelerated():
    """Raises unless every sklearnex call inside ran in oneDAL, by what sklearnex itself logs."""
    import sklearnex  # noqa: F401  (it sets up its logger when first imported)

    notes, logger = io.StringIO(), logging.getLogger("sklearnex")
    saved = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [logging.StreamHandler(notes)], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, level, logger.propagate = saved
        logger.setLevel(level)
    lines = notes.getvalue().splitlines()
    if not lines or any("accelerated version" not in line for line in lines):
        raise TaskError("sklearnex fell back to scikit-learn: " + "; ".join(lines or ["no notes"]))


def timed(action):
    """Seconds an action took, those of all its threads, and the cores others kept busy meanwhile."""

    def busy():
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        own = os.times()
        everyone = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return everyone - own.user - own.system

    elsewhere, before, used = busy(), time.perf_counter(), time.process_time()
    action()
    seconds, used = time.perf_counter() - before, time.process_time() - used
    return seconds, used, max(0.0, (busy() - elsewhere) / seconds)


def machine_facts():
    """Versions, threads and the BLAS in use, for the report."""
    packages = ["scikit-learn", "scikit-learn-intelex", "numpy", "scipy", "onnxruntime"]
    pools = threadpoolctl.threadpool_info()
    return {
        "versions": {name: version(name) for name in packages}
        | {"python": platform.python_version()},
        "threads": len(os.sched_getaffinity(0)),
        "blas": [
            {
                key: pool.get(key)
                for key in ("internal_api", "version", "architecture", "num_threads")
            }
            for pool in pools
            if pool["user_api"] == "blas"
        ],
    }
