"""Plans as C files: the compiled library gives the decisions of ``decide``, to the bit."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import sklearn.svm as theirs
from sklearn.datasets import load_digits

import mercer
from mercer.errors import ModelError

CERTAINTIES = ["unsettled", "calibrated", "certified", "exact"]


class Decision(ctypes.Structure):
    _fields_ = [
        ("label", ctypes.c_int),
        ("value", ctypes.c_double),
        ("low", ctypes.c_double),
        ("high", ctypes.c_double),
        ("certainty", ctypes.c_int),
        ("cost", ctypes.c_uint64),
        ("stage", ctypes.c_uint),
    ]


def test_the_library_of_a_plan_decides_as_the_plan_does(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    X, y = load_digits(return_X_y=True)
    svc = theirs.SVC().fit(X[:600], y[:600])
    fast = mercer.from_sklearn(svc).with_plan("cascade(low_precision, exact)")
    source, library = tmp_path / "digits.c", tmp_path / "digits.so"
    assert fast.to_c(source, plan=True) is None
    assert source.read_bytes() == fast.to_c(plan=True)
    subprocess.run(["cc", "-std=c99", "-O1", "-fPIC", "-shared", source, "-o", library, "-lm"], check=True)
    answer = ctypes.CDLL(library).mercer_answer
    decisions = fast.decide(X[600:900])
    found = Decision()
    for row, expected in zip(X[600:900], decisions, strict=True):
        values = np.ascontiguousarray(row, np.float64)
        assert answer(values.ctypes.data_as(ctypes.c_void_p), ctypes.byref(found)) == 0
        assert fast.classes_[found.label] == expected["label"]
        assert (found.low, found.high, found.cost) == (expected["low"], expected["high"], expected["cost"])
        assert CERTAINTIES[found.certainty] == expected["certainty"]
    assert "certified" in decisions["certainty"]


def test_what_c_cannot_say_is_refused_by_name():
    X, y = load_digits(return_X_y=True)
    fast = mercer.from_sklearn(theirs.SVC().fit(X[:300], y[:300])).with_plan("cascade(projected, exact)")
    with pytest.raises(ModelError, match="C cannot express the stage projected"):
        fast.to_c(plan=True)
    with pytest.raises(ValueError, match="exclude each other"):
        fast.to_c(plan=True, single=True)
