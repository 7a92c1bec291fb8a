"""Linear and additive machines on Spark: steps in the dual side by side, one pass over the blocks for each round."""

from __future__ import annotations

import numpy as np
from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters

from .. import _mercer
from .._mercer import Bins, Landmarks, RowBlock, common_step, dual_step
from ..errors import DataError, TrainError
from ._estimator import BlockEstimator, pairs

#: Bins of the values of additive machines, bin 0 included.
BINS = 256


class LinearSVC(BlockEstimator):
    """Linear C-SVC (hinge): ``min ½ |w|² + C Σ max(0, 1 - y (w·x + b))``; the square of b counts as a weight, as in LIBLINEAR.

    In a round each group of blocks steps in the dual as if it were alone; the driver adds the changes with the step that raises
    the dual most. ``tol`` is the duality gap as a share of the objective; the weights are sums of the changes of all rounds. The driver
    keeps 29 bytes a row and sends 8 of them.
    """

    passes = Param(Params._dummy(), "passes", "passes over its rows that a group makes in a round", typeConverter=TypeConverters.toInt)
    fitIntercept = Param(Params._dummy(), "fitIntercept", "whether there is a b", typeConverter=TypeConverters.toBoolean)

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
        C=None,
        tol=None,
        maxIter=None,
        passes=None,
        fitIntercept=None,
        seed=None,
    ):
        super().__init__()
        self._setDefault(tol=1e-2, maxIter=200, passes=1, fitIntercept=True)
        self._take(self._input_kwargs)

    def setPasses(self, value):
        return self._set(passes=value)

    def setFitIntercept(self, value):
        return self._set(fitIntercept=value)

    def _bins(self, blocks):
        """Bins that encode rows, as arguments of ``Bins``; None for values as they are."""
        return None

    def _machine(self, blocks, names, bins, weights, offsets):
        none = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0), blocks.width
        parts = {
            "kernel": "linear",
            "output": "one_vs_one",
            "names": names,
            "supports": none,
            "coefficients": weights,
            "offsets": offsets,
            "is_linear": True,
            "sigmoids": None,
            "origin": "mercer",
            "formulation": f"c_svc(C={self.getC()!r})",
        }
        return _mercer.Model.build(parts)

    def _train(self, blocks, names):
        bins = self._bins(blocks)
        found = [DualRounds(self, blocks, pair, bins).run() for pair in pairs(blocks)]
        weights = np.array([each.weights[:-1] for each in found])
        offsets = np.array([-each.weights[-1] * each.constant for each in found])
        report = {
            "objective": sum(each.objective for each in found),
            "gap": sum(each.gap for each in found),
            "rounds": max(each.round for each in found),
            "converged": all(each.is_converged for each in found),
        }
        return self._machine(blocks, names, bins, weights, offsets), report


class AdditiveSVC(LinearSVC):
    """C-SVC with an additive kernel, as tables over bins: the cost of a row does not grow with the number of supports.

    Values must not be negative, and all columns share one scale: 255 even steps up to the largest value. The scalar kernel on the
    bins is approximated by its ``rank`` largest components; the machine is exact for that kernel, up to f32 tables.
    """

    kernel = Param(Params._dummy(), "kernel", "an additive kernel", typeConverter=TypeConverters.toString)
    rank = Param(Params._dummy(), "rank", "components of the scalar kernel", typeConverter=TypeConverters.toInt)

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
        rank=None,
        C=None,
        tol=None,
        maxIter=None,
        passes=None,
        fitIntercept=None,
        seed=None,
    ):
        given = self._input_kwargs  # which the constructor of LinearSVC replaces by its own
        super().__init__()
        self._setDefault(kernel="intersection", rank=8)
        self._take(given)

    def setKernel(self, value):
        return self._set(kernel=value)

    def setRank(self, value):
        return self._set(rank=value)

    def _source(self):
        source = super()._source()
        source.may_be_negative = False
        return source

    def _check(self):
        super()._check()
        if not 1 <= self.getOrDefault(self.rank) <= 64:
            raise TrainError("rank must be between 1 and 64", "Option")

    def _bins(self, blocks):
        top = float(blocks.high.max())
        if top == 0:
            raise DataError("all features are zero", "NoFeatures")
        return top, 1, encoding(self.getOrDefault(self.kernel), top, self.getOrDefault(self.rank))

    def _machine(self, blocks, names, bins, weights, offsets):
        kernel = self.getOrDefault(self.kernel)
        return Bins(*bins).machine(kernel, blocks.width, weights.astype(np.float32), offsets, names)


def encoding(kernel, top, rank):
    """Components of the scalar kernel on the values of the bins: one row for each bin, zeros for bin 0."""
    values = RowBlock(np.linspace(0, top, BINS)[1:, None])
    packed, one = Landmarks(kernel, values), np.ones(1)
    lines = [packed.sums(values.select(np.array([at])), one, one, np.zeros(BINS))[1][:-1] for at in range(BINS - 1)]
    matrix = -np.array(lines)
    sizes, directions = np.linalg.eigh(0.5 * (matrix + matrix.T))
    kept = np.argsort(sizes)[::-1][:rank]
    components = directions[:, kept] * np.sqrt(np.maximum(sizes[kept], 0.0))
    components *= np.where(components.sum(axis=0) < 0, -1.0, 1.0)
    return np.vstack([np.zeros(len(kept)), components]).astype(np.float32)


def dual_steps(weights, alpha, C, pair, options, bins):
    """For tasks: changes of the weights, the sum of changes of alpha and the loss of a block; changes of alpha for its rows.

    Blocks of a group go on from each other's weights. ``alpha`` holds the coefficients of each block's rows.
    """
    first, places = pair.first, pair.places()

    def make():
        encoder = Bins(*bins) if bins is not None else None
        state = {"group": None, "weights": weights}

        def step(block, rows, labels, row_weights):
            if block["group"] != state["group"]:
                state.update(group=block["group"], weights=weights)
            chosen = places(labels)
            if chosen is not None:
                rows, labels, row_weights = rows.select(chosen), labels[chosen], row_weights[chosen]
            rows = rows if encoder is None else encoder.encode(rows)
            targets, costs = np.where(labels == first, 1.0, -1.0), C * row_weights
            own = alpha.get(block["block"], np.zeros(len(labels)))
            settings = {**options, "seed": options["seed"] * 1_000_003 + block["block"]}
            loss = dual_step(rows, targets, costs, own, weights, {**settings, "passes": 0})["loss"]
            found = dual_step(rows, targets, costs, own, state["weights"], settings)
            state["weights"] = state["weights"] + found["weight_changes"]
            return np.concatenate([found["weight_changes"], [found["alpha_sum"], loss]]), found["alpha_changes"]

        return step

    return make


class DualRounds:
    """One pair of classes being trained: weights and coefficients."""

    def __init__(self, estimator, blocks, pair, bins):
        self.estimator, self.blocks, self.pair, self.bins = estimator, blocks, pair, bins
        width = blocks.width * (1 if bins is None else bins[2].shape[1])
        self.constant = 1.0 if estimator.getOrDefault(estimator.fitIntercept) else 0.0
        self.weights, self.alpha = np.zeros(width + 1), np.zeros(len(pair.signs))
        self.round, self.objective, self.gap, self.is_converged = 0, np.inf, np.inf, False

    def run(self):
        """Itself, trained, without the coefficients of its rows."""
        blocks, estimator = self.blocks, self.estimator
        cuts = self.pair.starts
        best = np.inf
        while True:
            alpha = {int(number): self.alpha[cuts[at] : cuts[at + 1]] for at, number in enumerate(blocks.numbers)}
            seed = (estimator.getSeed() * 1_000_033 + self.round) % (1 << 40)
            options = {"passes": estimator.getOrDefault(estimator.passes), "seed": seed, "constant": self.constant}
            make = dual_steps(self.weights, alpha, estimator.getC(), self.pair, options, self.bins)
            sums, changes = blocks.sums(make, self.weights.nbytes + self.alpha.nbytes)
            moved, alpha_sum, loss = sums[:-2], sums[-2], sums[-1]
            norm = 0.5 * self.weights @ self.weights
            primal, dual = norm + loss, self.alpha.sum() - norm
            if primal < best:
                best, kept = primal, self.weights
            # The weights with the lowest objective so far are the machine.
            self.objective, self.gap = float(best), float(best - dual)
            estimator._tell(blocks, round=self.round, objective=self.objective, gap=self.gap)
            self.is_converged = bool(best - dual <= estimator.getTol() * best)
            if self.is_converged or self.round >= estimator.getMaxIter():
                self.weights, self.alpha, self.pair = kept, None, None
                return self
            share = common_step(self.weights, moved, alpha_sum)
            self.weights = self.weights + share * moved
            self.alpha = self.alpha + share * changes
            self.round += 1
