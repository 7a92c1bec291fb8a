"""Params that models and estimators share."""

from __future__ import annotations

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasWeightCol,
)


def feature_columns(stage):
    """The columns that hold the features: several of numbers, or one of vectors or arrays."""
    several = stage.getOrDefault(stage.featuresCols)
    return list(several) if several else [stage.getOrDefault(stage.featuresCol)]


class ScoringParams(HasFeaturesCol, HasLabelCol, HasPredictionCol, HasRawPredictionCol, HasProbabilityCol):
    """Columns of scores and of features. An output column named '' is left out."""

    featuresCols = Param(
        Params._dummy(),
        "featuresCols",
        "columns of numbers, in the order of the model's columns, in place of featuresCol",
        typeConverter=TypeConverters.toListString,
    )
    idCol = Param(
        Params._dummy(),
        "idCol",
        "a column that identifies a row: errors name it, and training deals rows to blocks by it",
        typeConverter=TypeConverters.toString,
    )
    decisionCol = Param(
        Params._dummy(),
        "decisionCol",
        "a struct of label, low, high (a range that contains the score, or the winner's margin), certainty and cost",
        typeConverter=TypeConverters.toString,
    )

    def setFeaturesCol(self, value):
        return self._set(featuresCol=value)

    def setFeaturesCols(self, value):
        return self._set(featuresCols=value)

    def setLabelCol(self, value):
        return self._set(labelCol=value)

    def setPredictionCol(self, value):
        return self._set(predictionCol=value)

    def setRawPredictionCol(self, value):
        return self._set(rawPredictionCol=value)

    def setProbabilityCol(self, value):
        return self._set(probabilityCol=value)

    def setDecisionCol(self, value):
        return self._set(decisionCol=value)

    def setIdCol(self, value):
        return self._set(idCol=value)

    def getFeaturesCols(self):
        return self.getOrDefault(self.featuresCols)

    def getDecisionCol(self):
        return self.getOrDefault(self.decisionCol)

    def getIdCol(self):
        return self.getOrDefault(self.idCol)


class TrainingParams(ScoringParams, HasWeightCol):
    """What every estimator takes."""

    C = Param(Params._dummy(), "C", "the penalty of errors, more than 0", typeConverter=TypeConverters.toFloat)
    tol = Param(Params._dummy(), "tol", "where training ends; see the estimator", typeConverter=TypeConverters.toFloat)
    maxIter = Param(Params._dummy(), "maxIter", "rounds at most", typeConverter=TypeConverters.toInt)
    seed = Param(Params._dummy(), "seed", "seed of draws", typeConverter=TypeConverters.toInt)

    def setC(self, value):
        return self._set(C=value)

    def setTol(self, value):
        return self._set(tol=value)

    def setMaxIter(self, value):
        return self._set(maxIter=value)

    def setSeed(self, value):
        return self._set(seed=value)

    def setWeightCol(self, value):
        return self._set(weightCol=value)

    def getC(self):
        return self.getOrDefault(self.C)

    def getTol(self):
        return self.getOrDefault(self.tol)

    def getMaxIter(self):
        return self.getOrDefault(self.maxIter)

    def getSeed(self):
        return self.getOrDefault(self.seed)
