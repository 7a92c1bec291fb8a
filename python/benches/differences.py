"""How far our classifiers and converted ones are from scikit-learn's: scores, probabilities, labels.

``python benches/differences.py``
"""

import warnings

import numpy as np
import sklearn.svm as theirs
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import mercer
import mercer.svm as ours

warnings.simplefilter("ignore", FutureWarning)


def apart(one, other, X):
    """Largest difference of scores and of probabilities, and labels that differ."""
    scores = np.abs(one.decision_function(X) - other.decision_function(X)).max()
    probabilities = np.abs(one.predict_proba(X) - other.predict_proba(X)).max()
    return f"{scores:.1e} | {probabilities:.1e} | {np.sum(one.predict(X) != other.predict(X))}"


print("| data | tol | against scikit-learn | scores | probabilities | labels |\n|---|---|---|---|---|---|")
for load in (load_iris, load_wine, load_digits, load_breast_cancer):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for tol in (1e-3, 1e-5):
        source, other = (
            theirs.SVC(probability=True, random_state=seed, tol=tol).fit(X[::2], y[::2]) for seed in (0, 1)
        )
        mine = ours.SVC(probability=True, random_state=0, tol=tol).fit(X[::2], y[::2])
        for name, one in (("converted", mercer.from_sklearn(source)), ("trained by us", mine), ("itself, other seed", other)):
            print(f"| {load.__name__[5:]} | {tol:g} | {name} | {apart(one, source, X)} |")
