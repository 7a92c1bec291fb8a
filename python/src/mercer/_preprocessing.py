"""Pipeline steps that the compiled module runs itself: scalings of columns, or of rows to unit length."""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from .errors import ConversionError


def fold(compiled, steps):
    """The compiled model behind the last of these steps, and the steps that stay in front of it in Python.

    The compiled module computes ``(x - centre) factor`` in f64. scikit-learn divides where we multiply, scales with
    several scalers one after the other and keeps f32 rows in f32, so that scaled values may differ in their last bits, and
    the scores with them.
    """
    steps = list(steps)
    if steps and type(steps[-1]) is Normalizer:
        return compiled.with_scaling([], [], steps[-1].norm), steps[:-1]
    width = compiled.features
    centres, factors = np.zeros(width), np.ones(width)
    first = len(steps)
    while first > 0 and _affine(steps[first - 1]) is not None:
        first -= 1
        centre, factor = _affine(steps[first])
        # (((x - a) b) - c) d = (x - (a + c / b)) b d
        centres, factors = centre + centres / factor, factor * factors
    if first == len(steps):
        return compiled, steps
    return compiled.with_scaling(centres.tolist(), factors.tolist(), None), steps[:first]


def refusal(steps):
    """The error for a file of steps that only Python can run."""
    names = ", ".join(type(step).__name__ for step in steps)
    word = "step" if len(steps) == 1 else "steps"
    return ConversionError(
        f"the preprocessing {word} {names} of this model can only run in Python and cannot be stored in a model file;"
        " pickle the model, or convert the last estimator alone and transform rows before it",
        "Steps",
        {"steps": [type(step).__name__ for step in steps]},
    )


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


def scaling_of(steps):
    """Centres and factors of each scaler of the list, for bounds of rounding errors."""
    return [_affine(step) for step in steps if _affine(step) is not None]


def _or(found, otherwise):
    return otherwise if found is None else found
