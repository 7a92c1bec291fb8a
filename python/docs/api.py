"""Writes the reference of the Python package as Markdown, from its docstrings: ``python api.py --to FOLDER``.

The sources are read by griffe and not imported, so the compiled module need not be there: its docstrings are the comments in
``rust/``. ``cargo xtask docs`` runs this.
"""

from __future__ import annotations

import argparse
import html
import re
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]

#: Module, file, and the title of its page.
PAGES = [
    ("mercer", "python.md", "Python: `mercer`"),
    ("mercer.svm", "python-svm.md", "Python: `mercer.svm`"),
    ("mercer.machines", "python-machines.md", "Python: `mercer.machines`"),
    ("mercer.spark", "python-spark.md", "Python: `mercer.spark`"),
    ("mercer.decomposition", "python-decomposition.md", "Python: `mercer.decomposition`"),
    ("mercer.onnx", "python-onnx.md", "Python: `mercer.onnx`"),
    ("mercer.errors", "python-errors.md", "Python: `mercer.errors`"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    folder = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    package = griffe.load("mercer", search_paths=[str(ROOT / "src")], docstring_parser="numpy")
    document(package["_mercer"], compiled_docs())
    for name, file, title in PAGES:
        module = package if name == "mercer" else package[name.removeprefix("mercer.")]
        (folder / file).write_text(page(module, title), encoding="utf-8")


def compiled_docs() -> dict[str, str]:
    """Comments of ``rust/*.rs`` by what they describe: ``Class``, ``Class.method`` or ``function``, by Python's names."""
    docs, classes = {}, {}
    for path in sorted((ROOT / "rust").glob("*.rs")):
        owner, name, lines = "", "", []
        for line in path.read_text(encoding="utf-8").splitlines():
            text = line.strip()
            if text.startswith("///"):
                lines.append(text[3:].removeprefix(" "))
                continue
            if found := re.match(r'#\[pyclass\(.*name = "(\w+)"', text):
                name = found[1]
            elif found := re.match(r"pub(?:\(crate\))? struct (\w+)", text):
                classes[found[1]] = name or found[1]
                docs[classes[found[1]]] = "\n".join(lines)
            elif found := re.match(r"impl (\w+) \{", text):
                owner = classes.get(found[1], "")
            elif found := re.match(r"(?:pub(?:\(crate\))? )?fn (\w+)", text):
                is_method = line.startswith(" ")
                docs[f"{owner}.{found[1]}" if is_method else found[1]] = "\n".join(lines)
            if not text.startswith("#["):
                name, lines = ("" if text.startswith(("pub", "struct")) else name), []
    return {name: text for name, text in docs.items() if text}


def document(module: griffe.Module, docs: dict[str, str]) -> None:
    """Gives the members of the compiled module their docstrings."""
    for name, member in module.members.items():
        if member.is_alias:
            continue
        inner = member.members if member.is_class else {}
        for path, thing in [(name, member), *((f"{name}.{key}", value) for key, value in inner.items())]:
            if not thing.has_docstring and path in docs:
                thing.docstring = griffe.Docstring(docs[path].replace("`", "``"), parent=thing, parser="numpy")


def page(module: griffe.Module, title: str) -> str:
    """All that is public in a module, in the order of ``__all__``."""
    parts = [f"# {title}", *sections(module)]
    for name in module.exports or []:
        member = module.members[str(name)]
        target = member.final_target if member.is_alias else member
        if target.is_class:
            parts += of_class(target)
        elif target.is_function:
            parts += of_function(target, "##")
        elif target.is_module:
            parts.append(f"## `{name}`\n\n{prose(first_line(target))}")
        elif target.docstring:
            parts.append(f"## `{name}`\n\n{prose(target.docstring.value)}")
    if len(parts) < 3:
        raise SystemExit(f"{module.path} exports nothing")
    return "\n\n".join(part for part in parts if part) + "\n"


def of_class(kind: griffe.Class) -> list[str]:
    """The class, then every public method and property with a docstring, inherited ones of this package included."""
    parts = [f"## `{kind.name}`", f"```python\n{signature(kind)}\n```", *sections(kind)]
    for name, member in sorted({**kind.inherited_members, **kind.members}.items()):
        if name.startswith("_"):
            continue
        target = member.final_target if member.is_alias else member
        if not target.has_docstring:
            continue
        if target.is_function:
            parts += of_function(target, "###", owner=kind.name)
        elif target.is_attribute and "property" in target.labels:
            parts += [f"### `{kind.name}.{name}`", *sections(target)]
    return parts


def of_function(function: griffe.Function, level: str, owner: str = "") -> list[str]:
    name = f"{owner}.{function.name}" if owner else function.name
    return [f"{level} `{name}`", f"```python\n{signature(function)}\n```", *sections(function)]


def signature(thing: griffe.Class | griffe.Function) -> str:
    """As it is called: without ``self``, with defaults."""
    made = thing.members.get("__new__") if thing.is_class and "__init__" not in thing.members else None
    parameters, words, is_starred = (made or thing).parameters, [], False
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not is_starred:
            words.append("*")
            is_starred = True
        if kind is griffe.ParameterKind.var_positional:
            words.append(f"*{parameter.name}")
            is_starred = True
        elif kind is griffe.ParameterKind.var_keyword:
            words.append(f"**{parameter.name}")
        elif parameter.default is not None:
            words.append(f"{parameter.name}={parameter.default}")
        else:
            words.append(parameter.name)
    text = f"{thing.name}({', '.join(words)})"
    return text if len(text) <= 100 else f"{thing.name}(\n    " + ",\n    ".join(words) + ",\n)"


def sections(thing: griffe.Object) -> list[str]:
    """The parts of a docstring."""
    if not thing.has_docstring:
        return []
    parts = []
    for section in thing.docstring.parsed:
        kind, value = section.kind.value, section.value
        if kind == "text":
            parts.append(prose(value))
        elif kind == "examples":
            parts.append("Examples:")
            parts += [prose(text) if part.value == "text" else f"```python\n{text}\n```" for part, text in value]
        elif kind in ("parameters", "other parameters", "attributes", "returns", "yields", "raises", "warns"):
            parts.append(items(kind, value))
        elif kind == "admonition":
            parts.append(prose(f"{value.annotation.title()}: {value.contents}"))
        else:
            raise SystemExit(f"{thing.path}: a section '{kind}' is not known here")
    return parts


def items(kind: str, entries: list) -> str:
    lines = [f"{kind.capitalize()}:\n"]
    for entry in entries:
        name = getattr(entry, "name", "") or ""
        annotation = "" if entry.annotation is None else str(entry.annotation).strip("'\"")
        label = " : ".join(f"`{word}`" if word == name else html.escape(word, quote=False) for word in (name, annotation) if word)
        text = " ".join(prose(entry.description).split())
        lines.append(f"- {label}: {text}" if text else f"- {label}")
    return "\n".join(lines)


def first_line(thing: griffe.Object) -> str:
    return thing.docstring.value.splitlines()[0] if thing.docstring else ""


def prose(text: str) -> str:
    """reStructuredText as these docstrings use it: ``code``, roles, and blocks after ``::``."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"``\1``", text)
    pieces = re.split(r"(``.+?``)", text, flags=re.DOTALL)
    text = "".join(piece[1:-1] if piece.startswith("``") else piece.replace("<", "&lt;") for piece in pieces)
    return text.strip()


if __name__ == "__main__":
    main()
