"""One Spark session for each process: MERCER_SPARK is local (default), connect or cluster."""

import os
import sys
import warnings

import pytest

MODE = os.environ.get("MERCER_SPARK", "local")
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
warnings.filterwarnings("ignore", message=".*pandas.*")


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if MODE == "connect":
        session = builder.remote("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    else:
        master = "local-cluster[2,1,1024]" if MODE == "cluster" else "local[2]"
        builder = builder.master(master).config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.executor.memory", "700m")
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def pytest_collection_modifyitems(items):
    """Tests of one mode are left out in the others."""
    for item in items:
        modes = [mark.args for mark in item.iter_markers("modes")]
        if not any(MODE in mode for mode in modes) and (modes or MODE == "cluster"):
            item.add_marker(pytest.mark.skip(reason=f"not for the mode {MODE}"))


def pytest_configure(config):
    config.addinivalue_line("markers", "modes(*names): the modes in which a test runs; local and connect by default")
