"""The files of `deploy/` are well formed. Nothing here runs KServe, Grafana or a container engine."""

import json
import re

import pytest
from serving import ROOT

DEPLOY = ROOT / "deploy"


def test_the_runtime_of_kserve_is_yaml_with_the_fields_that_a_runtime_needs():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    runtimes = [part for part in yaml.safe_load_all((DEPLOY / "kserve-runtime.yaml").read_text()) if part]
    runtime = next(part for part in runtimes if part["kind"] == "ClusterServingRuntime")
    assert runtime["apiVersion"] == "serving.kserve.io/v1alpha1" and runtime["metadata"]["name"]
    spec = runtime["spec"]
    assert "v2" in spec["protocolVersions"]
    assert all(set(model) <= {"name", "version", "autoSelect", "priority"} for model in spec["supportedModelFormats"])
    (container,) = spec["containers"]
    assert container["name"] == "kserve-container" and container["image"]
    assert all(isinstance(word, str) for word in container["args"])
    security = container["securityContext"]
    assert security["runAsNonRoot"] is True and security["capabilities"] == {"drop": ["ALL"]}
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"].startswith("/v2/health/")
    assert all(isinstance(port["containerPort"], int) for port in container["ports"])


def test_the_container_file_has_known_instructions_in_order():
    lines = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if line and not line.startswith("#")]
    words = [line.split()[0] for line in lines]
    assert words[0] == "FROM"
    assert set(words) <= {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
    stages = [match[1] for match in (re.search(r" AS (\w+)$", line) for line in lines) if match]
    sources = re.findall(r"--from=(\w+)", "\n".join(lines))
    assert set(sources) <= set(stages) and sources
    for line in lines:
        if line.startswith(("ENTRYPOINT", "CMD")):
            assert all(isinstance(word, str) for word in json.loads(line.split(" ", 1)[1]))


def test_the_dashboard_has_panels_within_the_grid_and_one_source_of_data():
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    assert dashboard["schemaVersion"] >= 36 and dashboard["title"]
    places, numbers = set(), set()
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        assert 0 <= grid["x"] and grid["x"] + grid["w"] <= 24
        cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
        assert not cells & places, panel["title"]
        places |= cells
        assert panel["id"] not in numbers
        numbers.add(panel["id"])
        for target in panel["targets"]:
            assert target["expr"].count("(") == target["expr"].count(")") and target["refId"]
