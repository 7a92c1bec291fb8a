"""Pipeline steps that a model file can store: scalings of columns, or of rows to unit length."""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from .errors import ConversionError


def with_steps(compiled, steps):
    """The compiled model preceded by these steps.

    Files store ``(x - centre) factor``. scikit-learn divides where we multiply, so that scaled values may differ in
    the last bit, and the scores with them.
    """
    if len(steps) == 1 and isinstance(steps[0], Normalizer):
        return compiled.with_scaling([], [], steps[0].norm)
    centres, factors = np.zeros(compiled.features), np.ones(compiled.features)
    for step in steps:
        found = _affine(step)
        if found is None:
            names = ", ".join(type(step).__name__ for step in steps)
            raise ConversionError(
                f"the preprocessing steps {names} run in Python and cannot be stored in a model file; pickle this model instead",
                "Steps",
            )
        centre, factor = found
        # (((x - a) b) - c) d = (x - (a + c / b)) b d
        centres, factors = centres + centre / factors, factors * factor
    return compiled.with_scaling(centres.tolist(), factors.tolist(), None)


def _affine(step):
    """The centre to subtract and the factor to multiply by; None for other steps."""
    kind = type(step)
    if kind is StandardScaler:
        return _or(step.mean_ if step.with_mean else None, 0.0), 1.0 / _or(step.scale_, 1.0)
    if kind is MinMaxScaler and not step.clip:
        return -step.min_ / step.scale_, step.scale_
    if kind is MaxAbsScaler and not getattr(step, "clip", False):
        return 0.0, 1.0 / step.scale_
    if kind is RobustScaler:
        return _or(step.center_, 0.0), 1.0 / _or(step.scale_, 1.0)
    return None


def _or(found, otherwise):
    return otherwise if found is None else found
