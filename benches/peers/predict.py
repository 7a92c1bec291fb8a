"""Times the peers answering the queries of one task; prints JSON, microseconds per query.

    python predict.py --data DIR --models DIR [--slow-rows N] TASK

scikit-learn and ONNX Runtime answer with the machine in TASK.model; sklearnex with the one it
fitted itself (TASK.intelex.pickle, made here if missing), since it ignores foreign ones.
Batches hold all queries (SLOW for those whose time per query does not depend on the batch); the
best of several runs counts. Single calls pass one row each. `cores_busy_elsewhere` is the most that
other processes took during a run that counts: well above 0, the machine was not quiet.
"""

import argparse
import json
import pickle
import time
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from scipy import sparse

import estimators
import libsvm_text as text
from tasks import TaskError, find_task, load_rows, run

SECONDS = 10.0  # no further run of a series once it has taken this long
RUNS = 9
SINGLE = 300  # rows asked one by one
SLOW = 1000  # queries given to scikit-learn and ONNX Runtime, which take the same time for each

others = []  # cores that other processes kept busy during each fastest run


def best(action, runs=RUNS):
    """Seconds of the fastest of several runs, of which the first warms up; one if that is slow."""
    times, started = [], time.perf_counter()
    while len(times) < runs and (not times or time.perf_counter() - started < SECONDS):
        times.append(estimators.timed(action))
    others.append(min(times)[2])
    return min(times)[0]


def batch_us(answer, queries):
    return 1e6 * best(lambda: answer(queries)) / queries.shape[0]


def single_us(answer, queries):
    rows = [queries[i : i + 1] for i in range(min(SINGLE, queries.shape[0]))]

    def ask():
        for row in rows:
            answer(row)

    return 1e6 * best(ask, runs=3) / len(rows)


def onnx_session(machine, columns, kind):
    """A model of a single SVMClassifier node, the least ONNX Runtime can be asked to do."""
    node = helper.make_node(
        "SVMClassifier",
        ["rows"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        classlabels_ints=machine.labels,
        coefficients=machine.coefficients.T.ravel(),
        kernel_params=[machine.gamma, machine.coef0, float(machine.degree)],
        kernel_type={"polynomial": "POLY"}.get(machine.kernel, machine.kernel.upper()),
        post_transform="NONE",
        rho=-machine.rho,
        support_vectors=machine.supports.toarray().ravel(),
        vectors_per_class=machine.counts,
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "svm",
        [value("rows", kind, [None, columns])],
        [value("label", TensorProto.INT64, [None]), value("scores", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return lambda rows: session.run(["label"], {"rows": rows})[0]


def time_sklearn(machine, rows, truth, slow):
    model = estimators.stock(machine, rows.shape[1], sparse.issparse(rows))
    some = rows[:slow]
    return {
        "sklearn_batch_us": batch_us(model.predict, some),
        "sklearn_single_us": single_us(model.predict, some[:100]),
        "sklearn_differs": int((model.predict(some) != truth[:slow]).sum()),
    }


def time_intelex(task, path, data, rows, truth):
    if path.exists():
        model = pickle.loads(path.read_bytes())
    else:
        learned = load_rows(task, data)
        with estimators.accelerated():
            model = estimators.make(task, "intelex").fit(learned.examples, learned.targets)
        path.write_bytes(pickle.dumps(model))
    with estimators.accelerated():
        differs = int((model.predict(rows) != truth).sum())
    narrow = rows.astype(np.float32)
    return {
        "intelex_batch_us": batch_us(model.predict, rows),
        "intelex_single_us": single_us(model.predict, rows),
        "intelex_batch_f32_us": batch_us(model.predict, narrow),
        "intelex_differs": differs,
        "intelex_supports": int(model.support_vectors_.shape[0]),
    }


def time_onnxruntime(machine, rows, truth, slow):
    rows = rows[:slow].toarray() if sparse.issparse(rows) else rows[:slow]
    columns, narrow = rows.shape[1], rows.astype(np.float32)
    answer = onnx_session(machine, columns, TensorProto.FLOAT)
    answer_f64 = onnx_session(machine, columns, TensorProto.DOUBLE)
    return {
        "onnxruntime_batch_us": batch_us(answer, narrow),
        "onnxruntime_single_us": single_us(answer, narrow),
        "onnxruntime_batch_f64_input_us": batch_us(answer_f64, rows),
        "onnxruntime_differs": int((answer(narrow) != truth[:slow]).sum()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--data", required=True, type=Path, help="directory of the data files")
    parser.add_argument("--models", required=True, type=Path, help="where prepare.py wrote")
    parser.add_argument("--slow-rows", type=int, default=SLOW, help="queries of a batch for the slow peers")
    options = parser.parse_args()
    task = find_task(options.task)
    if task["formulation"] != "c_svc" or not task.get("predictor"):
        raise TaskError(f"task {task['name']} is not a classifier with a prepared model")
    path = lambda suffix: options.models / f"{task['name']}.{suffix}"  # noqa: E731
    queries = load_rows(task, options.data).queries
    machine = text.read_model(path("model"), queries.shape[1])
    truth = np.loadtxt(path("libsvm.pred"))
    report = {
        "task": task["name"],
        "queries": int(queries.shape[0]),
        "supports": int(machine.supports.shape[0]),
    }
    report |= time_intelex(task, path("intelex.pickle"), options.data, queries, truth)
    report |= time_onnxruntime(machine, queries, truth, options.slow_rows)
    report |= time_sklearn(machine, queries, truth, options.slow_rows)
    report["cores_busy_elsewhere"] = max(others)
    rounded = {k: round(v, 2) if isinstance(v, float) else v for k, v in report.items()}
    print(json.dumps(rounded | estimators.machine_facts(), indent=1))


if __name__ == "__main__":
    run(main)
