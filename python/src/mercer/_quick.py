"""What ``fit`` may leave out of scikit-learn's checks where arrays and parameters are plain: on small data they cost more than the
training. Everything else goes through scikit-learn's own validation, which alone raises.
"""

from __future__ import annotations

import functools

import numpy as np
from sklearn.base import BaseEstimator

from ._rows import QUICK

#: Values of these types never change.
_SIMPLE = {bool, int, float, str, type(None)}
#: Parameters of a class that passed scikit-learn's checks.
_VALID: dict[type, set] = {}
#: So many are remembered for each class.
_REMEMBERED = 256


class QuickParametersMixin:
    """Parameters: names are read from the constructor once, and values that passed the checks pass them again."""

    @classmethod
    def _get_param_names(cls):
        return list(_names(cls))

    def _validate_params(self):
        values = [getattr(self, name, None) for name in _names(type(self))]
        is_simple = all(type(value) in _SIMPLE for value in values)
        # 1, 1.0 and True are equal, but not all of them may be allowed.
        key = (*values, *map(type, values)) if is_simple else None
        known = _VALID.setdefault(type(self), set())
        if is_simple and key in known:
            return
        super()._validate_params()
        if is_simple:
            if len(known) >= _REMEMBERED:
                known.clear()
            known.add(key)


@functools.cache
def _names(cls):
    return tuple(BaseEstimator._get_param_names.__func__(cls))


def are_plain(X, y):
    """Whether rows and targets are arrays of finite numbers that need no conversion."""
    if not (type(X) is np.ndarray and X.ndim == 2 and X.dtype in QUICK and X.size > 0):
        return False
    if not (type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuf" and len(y) == len(X)):
        return False
    # All values are finite if their sum is; one that overflows is left to the slower checks.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum(dtype=np.float64)) and (y.dtype.kind != "f" or np.isfinite(y.sum(dtype=np.float64))))


def plain_classes(y):
    """Classes and the class of each sample of an array of whole numbers; None where scikit-learn has something to say."""
    if not (type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biu"):
        return None
    classes, codes = np.unique(y, return_inverse=True)
    # One class is refused, and a class for each sample is warned of.
    if len(classes) < 2 or len(y) > 20 and len(classes) > len(y) // 2:
        return None
    return classes, codes.astype(np.float64)
