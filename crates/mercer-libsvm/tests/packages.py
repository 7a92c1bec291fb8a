"""LIBSVM's Python modules on all types and kernels: `packages.py ours|theirs [FOLDER]`.

FOLDER holds the package libsvm-official; without it the modules are Debian's. Prints, for each model, how good it is and how many vectors
it has. `ours` keeps its models and their labels in files, `theirs` loads these models and must give the same labels.
"""

import json
import sys
from pathlib import Path

whose, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
if folder:
    sys.path.insert(0, folder)
    from libsvm import svmutil
else:
    import svmutil

with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if "libsvm.so" in line}
assert loaded and any("mercer" in Path(path).read_bytes().decode("latin-1") for path in loaded) == (whose == "ours"), loaded

# Data on which the problem has one solution: see the same names in `it.rs` of mercer-libsvm3.
KINDS = [
    ("three", "-s 0 -c 3"),
    ("apart", "-s 1 -n 0.2 -e 0.000001"),
    ("away", "-s 2 -n 0.3 -e 0.000001"),
    ("values", "-s 3"),
    ("values", "-s 4"),
]
KERNELS = ["-t 0", "-t 1 -r 1 -g 0.2", "-t 2 -g 0.2", "-t 3 -g 0.01 -r 0"]


def given(rows, against):
    """Rows of kernel values: 1 + u·v, with the number of each row in front."""

    def value(u, v):
        return 1 + sum(number * v.get(index, 0) for index, number in u.items())

    return [
        {0: at + 1, **{place + 1: value(u, v) for place, v in enumerate(against)}} for at, u in enumerate(rows)
    ]


def labels_of(y, x, model):
    labels, quality, values = svmutil.svm_predict(y, x, model, "-q")
    assert len(labels) == len(values) == len(y)
    return labels, quality


for data, kind in KINDS:
    y, x = svmutil.svm_read_problem(f"{data}.train")
    test_y, test_x = svmutil.svm_read_problem(f"{data}.test")
    runs = [(kernel, x, test_x) for kernel in KERNELS] + [("-t 4", given(x, x), given(test_x, x))]
    for kernel, rows, test_rows in runs:
        options = f"{kind} {kernel}"
        name = options.replace(" ", "")
        model = svmutil.svm_train(y, rows, options + " -q")
        count = model.get_nr_sv()
        assert count == len(model.get_SV()) == len(model.get_sv_coef()) == len(model.get_sv_indices()), options
        assert all(1 <= index <= len(y) for index in model.get_sv_indices())
        labels, quality = labels_of(test_y, test_rows, model)
        # The share of inliers of a one-class model, the accuracy of classes, the mean squared error of values.
        share = 100 * sum(label > 0 for label in labels) / len(labels)
        is_regression = "-s 3" in kind or "-s 4" in kind
        print(f"{options}: {share if data == 'away' else quality[1 if is_regression else 0]} {count}")
        model_file, labels_file = f"{name}.model", Path(f"{name}.json")
        if whose == "ours":
            svmutil.svm_save_model(model_file, model)
            kept, _ = labels_of(test_y, test_rows, svmutil.svm_load_model(model_file))
            labels_file.write_text(json.dumps(kept))
        else:
            kept = json.loads(labels_file.read_text())
            again, _ = labels_of(test_y, test_rows, svmutil.svm_load_model(model_file))
            assert all(abs(a - b) <= (1e-9 * (1 + abs(b)) if is_regression else 0) for a, b in zip(kept, again)), options
y, x = svmutil.svm_read_problem("three.train")
print(f"folds: {svmutil.svm_train(y, x, '-g 0.2 -v 5 -q')} 0")
model = svmutil.svm_train(y, x, "-g 0.2 -b 1 -q")
labels, quality, each = svmutil.svm_predict(y, x, model, "-b 1 -q")
assert all(abs(sum(row) - 1) < 1e-9 for row in each) and svmutil.evaluations(y, labels)[0] == quality[0]
print(f"probabilities: {quality[0]} {model.get_nr_sv()}")
