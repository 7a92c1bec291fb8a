"""Reads `benches/tasks.toml` and the rows of a task, scaled and split as written there."""

import csv
import gzip
import io
import re
import struct
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

BENCHES = Path(__file__).resolve().parent.parent
REPOSITORY = BENCHES.parent
REGRESSIONS = ("epsilon_svr", "nu_svr")
FIELDS = {
    "name", "reader", "train", "test", "header", "label", "one_hot", "keep", "rows", "queries",
    "positive", "scale", "formulation", "kernel", "C", "nu", "epsilon", "tolerance", "predictor",
    "trainer", "supports", "rotate",
}  # fmt: skip


class TaskError(Exception):
    """A task, or a file it needs, is not as it should be."""


@dataclass
class Rows:
    """Examples to learn and queries to answer; dense arrays, or CSR for the libsvm reader."""

    examples: object
    targets: np.ndarray
    queries: object
    answers: np.ndarray


def load_tasks():
    """All tasks by name."""
    with open(BENCHES / "tasks.toml", "rb") as file:
        listed = tomllib.load(file)["task"]
    for task in listed:
        unknown = set(task) - FIELDS
        if unknown:
            raise TaskError(f"task {task.get('name')}: unknown field {', '.join(sorted(unknown))}")
    return {task["name"]: task for task in listed}


def find_task(name):
    tasks = load_tasks()
    if name not in tasks:
        raise TaskError(f"no task '{name}'; known are {', '.join(tasks)}")
    return tasks[name]


def parse_call(text):
    """`rbf(gamma=0.02)` as ("rbf", [], {"gamma": 0.02})."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text)
    if not match:
        raise TaskError(f"cannot read '{text}' as name(arguments)")
    positional, named = [], {}
    for part in filter(None, (piece.strip() for piece in (match[2] or "").split(","))):
        key, equals, value = part.rpartition("=")
        if equals:
            named[key.strip()] = float(value)
        else:
            positional.append(float(value))
    return match[1], positional, named


def open_data(directory, name):
    """Opens a data file of a task, unpacking `.gz` if only that is there."""
    root = REPOSITORY if name.startswith("datasets/") else Path(directory)
    plain, packed = root / name, root / (name + ".gz")
    if plain.exists():
        return open(plain, "rb")
    if packed.exists():
        return gzip.open(packed, "rb")
    raise TaskError(f"{name}: neither this file nor {name}.gz is in the data directory")


def read_idx(directory, names):
    def array(name):
        with open_data(directory, name) as file:
            raw = file.read()
        zero, kind, axes = struct.unpack(">HBB", raw[:4])
        if zero or kind != 8:
            raise TaskError(f"{name}: not an idx file of unsigned bytes")
        shape = struct.unpack(f">{axes}I", raw[4 : 4 + 4 * axes])
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)

    images, labels = (array(name) for name in names)
    return images.reshape(len(images), -1).astype(np.float64), labels.astype(np.int64)


def read_libsvm(directory, names):
    starts, columns, values, labels = [0], [], [], []
    with open_data(directory, names[0]) as file:
        for line in file:
            label, *cells = line.split(b"#")[0].split() or [None]
            if label is None:
                continue
            labels.append(float(label))
            for cell in cells:
                index, value = cell.split(b":")
                columns.append(int(index) - 1)
                values.append(float(value))
            starts.append(len(columns))
    return sparse.csr_matrix((values, columns, starts)), np.array(labels).astype(np.int64)


def read_csv(directory, names, task):
    with open_data(directory, names[0]) as file:
        if not task.get("header", True) and not task.get("one_hot"):
            table = np.loadtxt(file, delimiter=",")
            label = int(task["label"])
            return np.delete(table, label, axis=1), table[:, label]
        records = list(csv.reader(io.TextIOWrapper(file, "utf-8")))
    titles, records = records[0], records[1:]
    if task["label"] not in titles:
        raise TaskError(f"{names[0]}: no column '{task['label']}'")
    target, columns = None, []
    for title, cells in zip(titles, zip(*records)):
        if title == task["label"]:
            target = np.array(cells)
        elif title in task.get("one_hot", []):
            columns += [np.array(cells) == value for value in sorted(set(cells))]
        else:
            columns.append(np.array(cells, dtype=np.float64))
    try:
        target = target.astype(np.float64)
    except ValueError:
        pass  # names such as R and M; `positive` turns them into numbers
    return np.column_stack(columns).astype(np.float64), target


def sample_order(total, count, seed):
    """The first `count` row numbers of the shuffle described in `tasks.toml`."""
    mask, state, order = (1 << 64) - 1, seed, np.arange(total)
    for i in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        j = i + (z ^ (z >> 31)) % (total - i)
        order[i], order[j] = order[j], order[i]
    return order[:count]


def split(task, total):
    """Row numbers of the examples and, where no test file is named, of the queries."""
    how, counts, named = parse_call(task.get("rows", f"first({total})"))
    rule, (size,), _ = parse_call(task["queries"]) if "queries" in task else (None, [0], {})
    count, size = int(counts[0]), int(size)
    drawn = count + (size if rule == "next" else 0)
    if drawn > total:
        raise TaskError(f"task {task['name']} asks for {drawn} of {total} rows")
    if how not in ("first", "sample"):
        raise TaskError(f"task {task['name']}: rows cannot be '{how}'")
    order = np.arange(drawn) if how == "first" else sample_order(total, drawn, int(named["seed"]))
    if rule is None:
        return order, None
    if rule == "next":
        return order[:count], order[count:]
    if rule == "last":
        return order[:-size], order[-size:]
    if rule == "every":
        chosen = np.arange(count) % size == size - 1
        return order[~chosen], order[chosen]
    raise TaskError(f"task {task['name']}: queries cannot be '{rule}'")


def scaled(task, examples, queries):
    how, arguments, _ = parse_call(task.get("scale", "none"))
    if how == "none":
        return examples, queries
    if how == "divide":
        return examples / arguments[0], queries / arguments[0]
    if how == "minmax":
        low, high = examples.min(axis=0), examples.max(axis=0)
        width = np.where(high > low, high - low, np.inf)
        return (examples - low) / width, (queries - low) / width
    raise TaskError(f"task {task['name']}: scale cannot be '{how}'")


def rotated(task, examples, queries):
    """Rows less the mean example, turned by a random orthogonal matrix: dense, same distances."""
    if "rotate" not in task:
        return examples, queries
    columns = examples.shape[1]
    state = np.random.RandomState(task["rotate"])  # its stream is fixed for all versions
    turn, triangle = np.linalg.qr(state.standard_normal((columns, columns)))
    turn *= np.sign(np.diag(triangle))
    mean = examples.mean(axis=0)
    return (examples - mean) @ turn, (queries - mean) @ turn


def load_rows(task, directory):
    """Reads, selects, splits, relabels and scales the rows of a task."""

    def read(names):
        if task["reader"] == "idx":
            rows, labels = read_idx(directory, names)
        elif task["reader"] == "libsvm":
            rows, labels = read_libsvm(directory, names)
        elif task["reader"] == "csv":
            rows, labels = read_csv(directory, names, task)
        else:
            raise TaskError(f"task {task['name']}: no reader '{task['reader']}'")
        if "keep" in task:
            kept = np.isin(labels, task["keep"])
            rows, labels = rows[kept], labels[kept]
        return rows, labels

    rows, labels = read(task["train"])
    chosen, asked = split(task, rows.shape[0])
    examples, targets = rows[chosen], labels[chosen]
    queries, answers = (rows[asked], labels[asked]) if asked is not None else read(task["test"])
    if sparse.issparse(examples):
        width = max(examples.shape[1], queries.shape[1])
        examples.resize(examples.shape[0], width)
        queries.resize(queries.shape[0], width)
    if "positive" in task:
        targets, answers = (np.where(y == task["positive"], 1, -1) for y in (targets, answers))
    elif task["formulation"] not in REGRESSIONS:
        targets, answers = targets.astype(np.int64), answers.astype(np.int64)
    if task["formulation"] == "one_class":
        examples, targets = examples[targets == 1], targets[targets == 1]
    examples, queries = scaled(task, examples, queries)
    examples, queries = rotated(task, examples, queries)
    return Rows(examples, targets, queries, answers)


def run(main):
    """Runs a script, printing a known error as one line."""
    try:
        main()
    except TaskError as error:
        sys.exit(f"error: {error}")
