"""Kernel machines that answer fast, with the same decisions.

``mercer.svm`` has drop-in replacements for scikit-learn's estimators; ``mercer.accelerate`` speeds up a model
that is already fitted; ``mercer.load`` reads model files.
"""

from . import errors, machines, svm
from ._accelerate import accelerate
from ._client import Client, ServerError
from ._convert import from_sklearn
from ._mercer import __version__
from ._model import Model, load

__all__ = ["SKOPS_TYPES", "Client", "Model", "ServerError", "__version__", "accelerate", "errors", "from_sklearn", "load"]

#: The types that ``skops.io.load(..., trusted=mercer.SKOPS_TYPES)`` and
#: ``mlflow.sklearn.save_model(..., skops_trusted_types=mercer.SKOPS_TYPES)`` need to know. Their state is bytes of our model
#: format, which are checked when they are read, and arrays.
SKOPS_TYPES = [
    f"{kind.__module__}.{kind.__name__}"
    for kind in (Model, *(getattr(module, name) for module in (svm, machines) for name in module.__all__))
    if isinstance(kind, type)
]
