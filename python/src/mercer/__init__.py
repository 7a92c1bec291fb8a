"""Kernel machines that answer fast, with the same decisions.

``mercer.svm`` has drop-in replacements for scikit-learn's estimators; ``mercer.accelerate`` speeds up a model
that is already fitted; ``mercer.load`` reads model files.
"""

from . import errors
from ._accelerate import accelerate
from ._convert import from_sklearn
from ._mercer import __version__
from ._model import Model, load

__all__ = ["Model", "__version__", "accelerate", "errors", "from_sklearn", "load"]
