"""Low-rank machines on Spark: Newton's method on landmarks, one pass over the blocks for each step."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters

from .. import _mercer
from .._mercer import Landmarks, RowBlock
from ..errors import TrainError
from ._estimator import BlockEstimator, draw, pairs

#: The share of the mean diagonal that is added to the system before it is factored; ten times as much after a failure.
RIDGE = 1e-12
#: A step is taken if what it leaves of the gradient, in the system that was solved, is at most this share.
RESIDUAL = 1e-6
#: A step is halved so often before the end is taken as reached.
HALVINGS = 20


class LowRankSVC(BlockEstimator):
    """C-SVC with the squared hinge on landmarks: ``min ½ w'K_ZZ w + C/2 Σ max(0, 1 - y f)²``, ``f(x) = Σ_j w_j K(x, z_j) + b``.

    The landmarks are rows drawn at random. Every step of Newton's method is one pass; a task returns a matrix of
    (landmarks + 1)² numbers. Training ends when a step promises less than ``tol`` of the objective.
    """

    kernel = Param(Params._dummy(), "kernel", "kernel, such as rbf(gamma=0.5)", typeConverter=TypeConverters.toString)
    landmarks = Param(Params._dummy(), "landmarks", "rows that the machine consists of", typeConverter=TypeConverters.toInt)

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol=None,
        featuresCols=None,
        labelCol=None,
        predictionCol=None,
        rawPredictionCol=None,
        decisionCol=None,
        weightCol=None,
        idCol=None,
        kernel=None,
        landmarks=None,
        C=None,
        tol=None,
        maxIter=None,
        seed=None,
    ):
        super().__init__()
        self._setDefault(kernel="", landmarks=500, tol=1e-6, maxIter=50)
        self._take(self._input_kwargs)

    def setKernel(self, value):
        return self._set(kernel=value)

    def setLandmarks(self, value):
        return self._set(landmarks=value)

    def _check(self):
        super()._check()
        if self.getOrDefault(self.landmarks) < 1:
            raise TrainError("landmarks must be at least 1", "Option")

    def _train(self, blocks, names):
        kernel = self.getOrDefault(self.kernel) or f"rbf(gamma={1 / blocks.width!r})"
        chosen = draw(np.arange(blocks.rows), self.getOrDefault(self.landmarks), self.getSeed(), 1)
        rows = blocks.fetch(chosen)
        found = [Newton(self, blocks, pair, kernel, rows).run() for pair in pairs(blocks)]
        parts = {
            "kernel": kernel,
            "output": "one_vs_one",
            "names": names,
            "supports": rows.to_csr() if rows.is_sparse else rows.to_dense(),
            "coefficients": np.array([each.weights[:-1] for each in found]),
            "offsets": np.array([-each.weights[-1] for each in found]),
            "is_linear": False,
            "sigmoids": None,
            "origin": "mercer",
            "formulation": f"squared_hinge(C={self.getC()!r})",
        }
        report = {
            "objective": float(sum(each.objective for each in found)),
            "rounds": max(each.passes for each in found),
            "converged": all(each.is_converged for each in found),
            "landmarks": len(rows),
        }
        return _mercer.Model.build(parts), report


def landmark_sums(kernel, landmarks, weights, C, pair):
    """For tasks: loss, gradient and Hessian of the rows of a block, one behind the other."""
    first, places = pair.first, pair.places()

    def make():
        packed = Landmarks(kernel, RowBlock.from_bytes(landmarks))

        def sums(_, rows, labels, row_weights):
            chosen = places(labels)
            if chosen is not None:
                rows, labels, row_weights = rows.select(chosen), labels[chosen], row_weights[chosen]
            targets = np.where(labels == first, 1.0, -1.0)
            loss, gradient, hessian = packed.sums(rows, targets, C * row_weights, weights)
            return np.concatenate([[loss], gradient, hessian]), None

        return sums

    return make


class Newton:
    """One pair of classes being trained."""

    def __init__(self, estimator, blocks, pair, kernel, rows):
        self.estimator, self.blocks, self.pair, self.kernel = estimator, blocks, pair, kernel
        self.bytes, self.size = rows.to_bytes(), len(rows) + 1
        packed, one, zero = Landmarks(kernel, rows), np.ones(1), np.zeros(self.size)
        self.regular = np.zeros((self.size, self.size))
        for at in range(len(rows)):
            # At zero weights the gradient of one row is minus its kernel values.
            gradient = packed.sums(rows.select(np.array([at])), one, one, zero)[1]
            self.regular[at, :-1] = -gradient[:-1]
        self.regular = 0.5 * (self.regular + self.regular.T)
        self.weights, self.objective, self.passes, self.is_converged = zero, np.inf, 0, False

    def _pass(self, weights):
        """Objective, gradient and Hessian at some weights: one job."""
        make = landmark_sums(self.kernel, self.bytes, weights, self.estimator.getC(), self.pair)
        sums, _ = self.blocks.sums(make, len(self.bytes) + weights.nbytes)
        loss, gradient, hessian = sums[0], sums[1 : 1 + self.size], sums[1 + self.size :]
        self.passes += 1
        product = self.regular @ weights
        objective = loss + 0.5 * weights @ product
        return objective, gradient + product, hessian.reshape(self.size, self.size) + self.regular

    def _step(self, gradient, hessian):
        """The step of Newton's method, with as small a ridge as lets the system be factored."""
        ridge = RIDGE * np.trace(hessian) / self.size
        while np.isfinite(ridge):
            system = hessian + ridge * np.eye(self.size)
            try:
                step = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(system), gradient)
            except scipy.linalg.LinAlgError:
                step = None
            # A factor of a system near to a singular one may exist and be of no use.
            if step is not None and np.linalg.norm(system @ step + gradient) <= RESIDUAL * np.linalg.norm(gradient):
                return step
            ridge = max(10 * ridge, 1e-300)
        raise TrainError("the system of the landmarks cannot be solved", "Singular")

    def run(self):
        """Itself, trained."""
        self.objective, gradient, hessian = self._pass(self.weights)
        while True:
            step = self._step(gradient, hessian)
            decrement = -gradient @ step
            facts = {"round": self.passes, "objective": float(self.objective), "decrement": float(decrement)}
            self.estimator._tell(self.blocks, **facts)
            self.is_converged = bool(decrement <= self.estimator.getTol() * self.objective)
            if self.is_converged or self.passes >= self.estimator.getMaxIter():
                return self
            share = 1.0
            for _ in range(HALVINGS):
                objective, *derivatives = self._pass(self.weights + share * step)
                if objective <= self.objective - 1e-4 * share * decrement:
                    break
                share *= 0.5
            else:
                # No step lowers the objective: the rest is rounding.
                return self
            self.weights, self.objective = self.weights + share * step, objective
            gradient, hessian = derivatives
