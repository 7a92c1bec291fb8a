"""Additive kernels on histograms: chi-squared machines that train and answer at the cost of linear ones."""

import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.model_selection import train_test_split

import mercer
from mercer.machines import AdditiveSVC
from mercer.svm import SVC

# Images of digits as histograms: each pixel is a count from 0 to 16.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)

start = time.perf_counter()
machine = AdditiveSVC(kernel="chi2", C=0.01).fit(X_train, y_train)
print(f"additive chi2: fitted in {time.perf_counter() - start:.3f} s", end=", ")
print(f"{100 * machine.score(X_test, y_test):.1f} % right")

start = time.perf_counter()
linear = AdditiveSVC(kernel="linear", C=0.01).fit(X_train, y_train)
print(f"linear:        fitted in {time.perf_counter() - start:.3f} s", end=", ")
print(f"{100 * linear.score(X_test, y_test):.1f} % right")

# The slow way to such a machine: kernel values of all pairs, and every support at every query.
start = time.perf_counter()
slow = SVC(kernel=chi2_kernel, C=1.0).fit(X_train, y_train)
print(f"exp-chi2 SVC:  fitted in {time.perf_counter() - start:.3f} s", end=", ")
print(f"{100 * slow.score(X_test, y_test):.1f} % right")

# It has the methods of every machine: save, load, decide.
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "digits-chi2.mercer"
    machine.save(file)
    again = mercer.load(file)
    print(f"the file has {file.stat().st_size} bytes")
assert np.array_equal(again.predict(X_test), machine.predict(X_test))
print(machine.decide(X_test[:3]))
