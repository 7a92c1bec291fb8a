"""Speed up a model that is already fitted, with the same labels.

    python python/examples/speed_up_a_model.py
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import mercer

X, y = load_digits(return_X_y=True)
source = SVC().fit(X[:1200], y[:1200])  # any fitted model of scikit-learn

fast = mercer.accelerate(source, X[1200:1500], contract="certified")
print(fast)
for trial in fast.tuning_["tried"]:
    print(f"  {trial['plan']}: {trial['us']:.1f} µs a row")
print(fast.tuning_["reason"])
print("labels:", fast.compare(source, X))

decisions = fast.decide(X[1500:])
words, counts = np.unique(decisions["certainty"], return_counts=True)
print("certainties:", dict(zip(words.tolist(), counts.tolist())))

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.mercer"  # `mercer predict` reads it too
    fast.save(path)
    again = mercer.load(path)
assert (again.predict(X) == source.predict(X)).all()
