"""The exact kernel machine on Spark, by decomposition: the driver solves working sets, tasks update the scores of all rows."""

from __future__ import annotations

import numpy as np
from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters

from .. import _mercer
from .._mercer import OptimalityBounds, Program, RowBlock, WeightedSupports, objective_and_gap, solve_changes
from ..errors import TrainError
from ._estimator import SENT, BlockEstimator, draw, pairs
from ._scoring import task_threads

#: A working set is solved until its violation falls to this share of that of all rows, and at least to the second number.
INNER_SHARE, INNER_MOST = 0.3, 0.1
#: Of a full working set, this share may be free rows where there are violators to fill the rest.
FREE_SHARE = 0.75
#: Rows of one part of objective and gap: sums of parts are added in order.
PART = 1 << 16


class KernelSVC(BlockEstimator):
    """C-SVC with any kernel: the machine of ``mercer.svm.SVC``, from rows that stay in the cluster.

    The driver keeps 29 bytes a row, and some more of each pair while that is trained, and solves working sets; tasks compute
    kernel values. Of several classes each pair is trained (one-vs-one), one after the other. ``tol`` is the largest violation of the optimality conditions, recomputed at the end.

    Parameters
    ----------
    kernel : str
        Such as ``rbf(gamma=0.5)``; by default ``rbf`` with gamma = 1 / number of features.
    workingSetSize : int
        Rows that the driver solves at once.
    """

    kernel = Param(Params._dummy(), "kernel", "kernel, such as rbf(gamma=0.5)", typeConverter=TypeConverters.toString)
    workingSetSize = Param(
        Params._dummy(), "workingSetSize", "rows that the driver solves at once", typeConverter=TypeConverters.toInt
    )

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
        C=None,
        tol=None,
        maxIter=None,
        workingSetSize=None,
        seed=None,
    ):
        super().__init__()
        self._setDefault(kernel="", tol=1e-3, maxIter=200, workingSetSize=10_000)
        self._take(self._input_kwargs)

    def setKernel(self, value):
        return self._set(kernel=value)

    def setWorkingSetSize(self, value):
        return self._set(workingSetSize=value)

    def _check(self):
        super()._check()
        if self.getOrDefault(self.workingSetSize) < 2:
            raise TrainError("workingSetSize must be at least 2", "Option")

    def _train(self, blocks, names):
        kernel = self.getOrDefault(self.kernel) or f"rbf(gamma={1 / blocks.width!r})"
        found = [Rounds(self, blocks, pair, kernel).run() for pair in pairs(blocks)]
        used = np.unique(np.concatenate([rows for rows, _, _ in found]))
        if not len(used):
            raise TrainError("no row became a support; every weight is zero", "NoSupports")
        supports = blocks.fetch(used)
        coefficients = np.zeros((len(found), len(used)))
        for line, (rows, beta, _) in zip(coefficients, found):
            line[np.searchsorted(used, rows)] = beta
        parts = {
            "kernel": kernel,
            "output": "one_vs_one",
            "names": names,
            "supports": supports.to_csr() if supports.is_sparse else supports.to_dense(),
            "coefficients": coefficients,
            "offsets": np.array([report["offset"] for _, _, report in found]),
            "is_linear": False,
            "sigmoids": None,
            "origin": "mercer",
            "formulation": f"c_svc(C={self.getC()!r})",
        }
        return _mercer.Model.build(parts), summary([report for _, _, report in found])


def summary(reports):
    """The sums and the worst of what pairs say."""
    found = {name: max(report[name] for report in reports) for name in ("violation", "rounds")}
    found.update({name: sum(report[name] for report in reports) for name in ("objective", "gap", "bounded")})
    found["converged"] = all(report["converged"] for report in reports)
    return {**found, "supports": sum(report["supports"] for report in reports), "pairs": len(reports)}


def weighted_sums(kernel, supports, weights, centre, places):
    """For tasks: the sum of kernel values of each row of a block that belongs to the pair."""

    def make():
        sums = WeightedSupports(kernel, RowBlock.from_bytes(supports), weights, centre)
        threads = task_threads()

        def values(_, rows, labels):
            chosen = places(labels)
            return sums.sums(rows if chosen is None else rows.select(chosen), threads)

        return values

    return make


class Rounds:
    """One pair of classes being trained: coefficients, scores and targets of its rows."""

    def __init__(self, estimator, blocks, pair, kernel):
        self.estimator, self.blocks, self.pair, self.kernel = estimator, blocks, pair, kernel
        self.tol, self.size = estimator.getTol(), estimator.getOrDefault(estimator.workingSetSize)
        self.centre = blocks.centre()
        self.beta, self.sums = np.zeros(len(pair.signs)), np.zeros(len(pair.signs))
        self.iterations, self.round, self.report = 0, 0, {}

    def _limits(self, places=slice(None)):
        """The least and the largest coefficient of some rows."""
        costs, is_first = self.estimator.getC() * self.pair.weights[places], self.pair.signs[places] > 0
        return np.where(is_first, 0.0, -costs), np.where(is_first, costs, 0.0)

    def _movable(self):
        """Whether the coefficient of each row may grow, and whether it may fall."""
        lower, upper = self._limits()
        return self.beta < upper, self.beta > lower

    def run(self):
        """The rows with coefficients, these, and what is known of the machine."""
        is_recomputed = True
        while True:
            violation, up, low = self._violation()
            self._tell(violation)
            is_end = violation <= self.tol or self.round >= self.estimator.getMaxIter()
            if is_end and not is_recomputed:
                self._recompute()
                is_recomputed = True
                continue
            if is_end:
                return self._finish(violation)
            self._one_round(violation, up, low)
            self.round, is_recomputed = self.round + 1, False

    def _violation(self):
        """The violation, the largest that bounds the multiplier from below and the smallest from above."""
        gradient = self.sums - self.pair.signs
        may_grow, may_fall = self._movable()
        up = np.min(gradient[may_grow], initial=np.inf)
        low = np.max(gradient[may_fall], initial=-np.inf)
        return max(low - up, 0.0), up, low

    def _working_set(self, up, low):
        """Places of the worst violators, the free rows, and violators drawn at random."""
        gradient = self.sums - self.pair.signs
        may_grow, may_fall = self._movable()
        middle, slack = 0.5 * (up + low), 0.5 * self.tol
        violates = (may_grow & (gradient < middle - slack)) | (may_fall & (gradient > middle + slack))
        free = np.flatnonzero(may_grow & may_fall)
        violators = np.flatnonzero(violates & ~(may_grow & may_fall))
        worst = [np.flatnonzero(may_grow & (gradient == up))[0], np.flatnonzero(may_fall & (gradient == low))[0]]
        seed, round = self.estimator.getSeed(), self.round + 2
        left = max(self.size - 2, 0)
        free = draw(free, max(left - len(violators), int(FREE_SHARE * left)), seed, round)
        violators = draw(violators, left - len(free), seed, round)
        return np.unique(np.concatenate([worst, free, violators]))

    def _one_round(self, violation, up, low):
        places = self._working_set(up, low)
        rows = self.blocks.fetch(self.pair.numbers(places))
        least, most = self._limits(places)
        lower, upper = least - self.beta[places], most - self.beta[places]
        program = Program(lower, upper, self.sums[places] - self.pair.signs[places])
        options = {
            "tolerance": max(0.5 * self.tol, min(INNER_SHARE * violation, INNER_MOST)),
            "memory": max(256 << 20, 5 * len(places) ** 2),
            "max_iterations": None,
            "seconds": None,
            "threads": 0,
        }
        found = solve_changes(self.kernel, rows, program, options)
        self.iterations += found["iterations"]
        changes, old = found["changes"], self.beta[places]
        new = np.clip(old + changes, least, most)
        new = np.where(changes >= upper, most, np.where(changes <= lower, least, new))
        new = np.where(changes == 0, old, new)
        moved = np.flatnonzero(new != old)
        self.beta[places] = new
        self._add(rows.select(moved), (new - old)[moved])

    def _add(self, rows, weights):
        """Adds the weighted kernel values of some rows to the sums of all, in jobs of a bounded size."""
        count = len(rows)
        if not count:
            return
        jobs = -(-len(rows.to_bytes()) // SENT)
        for part in np.array_split(np.arange(count), jobs):
            bytes = rows.select(part).to_bytes()
            make = weighted_sums(self.kernel, bytes, weights[part], self.centre, self.pair.places())
            self.sums = self.sums + self.blocks.values(make, len(bytes) + 8 * len(part))

    def _recompute(self):
        """The sums from the coefficients alone."""
        self.sums = np.zeros(len(self.beta))
        used = np.flatnonzero(self.beta)
        for part in np.array_split(used, max(1, -(-len(used) * 8 * self.blocks.width // (8 * SENT)))):
            self._add(self.blocks.fetch(self.pair.numbers(part)), self.beta[part])

    def _parts(self):
        for start in range(0, len(self.beta), PART):
            part = slice(start, start + PART)
            signs = self.pair.signs[part].astype(float)
            yield Program(*self._limits(part), -signs), self.beta[part], self.sums[part]

    def _optimality(self):
        bounds = OptimalityBounds()
        for program, beta, sums in self._parts():
            bounds.add(program, beta, sums)
        each = [objective_and_gap(*part, bounds.multiplier) for part in self._parts()]
        return bounds.multiplier, sum(part[0] for part in each), sum(part[1] for part in each)

    def _tell(self, violation):
        offset, objective, gap = self._optimality()
        facts = {"round": self.round, "violation": violation, "objective": objective, "gap": gap}
        facts.update(supports=int(np.count_nonzero(self.beta)))
        if not self.pair.is_all:
            facts["pair"] = (self.pair.first, self.pair.second)
        self.report = {"offset": offset, "objective": objective, "gap": gap}
        self.estimator._tell(self.blocks, **facts)

    def _finish(self, violation):
        used = np.flatnonzero(self.beta)
        lower, upper = self._limits(used)
        at_bound = (self.beta[used] == lower) | (self.beta[used] == upper)
        self.report.update(
            violation=float(violation),
            rounds=self.round,
            converged=bool(violation <= self.tol),
            supports=len(used),
            bounded=int(np.count_nonzero(at_bound)),
            iterations=self.iterations,
        )
        return self.pair.numbers(used), self.beta[used], self.report
