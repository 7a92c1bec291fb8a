"""Support vector machines with scikit-learn's parameters, attributes and signs.

``from mercer.svm import SVC`` replaces ``from sklearn.svm import SVC``. The classes are subclasses of
scikit-learn's, so that everything which recognises those recognises these; training and answering are ours.

Beside scikit-learn's parameters each takes

``n_jobs``
    Threads; ``None`` and -1 mean all cores. The result does not depend on it.
``callback``
    Called with a dictionary (``iterations``, ``subproblem``, ``subproblems``, ``violation``, ``gap``, ``supports``,
    ``elapsed``, ``time_left``) ten times a second while training; training ends if it raises.

From scikit-learn 1.9 on, ``set_callbacks`` takes its callbacks too (``sklearn.callback.ProgressBar()``).

``probability`` stays a parameter of these classes when scikit-learn 1.11 takes it out of its own.

``shrinking`` and ``random_state`` are accepted and change nothing: training is deterministic.

>>> from mercer.svm import SVC
>>> X = [[-2, -1], [-1, -1], [1, 1], [2, 1]]
>>> svc = SVC(kernel="linear").fit(X, ["left", "left", "right", "right"])
>>> print(svc.predict([[-0.8, -1]])[0])
left
>>> svc.support_.tolist()
[1, 2]
"""

from __future__ import annotations

from numbers import Integral

import numpy as np
import sklearn.svm as theirs
from sklearn.utils.validation import _num_samples

from ._svm_base import PROBABILITY, ClassifierBase, RegressorBase
from ._linear import LinearSVC, LinearSVR

__all__ = ["SVC", "SVR", "LinearSVC", "LinearSVR", "NuSVC", "NuSVR", "OneClassSVM", "l1_min_c"]

#: The smallest C at which a linear machine under an L1 penalty has a weight that is not zero: scikit-learn's function.
l1_min_c = theirs.l1_min_c

#: An unlimited C: no coefficient reaches it.
ENDLESS = 1e12

_MORE = {"n_jobs": [Integral, None], "callback": [callable, None]}


class SVC(ClassifierBase, theirs.SVC):
    """C-support vector classification; parameters and attributes as ``sklearn.svm.SVC``.

    >>> from sklearn.datasets import load_iris
    >>> from mercer.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> SVC().fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = {**theirs.SVC._parameter_constraints, **_MORE, **PROBABILITY}

    def __init__(
        self,
        *,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        probability="deprecated",
        tol=1e-3,
        cache_size=200,
        class_weight=None,
        verbose=False,
        max_iter=-1,
        decision_function_shape="ovr",
        break_ties=False,
        random_state=None,
        n_jobs=None,
        callback=None,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback

    def _formulation(self):
        return f"c_svc(C={_penalty(self.C)!r})"


class NuSVC(ClassifierBase, theirs.NuSVC):
    """Classification with a bound nu on the share of errors; as ``sklearn.svm.NuSVC``.

    >>> from sklearn.datasets import load_iris
    >>> from mercer.svm import NuSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> NuSVC(nu=0.1).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = {**theirs.NuSVC._parameter_constraints, **_MORE, **PROBABILITY}
    _one_class_left = "specified nu is infeasible"

    def __init__(
        self,
        *,
        nu=0.5,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        probability="deprecated",
        tol=1e-3,
        cache_size=200,
        class_weight=None,
        verbose=False,
        max_iter=-1,
        decision_function_shape="ovr",
        break_ties=False,
        random_state=None,
        n_jobs=None,
        callback=None,
    ):
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback

    def _formulation(self):
        return f"nu_svc(nu={float(self.nu)!r})"


class SVR(RegressorBase, theirs.SVR):
    """Regression with a tube of width epsilon; as ``sklearn.svm.SVR``.

    >>> from mercer.svm import SVR
    >>> line = SVR(kernel="linear", C=10, epsilon=0.01).fit([[0], [1], [2]], [0, 2, 4])
    >>> abs(line.predict([[1.5]])[0] - 3) < 0.02
    np.True_
    """

    _parameter_constraints = {**theirs.SVR._parameter_constraints, **_MORE}

    def __init__(
        self,
        *,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        tol=1e-3,
        C=1.0,
        epsilon=0.1,
        shrinking=True,
        cache_size=200,
        verbose=False,
        max_iter=-1,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            C=C,
            epsilon=epsilon,
            shrinking=shrinking,
            cache_size=cache_size,
            verbose=verbose,
            max_iter=max_iter,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def _formulation(self):
        return f"epsilon_svr(C={_penalty(self.C)!r}, epsilon={float(self.epsilon)!r})"


class NuSVR(RegressorBase, theirs.NuSVR):
    """Regression with a bound nu on the share outside the tube; as ``sklearn.svm.NuSVR``.

    >>> from mercer.svm import NuSVR
    >>> line = NuSVR(kernel="linear", C=10).fit([[0], [1], [2]], [0, 2, 4])
    >>> abs(line.predict([[1.5]])[0] - 3) < 0.02
    np.True_
    """

    _parameter_constraints = {**theirs.NuSVR._parameter_constraints, **_MORE}

    def __init__(
        self,
        *,
        nu=0.5,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        tol=1e-3,
        cache_size=200,
        verbose=False,
        max_iter=-1,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            nu=nu,
            C=C,
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            shrinking=shrinking,
            tol=tol,
            cache_size=cache_size,
            verbose=verbose,
            max_iter=max_iter,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def _formulation(self):
        return f"nu_svr(nu={float(self.nu)!r}, C={_penalty(self.C)!r})"


class OneClassSVM(RegressorBase, theirs.OneClassSVM):
    """Novelty detection; as ``sklearn.svm.OneClassSVM``.

    >>> from mercer.svm import OneClassSVM
    >>> usual = OneClassSVM(gamma=0.5).fit([[0.0], [0.44], [0.45], [0.46], [1.0]])
    >>> usual.predict([[0.45], [5.0]]).tolist()
    [1, -1]
    """

    _parameter_constraints = {**theirs.OneClassSVM._parameter_constraints, **_MORE}

    def __init__(
        self,
        *,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        tol=1e-3,
        nu=0.5,
        shrinking=True,
        cache_size=200,
        verbose=False,
        max_iter=-1,
        n_jobs=None,
        callback=None,
    ):
        super().__init__(
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            nu=nu,
            shrinking=shrinking,
            cache_size=cache_size,
            verbose=verbose,
            max_iter=max_iter,
        )
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X, y=None, sample_weight=None, *, keep_rows=False):
        """Learns what usual rows look like; ``y`` is ignored. ``keep_rows`` keeps the rows for ``update`` and ``forget``."""
        return super().fit(X, np.ones(_num_samples(X)), sample_weight=sample_weight, keep_rows=keep_rows)

    def _set_fitted_attributes(self, X, report, order, targets):
        super()._set_fitted_attributes(X, report, order, targets)
        self.offset_ = -self._intercept_

    def decision_function(self, X):
        """Scores; positive for rows that look usual."""
        return self._decision_function(X).ravel()

    def _labels(self, answers):
        return answers.astype(np.intp, copy=False)

    def _formulation(self):
        return f"one_class(nu={float(self.nu)!r})"


def _penalty(C):
    return float(C) if np.isfinite(C) else ENDLESS
