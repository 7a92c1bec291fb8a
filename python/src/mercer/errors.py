"""What can go wrong, with the place and the value.

Every exception carries ``kind``, the name of what happened, and ``fields``, the numbers and names of its
sentence; the fields are attributes too.

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
    "SpecError",
    "TrainError",
]


class MercerError(ValueError):
    """The base of all; a ``ValueError``, as scikit-learn's are."""

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
    """Rows were refused: a value that is not finite, compressed rows that contradict themselves."""


class TrainError(MercerError):
    """Nothing could be learned: infeasible nu, weights that are no weights, kernel values that overflow."""


class QueryError(MercerError):
    """Queries could not be answered: wrong width, negative values for histogram kernels, overflow."""


class ModelError(MercerError):
    """A model file was refused, or a format cannot express the model."""


class PlanError(MercerError):
    """A plan is not one, or does not fit the machine."""


class SpecError(MercerError):
    """The text of a kernel, a formulation or a plan was refused."""


class ConversionError(MercerError, TypeError):
    """An estimator cannot be turned into a machine."""
