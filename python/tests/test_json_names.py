"""Python's reports have the names and types of the command's JSON: ``docs/guide/json.schema.json``."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from mercer.svm import SVC

SCHEMA = Path(__file__).parents[2] / "docs" / "guide" / "json.schema.json"
KINDS = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None),
}

if not SCHEMA.is_file():
    pytest.skip("the guide is not beside the package", allow_module_level=True)
DOCUMENT = json.loads(SCHEMA.read_text())


def check(value, schema, place):
    """Whether a value is what the schema says: keys, types, lists."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return check(value, DOCUMENT["$defs"][name], place)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    is_right = any(isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool)) for kind in kinds)
    assert is_right or not kinds, f"{place} is {value!r}, not {kinds}"
    if isinstance(value, dict) and "properties" in schema:
        assert set(value) <= set(schema["properties"]), f"{place}: {set(value) - set(schema['properties'])}"
        assert set(schema.get("required", [])) <= set(value), f"{place}: {set(schema['required']) - set(value)}"
        for key, inner in value.items():
            check(inner, schema["properties"][key], f"{place}.{key}")
    if isinstance(value, list) and "items" in schema:
        for inner in value:
            check(inner, schema["items"], place)


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(5)
    X = random.normal(size=(900, 4))
    return SVC().fit(X[:300], X[:300, 0] > 0.1), X[300:]


def test_a_tuning_report_has_the_names_of_the_command(fitted):
    svc, queries = fitted
    tuning = copy.copy(svc).tune(queries, seconds=2).tuning_
    check(tuning, DOCUMENT["$defs"]["tuning"], "tuning_")
    assert tuning["final_test"]["disagreements"] == 0 and tuning["sample"]["tested"] > 0


def test_a_compression_report_has_the_names_of_the_command(fitted):
    svc, queries = fitted
    report = svc.compress(size=10, X_sample=queries[:200]).compression_
    check(report, DOCUMENT["verbs"]["compress"], "compression_")
    assert report["agreement"]["queries"] == 200 and report["weight_error"]["relative"] > 0


def test_the_check_itself_finds_wrong_names_and_types():
    check({"queries": 3}, {"type": "object", "properties": {"queries": {"type": "integer"}}}, "a")
    for wrong in ({"query": 3}, {"queries": "3"}, {"queries": True}, [3]):
        with pytest.raises(AssertionError):
            check(wrong, {"type": "object", "properties": {"queries": {"type": "integer"}}}, "a")
