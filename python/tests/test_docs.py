"""Examples in the documentation run as written."""

import ast
import doctest
import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

import mercer

MODULES = ["mercer"] + [
    f"mercer.{module.name}" for module in pkgutil.iter_modules(mercer.__path__) if module.name != "_mercer"
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    if name == "mercer.spark":
        pytest.importorskip("pyspark")
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in MODULES if name != "mercer.spark"]
    assert sum(len(test.examples) for module in modules for test in finder.find(module)) > 10


NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def test_there_are_three_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["additive_histograms", "replace_svc", "speed_up_a_model"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run(path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    # A cell that raises an error, an assertion among them, is raised here.
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert pictures(notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_stored_notebooks_are_small_and_have_their_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 100_000
    assert pictures(notebook)
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1)), "python/examples/run.py runs and stores them"


def pictures(notebook):
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert all(output["output_type"] != "error" for output in outputs)
    return [output for output in outputs if "image/png" in output.get("data", {})]


#: Pages of the guide, and how many blocks each has at least.
PAGES = {"python": 4, "attributions": 1, "prediction_sets": 1, "updates": 1}


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_the_guide_run_in_order(page):
    guide = Path(__file__).parents[2] / "docs" / "guide" / f"{page}.md"
    if not guide.exists():
        pytest.skip("the guide is part of the repository, not of the package")
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= PAGES[page]
    names = {}
    for block in blocks:
        exec(compile(block, guide.name, "exec"), names)


def test_the_stub_names_what_the_compiled_half_has():
    stub = ast.parse((Path(mercer.__file__).parent / "_mercer.pyi").read_text(encoding="utf-8"))
    model = next(node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == "Model")
    documented = {node.name for node in model.body if isinstance(node, ast.FunctionDef)}
    assert documented == {name for name in dir(mercer._mercer.Model) if not name.startswith("_")}
    functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    compiled = {name for name, kind in vars(mercer._mercer).items() if callable(kind) and not isinstance(kind, type)}
    assert functions == compiled
    classes = {node.name for node in stub.body if isinstance(node, ast.ClassDef)}
    assert classes == {name for name, kind in vars(mercer._mercer).items() if isinstance(kind, type)}


@pytest.mark.parametrize("name", ["mercer", "mercer.svm", "mercer.machines", "mercer.errors"])
def test_everything_public_has_a_docstring(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for public in getattr(module, "__all__", []):
        thing = getattr(module, public)
        if callable(thing):
            assert thing.__doc__, public
        for method in ("fit", "predict", "decision_function", "decide", "tune", "explain", "compress", "save"):
            if isinstance(thing, type) and hasattr(thing, method):
                assert getattr(thing, method).__doc__, f"{public}.{method}"
