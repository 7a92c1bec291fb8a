"""Uses Debian's svm.py and svmutil.py: the library must be ours."""

from svmutil import svm_load_model, svm_predict, svm_read_problem, svm_save_model, svm_train

with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if "libsvm.so" in line}
assert loaded and not any(path.startswith("/usr") for path in loaded), loaded
y, x = svm_read_problem("three.train")
for options in ["-c 4", "-s 1 -n 0.3 -t 0", "-s 2 -n 0.2", "-s 3 -t 1", "-s 4 -b 1"]:
    # The module has room for one decision value of nu-SVC.
    targets = [min(label, 2) for label in y] if "-s 1" in options else y
    model = svm_train(targets, x, options + " -q")
    labels, _, values = svm_predict(targets, x, model, "-q")
    svm_save_model("debian.model", model)
    again, _, _ = svm_predict(targets, x, svm_load_model("debian.model"), "-q")
    assert sum(abs(a - b) > 1e-4 for a, b in zip(labels, again)) <= 1, options
    assert len(values) == len(y) and model.get_nr_sv() == len(model.get_SV())
assert svm_train(y, x, "-v 4 -q") > 50
print("done")
