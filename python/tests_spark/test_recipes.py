"""The guide's examples run as written, and the recipe for Dask gives the bits of one process."""

import re
from pathlib import Path

import numpy as np
import pytest
from tables import arrays

import mercer
from mercer.svm import SVC

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "spark.md"
pytestmark = pytest.mark.modes("local")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    X, y = arrays(300)
    path = tmp_path_factory.mktemp("model") / "model.mercer"
    SVC().fit(X, y).save(path)
    return path, X


def test_the_blocks_of_the_guide_run_in_order(spark):
    pytest.importorskip("dask.array")
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 3
    names = {}
    for block in blocks:
        exec(compile(block, GUIDE.name, "exec"), names)


def test_dask_gives_the_bits_of_one_process(file):
    da = pytest.importorskip("dask.array")
    path, X = file
    model = mercer.load(path, n_jobs=1)
    for chunk in (7, 100, 300):
        scores = da.from_array(X, chunks=(chunk, 3)).map_blocks(model.decision_function, drop_axis=1, dtype=float)
        assert scores.compute(scheduler="threads").tobytes() == model.decision_function(X).tobytes()
