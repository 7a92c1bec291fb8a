"""Uses the package libsvm-official: its argument is the folder that holds it."""

import random
import sys

sys.path.insert(0, sys.argv[1])
from libsvm.svm import libsvm  # noqa: E402
from libsvm.svmutil import (  # noqa: E402
    evaluations,
    svm_load_model,
    svm_predict,
    svm_save_model,
    svm_train,
)

assert libsvm._name.endswith("libsvm.so.4"), libsvm._name
random.seed(5)
x = [{j: random.gauss(0, 1) for j in range(1, 7)} for _ in range(240)]
classes = [(1 if row[1] > 0.3 else 2) if row[2] * row[3] > 0 else 3 for row in x]
values = [row[1] * row[2] + 0.1 * random.gauss(0, 1) for row in x]

for kind in range(5):
    for kernel in range(3):
        # The package has room for one decision value of nu-SVC.
        y = classes if kind == 0 else [min(label, 2) for label in classes] if kind == 1 else values
        model = svm_train(y, x, f"-s {kind} -t {kernel} -g 0.3 -n 0.2 -q")
        labels, _, decided = svm_predict(y, x, model, "-q")
        assert len(labels) == len(decided) == len(x)
        svm_save_model("official.model", model)
        again = svm_load_model("official.model")
        loaded, _, _ = svm_predict(y, x, again, "-q")
        if kind < 3:
            # Values of vectors are written with 8 digits, so a row at the border may change.
            assert sum(a != b for a, b in zip(labels, loaded)) <= 2
        else:
            assert max(abs(a - b) for a, b in zip(labels, loaded)) < 1e-5
        assert model.get_nr_sv() == len(model.get_SV()) == len(model.get_sv_coef()) > 0
        assert all(1 <= index <= len(x) for index in model.get_sv_indices())

model = svm_train(classes, x, "-g 0.3 -b 1 -q")
labels, accuracy, each = svm_predict(classes, x, model, "-b 1 -q")
assert accuracy[0] > 80 and all(abs(sum(row) - 1) < 1e-9 for row in each)
assert model.is_probability_model()
assert svm_train(classes, x, "-g 0.3 -v 5 -q") > 60
assert evaluations(classes, labels)[0] > 80
model = svm_train(values, x, "-s 2 -g 0.3 -n 0.4 -b 1 -q")
assert model.is_probability_model()
print("done")
