"""Lost executors: a killed process changes nothing in scores and machines."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tables import arrays, file_bytes, frame

from mercer.spark import KernelModel, KernelSVC
from mercer.svm import SVC

pytestmark = pytest.mark.modes("cluster")


def executors(spark):
    """Processes of this application's executors."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any("CoarseGrainedExecutorBackend" in word for word in words) and spark.sparkContext.applicationId in words:
            found.append(int(path.parent.name))
    return sorted(found)


def two_executors(spark):
    """Both executors, waited for: they start after the session, and after a loss."""
    ends = time.monotonic() + 120
    while len(found := executors(spark)) != 2:
        assert time.monotonic() < ends, f"two executors are needed, there are {found}"
        time.sleep(0.1)
    return found


def test_an_executor_lost_while_scoring_changes_nothing(spark, tmp_path):
    X, y = arrays(300)
    svc = SVC().fit(X, y)
    started = tmp_path / "started"

    def slowly(batches):
        for batch in batches:
            started.touch()
            time.sleep(1.0)
            yield batch

    table = frame(spark, X, y).repartition(8)
    slow = table.mapInArrow(slowly, table.schema)
    before = two_executors(spark)

    def kill():
        while not started.exists():
            time.sleep(0.05)
        os.kill(before[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = KernelModel.fromModel(svc, rawPredictionCol="raw").transform(slow).collect()
    killer.join()
    assert before[0] not in executors(spark), "an executor was lost"
    rows.sort(key=lambda row: row["id"])
    scores = np.array([row["raw"][1] for row in rows])
    assert scores.tobytes() == svc.decision_function(X).tobytes()


def test_an_executor_lost_in_a_round_changes_nothing(spark, tmp_path):
    X, y = arrays(600)
    table = frame(spark, X, y).repartition(4)
    params = {"kernel": "rbf(gamma=0.5)", "C": 2.0, "workingSetSize": 120, "idCol": "id"}
    expected = file_bytes(KernelSVC(**params).fit(table), tmp_path)
    two_executors(spark)
    killed = []

    def kill(facts):
        # The blocks of one executor are lost between two rounds, or under the jobs of the second.
        if facts["round"] == 1 and not killed:
            killed.append(executors(spark)[0])
            threading.Timer(0.3, os.kill, (killed[0], signal.SIGKILL)).start()

    model = KernelSVC(**params).setProgress(kill).fit(table)
    assert model.report["rounds"] > 2 and killed and killed[0] not in executors(spark)
    assert file_bytes(model, tmp_path) == expected
