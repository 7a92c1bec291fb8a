"""Kernel machines on Apache Spark: scoring that gives the same bits anywhere, and training over packed blocks of rows.

Estimators and models follow ``pyspark.ml``. They need Spark 4, and ``mercer`` must be installed where the tasks run. Nothing needs barrier mode, open ports or state in the workers.
"""

try:
    import pyspark  # noqa: F401
except ImportError as missing:
    raise ImportError("mercer.spark needs pyspark 4; `pip install mercer[spark]` installs it") from missing

from ._kernel_svc import KernelSVC
from ._linear import AdditiveSVC, LinearSVC
from ._low_rank import LowRankSVC
from ._model import KernelModel

__all__ = ["AdditiveSVC", "KernelModel", "KernelSVC", "LinearSVC", "LowRankSVC"]
