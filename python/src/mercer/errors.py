"""Exceptions.

Every exception has ``kind``, the name of the error, and ``fields``, the values in its message; the fields are
attributes too.

>>> from mercer.errors import TrainError
>>> try:
...     from mercer.svm import NuSVC
...     _ = NuSVC(nu=0.9).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 0, 1])
... except TrainError as error:
...     print(error.kind, error.nu, error.limit)
InfeasibleNu 0.9 0.5
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ConversionError",
    "DataError",
    "MercerError",
    "ModelError",
    "PlanError",
    "QueryError",
    "SourceIsFasterWarning",
    "SpecError",
    "TrainError",
    "UnverifiedPlanWarning",
]


class MercerError(ValueError):
    """Base class; a ``ValueError``, as in scikit-learn."""

    kind: str
    fields: dict[str, Any]

    def __init__(self, message: str, kind: str = "", fields: dict[str, Any] | None = None):
        super().__init__(message)
        self.kind = kind
        self.fields = dict(fields or {})

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}") from None

    def __reduce__(self):
        return type(self), (str(self), self.kind, self.fields)


class DataError(MercerError):
    """Invalid rows: a value that is not finite, inconsistent sparse rows."""


class TrainError(MercerError):
    """Training failed: infeasible nu, invalid weights, kernel values that overflow."""


class QueryError(MercerError):
    """Queries could not be answered: wrong width, negative values for histogram kernels, overflow."""


class ModelError(MercerError):
    """A model file is invalid, or a format cannot express the model."""


class PlanError(MercerError):
    """A plan is invalid, or does not fit the machine."""


class UnverifiedPlanWarning(UserWarning):
    """Stages of a plan from elsewhere are left out because they were not verified."""


class SourceIsFasterWarning(UserWarning):
    """``accelerate`` found no plan that is faster than the estimator itself, and keeps its arithmetic."""


class SpecError(MercerError):
    """The text of a kernel, a formulation or a plan is invalid."""


class ConversionError(MercerError, TypeError):
    """An estimator cannot be converted to a machine."""
