"""Kernel machines that answer fast, with the same decisions."""

from . import errors
from ._mercer import __version__

__all__ = ["__version__", "errors"]
